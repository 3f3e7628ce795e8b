"""Pictures, pages and saved runs: the commands `export`, `explore` and `save`."""

from argparse import Namespace
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from attnviz import analysis, api, cases, export, figures, files
from attnviz.analysis.align import Side, beside
from attnviz.cli import terminal
from attnviz.cli.request import Inputs, read, request_of, source_of
from attnviz.core import whole
from attnviz.core.edits import Edits
from attnviz.core.errors import InputError, did_you_mean, quoted
from attnviz.core.masks import Full
from attnviz.core.record import Record
from attnviz.core.request import Request
from attnviz.export.explore import explore
from attnviz.figures import FORMS, Figure
from attnviz.figures.base import stem
from attnviz.link import Choices
from attnviz.sources.base import Source
from attnviz.studies import ablation, patching

IMAGES = (".png", ".svg", ".pdf")
"""Endings of files that are drawn."""
OTHER_FORMS = ("heads", "overview", "mask", "change", "lens", "pushed", "contributions", "patching", "prediction")
"""Forms of what is not one head."""


def run(options: Namespace) -> list[str]:
    """Write the files of export, explore or save; returns their paths."""
    if options.command == "explore" and options.live:
        path = single(options, "explore.html", "a page", ".html", ".htm")
        return put({path: api.live(options.live, options.text).encode()})
    inputs = read(options)
    if options.command == "export":
        paths = write(figure(options, inputs), options)
    else:
        paths = (_explore if options.command == "explore" else _save)(options, inputs)
    for line in inputs.notes:
        terminal.note(line)
    return paths


def figure(options: Namespace, inputs: Inputs) -> Figure:
    """The figure of a form."""
    if inputs.form not in (*FORMS, *OTHER_FORMS, "difference"):
        near, forms = did_you_mean(inputs.form, OTHER_FORMS), ", ".join((*FORMS, *OTHER_FORMS))
        raise InputError(f"There is no form {quoted(inputs.form)}.{near} There are: {forms}.")
    if inputs.form == "difference":
        return _difference(options, inputs)
    if inputs.form == "patching":
        record, measured = carried(inputs)
        return figures.carried(record, measured, dark=options.dark)
    record = inputs.record(stream=inputs.form in ("lens", "pushed", "contributions"))
    arguments: dict[str, Any] = {"sentence": inputs.sentence(record), "dark": options.dark}
    if inputs.form == "heads":
        return figures.heads(record, inputs.site, domain=inputs.domain, view=inputs.choices["view"], **arguments)
    if inputs.form == "overview":
        return figures.overview(record, domain=inputs.domain, **arguments)
    if inputs.form == "mask":
        return _mask(inputs, record, arguments)
    if inputs.form == "change":
        if (before := inputs.before()) is None:
            raise InputError("Nothing is changed; give --mask, --off, --take, --temperature or --set own_mask=false.")
        return figures.change(before, record, **arguments)
    if inputs.form == "prediction":
        return _prediction(inputs, record, arguments)
    if inputs.form == "contributions":
        logit, falls = contributions(options, inputs, record)
        place = {"token": logit.token, "minus": logit.minus, "position": logit.position}
        if falls is not None:
            return figures.replaced(record, **place, falls=falls, **arguments)
        return figures.contributions(record, **place, **arguments)
    if inputs.form in ("lens", "pushed"):
        rows = _zoom(inputs, record).get("rows")
        if inputs.form == "lens":
            return figures.logit_lens(record, columns=rows, **arguments)
        return figures.pushed(record, inputs.site, inputs.head, columns=rows, **arguments)
    return _head(inputs, record, arguments)


def _head(inputs: Inputs, record: Record, arguments: dict[str, Any]) -> Figure:
    """One head in its form, as the page Heads draws it."""
    choices, form = inputs.choices, FORMS[inputs.form]
    queries, keys = map(len, record.tokens(inputs.site, sentence=arguments["sentence"]))
    zoom = _zoom(inputs, record) if "rows" in form.takes else {}
    axis = "query" if choices["side"] == "from" else "key"
    picked = sorted(position for end, position in choices["pins"] if end == axis)
    if form.takes & {"pins", "chosen"}:
        _check_pins(inputs, record, arguments["sentence"], zoom)
    values = {
        "view": choices["view"],
        "domain": inputs.domain,
        "before": inputs.before() if "before" in form.takes else None,
        "least": choices["least"],
        "pins": choices["pins"],
        "chosen": picked[0] if picked else None,
        "side": choices["side"],
        "less": "sinks" if choices["less"] == "sinks" else "",
    }
    named = {name: value for name, value in values.items() if name in form.takes}
    heads = [inputs.head, *choices["also"]] if "heads" in form.takes else inputs.head
    return form.figure(record, inputs.site, heads, **named, **zoom, **_cell(choices, queries, keys), **arguments)


