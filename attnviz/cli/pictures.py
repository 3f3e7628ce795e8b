"""The commands `export`, `explore` and `save`, which write pictures, pages and saved runs."""

from argparse import Namespace
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
    inputs = None if options.command == "explore" and options.live else read(options)
    if options.command == "export":
        return write(figure(options, inputs), options)
    if options.command == "save":
        record = inputs.record()
        path = single(options, f"{stem(record)}{files.ENDING}", "a saved run")
        settings = cases.settings_of(inputs.source, inputs.request)
        return [str(files.save(record, path, settings=settings, precision=options.precision))]
    path = single(options, "explore.html", "a page")
    if inputs is None:
        page = api.live(options.live, options.text or None)
    else:
        before, after = inputs.before(), inputs.record()
        page = explore(after, before=before, site=inputs.site, head=inputs.head, sentence=inputs.sentence(after))
    storage.write(path, page.encode())
    return [str(path)]


def figure(options: Namespace, inputs: Inputs) -> Figure:
    """Run the model and make the figure for `inputs.form`, a form of one head or one of `OTHER_FORMS`."""
    form, site, choices = inputs.form, inputs.site, inputs.choices
    if form == "difference":
        return _difference(options, inputs)
    if form == "patching":
        return _patching(options, inputs)
    forms = (*figures.FORMS, *OTHER_FORMS, "prediction")
    if form not in forms:
        raise InputError(f"There is no form {quoted(form)}.{did_you_mean(form, forms)} There are: {', '.join(forms)}.")
    record = inputs.record(stream=form in ("lens", "pushed", "contributions"))
    sentence = inputs.sentence(record)
    common = {"sentence": sentence, "dark": options.dark}
    queries, keys = record.tokens(site, sentence=sentence)
    cell, zoom = _cell_and_zoom(choices, len(queries), len(keys))
    domain = "adapts" if choices["colors"] == "adaptive" else choices["colors"]
    if form in figures.FORMS:
        return _head(inputs, record, domain, zoom, cell | common)
    if form == "heads":
        return figures.heads(record, site, domain=domain, view=choices["view"], **common)
    if form == "overview":
        return figures.overview(record, domain=domain, **common)
    if form == "mask":
        mask, edited = mask_of(record.step(site), inputs.head, sentence=sentence), record.edits.mask_at(site.kind)
        predicted = record.predicted(site, sentence=sentence)
        return figures.mask(mask, queries, keys, predicted=predicted, yours=edited, **common)
    if form == "lens":
        return figures.logit_lens(record, columns=zoom.get("rows"), **common)
    if form == "pushed":
        return figures.pushed(record, site, inputs.head, columns=zoom.get("rows"), **common)
    if form == "contributions":
        word = {"token": choices["word"], "minus": choices["minus"], "position": options.position}
        if not options.switch_off:
            return figures.contributions(record, **word, **common)
        run = {"targets": record.targets if inputs.request.targets else (), "sentence": sentence}
        falls = ablation.logit_falls(inputs.source, record.sentences, inputs.request.edits, **run, **word)
        return figures.contributions(record, falls=falls, **word, **common)
    if form == "gradients":
        word = {"position": None if options.position == -1 else options.position, "sentence": sentence}
        integrated = gradients.integrated(inputs.source, record, choices["word"], **word)
        return figures.integrated_gradients(record, integrated, dark=options.dark)
    if form == "prediction":
        return prediction(record, inputs.before(), **common)
    if (before := inputs.before()) is None:
        raise InputError("Nothing is changed; give --mask, --off, --take, --temperature or --set own_mask=false.")
    return figures.change(before, record, **common)


def _head(inputs: Inputs, record: Record, domain: str, zoom: dict[str, slice], common: dict[str, Any]) -> Figure:
    """Make the figure of one head, as on the page Heads; `common` are arguments that every form takes."""
    choices, form = inputs.choices, figures.FORMS[inputs.form]
    zoom = zoom if "rows" in form.takes else {}
    if form.takes & {"pins", "chosen"}:  # without this error, a missing token would draw the lines of all tokens
        view = analysis.views.see(record, inputs.site, sentence=common["sentence"], view=choices["view"], **zoom)
        for side, position in sorted(choices["pins"]):
            tokens = view.queries if side == "query" else view.keys
            if tokens.index_of(position) is None:
                raise InputError(f"Token {position} is not shown in this view; choose another, or show it.")
    pinned_side = "query" if choices["side"] == "from" else "key"
    pinned = [position for side, position in choices["pins"] if side == pinned_side]
    values = {
        "view": choices["view"],
        "domain": domain,
        "before": inputs.before() if "before" in form.takes else None,
        "least": choices["least"],
        "pins": choices["pins"],
        "chosen": min(pinned, default=None),
        "side": choices["side"],
        "less": "sinks" if choices["less"] == "sinks" else "",
    }
    arguments = {name: value for name, value in values.items() if name in form.takes}
    heads = [inputs.head, *choices["also"]] if "heads" in form.takes else inputs.head
    return form.figure(record, inputs.site, heads, **arguments, **zoom, **common)


