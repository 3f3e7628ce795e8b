"""The commands that print tables: `predict`, `generate` and `models`."""

import json
import sys
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace
from math import isnan
from typing import Any

import pandas as pd

from attnviz import analysis, api, export, figures
from attnviz.cli import pictures, terminal
from attnviz.cli.request import SILENT, Inputs, load, read
from attnviz.cli.terminal import columns
from attnviz.core.amounts import digits, percent, remainder
from attnviz.core.display import label_text, visible_text
from attnviz.core.edits import Edits
from attnviz.core.errors import AttnvizError, InputError
from attnviz.core.record import Record
from attnviz.figures.attribution import gap_in_words, of_word
from attnviz.generation import Generated, WritingProgress, generate
from attnviz.sources.base import Source
from attnviz.sources.huggingface import hub
from attnviz.studies import gradients


def predict(options: Namespace) -> list[str]:
    """The lines to print, or the paths of the pictures of -o."""
    inputs = read(options)
    if options.output and options.json:
        raise InputError("Give --json or -o, not both.")
    if options.output and options.show in ("tokens", "gradients"):
        raise InputError(f"There is no picture of {options.show} in the shell; leave out -o.")
    if (options.word or options.minus or options.switch_off) and options.show not in ("contributions", "gradients"):
        raise InputError("--word, --minus and --switch-off explain a logit; add --show contributions.")
    if options.output:
        figure = pictures.figure(options, replace(inputs, form=options.show or "prediction"))
        lines = pictures.write(figure, options)
    else:
        lines = _SHOW[options.show](options, inputs)
    for line in inputs.notes:
        terminal.note(line)
    return lines


def _predicted(options: Namespace, inputs: Inputs) -> list[str]:
    source, before, after = inputs.source, inputs.before(), inputs.record()
    if after.labels is after.vectors is after.prediction is None:
        weights = f"its weights are {source.provenance}"
        raise InputError(f"'{source.name}' predicts nothing, {weights}; choose another --model.")
    if after.vectors is not None and before is None and len(after.sentences) == 1:
        raise InputError(
            f"'{source.name}' gives a sentence a vector: give several, one on each line with --lines, or a change."
        )
    if analysis.fills_in(after) and not any(after.prediction.blanks):
        raise InputError(f"'{source.name}' fills in {source.mask_token}; write that in the place of a word.")
    return _as_json(before, after) if options.json else as_text(before, after)


def as_text(before: Record | None, after: Record) -> list[str]:
    """Prediction of each sentence; with `before`, both."""
    if after.vectors is not None:
        return _vectors(before, after)
    lines: list[str] = []
    for number in range(len(after.sentences)):
        if lines and not (_writes(after) and before is None):
            lines.append("")
        if not _writes(after):
            lines += _table(_rows(before, after, number)) or ["(no blank)"]
        elif before is None:
            lines.append(_written(after, number))
        else:
            lines += [f"before: {_written(before, number)}", f"after:  {_written(after, number)}"]
        ids = [row["word"] for row in _rows(before, after, number) if "word" in row]
        if nameless := [word for word in ids if analysis.nameless_id(after, word) is not None]:
            note = "is the token with that id: the model's tokenizer has no text for it."
            lines.append(f"A word such as {nameless[0]} {note}")
    return lines


def _writes(record: Record) -> bool:
    """Whether the model writes a text of its own."""
    return bool(record.targets) and record.labels is None and not analysis.fills_in(record)


def _rows(before: Record | None, after: Record, sentence: int) -> list[dict[str, Any]]:
    """Words or labels of a sentence with their probabilities; none of a model that writes."""
    arguments = {"before": before, "sentence": sentence}
    if after.labels is not None:
        measure = "number" if analysis.is_number(after) else "probability"
        ranked = analysis.labels(after, **arguments)
        return [{"label": word.word} | _chances(word, before, measure) for word in ranked]
    if analysis.labels_tokens(after):
        words = analysis.predicted_words(after, sentence=sentence)
        names = ("position", "token", "word", "probability")
        return [{name.replace("word", "label"): getattr(word, name) for name in names} for word in words]
    if _writes(after):
        return []
    if not analysis.fills_in(after):
        ranked = analysis.next_words(after, after.sentences[sentence].length - 1, **arguments)
        return [{"word": word.word} | _chances(word, before) for word in ranked]
    return [
        {"position": place, "word": word.word} | _chances(word, before)
        for place in after.prediction.blanks[sentence]
        for word in analysis.next_words(after, place, **arguments)
    ]