def _cell(choices: Choices, queries: int, keys: int) -> dict[str, tuple[int, int]]:
    """The cell to outline; empty for none."""
    cell = choices["cell"]
    if cell is None:
        return {}
    if cell[0] >= queries or cell[1] >= keys:
        counts = f"{queries:,} queries and {keys:,} keys"
        raise InputError(f"There is no cell {cell[0]}.{cell[1]}; there are {counts}, counted from 0.")
    return {"selected": cell}


def _zoom(inputs: Inputs, record: Record) -> dict[str, slice]:
    """The rows and columns that are drawn; empty for all."""
    if not inputs.choices["zoom"]:
        return {}
    top, bottom, left, right = inputs.choices["zoom"][-1]
    queries, keys = map(len, record.tokens(inputs.site, sentence=inputs.sentence(record)))
    if not (top <= bottom < queries and left <= right < keys):
        counts = f"{queries:,} queries and {keys:,} keys"
        raise InputError(f"zoom is {top}.{bottom}.{left}.{right}; there are {counts}, counted from 0.")
    return {"rows": slice(top, bottom + 1), "columns": slice(left, right + 1)}


def _check_pins(inputs: Inputs, record: Record, sentence: int, zoom: dict[str, slice]) -> None:
    """Refuse a token that is not there, or not shown: without it the lines of all tokens would be drawn."""
    tokens = record.tokens(inputs.site, sentence=sentence)
    for end, position in sorted(inputs.choices["pins"]):
        count = len(tokens[end == "key"])
        if position >= count:
            raise InputError(f"There is no token {position} to show the attention of; there are {count}, from 0.")
        view = analysis.views.see(record, inputs.site, sentence=sentence, view=inputs.choices["view"], **zoom)
        if (view.queries if end == "query" else view.keys).index_of(position) is None:
            raise InputError(f"Token {position} is not shown in this view; choose another, or show it.")


def _mask(inputs: Inputs, record: Record, arguments: dict[str, Any]) -> Figure:
    number = arguments["sentence"]
    queries, keys = record.tokens(inputs.site, sentence=number)
    predicted, targets = record.predicted(inputs.site, sentence=number), "sos" in inputs.source.settings()
    if targets:
        predicted = api.predicted(record.sentences[number])
    mask, yours = record.step(inputs.site).mask or Full(), record.edits.mask_at(inputs.site.kind)
    return figures.mask(mask, queries, keys, predicted=predicted, targets=targets, yours=yours, **arguments)


def _prediction(inputs: Inputs, after: Record, arguments: dict[str, Any]) -> Figure:
    """The labels, the words that were written or fill the blanks, or the next one."""
    if after.labels is after.vectors is after.prediction is None:
        raise InputError(f"'{after.source}' predicts nothing; choose another --model.")
    if after.vectors is not None and after.labels is None:
        raise InputError(f"'{after.source}' gives sentence embeddings, of which there is no picture; leave out -o.")
    arguments = {"before": inputs.before(), **arguments}
    if after.labels:
        return figures.labels(after, **arguments)
    sentence = arguments["sentence"]
    last = after.sentences[sentence].length - 1
    blanks = after.prediction.blanks[sentence] if analysis.fills_in(after) else (last,)
    if after.targets or len(blanks) != 1:
        return figures.step_by_step(after, **arguments)
    return figures.next_word(after, blanks[0], **arguments)


def contributions(options: Namespace, inputs: Inputs, record: Record) -> tuple[Any, Any]:
    """Contribution of each part to the logit of a word, and with --switch-off how much it falls with each head off."""
    word = options.word or inputs.choices["word"], options.minus or inputs.choices["minus"]
    place = {"token": word[0], "minus": word[1], "position": options.position, "sentence": inputs.sentence(record)}
    logit = analysis.contributions(record, **place)
    if not options.switch_off:
        return logit, None
    targets = record.targets if inputs.request.targets else ()
    edits = inputs.request.edits
    return logit, ablation.logit_falls(inputs.source, record.sentences, edits, targets=targets, **place)


