"""The commands `predict`, `generate` and `models`, which print text."""

import json
import re
import sys
from argparse import Namespace
from dataclasses import replace
from typing import Any

import pandas as pd

from attnviz import analysis, api, figures, generation
from attnviz.cli import pictures, terminal
from attnviz.cli.request import load, read
from attnviz.core.amounts import digits, percent
from attnviz.core.display import visible_text
from attnviz.core.edits import Edits
from attnviz.core.errors import AttnvizError, InputError
from attnviz.core.record import Record
from attnviz.sources.base import Source
from attnviz.sources.huggingface import hub

INNER = re.compile("(?<=.)␣(?=.)")
"""Pattern of ␣, which stands for a blank, within a text; there a real blank is as clear and easier to read."""


def lines_of(table: pd.DataFrame) -> list[str]:
    """Write a table as lines of text, with a hyphen for a missing value."""
    rows = [[_cell(value) for value in row] for row in table.itertuples(index=False)]
    return terminal.columns([[*table], *rows])


def _cell(value: Any) -> str:
    """Write a value of a table as text, of any length."""
    if pd.isna(value):
        return "-"
    if isinstance(value, float):
        return digits(value)
    text = str(value)
    return INNER.sub(" ", visible_text(text, longest=len(text) + 1))


def predict(options: Namespace) -> list[str]:
    """Run `predict`: return the lines of a table or of JSON, or write pictures and return their paths."""
    inputs = read(options)
    form = options.show or "prediction"
    if options.output and (options.json or form == "tokens"):
        raise InputError("Give --json or -o, not both." if options.json else "There is no picture of tokens.")
    explained = options.switch_off or inputs.choices["word"] or inputs.choices["minus"]
    if explained and form not in ("contributions", "gradients"):
        raise InputError("--word, --minus and --switch-off explain a logit; add --show contributions.")
    description, facts = "", {"texts": inputs.request.texts}
    if form == "tokens":
        columns = ["sentence", "position", "text", "id", "start", "end", "special", "joined"]
        table = pd.DataFrame(
            {"sentence": number, "position": position, **vars(token)}
            for number, sentence in enumerate(inputs.source.sentences(inputs.request), 1)
            for position, token in enumerate(sentence.tokens)
        )[columns]
    elif form == "prediction" and not options.output:
        before, after = inputs.before(), inputs.record()
        table = predicted(before, after)
        if analysis.fills_in(after) and not any(after.prediction.blanks):
            mask = inputs.source.mask_token
            raise InputError(f"'{inputs.source.name}' fills in blanks; write {mask} in place of a word.")
        if "written" in table and not options.json:  # only the texts, without a header, for use by other programs
            return [_cell(text) for text in table["written"]]
        facts["edits"] = after.edits.to_json()
    else:
        figure = pictures.figure(options, replace(inputs, form=form))
        if options.output:
            return pictures.write(figure, options)
        table, description = figure.table, figure.description
        facts["words"] = description
    if options.json:
        rows = json.loads(table.to_json(orient="records", double_precision=15))  # with null for NaN
        return [json.dumps(facts | {"rows": rows}, indent=1)]
    lines = lines_of(table)
    return [description, "", *lines] if description else lines


def predicted(before: Record | None, after: Record) -> pd.DataFrame:
    """Make the table of predictions per sentence: words or labels with probabilities, written texts, or cosines."""
    if after.vectors is not None and before is None and len(after.sentences) == 1:
        advice = "give several texts, one per line with --lines, or a change, to compare vectors"
        raise InputError(f"'{after.source}' makes a vector for each text: {advice}.")
    tables = [_sentence_table(before, after, sentence) for sentence in range(len(after.sentences))]
    if len(tables) == 1:
        return tables[0]
    numbered = [table.assign(sentence=n)[["sentence", *table]] for n, table in enumerate(tables, 1) if not table.empty]
    return pd.concat(numbered) if numbered else pd.DataFrame()