def _chances(word: Any, before: Record | None, measure: str = "probability") -> dict[str, float | None]:
    return {measure: word.probability} if before is None else {"before": word.before, "after": word.probability}


def _table(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Lines of rows with the same names."""
    return columns([[*rows[0]], *([_cell(*entry) for entry in row.items()] for row in rows)]) if rows else []


def _cell(name: str, value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.3f}"
    return label_text(value) if name == "label" else visible_text(str(value))


def _vectors(before: Record | None, after: Record) -> list[str]:
    """How alike the sentences are, as cosines, and how far each has moved."""
    count, moved = len(after.sentences), []
    if before is not None:
        rows = [(number, f"{far:.4f}") for number, far in enumerate(analysis.shift(before, after).tolist(), 1)]
        moved = columns([("sentence", "moved"), *rows])
    if count == 1:
        return moved
    runs = [analysis.similarity(record) for record in (before, after) if record is not None]
    heads = ("similarity",) if before is None else ("similarity before", "after")
    pairs = [(i, j) for i in range(count) for j in range(i + 1, count)]
    rows = [(f"{i + 1}, {j + 1}", *(f"{run[i, j]:.4f}" for run in runs)) for i, j in pairs]
    return [*columns([("sentences", *heads), *rows]), *(["", *moved] if moved else [])]


def _written(record: Record, sentence: int) -> str:
    """Text that a model wrote; a note says that it has no word, or that it was cut."""
    text = " ".join(visible_text(word) for word in record.prediction.written[sentence].split()) or "(nothing)"
    cut = analysis.cut(record, sentence=sentence)
    return f"{text} (cut after {cut} tokens)" if cut else text


def _as_json(before: Record | None, after: Record) -> list[str]:
    """One object for each sentence: its text, and the rows of its table or the text that was written."""
    listed = []
    for number, sentence in enumerate(after.sentences):
        entry: dict[str, Any] = {"text": sentence.text}
        if after.vectors is not None:
            entry["similarity"] = analysis.similarity(after)[number].tolist()
        elif not _writes(after):
            entry["says"] = _rows(before, after, number)
        elif before is None:
            entry["says"] = after.prediction.written[number]
        else:
            entry["before"], entry["after"] = (run.prediction.written[number] for run in (before, after))
        if before is not None and after.vectors is not None:
            entry["moved"] = analysis.shift(before, after)[number].item()
        if before is not None:
            entry["edits"] = after.edits.to_json()
        listed.append(_without_nan(entry))
    return [json.dumps(listed, indent=1)]


def _without_nan(value: Any) -> Any:
    """A value for JSON, which has no NaN."""
    if isinstance(value, dict):
        return {name: _without_nan(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_without_nan(part) for part in value]
    return None if isinstance(value, float) and isnan(value) else value


# Where a prediction comes from


def _tokens(options: Namespace, inputs: Inputs) -> list[str]:
    sentences = inputs.source.sentences(inputs.request)
    if options.json:
        listed = [
            {"text": sentence.text, "length": sentence.length, "tokens": [vars(token) for token in sentence.tokens]}
            for sentence in sentences
        ]
        return [json.dumps(listed, indent=1)]
    rows: list[Sequence[Any]] = [("sentence", "position", "token", "id", "start", "end", "")]
    for number, sentence in enumerate(sentences, 1):
        for position, token in enumerate(sentence.tokens):
            about = " ".join(name for name in ("special", "joined") if getattr(token, name))
            rows.append((number, position, visible_text(token.text), token.id, token.start, token.end, about))
    return columns(rows)


def _contributions(options: Namespace, inputs: Inputs) -> list[str]:
    """The answer in words, the share of each part, and their sum; with falls also the effect of each head off."""
    logit, falls = pictures.contributions(options, inputs, inputs.record(stream=True))
    table = logit.with_falls(falls)
    if options.json:
        parts = table.drop(columns=["fall"] if falls is None else []).to_dict("records")
        parts = [{name: value for name, value in row.items() if pd.notna(value)} for row in parts]
        names = ("token", "minus", "position", "sentence", "logit", "residual")
        return [json.dumps({name: getattr(logit, name) for name in names} | {"parts": parts}, indent=1)]
    rows = [("part", "adds"), *zip(logit.names, map(digits, table["contribution"]), strict=True)]
    rows.append(("sum", digits(table["contribution"].sum())))
    rows.append(("logit" if logit.minus is None else "difference", digits(logit.logit)))
    rows.append(("residual", remainder(logit.residual, logit.logit)))
    if falls is not None:
        off = ["falls when off", *("" if pd.isna(fall) else digits(fall) for fall in table["fall"]), "", "", ""]
        rows = [(*row, fall) for row, fall in zip(rows, off, strict=True)]
    return [logit.in_words(falls), "", *columns(rows)]


def _gradients(options: Namespace, inputs: Inputs) -> list[str]:
    """Relevance of each token after the last layer, beside its integrated gradients, and their gap."""
    record = inputs.record()
    number = inputs.sentence(record)
    relevant = gradients.relevance(inputs.source, record, options.word, sentence=number)
    integrated = gradients.integrated(inputs.source, record, options.word, sentence=number)
    table = relevant.table[relevant.table["layer"] == max(relevant.layers)].drop(columns="layer")
    table = integrated.table.merge(table, on=["kind", "position", "token"])
    if options.json:
        names = ("token", "position", "logit", "baseline", "steps", "gap")
        return [json.dumps({name: getattr(integrated, name) for name in names} | {"tokens": table.to_dict("records")})]
    table = table[["kind", "position", "token", "relevance", "attribution"]]
    table = table.set_axis(["stack", "position", "token", "relevance", "integrated gradients"], axis=1)
    return [f"Gradients of the {of_word(integrated)}.", gap_in_words(integrated), "", *_frame(options, table)]


def _lens(options: Namespace, inputs: Inputs) -> list[str]:
    (table,) = pictures.figure(options, replace(inputs, form="lens")).data.values()
    return _frame(options, table)


def _patching(options: Namespace, inputs: Inputs) -> list[str]:
    """The answer in words, and the part of the way that each head carries."""
    _, measured = pictures.carried(inputs)
    lines = _frame(options, measured.table[["kind", "layer", "head", "difference", "carried"]])
    return lines if options.json else [measured.in_words(), "", *lines]


def _frame(options: Namespace, table: pd.DataFrame) -> list[str]:
    """A table as lines, or as JSON."""
    if options.json:
        return [table.to_json(orient="records", indent=1)]
    rows = table.itertuples(index=False)
    texts = [[digits(cell) if isinstance(cell, float) else visible_text(str(cell)) for cell in row] for row in rows]
    return columns([[*table], *texts])


_SHOW = {
    None: _predicted,
    "tokens": _tokens,
    "contributions": _contributions,
    "gradients": _gradients,
    "lens": _lens,
    "patching": _patching,
}


# Writing


def write(options: Namespace) -> list[str]:
    """Write the answer to stdout as it comes; with changes, note where the answer without them differs."""
    inputs = read(options)
    if (count := len(inputs.request.texts)) != 1:
        raise InputError(f"An answer continues one text; there are {count}. Leave out --lines.")
    length = 0

    def stream(progress: WritingProgress) -> None:
        nonlocal length
        if not options.json:
            sys.stdout.write(progress.text[length:])
            sys.stdout.flush()
        length = len(progress.text)

    names = {name: getattr(options, name) for name in ("max_new_tokens", "sampling_temperature", "top_p", "seed")}
    prompt, edits = inputs.request.prompt, inputs.request.edits
    generated = generate(prompt, inputs.source, edits=edits, report=stream, **names)
    terminal.say(json.dumps(_generated_json(generated), indent=1) if options.json else "")
    count = len(generated.ids)
    if count > SILENT * generated.per_second:
        terminal.note(f"{count} tokens, {generated.per_second:.3g} a second.")
    if edits != Edits():
        before = generate(prompt, inputs.source, **names)
        place = generated.first_difference(before)
        where = "the same" if place is None else f"another one from token {place - generated.prompt + 1} on"
        terminal.note(f"Without the changes the answer is {where}:{before.answer}")
    if not options.output:
        return []
    figure = figures.head(generated.record, inputs.site, inputs.head, sentence=0, dark=options.dark)
    return pictures.write(figure, options)


def _generated_json(generated: Generated) -> dict[str, Any]:
    """Prompt, answer, and each of its tokens with its probability and the most probable ones."""
    tokens = []
    for position, token in enumerate(generated.tokens, generated.prompt):
        choices = [
            {"id": id, "text": text, "probability": share} for id, text, share in generated.alternatives(position)
        ]
        tokens.append({"position": position, "id": token.id, "text": token.text, "alternatives": choices})
    prompt = generated.sentence.text[: generated.begins]
    return {"prompt": prompt, "answer": generated.answer, "ended": generated.ended, "tokens": tokens}


# Models


def models(options: Namespace) -> list[str]:
    """The list of models, the card of one, or its circuits."""
    if options.circuits or options.json or options.output:
        return _circuits(options)
    if options.name:
        return _card(load(options.name))
    only = hub.allowed()
    others = f"Also, of Hugging Face: {', '.join(only or ()) or 'none'}."
    if only is None:
        others = f"Also any model of Hugging Face, by its name ({hub.MINILM}) or its folder."
    return [*columns([(name, *_about(name)) for name in api.SOURCES]), "", others]


def _about(name: str) -> tuple[str, str]:
    try:
        card = api.load(name).card
    except AttnvizError as error:
        return api.SOURCES[name].provenance, str(error)
    return api.SOURCES[name].provenance, card.does if card else api.SOURCES[name].does


def _circuits(options: Namespace) -> list[str]:
    if not (options.name and options.circuits):
        raise InputError("Circuits are of a model's weights: attnviz models NAME --circuits; --json and -o need these.")
    circuits = analysis.circuits(load(options.name).model_weights())
    table = getattr(circuits, options.circuits)
    for sentence in circuits.lacking:
        terminal.note(sentence)
    if options.output:
        return pictures.put({pictures.single(options, "", "a table of circuits", ".csv"): export.csv(table)})
    if options.json:
        return [table.to_json(orient="records", indent=1)]
    cells = table.map(lambda cell: f"{cell:.3f}" if isinstance(cell, float) else cell).astype(object)
    return columns([[*cells], *cells.where(table.notna(), "-").to_numpy().tolist()])


def _card(source: Source) -> list[str]:
    """Facts about a model, with their evidence."""
    card, title = source.card, f"{source.name} ({source.provenance})"
    if source.facts:  # a pretrained model states these itself; nothing was measured here
        rows = [*source.described()]
        if labels := source.facts.labels:
            listed = ", ".join([*map(label_text, labels[:10]), *(["..."] if len(labels) > 10 else [])])
            rows.append(("labels", f"{len(labels)}: {listed}"))
        can_change = f"read-only: {source.read_only}" if source.read_only else "masks, heads, scale, temperature"
        rows.append(("changes", can_change))
        if source.unseen:
            rows.append(("not shown", source.unseen))
        return [title, *columns([(f"  {what}:", value) for what, value in rows])]
    if card is None:
        return [title, source.does]
    sizes = columns([(f"  {value:>9,}", name) for name, value in card.sizes.items()])
    lines = [f"{card.title} ({source.provenance})", card.does, "", card.origin, card.trained_on, "", "Sizes:", *sizes]
    if card.measured:
        unused = ", on texts that training never used" if card.curve else ""
        goals = ["" if measure.goal is None else f"(goal {measure.goal:.0%})" for measure in card.measured]
        measured = [(f"  {percent(measure.value):>7}", measure.what) for measure in card.measured]
        rows = [(*row, goal) for row, goal in zip(measured, goals, strict=True)]
        lines += ["", f"Measured before it shipped{unused}:", *columns(rows)]
    if card.behaviors:
        lines += ["", "What heads do:"]
    for finding in card.behaviors:
        lines += [f"  {finding.site.head(*finding.heads)} {finding.does}", f"    {finding.evidence}"]
    return [*lines, "", "What it cannot do:", *(f"  {line}" for line in card.cannot)]
