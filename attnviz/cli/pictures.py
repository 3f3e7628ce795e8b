"""The commands `export`, `explore` and `save`, which write pictures, pages and saved runs."""

from argparse import Namespace
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from attnviz import analysis, api, cases, export, figures, files
from attnviz.analysis.align import Side, beside
from attnviz.cli import terminal
from attnviz.cli.parser import OTHER_FORMS
from attnviz.cli.request import Inputs, read, request_of, source_of
from attnviz.core import storage
from attnviz.core.conventions import mask_of
from attnviz.core.edits import Edits
from attnviz.core.errors import InputError, did_you_mean, quoted
from attnviz.core.record import Record
from attnviz.export.explore import explore
from attnviz.figures import Figure
from attnviz.figures.base import stem
from attnviz.link import Choices
from attnviz.studies import ablation, gradients


def run(options: Namespace) -> list[str]:
    """Run `export`, `explore` or `save`: write the files, and return their paths."""
    if options.command == "explore" and options.live:
        page = api.live(options.live, options.text or None)
        return put({single(options, "explore.html", "a page"): page.encode()})
    inputs = read(options)
    if options.command == "export":
        return write(figure(options, inputs), options)
    if options.command == "explore":
        path = single(options, "explore.html", "a page")
        before, after = inputs.before(), inputs.record()
        place = {"site": inputs.site, "head": inputs.head, "sentence": inputs.sentence(after)}
        return put({path: explore(after, before=before, **place).encode()})
    record = inputs.record()
    path = single(options, f"{stem(record)}{files.ENDING}", "a saved run")
    settings = cases.settings_of(inputs.source, inputs.request)
    return [str(files.save(record, path, settings=settings, precision=options.precision))]


def figure(options: Namespace, inputs: Inputs) -> Figure:
    """Make the figure for the form in `inputs`."""
    form, choices = inputs.form, inputs.choices
    if form == "difference":
        return _difference(options, inputs)
    if form == "patching":
        return _patching(options, inputs)
    forms = (*figures.FORMS, *OTHER_FORMS, "prediction")
    if form not in forms:
        raise InputError(f"There is no form {quoted(form)}.{did_you_mean(form, forms)} There are: {', '.join(forms)}.")
    record = inputs.record(stream=form in ("lens", "pushed", "contributions"))
    place: dict[str, Any] = {"sentence": inputs.sentence(record), "dark": options.dark}
    cell, zoom = _cell_and_zoom(choices, *map(len, record.tokens(inputs.site, sentence=place["sentence"])))
    domain = "adapts" if choices["colors"] == "adaptive" else choices["colors"]
    if form in figures.FORMS:
        return _head(inputs, record, domain, zoom, {**cell, **place})
    if form == "heads":
        return figures.heads(record, inputs.site, domain=domain, view=choices["view"], **place)
    if form == "overview":
        return figures.overview(record, domain=domain, **place)
    if form == "mask":
        number, site = place["sentence"], inputs.site
        texts, predicted = record.tokens(site, sentence=number), record.predicted(site, sentence=number)
        mask, yours = mask_of(record.step(site), inputs.head, sentence=number), record.edits.mask_at(site.kind)
        return figures.mask(mask, *texts, predicted=predicted, yours=yours, **place)
    if form == "lens":
        return figures.logit_lens(record, columns=zoom.get("rows"), **place)
    if form == "pushed":
        return figures.pushed(record, inputs.site, inputs.head, columns=zoom.get("rows"), **place)
    if form == "contributions":
        word = {"token": choices["word"], "minus": choices["minus"], "position": options.position}
        if not options.switch_off:
            return figures.contributions(record, **word, **place)
        run = {"targets": record.targets if inputs.request.targets else (), "sentence": place["sentence"]}
        falls = ablation.logit_falls(inputs.source, record.sentences, inputs.request.edits, **run, **word)
        return figures.replaced(record, **word, falls=falls, **place)
    if form == "gradients":
        word = {"position": None if options.position == -1 else options.position, "sentence": place["sentence"]}
        integrated = gradients.integrated(inputs.source, record, choices["word"], **word)
        return figures.integrated_gradients(record, integrated, dark=options.dark)
    if form == "prediction":
        return prediction(record, inputs.before(), **place)
    if (before := inputs.before()) is None:
        raise InputError("Nothing is changed; give --mask, --off, --take, --temperature or --set own_mask=false.")
    return figures.change(before, record, **place)


def _head(inputs: Inputs, record: Record, domain: str, zoom: dict[str, slice], place: dict[str, Any]) -> Figure:
    """Make the figure of one head, as on the page Heads."""
    choices, form = inputs.choices, figures.FORMS[inputs.form]
    zoom = zoom if "rows" in form.takes else {}
    axis = "query" if choices["side"] == "from" else "key"
    chosen = sorted(position for end, position in choices["pins"] if end == axis)
    if form.takes & {"pins", "chosen"}:  # without this error, a missing token would draw the lines of all tokens
        view = analysis.views.see(record, inputs.site, sentence=place["sentence"], view=choices["view"], **zoom)
        for end, position in sorted(choices["pins"]):
            if (view.queries if end == "query" else view.keys).index_of(position) is None:
                raise InputError(f"Token {position} is not shown in this view; choose another, or show it.")
    values = {
        "view": choices["view"],
        "domain": domain,
        "before": inputs.before() if "before" in form.takes else None,
        "least": choices["least"],
        "pins": choices["pins"],
        "chosen": chosen[0] if chosen else None,
        "side": choices["side"],
        "less": "sinks" if choices["less"] == "sinks" else "",
    }
    options = {name: value for name, value in values.items() if name in form.takes}
    heads = [inputs.head, *choices["also"]] if "heads" in form.takes else inputs.head
    return form.figure(record, inputs.site, heads, **options, **zoom, **place)