def _cell_and_zoom(choices: Choices, queries: int, keys: int) -> tuple[dict[str, Any], dict[str, slice]]:
    """Convert a chosen cell to the argument `selected` of a figure, and a zoom to `rows` and `columns`; else {}."""
    selected, window = {}, {}
    counts = f"there are {queries:,} queries and {keys:,} keys, counted from 0"
    if choices["cell"] is not None:
        query, key = choices["cell"]
        if not (0 <= query < queries and 0 <= key < keys):
            raise InputError(f"The cell is {query}.{key}; {counts}.")
        selected = {"selected": (query, key)}
    if choices["zoom"]:
        first_query, last_query, first_key, last_key = choices["zoom"][-1]  # the innermost of several zooms
        if not (first_query <= last_query < queries and first_key <= last_key < keys):
            raise InputError(f"The zoom ends at {last_query}.{last_key}; {counts}.")
        window = {"rows": slice(first_query, last_query + 1), "columns": slice(first_key, last_key + 1)}
    return selected, window


def prediction(after: Record, before: Record | None, *, sentence: int, **style: Any) -> Figure:
    """Make the figure of a prediction, with edits and without: labels, written words, words for blanks or next word."""
    if after.vectors is not None and after.labels is None:
        raise InputError(f"'{after.source}' makes sentence embeddings, which have no picture; leave out -o.")
    common = {"before": before, "sentence": sentence, **style}
    if after.labels:
        return figures.labels(after, **common)
    last = after.sentences[sentence].length - 1
    positions = after.prediction.blanks[sentence] if analysis.fills_in(after) else (last,)
    if after.targets or len(positions) != 1:
        return figures.step_by_step(after, **common)
    return figures.next_word(after, positions[0], **common)


def _patching(options: Namespace, inputs: Inputs) -> Figure:
    """Make the figure of patching: the share of a logit difference that each head carries to the text of --compare."""
    b = inputs.choices["b"]
    if b is None or b["text"] is None:
        raise InputError("Patching needs a second text: --compare 'text=Another text'.")
    edits = replace(inputs.request.edits, taken=())  # this study makes its own patches
    record = api.analyze(replace(inputs.request, edits=edits), inputs.source)
    targets = record.targets if inputs.request.targets else ()
    measured = ablation.carried(inputs.source, record.sentences, b["text"], edits, targets=targets)
    return figures.carried(record, measured, dark=options.dark)


def _difference(options: Namespace, inputs: Inputs) -> Figure:
    """Make the figure of two maps and their difference; B differs from A by --compare, or has no edits."""
    request, b = inputs.request, inputs.choices["b"] or Choices()
    record = inputs.record()
    a = Side(record, inputs.site, inputs.head, inputs.sentence(record))
    if not b.chosen:
        if request.edits == Edits():
            ways = "'text=Another text', 'layer=c1&head=2', step=0 or model=story"
            raise InputError(f"A and B are the same; compare with {ways}, or change something, such as --off 0.1.")
        request = request.unchanged
    source_b = inputs.source
    if "model" in b.chosen:
        source_b = source_of(Choices({"model": b["model"], "step": b["step"]}))
    elif b["step"] is not None:
        source_b = source_of(inputs.choices.put(step=b["step"]))
    has_input = b["text"] is not None or b["picture"] is not None
    # an answer is token ids, which differ between models, so another model reads text and answer of A as one text
    if has_input or (request.answer and "model" in b.chosen):
        inputs_b = b if has_input else Choices({"text": record.sentences[a.sentence].text})
        paths = [] if b["picture"] is None else [api.EXAMPLES.get(b["picture"], b["picture"])]
        request_b = request_of(inputs_b, source_b, paths, is_link=False)
        pictures_of_a = () if b["text"] is None else request.pictures[:1]
        request = replace(request_b, edits=request.edits, pictures=request_b.pictures or pictures_of_a)
    record_b = api.analyze(request.unchanged if source_b.read_only else request, source_b)
    is_other_step = source_b is not inputs.source and source_b.id == inputs.source.id
    if is_other_step and record.targets and record.targets != record_b.targets:
        record_b = source_b.run(record_b.sentences, record_b.edits, record.targets)  # the words of A, to align the rows
    head = inputs.head if b["layer"] is None else 0
    head = b["head"] if "head" in b.chosen else head
    comparison = beside(a, Side(record_b, b["layer"] or a.site, head, 0 if has_input else a.sentence))
    cell, _ = _cell_and_zoom(inputs.choices, len(comparison.rows), len(comparison.columns))
    return figures.difference(comparison, dark=options.dark, **cell)


def write(figure: Figure, options: Namespace) -> list[str]:
    """Render a figure for each -o, then write all files, so that an error leaves no file; return their paths."""
    size = {"preset": options.preset, "ppi": options.ppi}
    contents = {}
    for path in options.output or [Path(export.filename(figure, "png", **size))]:
        format = path.suffix.removeprefix(".").lower()
        if format not in export.NAMES:
            raise InputError(f"{quoted(path.name)} must end in a format: .{', .'.join(export.NAMES)}.")
        contents[path] = export.render(figure, format, **size)
    if any(path.suffix.lower() in (".png", ".svg", ".pdf") for path in contents):
        terminal.note(*export.notes(figure, options.preset))
    for path, content in contents.items():
        storage.write(path, content)
    return [str(path) for path in contents]


def single(options: Namespace, default: str, content: str) -> Path:
    """Return the last path of -o, else `default`; an error that their endings differ calls the file `content`."""
    path, ending = Path(options.output[-1] if options.output else default), Path(default).suffix
    if path.suffix.lower() != ending:
        raise InputError(f"{quoted(path.name)} cannot be the name of {content}: it must end in {ending}.")
    return path
