"""Commands: options in, files written, lines for the terminal out."""

import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from attnviz import analysis, api, cases, export, figures, files
from attnviz.check.intent import MEANT
from attnviz.cli import comparing, forms, lines, says, values
from attnviz.core import whole
from attnviz.core.edits import Edits
from attnviz.core.errors import InputError, quoted
from attnviz.core.finite import not_finite
from attnviz.core.masks import Full, composable
from attnviz.core.masks.text import form
from attnviz.core.record import Record
from attnviz.core.request import Request
from attnviz.export import csv
from attnviz.export.explore import explore
from attnviz.figures import Figure
from attnviz.figures.base import stem
from attnviz.sources.base import Source
from attnviz.studies import ablation, gradients

PICTURES = (".png", ".svg", ".pdf")
"""Endings of files that are drawn."""


def run(options: Namespace, note: Callable[[str], None]) -> Iterable[str]:
    """Run the command that was parsed; gives the lines to print.

    Args:
        note: takes a line about something that is no mistake, such as a word that the model does not know.
    """
    if options.command == "models":
        if options.circuits or options.json or options.output:
            return _circuits(options, note)
        return lines.card(values.load(options.name)) if options.name else lines.models()
    if options.command == "masks":
        rules = [(form(rule), rule.meaning) for rule in (Full, *composable())]
        return [*lines.columns(rules), "", "Kinds, for check --intent:", *lines.columns([*MEANT.items()])]
    if options.command == "explore" and options.live:
        _check_ending(options.output, "a page", ".html", ".htm")
        return _put({options.output: api.live(options.live, options.text).encode()})
    request, source = values.read(options)
    if "seconds" in options and (cost := values.cost(options, source, request)):
        note(cost)
    printed = draw(options, source, request)
    for line in lines.unknown(source, request):
        note(line)
    return printed


def draw(options: Namespace, source: Source, request: Request) -> list[str]:
    """Run a command of a source and a request; returns the lines to print."""
    return _COMMANDS[options.command](options, source, request)


def _circuits(options: Namespace, note: Callable[[str], None]) -> list[str]:
    if not (options.name and options.circuits):
        raise InputError(
            "Circuits are of a model's weights: attnviz models NAME --circuits; --json and -o are of these."
        )
    circuits = analysis.circuits(values.load(options.name).model_weights())
    table = getattr(circuits, options.circuits)
    for sentence in circuits.lacking:
        note(sentence)
    if options.output:
        _check_ending(options.output, "a table of circuits", ".csv")
        return _put({options.output: csv(table)})
    if options.json:
        return [table.to_json(orient="records", indent=1)]
    cells = table.map(lambda cell: f"{cell:.3f}" if isinstance(cell, float) else cell).astype(object)
    return lines.columns([[*cells], *cells.where(table.notna(), "-").to_numpy().tolist()])


def _tokens(options: Namespace, source: Source, request: Request) -> list[str]:
    sentences = source.sentences(request)
    return lines.tokens_json(sentences) if options.json else lines.tokens(sentences)


def _predict(options: Namespace, source: Source, request: Request) -> list[str]:
    before, after = _before(options, source, request), _record(options, source, request)
    says.check(source, before, after)
    if options.gradients:
        if options.output:
            raise InputError("Give --gradients or --output, not both.")
        number = values.sentence(options, after.sentences)
        relevant = gradients.relevance(source, after, options.word, sentence=number)
        integrated = gradients.integrated(source, after, options.word, sentence=number)
        return lines.gradients(relevant, integrated, as_json=options.json)
    if options.word:
        raise InputError("--word is the word of gradients; add --gradients.")
    if options.output and options.json:
        raise InputError("Give --json or --output, not both.")
    if options.output:
        return write(_predicted(before, after, **_figure_arguments(options, after)), options)
    return says.as_json(before, after) if options.json else says.as_text(before, after)


def _predicted(before: Record | None, after: Record, sentence: int, dark: bool) -> Figure:
    """The labels, the words that were written or fill the blanks, or the next one."""
    if after.vectors is not None and after.labels is None:
        raise InputError(
            f"'{after.source}' gives sentence embeddings, of which there is no picture; leave out --output."
        )
    arguments = {"before": before, "sentence": sentence, "dark": dark}
    if after.labels:
        return figures.labels(after, **arguments)
    blanks = after.prediction.blanks[sentence] if analysis.fills_in(after) else (says.last(after, sentence),)
    if after.targets or len(blanks) != 1:
        return figures.step_by_step(after, **arguments)
    return figures.next_word(after, blanks[0], **arguments)


def _contributions(options: Namespace, source: Source, request: Request) -> list[str]:
    if options.output and options.json:
        raise InputError("Give --json or --output, not both.")
    record = api.analyze(request, source, stream=True)
    arguments = _figure_arguments(options, record)
    word = {"token": options.word, "position": options.position, "minus": options.minus}
    logit, falls = analysis.contributions(record, **word, sentence=arguments["sentence"]), None
    if options.switch_off:
        targets = record.targets if request.targets else ()
        where = word | {"sentence": arguments["sentence"]}
        falls = ablation.logit_falls(source, record.sentences, request.edits, targets=targets, **where)
    if options.output and falls is not None:
        return write(figures.replaced(record, **word, falls=falls, **arguments), options)
    if options.output:
        return write(figures.contributions(record, **word, **arguments), options)
    return lines.contributions_json(logit, falls) if options.json else lines.contributions(logit, falls)


def _export(options: Namespace, source: Source, request: Request) -> list[str]:
    forms.check(options)
    return _FORMS.get(options.form, _head)(options, source, request)


