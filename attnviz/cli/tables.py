"""The commands `predict`, `generate` and `models`, which print text."""

import json
import re
import sys
from argparse import Namespace
from dataclasses import replace
from typing import Any

import pandas as pd

from attnviz import analysis, api, figures
from attnviz.cli import pictures, terminal
from attnviz.cli.request import load, read
from attnviz.core.amounts import digits, percent
from attnviz.core.display import visible_text
from attnviz.core.edits import Edits
from attnviz.core.errors import AttnvizError, InputError
from attnviz.core.record import Record
from attnviz.generation import generate
from attnviz.sources.base import Source
from attnviz.sources.huggingface import hub

INNER = re.compile("(?<=.)␣(?=.)")
"""Pattern of a visible blank within a text, not at its beginning or end."""


def lines_of(table: pd.DataFrame) -> list[str]:
    """Write a table as lines of text, with a hyphen for a missing value."""
    rows = [[_cell(value) for value in row] for row in table.itertuples(index=False)]
    return terminal.columns([[*table], *rows])


def _cell(value: Any) -> str:
    """Write a value of a table as text."""
    if pd.isna(value):
        return "-"
    text = str(value)
    return digits(value) if isinstance(value, float) else INNER.sub(" ", visible_text(text, len(text) + 1))


def rows_of(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Convert a table to rows for JSON, with null for NaN."""
    return json.loads(table.to_json(orient="records", double_precision=15))


def predict(options: Namespace) -> list[str]:
    """Run `predict`: return lines with a table and its description, or write pictures and return their paths."""
    inputs = read(options)
    form = options.show or "prediction"
    if options.output and (options.json or form == "tokens"):
        raise InputError("Give --json or -o, not both." if options.json else "There is no picture of tokens.")
    explained = options.switch_off or inputs.choices["word"] or inputs.choices["minus"]
    if explained and form not in ("contributions", "gradients"):
        raise InputError("--word, --minus and --switch-off explain a logit; add --show contributions.")
    words, facts = "", {"texts": inputs.request.texts}
    if form == "tokens":
        names = ["sentence", "position", "text", "id", "start", "end", "special", "joined"]
        table = pd.DataFrame(
            {"sentence": number, "position": position, **vars(token)}
            for number, sentence in enumerate(inputs.source.sentences(inputs.request), 1)
            for position, token in enumerate(sentence.tokens)
        )[names]
    elif form == "prediction" and not options.output:
        before, after = inputs.before(), inputs.record()
        table = predicted(before, after)
        if analysis.fills_in(after) and not any(after.prediction.blanks):
            mask = inputs.source.mask_token
            raise InputError(f"'{inputs.source.name}' fills in blanks; write {mask} in place of a word.")
        if "written" in table and not options.json:  # no header, for use by other programs
            return [*map(_cell, table["written"])]
        facts["edits"] = after.edits.to_json()
    else:
        figure = pictures.figure(options, replace(inputs, form=form))
        if options.output:
            return pictures.write(figure, options)
        table, words = figure.table, figure.description
        facts["words"] = words
    if options.json:
        return [json.dumps(facts | {"rows": rows_of(table)}, indent=1)]
    return [*([words, ""] if words else []), *lines_of(table)]


def predicted(before: Record | None, after: Record) -> pd.DataFrame:
    """Make the table of predictions per sentence: words or labels with probabilities, written texts, or cosines."""
    if after.vectors is not None and before is None and len(after.sentences) == 1:
        give = "give several texts, one per line with --lines, or a change, to compare vectors"
        raise InputError(f"'{after.source}' makes a vector for each text: {give}.")
    tables = {number: _sentence_table(before, after, number - 1) for number in range(1, len(after.sentences) + 1)}
    if len(tables) == 1:
        return tables[1]
    named = [table.assign(sentence=number)[["sentence", *table]] for number, table in tables.items() if not table.empty]
    return pd.concat(named) if named else pd.DataFrame()


def _sentence_table(before: Record | None, after: Record, number: int) -> pd.DataFrame:
    """Make the table of predictions for one sentence, from its figure if there is one."""
    place = {"before": before, "sentence": number}
    if after.labels is not None or analysis.labels_tokens(after):
        return pictures.prediction(after, **place).table
    if after.vectors is not None:
        row = {f"like {other}": cosine for other, cosine in enumerate(analysis.similarity(after)[number].tolist(), 1)}
        return pd.DataFrame([row if before is None else row | {"moved": analysis.shift(before, after)[number].item()}])
    if not analysis.fills_in(after) and after.targets:
        if cut := analysis.cut(after, sentence=number):
            terminal.note(f"The output for text {number + 1} was cut off after {cut} tokens.")
        runs = {"written": after} if before is None else {"before": before, "after": after}
        return pd.DataFrame([{name: run.prediction.written[number] for name, run in runs.items()}])
    ends = after.prediction.blanks[number] if analysis.fills_in(after) else [after.sentences[number].length - 1]
    words = [figures.next_word(after, end, **place).table for end in ends]
    return pd.concat(words) if words else pd.DataFrame()


def write(options: Namespace) -> list[str]:
    """Run `generate`: stream the answer to stdout; with edits, print where the answer without edits differs."""
    inputs = read(options)
    if (count := len(inputs.request.texts)) != 1:
        raise InputError(f"'generate' continues one text; there are {count}. Leave out --lines.")
    length = 0

    def write_answer(answer: str, count: int) -> None:
        nonlocal length
        if not options.json:
            sys.stdout.write(answer[length:])
            sys.stdout.flush()
        length = len(answer)

    names = {name: getattr(options, name) for name in ("max_new_tokens", "sampling_temperature", "top_p", "seed")}
    prompt, edits = inputs.request.prompt, inputs.request.edits
    generated = generate(prompt, inputs.source, edits=edits, report=write_answer, **names)
    tokens = []
    for position, token in enumerate(generated.tokens, generated.prompt):
        likely = [
            dict(zip(("id", "text", "probability"), row, strict=True)) for row in generated.alternatives(position)
        ]
        tokens.append({"position": position, "id": token.id, "text": token.text, "alternatives": likely})
    entry = {"prompt": generated.sentence.text[: generated.begins], "answer": generated.answer}
    terminal.say(json.dumps(entry | {"ended": generated.ended, "tokens": tokens}, indent=1) if options.json else "")
    if edits != Edits():
        before = generate(prompt, inputs.source, **names)
        place = generated.first_difference(before)
        where = "the same" if place is None else f"different from token {place - generated.prompt + 1} on"
        terminal.note(f"Without the changes the answer is {where}:{before.answer}")
    if not options.output:
        return []
    figure = figures.head(generated.record, inputs.site, inputs.head, sentence=0, dark=options.dark)
    return pictures.write(figure, options)


def models(options: Namespace) -> list[str]:
    """Run `models`: return lines with the list of models, or the card or circuits of one model."""
    if options.circuits:
        if not options.name:
            raise InputError("Circuits are computed from a model's weights; name it: attnviz models NAME --circuits.")
        circuits = analysis.circuits(load(options.name).model_weights())
        for sentence in circuits.lacking:
            terminal.note(sentence)
        return lines_of(getattr(circuits, options.circuits))
    if options.name:
        return _card(load(options.name))
    rows = []
    for name, kind in api.SOURCES.items():
        try:
            card = api.load(name).card
            rows.append((name, kind.provenance, card.does if card else kind.does))
        except AttnvizError as error:
            rows.append((name, kind.provenance, str(error)))
    only = hub.allowed()
    others = f"Also, from Hugging Face: {', '.join(only or ()) or 'none'}."
    if only is None:
        others = f"Also any model on Hugging Face, by its name ({hub.MINILM}) or its folder."
    return [*terminal.columns(rows), "", others]


def _card(source: Source) -> list[str]:
    """Write the card of a model as lines of text."""
    card = source.card
    if card is None:
        rows = [*source.described()]
        can_change = f"read-only: {source.read_only}" if source.read_only else "masks, heads, scale, temperature"
        rows += [("changes", can_change), *([("not shown", source.unseen)] if source.unseen else [])]
        lines = [f"  {line}" for line in terminal.columns([(f"{what}:", value) for what, value in rows])]
        return [f"{source.name} ({source.provenance})", *filter(None, [source.does]), *lines]
    goals = ["" if measure.goal is None else f"(goal {measure.goal:.0%})" for measure in card.measured]
    measured = [(percent(measure.value), measure.what) for measure in card.measured]
    places = [behavior.site.head(*behavior.heads) for behavior in card.behaviors]
    tables: dict[str, list[tuple[str, ...]]] = {
        "Sizes": [(f"{size:,}", name) for name, size in card.sizes.items()],
        "Measured before it shipped": [(*row, goal) for row, goal in zip(measured, goals, strict=True)],
        "What heads do": [(f"{place} {b.does} {b.evidence}",) for place, b in zip(places, card.behaviors, strict=True)],
        "What it cannot do": [(sentence,) for sentence in card.cannot],
    }
    lines = [f"{card.title} ({source.provenance})", card.does, "", card.origin, card.trained_on]
    for title, rows in tables.items():
        lines += ["", f"{title}:", *(f"  {line}" for line in terminal.columns(rows))] if rows else []
    return lines