def carried(inputs: Inputs) -> tuple[Record, Any]:
    """How much of the way from the text to that of --compare each head carries."""
    b = inputs.choices["b"]
    if b is None or b["text"] is None:
        raise InputError("Patching needs a second text: --compare 'text=Another text'.")
    edits = replace(inputs.request.edits, taken=())
    record = replace(inputs, request=replace(inputs.request, edits=edits)).record()
    targets = record.targets if inputs.request.targets else ()
    return record, patching.carried(inputs.source, record.sentences, b["text"], edits, targets=targets)


def _difference(options: Namespace, inputs: Inputs) -> Figure:
    """Two maps and their difference, as the page Compare draws them."""
    source, request, b = inputs.source, inputs.request, inputs.choices["b"] or Choices()
    record = inputs.record()
    a = Side(record, inputs.site, inputs.head, inputs.sentence(record))
    if not b.chosen:
        if request.edits == Edits():
            ways = "'text=Another text', 'layer=c1&head=2', step=0 or model=story"
            raise InputError(f"B is the same; compare with {ways}, or change something, such as --off 0.1.")
        request = request.unchanged
    other = source
    if "model" in b.chosen:
        other = source_of(Choices({"model": b["model"], "step": b["step"]}))
    elif b["step"] is not None:
        other = source_of(inputs.choices.put(step=b["step"]))
    has_text = b["text"] is not None or b["picture"] is not None
    if b["picture"] is not None:
        path = api.EXAMPLES.get(b["picture"], b["picture"])
        request = replace(request_of(b, source, [path], is_link=False), edits=request.edits)
    elif has_text:
        request = Request((b["text"],), pictures=request.pictures[:1], edits=request.edits)
    elif request.answer and other is not source and "model" in b.chosen:  # another model has other ids
        request = Request((record.sentences[a.sentence].text,), edits=request.edits)
    site, head = b["layer"] or a.site, b["head"] if "head" in b.chosen else a.head
    if b["layer"] is not None and "head" not in b.chosen:
        head = 0
    run = api.analyze(request.unchanged if other.read_only else request, other)
    side = Side(run, site, head, 0 if has_text else a.sentence)
    comparison = beside(a, _same_words(a, side, source, other))
    cell = _cell(inputs.choices, len(comparison.rows), len(comparison.columns))
    return figures.difference(comparison, dark=options.dark, **cell)


def _same_words(a: Side, b: Side, source: Source, other: Source) -> Side:
    """Another training step of A's model reads the words that A wrote, so that each row is of one word."""
    written = a.record.targets
    if not written or b.record.targets == written or source.id != other.id or source is other:
        return b
    return Side(other.run(b.record.sentences, b.record.edits, written), b.site, b.head, b.sentence)


def _explore(options: Namespace, inputs: Inputs) -> list[str]:
    path = single(options, "explore.html", "a page", ".html", ".htm")
    before, after = inputs.before(), inputs.record()
    place = {"site": inputs.site, "head": inputs.head, "sentence": inputs.sentence(after)}
    return put({path: explore(after, before=before, **place).encode()})


def _save(options: Namespace, inputs: Inputs) -> list[str]:
    record = inputs.record()
    path = single(options, f"{stem(record)}{files.ENDING}", "a saved run", files.ENDING)
    settings = cases.settings_of(inputs.source) | cases.made_with(inputs.request)
    return [str(files.save(record, path, settings=settings, precision=options.precision))]


def write(figure: Figure, options: Namespace) -> list[str]:
    """Render every file before the first is written; returns their paths."""
    size = {"preset": options.preset, "ppi": options.ppi}
    contents = {}
    for path in options.output or [Path(export.filename(figure, "png", **size))]:
        format = path.suffix.removeprefix(".").lower()
        if format not in export.NAMES:
            raise InputError(f"{quoted(path.name)} ends in no format. There are: .{', .'.join(export.NAMES)}.")
        contents[path] = export.render(figure, format, **size)
    if any(path.suffix.lower() in IMAGES for path in contents):
        for line in export.notes(figure, options.preset):
            terminal.note(line)
    return put(contents)


def single(options: Namespace, usual: str, what: str, *endings: str) -> Path:
    """The one file of -o, or the usual one."""
    path = options.output[-1] if options.output else Path(usual)
    if path.suffix.lower() not in endings:
        raise InputError(f"{quoted(path.name)} is no name of {what}: it ends in {endings[0]}.")
    return path


def put(contents: Mapping[Path, bytes]) -> list[str]:
    """Write files that are made already; returns their paths."""
    for path, content in contents.items():
        whole.write(path, content)
    return [str(path) for path in contents]