def _head(options: Namespace, source: Source, request: Request) -> list[str]:
    record, head = _record(options, source, request), values.head(options, source)
    arguments, site = {"view": values.view(options)} | _figure_arguments(options, record), values.site(options, source)
    arguments |= values.selected(options, *map(len, record.tokens(site, sentence=arguments["sentence"])))
    before = _before(options, source, request) if options.before else None
    return write(forms.figure(options, record, site, head, arguments, before), options)


def _heads(options: Namespace, source: Source, request: Request) -> list[str]:
    record = _record(options, source, request)
    arguments = {"domain": options.domain, "view": values.view(options)} | _figure_arguments(options, record)
    return write(figures.heads(record, values.site(options, source), **arguments), options)


def _overview(options: Namespace, source: Source, request: Request) -> list[str]:
    record = _record(options, source, request)
    return write(figures.overview(record, domain=options.domain, **_figure_arguments(options, record)), options)


def _explore(options: Namespace, source: Source, request: Request) -> list[str]:
    before, after = _before(options, source, request), _record(options, source, request)
    _check_ending(options.output, "a page", ".html", ".htm")
    opens = {"site": values.site(options, source), "head": values.head(options, source)}
    page = explore(after, before=before, sentence=values.sentence(options, after.sentences), **opens)
    return _put({options.output: page.encode()})


def _mask(options: Namespace, source: Source, request: Request) -> list[str]:
    record, site = _record(options, source, request), values.site(options, source)
    arguments = _figure_arguments(options, record)
    number = arguments["sentence"]
    queries, keys = record.tokens(site, sentence=number)
    predicted, targets = record.predicted(site, sentence=number), "sos" in source.settings()
    if targets:
        predicted = api.predicted(record.sentences[number])
    mask = record.step(site).mask or Full()
    yours = record.edits.mask_at(site.kind)
    figure = figures.mask(mask, queries, keys, predicted=predicted, targets=targets, yours=yours, **arguments)
    return write(figure, options)


def _change(options: Namespace, source: Source, request: Request) -> list[str]:
    before, after = _before(options, source, request), _record(options, source, request)
    if before is None:
        raise InputError(
            "Nothing is changed; give --mask, --off, --take, --temperature, --score-scale, --empty-rows "
            "or --no-own-mask."
        )
    return write(figures.change(before, after, **_figure_arguments(options, after)), options)


def _lens(options: Namespace, source: Source, request: Request) -> list[str]:
    """Words through the layers, or those that a head pushes up and down."""
    record = _record(options, source, request, stream=True)
    arguments = _figure_arguments(options, record) | {"columns": options.queries}
    if options.form == "lens":
        return write(figures.logit_lens(record, **arguments), options)
    place = values.site(options, source), values.head(options, source)
    return write(figures.pushed(record, *place, **arguments), options)


def _compare(options: Namespace, source: Source, request: Request) -> list[str]:
    return write(comparing.figure(options, source, request), options)


def _save(options: Namespace, source: Source, request: Request) -> list[str]:
    record = _record(options, source, request)
    path = options.output or Path(f"{stem(record)}{files.ENDING}")
    _check_ending(path, "a saved run", files.ENDING)
    arguments = {"precision": options.precision, "whole_prediction": options.whole_prediction}
    settings = cases.settings_of(source) | cases.made_with(request)
    return [str(files.save(record, path, settings=settings, **arguments))]


_COMMANDS = {
    "save": _save,
    "export": _export,
    "explore": _explore,
    "compare": _compare,
    "predict": _predict,
    "contributions": _contributions,
    "tokens": _tokens,
}


_FORMS = {"heads": _heads, "overview": _overview, "mask": _mask, "change": _change, "lens": _lens, "pushed": _lens}
"""Makers of the forms that are no single head."""


def _record(options: Namespace, source: Source, request: Request, *, stream: bool = False) -> Record:
    record = api.analyze(request, source, stream=stream)
    if sentence := not_finite(record):
        sys.stderr.write(f"attnviz: {sentence}\n")
    return record


def _before(options: Namespace, source: Source, request: Request) -> Record | None:
    """The run without changes; None if nothing is changed."""
    return None if request.edits == Edits() else api.analyze(request.unchanged, source)


def _figure_arguments(options: Namespace, record: Record) -> dict[str, int | bool]:
    return {"sentence": values.sentence(options, record.sentences), "dark": options.dark}


def write(figure: Figure, options: Namespace) -> list[str]:
    """Make every file that was asked for before the first is written; gives their paths."""
    size = {"preset": options.preset, "scale": options.scale, "ppi": options.ppi}
    contents = {}
    for path in options.output or [Path(export.filename(figure, "png", **size))]:
        format = path.suffix.removeprefix(".").lower()
        if format not in export.NAMES:
            raise InputError(f"{quoted(path.name)} ends in no format. There are: .{', .'.join(export.NAMES)}.")
        contents[path] = export.render(figure, format, **size)
    if any(path.suffix.lower() in PICTURES for path in contents):
        sys.stderr.writelines(f"attnviz: {note}\n" for note in export.notes(figure, options.preset))
    return _put(contents)


def _check_ending(path: Path, what: str, *endings: str) -> None:
    if path.suffix.lower() not in endings:
        raise InputError(f"{quoted(path.name)} is no name of {what}: it ends in {endings[0]}.")


def _put(contents: Mapping[Path, bytes]) -> list[str]:
    """Write files that are made already; gives their paths."""
    for path, content in contents.items():
        whole.write(path, content)
    return [str(path) for path in contents]