def _cell_and_zoom(choices: Choices, queries: int, keys: int) -> tuple[dict[str, Any], dict[str, slice]]:
    """Convert the chosen cell and the chosen zoom to arguments of a figure, each empty if nothing is chosen."""
    cell, zoom = choices["cell"], choices["zoom"][-1] if choices["zoom"] else None
    counts = f"there are {queries:,} queries and {keys:,} keys, counted from 0"
    if cell is not None and not (0 <= cell[0] < queries and 0 <= cell[1] < keys):
        raise InputError(f"The cell is {cell[0]}.{cell[1]}; {counts}.")
    if zoom is not None and not (zoom[0] <= zoom[1] < queries and zoom[2] <= zoom[3] < keys):
        raise InputError(f"The zoom ends at {zoom[1]}.{zoom[3]}; {counts}.")
    window = {"rows": slice(zoom[0], zoom[1] + 1), "columns": slice(zoom[2], zoom[3] + 1)} if zoom else {}
    return {} if cell is None else {"selected": cell}, window


def prediction(after: Record, before: Record | None, *, sentence: int, **style: Any) -> Figure:
    """Make the figure of a prediction: labels, written words, words for blanks, or the next word."""
    if after.vectors is not None and after.labels is None:
        raise InputError(f"'{after.source}' makes sentence embeddings, which have no picture; leave out -o.")
    place = {"before": before, "sentence": sentence, **style}
    if after.labels:
        return figures.labels(after, **place)
    last = after.sentences[sentence].length - 1
    blanks = after.prediction.blanks[sentence] if analysis.fills_in(after) else (last,)
    if after.targets or len(blanks) != 1:
        return figures.step_by_step(after, **place)
    return figures.next_word(after, blanks[0], **place)


def _patching(options: Namespace, inputs: Inputs) -> Figure:
    """Make the figure of patching: the share of a logit difference that each head carries to the text of --compare."""
    b, edits = inputs.choices["b"], replace(inputs.request.edits, taken=())
    if b is None or b["text"] is None:
        raise InputError("Patching needs a second text: --compare 'text=Another text'.")
    record = api.analyze(replace(inputs.request, edits=edits), inputs.source)
    targets = record.targets if inputs.request.targets else ()
    measured = ablation.carried(inputs.source, record.sentences, b["text"], edits, targets=targets)
    return figures.carried(record, measured, dark=options.dark)


def _difference(options: Namespace, inputs: Inputs) -> Figure:
    """Make the figure of two maps and their difference, as on the page Compare; B has the choices of A by default."""
    source, request, b = inputs.source, inputs.request, inputs.choices["b"] or Choices()
    record = inputs.record()
    a = Side(record, inputs.site, inputs.head, inputs.sentence(record))
    if not b.chosen:
        if request.edits == Edits():
            ways = "'text=Another text', 'layer=c1&head=2', step=0 or model=story"
            raise InputError(f"A and B are the same; compare with {ways}, or change something, such as --off 0.1.")
        request = request.unchanged
    other = source  # the source of B
    if "model" in b.chosen:
        other = source_of(Choices({"model": b["model"], "step": b["step"]}))
    elif b["step"] is not None:
        other = source_of(inputs.choices.put(step=b["step"]))
    has_text = b["text"] is not None or b["picture"] is not None
    # an answer is token ids, which differ between models, so another model reads text and answer of A as one text
    if has_text or (request.answer and "model" in b.chosen):
        texts = b if has_text else Choices({"text": record.sentences[a.sentence].text})
        paths = [api.EXAMPLES.get(b["picture"], b["picture"])] if b["picture"] is not None else []
        pictures = request.pictures[:1] if b["text"] is not None else ()
        request = replace(request_of(texts, source, paths, is_link=False), edits=request.edits)
        request = replace(request, pictures=request.pictures or pictures)
    run = api.analyze(request.unchanged if other.read_only else request, other)
    if source.id == other.id and source is not other and a.record.targets not in ((), run.targets):
        run = other.run(run.sentences, run.edits, a.record.targets)  # with the words of A, so that rows match
    head = b["head"]
    if "head" not in b.chosen:
        head = inputs.head if b["layer"] is None else 0
    comparison = beside(a, Side(run, b["layer"] or a.site, head, 0 if has_text else a.sentence))
    cell, _ = _cell_and_zoom(inputs.choices, len(comparison.rows), len(comparison.columns))
    return figures.difference(comparison, dark=options.dark, **cell)


def write(figure: Figure, options: Namespace) -> list[str]:
    """Render all files, then write them, and return their paths."""
    size = {"preset": options.preset, "ppi": options.ppi}
    contents = {}
    for path in options.output or [Path(export.filename(figure, "png", **size))]:
        format = path.suffix.removeprefix(".").lower()
        if format not in export.NAMES:
            raise InputError(f"{quoted(path.name)} must end in a format: .{', .'.join(export.NAMES)}.")
        contents[path] = export.render(figure, format, **size)
    if any(path.suffix.lower() in (".png", ".svg", ".pdf") for path in contents):
        for line in export.notes(figure, options.preset):
            terminal.note(line)
    return put(contents)


def single(options: Namespace, usual: str, what: str) -> Path:
    """Return the path of the only output file, or `usual`; raise InputError unless both have the same ending."""
    path, ending = options.output[-1] if options.output else Path(usual), Path(usual).suffix
    if path.suffix.lower() != ending:
        raise InputError(f"{quoted(path.name)} cannot be the name of {what}: it must end in {ending}.")
    return path


def put(contents: Mapping[Path, bytes]) -> list[str]:
    """Write the contents to files, and return their paths."""
    for path, content in contents.items():
        storage.write(path, content)
    return [str(path) for path in contents]