def _sentence_table(before: Record | None, after: Record, sentence: int) -> pd.DataFrame:
    """Make the table of predictions for one sentence, given by its index from 0."""
    if after.labels is not None or analysis.labels_tokens(after):
        return pictures.prediction(after, before, sentence=sentence).table
    if after.vectors is not None:  # a model of sentence embeddings: cosines to all texts
        row = {f"like {n}": cosine for n, cosine in enumerate(analysis.similarity(after)[sentence].tolist(), 1)}
        if before is not None:
            row["moved"] = analysis.shift(before, after)[sentence].item()
        return pd.DataFrame([row])
    if not analysis.fills_in(after) and after.targets:  # an encoder-decoder: the text that it writes
        if cut := analysis.cut(after, sentence=sentence):
            terminal.note(f"The output for text {sentence + 1} was cut off after {cut} tokens.")
        runs = {"written": after} if before is None else {"before": before, "after": after}
        return pd.DataFrame([{name: run.prediction.written[sentence] for name, run in runs.items()}])
    last = after.sentences[sentence].length - 1
    positions = after.prediction.blanks[sentence] if analysis.fills_in(after) else [last]
    words = [figures.next_word(after, position, before=before, sentence=sentence).table for position in positions]
    return pd.concat(words) if words else pd.DataFrame()


def generate(options: Namespace) -> list[str]:
    """Run `generate`: stream the answer to stdout, with edits also note where it differs without; return pictures."""
    inputs = read(options)
    if (count := len(inputs.request.texts)) != 1:
        raise InputError(f"'generate' continues one text; there are {count}. Leave out --lines.")
    length = 0  # of the answer that is printed already

    def print_answer(answer: str, count: int) -> None:
        nonlocal length
        if not options.json:
            sys.stdout.write(answer[length:])
            sys.stdout.flush()
        length = len(answer)

    settings = {name: getattr(options, name) for name in ("max_new_tokens", "sampling_temperature", "top_p", "seed")}
    prompt, edits = inputs.request.prompt, inputs.request.edits
    generated = generation.generate(prompt, inputs.source, edits=edits, report=print_answer, **settings)
    if options.json:
        content = {"prompt": generated.sentence.text[: generated.begins], "answer": generated.answer}
        tokens = []
        for position, token in enumerate(generated.tokens, generated.prompt):
            rows = generated.alternatives(position)
            alternatives = [{"id": id, "text": text, "probability": share} for id, text, share in rows]
            tokens.append({"position": position, "id": token.id, "text": token.text, "alternatives": alternatives})
        terminal.say(json.dumps(content | {"ended": generated.ended, "tokens": tokens}, indent=1))
    else:
        terminal.say("")  # ends the line of the answer
    if edits != Edits():
        before = generation.generate(prompt, inputs.source, **settings)
        position = generated.first_difference(before)
        result = "the same" if position is None else f"different from token {position - generated.prompt + 1} on"
        terminal.note(f"Without the changes the answer is {result}:{before.answer}")
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
        terminal.note(*circuits.lacking)
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
    others = f"Also any model on Hugging Face, by its name ({hub.MINILM}) or its folder."
    if (allowed := hub.allowed()) is not None:
        others = f"Also, from Hugging Face: {', '.join(allowed) or 'none'}."
    return [*terminal.columns(rows), "", others]


def _card(source: Source) -> list[str]:
    """Describe a model as lines of text: from its card, or from its sizes if it has no card."""
    card = source.card
    if card is None:
        can_change = f"read-only: {source.read_only}" if source.read_only else "masks, heads, scale, temperature"
        rows = [*source.described(), ("changes", can_change)]
        if source.unseen:
            rows.append(("not shown", source.unseen))
        sizes = [f"  {line}" for line in terminal.columns([(f"{label}:", value) for label, value in rows])]
        purpose = [source.does] if source.does else []
        return [f"{source.name} ({source.provenance})", *purpose, *sizes]
    measured = []
    for measure in card.measured:
        goal = "" if measure.goal is None else f"(goal {measure.goal:.0%})"
        measured.append((percent(measure.value), measure.what, goal))
    tables: dict[str, list[tuple[str, ...]]] = {
        "Sizes": [(f"{size:,}", name) for name, size in card.sizes.items()],
        "Measured before it shipped": measured,
        "What heads do": [(f"{b.site.head(*b.heads)} {b.does}. {b.evidence}",) for b in card.behaviors],
        "What it cannot do": [(sentence,) for sentence in card.cannot],
    }
    lines = [f"{card.title} ({source.provenance})", card.does, "", card.origin, card.trained_on]
    for title, rows in tables.items():
        if rows:
            lines += ["", f"{title}:", *(f"  {line}" for line in terminal.columns(rows))]
    return lines
