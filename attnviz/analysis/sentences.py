"""Sentences about records: descriptions of single cells, and text alternatives for pictures."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from attnviz import analysis
from attnviz.analysis import views
from attnviz.analysis.align import BLANK, AlignedPair
from attnviz.analysis.views import AttentionView, Groups, SeenMask, View
from attnviz.check.leaks import LeakTest
from attnviz.core.amounts import counted, decimals, digits, percent
from attnviz.core.display import as_sentence, isolated, label_text, visible_text
from attnviz.core.edits import Site
from attnviz.core.masks import Full
from attnviz.core.record import ALL, Record, Step

MOST_NAMED = 3
"""Maximum number of tokens that are named in a description."""
ENDS, END = ("<eos>", "</s>"), "end of text"
"""Tokens that end a text, and their meaning."""
MEANS = dict.fromkeys(ENDS, END) | {".": "period", ",": "comma", ":": "colon", ";": "semicolon", "'": "apostrophe"}
"""Names that are added in parentheses to a predicted word if it is punctuation or hardly visible."""
CELL = {
    "empty": "{query} has no key left to look at; its weights are {filled}.",
    "blocked": "{query} may not look at {key}: {reason}.",
    "nan": "The weight that {query} gives to {key} is not a number.",
    "weight": "{query} gives {weight} of {share} to {key}.",
    "mixing": "{query} takes {key} with the mixing weight {weight}{heads}.",
    "predicts": "To predict {what} {word}, ",
    "share": "its attention",
    "token": "“{text}” ({place})",
    "word": "“{text}”",
}
"""Sentences about a cell, and their parts; also used by the page of every head."""
PREDICTED = {"after": "the next word", "in place of": "in its place", "of": "its label"}
"""Names of a predicted word, by its relation to a token: after the token, in its place, or its label."""
OFF = ", but this head is off: its output is not used."
"""Ending of a sentence about a cell of a head that is off."""


def quoted_token(text: str, position: int | str) -> str:
    """Write a token for a sentence: in quotes, with its position, or the first and last position of a merged word."""
    return f"{in_quotes(text)} ({position}, {END})" if text in ENDS else f"{in_quotes(text)} ({position})"


def quoted(text: str) -> str:
    """Write a token or a word for a sentence: in quotes, with the name of a punctuation mark."""
    return in_quotes(text) + (f" ({MEANS[text]})" if text in MEANS else "")


BECAUSE = {"causal": ", as a word may not see what comes after it", "padding": ", as no text stands there"}
"""Explanations of a rule, added after its name."""


def blocked_by(reason: str) -> str:
    """Name the rule that blocks a cell: "blocked by causal mask", without "mask" after a rule that ends in a number."""
    needs_noun = reason.split()[-1].isalpha() and not reason.endswith("mask")
    return f"blocked by {reason} mask" if needs_noun else f"blocked by {reason}"


def in_quotes(text: str) -> str:
    """Write a token or a word in quotes, without the name of a punctuation mark, for labels with little room."""
    return isolated(f"“{visible_text(text)}”")


def cell(
    record: Record, site: Site, head: int | str, query: int, key: int, sentence: int = 0, *, view: View = View()
) -> str:
    """Describe the weight of one cell, or why it is blocked; in a view, of the cell that contains the query and key."""
    step = record.step(site)
    whole = views.see(record, site, sentence=sentence, view=view)
    row, column = whole.queries.index_of(query), whole.keys.index_of(key)
    if row is None or column is None:
        tokens = record.tokens(site, sentence=sentence)
        position, hidden_token = (query, tokens[0][query]) if row is None else (key, tokens[1][key])
        text = f"{quoted_token(hidden_token.text, position)} is hidden in this view"
        return f"{text}{OFF}" if head in step.heads_off else f"{text}."
    first_query, first_key = int(whole.queries.starts[row]), int(whole.keys.starts[column])
    window = {"rows": slice(first_query, first_query + 1), "columns": slice(first_key, first_key + 1)}
    cells = views.see(record, site, sentence=sentence, view=view, **window).cells([head])[0]
    names = {"query": named(whole.queries, row), "key": named(whole.keys, column)}
    state = analysis.STATES[cells.states[0, 0]]
    if state == "empty row":
        text = CELL["empty"].format(**names, filled=FILLED[step.scoring.empty_rows])
    elif state == "blocked":
        reason = cells.reasons[cells.blocked[0, 0] - 1]
        text = CELL[state].format(**names, reason=f"{blocked_by(reason)}{BECAUSE.get(reason, '')}")
    elif state == "nan":
        text = CELL[state].format(**names)
    else:
        heads = "" if isinstance(head, int) else f" ({head} of {all_heads(step)})"
        texts = {"weight": _weight_text(float(cells.weights[0, 0])), "share": f"{CELL['share']}{heads}", "heads": heads}
        text = CELL["mixing" if step.linear else state].format(**names, **texts)
        if whole.predicted and (word := whole.predicted[row]):
            text = CELL["predicts"].format(what=PREDICTED[_preposition(record)], word=quoted(word)) + text
    return f"{text.removesuffix('.')}{OFF}" if head in step.heads_off else text


def _weight_text(weight: float) -> str:
    """Write a weight with two decimals; below 0.1 with two significant digits, or as "less than 0.0001"."""
    if weight < 0:
        return f"−{-weight:.2g}" if weight > -0.0995 else f"−{-weight:.2f}"
    if 0 < weight < 0.0001:
        return "less than 0.0001"
    return f"{weight:.2g}" if 0 < weight < 0.0995 else f"{weight:.2f}"


def named(groups: Groups, i: int) -> str:
    """Name row or column `i` in a sentence: its text in quotes and its position."""
    return quoted_token(groups.labels[i], groups.place(i))


def predicting(view: AttentionView, row: int) -> str:
    """Write the prediction of a row as a clause, ", predicting the next word “mat”,"; "" if it predicts nothing."""
    if not (view.predicted and view.predicted[row]):
        return ""
    return f", predicting {PREDICTED[_preposition(view.record)]} {quoted(view.predicted[row])},"


def all_heads(step: Step) -> str:
    """Name the heads of a combined map: "all heads", or "all 4 heads, including those off" if some are off."""
    return f"all {step.num_heads} heads, including those off" if step.heads_off else "all heads"


FILLED = {"zero": "zeros", "nan": "NaN", "uniform": "spread evenly over all keys", "error": "undefined"}
"""Weights of a row without an open key, by `Scoring.empty_rows`."""


def head(view: AttentionView, head: int | str) -> str:
    """Describe the map of a head: its size, its strongest weights, merged or hidden tokens, and edits."""
    step = view.step
    comma = "," if step.heads_off else ""
    name = f"Head {head}" if isinstance(head, int) else f"The {head} of {all_heads(step)}{comma}"
    size = f"{counted(len(view.queries), 'query')} by {counted(len(view.keys), 'key')}"
    text = f"{name} of {view.site}, {size}."
    weights, keys = view.strongest(head)
    sizes, verb = (np.abs(weights), "takes most from") if step.linear else (weights, "looks most at")
    clauses = []
    for i in np.argsort(-sizes, kind="stable")[:MOST_NAMED].tolist():
        if sizes[i] > 0:
            query = f"{named(view.queries, i)}{predicting(view, i)}"
            clauses.append(f"{query} {verb} {named(view.keys, keys[i])}: {_weight_text(weights[i])}")
    none = "All weights are 0." if step.linear else "No weight is above zero."
    strongest = f"{'; '.join(clauses)}." if clauses else none
    sentences = [text, strongest, *map(as_sentence, (*view.rule, *view.notes))]
    edits = view.record.edits.in_words()
    return " ".join([*sentences, f"Changed: {', '.join(edits)}."] if edits else sentences)


def heads(view: AttentionView, largest: Sequence[str]) -> str:
    """Describe the maps of a site: their size, and the largest weight of each head, given as text."""
    step = view.step
    weights = ", ".join(f"{head}: {weight}" for head, weight in enumerate(largest))
    off = f" Off: {', '.join(map(str, sorted(step.heads_off)))}." if step.heads_off else ""
    size = f"{counted(len(view.queries), 'query')} by {counted(len(view.keys), 'key')}"
    maps = f"{counted(step.num_heads, 'head')} of {view.site}, each a map of {size}"
    text = f"{maps}. Largest {step.weight_name} by head: {weights}.{off}"
    return " ".join([text, *map(as_sentence, (*view.rule, *view.notes))])


def mask(view: SeenMask) -> str:
    """Describe a mask: how many cells are open, how many keys the last query may attend to, and notes on the view."""
    rows, columns = len(view.queries), len(view.keys)
    open_keys = view.open_keys.tolist()
    name = "No mask" if isinstance(view.mask, Full) else f"Mask '{view.mask}'"
    size = f"{counted(rows, 'query')} by {counted(columns, 'key')}"
    sentences = [f"{name}, {size}: {sum(open_keys)} of {rows * columns} cells may attend."]
    if rows and not view.notes:
        last = named(view.queries, rows - 1)
        sentences.append(f"The last query, {last}, may look at {counted(open_keys[-1], 'key')}.")
    return " ".join([*sentences, *(as_sentence(note) for note in (view.window, *view.notes) if note)])


def count_of_leaks(test: LeakTest) -> str:
    """Write how many leaks a test found, or why it found none, without a final period."""
    if test.pairs:
        return counted(len(test.pairs), "leak")
    if test.is_tested:
        return "no output moved with a token that its mask hides" if test.is_faulty else "no leak"
    if test.is_blind:
        return "not tested, as no output moved with another token"
    return "not tested, as no token is hidden from any output"


def leaks(test: LeakTest) -> str:
    """Describe a leak test: its leaks, the compared outputs, the expected rule, and the tokens that were left out."""
    pairs, num_unused = test.pairs, int(test.unused.sum())
    summary = as_sentence(count_of_leaks(test))
    if pairs:
        leaks = "; ".join(test.in_words(*pair) for pair in pairs[:MOST_NAMED])
        more = f"; and {len(pairs) - MOST_NAMED:,} more" if len(pairs) > MOST_NAMED else ""
        summary = f"{summary[:-1]}: {leaks}{more}."
    outputs = f"Compared: {test.where}, the output at {len(test.queries)} positions"
    changed = f"when each of {counted(int(test.tested.sum()), 'token')} is changed; expected: {test.promise}."
    unchanged = [f"In {counted(num_unused, 'open cell')} the output did not change."] if num_unused else []
    sentences = [summary, f"{outputs}, {changed}", *unchanged, *map(as_sentence, test.notes)]
    edits = test.edits.in_words()
    return " ".join([*sentences, f"Changed: {', '.join(edits)}."] if edits else sentences)


def change(moved: np.ndarray, labels: Sequence[str]) -> str:
    """Describe the change of each token's output vector, (n,), and name the tokens that changed most."""
    text = f"Change of the output vector of each of {len(moved)} tokens, as a share of its length."
    if not moved.any():
        return f"{text} No vector changed."
    order = np.argsort(-np.nan_to_num(moved, nan=np.inf), kind="stable")[:MOST_NAMED]
    tokens = ", ".join(f"{quoted_token(labels[i], i)} {percent(moved[i])}" for i in order if moved[i] != 0)
    return f"{text} Most: {tokens}."


def next_word(record: Record, position: int, *, before: Record | None = None, sentence: int = 0, count: int = 5) -> str:
    """Describe the most probable words after a position or in a blank, or the labels of a token, with probabilities."""
    after = f"{_preposition(record)} {quoted_token(analysis.token_at(record, position, sentence=sentence), position)}"
    ranked = analysis.next_words(record, position, before=before, sentence=sentence, count=count)
    if not ranked:
        words = "labels" if analysis.labels_tokens(record) else "words"
        return f"The probabilities of the {words} {after} are not numbers."
    listed = []
    for word in ranked:
        old = "" if word.before is None else f" (before the change {percent(word.before)})"
        listed.append(f"{quoted(word.word)} {percent(word.probability)}{old}")
    is_other_text = before is not None and not analysis.same_input(before, record, position, sentence=sentence)
    title = "Most probable label" if analysis.labels_tokens(record) else "Most probable"
    note = f" {OTHER_WORDS}." if is_other_text else ""
    return f"{title} {after}: {', '.join(listed)}.{note}"


def _preposition(record: Record) -> str:
    """Return the preposition between a prediction and its token: "after", "in place of" or "of"."""
    if analysis.labels_tokens(record):
        return "of"
    return "in place of" if analysis.fills_in(record) else "after"


NO_BLANK = "there is no blank in the sentence to fill in"
OTHER_WORDS = "Before the change, the model had read other words up to here"
"""Reason why probabilities before the change are missing."""


def step_by_step(record: Record, *, before: Record | None = None, sentence: int = 0) -> str:
    """Describe all predictions: their number, the least certain one, and words that a change replaced."""
    now, where = analysis.predicted_words(record, sentence=sentence), _preposition(record)
    if not now:
        return as_sentence(NO_BLANK)
    probabilities = np.nan_to_num([prediction.probability for prediction in now], nan=-1.0)
    prediction = now[int(probabilities.argmin())]
    token = quoted_token(prediction.token, prediction.position)
    least = f"{quoted(prediction.word)} {percent(prediction.probability)}, {where} {token}"
    nouns = {"after": ("token", "next word"), "in place of": ("blank", "word"), "of": ("token", "label")}
    place, word = nouns[where]
    length = analysis.cut(record, sentence=sentence)
    ended = f" The text was cut after {length} tokens." if length else ""
    tokens = f"1 {place}" if len(now) == 1 else f"each of {len(now)} {place}s"
    text = f"{where.capitalize()} {tokens}, the most probable {word}. The least certain: {least}.{ended}"
    if before is None:
        return text
    old = analysis.predicted_words(before, sentence=sentence)
    changed = [(a, b) for a, b in zip(old, now, strict=False) if a.word != b.word]
    count = len(changed) + abs(len(old) - len(now))
    if not count:
        return f"{text} All are as before the change."
    places = [f"{quoted(b.word)} {where} {quoted_token(b.token, b.position)}" for _, b in changed]
    words = [f"{place}, before {quoted(a.word)}" for place, (a, _) in zip(places, changed, strict=True)]
    details = f": {'; '.join(words[:MOST_NAMED])}" if words else ""
    return f"{text} {count} {'differs' if count == 1 else 'differ'} from before the change{details}."


def labels(record: Record, *, before: Record | None = None, sentence: int = 0) -> str:
    """Describe the most probable labels with their probabilities, or the numbers of a regression."""
    ranked = analysis.labels(record, before=before, sentence=sentence)
    if not ranked:
        return "The probabilities of the labels are not numbers."
    listed = []
    for row in ranked:
        old = "" if row.before is None else f" (before the change {label_value(record, row.before)})"
        listed.append(f"“{label_text(row.word)}” {label_value(record, row.probability)}{old}")
    if analysis.is_number(record):
        return f"The model gives {counted(len(ranked), 'number')}: {', '.join(listed[:MOST_NAMED])}."
    several = ", each with a probability of its own" if record.label_kind == "several" else ""
    return f"The most probable of {len(ranked)} labels{several}: {', '.join(listed[:MOST_NAMED])}."


def label_value(record: Record, value: float) -> str:
    """Write the probability of a label in percent, or the number of a regression."""
    return decimals(value, 4) if analysis.is_number(record) else percent(value)


def compared(both: AlignedPair, *, with_cell: bool = True) -> str:
    """Describe where A and B differ most: the row, optionally the cell, and the tokens that only one of them has."""
    row, cell, sentences = both.most_changed_row, both.most_changed_cell, []
    difference = 0.0
    if cell is not None:
        difference = abs(float(both.part(*(slice(i, i + 1) for i in cell)).difference[0, 0]))
    is_nearly_same = 0 < difference < 0.005  # two decimal places would show 0
    if is_nearly_same:
        sentences.append(f"A and B are nearly the same map: their largest difference is {decimals(difference, 4)}.")
    elif row is not None:
        variation = float(both.variation[row])
        number = decimals(variation, 4 if variation < 0.05 else 2)
        sentences.append(f"The row that differs most is {_place(both, 0, row)}: by {number} of its attention.")
    if cell is not None and with_cell and not is_nearly_same:
        sentences.append(f"The cell that differs most: {compared_cell(both, *cell)}")
    if row is None and cell is None:
        sentences.append("Nothing differs: A and B are equal in all cells that both have.")
    for axis, pairs in enumerate((both.rows, both.columns)):
        for i, (side, name) in enumerate(((both.a, "A"), (both.b, "B"))):
            positions = [pair[i] for pair in pairs if pair[1 - i] is None]
            tokens = ", ".join(quoted_token(side.tokens[axis][j].text, j) for j in positions[:MOST_NAMED])
            more = f" and {len(positions) - MOST_NAMED} more" if len(positions) > MOST_NAMED else ""
            sentences += [f"Only in {name}, and left blank: {tokens}{more}."] if positions else []
    window = [as_sentence(window_text(both))] if window_text(both) else []
    return " ".join([*window, *dict.fromkeys(sentences)])  # once if queries and keys are the same


def compared_cell(both: AlignedPair, row: int, column: int) -> str:
    """Describe one cell of the grid in a sentence: its weight in A and in B, and the difference."""
    part = both.part(slice(row, row + 1), slice(column, column + 1))
    difference = float(part.difference[0, 0])
    digits = int(digits_of(*(weights[0, 0] for weights, _ in part.maps), part.difference[0, 0]))
    clauses, subjects = {}, set()  # a single subject if both maps have a weight, for the same tokens
    for i, (side, name) in enumerate(((part.a, "A"), (part.b, "B"))):
        weight, state = (array[0, 0] for array in part.maps[i])
        if state == BLANK:
            continue
        query_position, key_position = part.rows[0][i], part.columns[0][i]
        query = quoted_token(side.tokens[0][query_position].text, query_position)
        key = quoted_token(side.tokens[1][key_position].text, key_position)
        number = decimals(float(weight), digits)
        subjects.add(name if state in (analysis.BLOCKED, analysis.EMPTY) else (query, key))
        if state == analysis.BLOCKED:
            clauses[name] = f"{query} may not look at {key}"
        elif state == analysis.EMPTY:
            clauses[name] = f"{query} has no key left"
        elif side.step.linear:
            clauses[name] = f"{query} takes {key} with {number}"
        else:
            clauses[name] = f"{query} gives {number} to {key}"
    if "B" not in clauses:
        return f"{clauses['A']} in A; B has no such cell."
    if "A" not in clauses:
        return f"{clauses['B']} in B; A has no such cell."
    higher = ""
    if difference and not np.isnan(difference):
        higher = f": higher in {'A' if difference > 0 else 'B'} by {decimals(abs(difference), digits)}"
    if len(subjects) == 1 and both.a.step.mixing == both.b.step.mixing:
        return f"{clauses['A']} in A and {number} in B{higher}."  # `number` is the weight in B
    return f"{clauses['A']} in A, and in B {clauses['B']}{higher}."


def digits_of(a: np.ndarray, b: np.ndarray, difference: np.ndarray) -> np.ndarray:
    """Return the number of decimal places per cell, 2 to 4, so that the rounded a, b and a - b are consistent."""
    errors = [np.round(a, n) - np.round(b, n) - np.round(difference, n) for n in (2, 3)]
    with_2, with_3 = (np.abs(error) < 1e-9 for error in errors)
    is_small = (np.abs(difference) > 0) & (np.abs(difference) < 0.05)
    return np.select([is_small, np.isnan(difference) | with_2, with_3], [4, 2, 3], 4)


def _place(both: AlignedPair, axis: int, index: int) -> str:
    """Name a row (axis 0) or column of the grid by its token in A and, if different, its token in B."""
    sides = zip((both.a, both.b), (both.rows, both.columns)[axis][index], strict=True)
    tokens = [(side.tokens[axis][i].text, i) for side, i in sides if i is not None]
    texts = [quoted_token(text, i) for text, i in tokens]
    if len(tokens) == 1 or tokens[0][0] == tokens[1][0]:
        return texts[0]
    return f"{texts[0]}, in B {texts[1]}"


def window_text(both: AlignedPair) -> str:
    """Name the positions of A in a part of the grid: "queries 0 to 9 of 20, keys ..."; "" for the whole grid."""
    if both.window == (ALL, ALL):
        return ""
    texts = []
    for what, pairs, tokens in zip(("queries", "keys"), (both.rows, both.columns), both.a.tokens, strict=True):
        positions = [in_a for in_a, _ in pairs if in_a is not None]
        texts.append(f"{what} {positions[0]} to {positions[-1]} of {len(tokens):,}" if positions else f"no {what}")
    return ", ".join(texts)


def reaches(shares: np.ndarray, texts: Sequence[str]) -> str:
    """Describe a rollout, (n, n): the token with the largest mean share, and the largest share in another token."""
    largest = int(shares.mean(0).argmax())
    mean = percent(float(shares[:, largest].mean()))
    positions = f"of a position on average, over {len(texts)} positions"
    sentence = f"Most comes from {quoted_token(texts[largest], largest)}: {mean} {positions}."
    if len(texts) < 2:
        return sentence
    others = np.where(np.eye(len(texts), dtype=bool), 0.0, shares)
    row, column = (int(i) for i in np.unravel_index(others.argmax(), others.shape))
    target, source = (quoted_token(texts[i], i) for i in (row, column))
    share = percent(float(shares[row, column]))
    return f"{sentence} The largest share of another token: {share} of position {target} comes from {source}."


def reached(shares: np.ndarray, texts: Sequence[str], position: int) -> str:
    """Describe which tokens a position is mixed from: those with the largest shares in its row of a rollout, (n,)."""
    order = np.argsort(-shares, kind="stable")[:MOST_NAMED].tolist()
    names = ["itself" if i == position else quoted_token(texts[i], i) for i in order]
    parts = [f"{name} {percent(float(shares[i]))}" for name, i in zip(names, order, strict=True)]
    if num_others := len(texts) - len(order):
        share = percent(float(1 - shares[order].sum()))
        parts.append(f"{num_others:,} {'others' if num_others > 1 else 'other'} {share}")
    return f"{quoted_token(texts[position], position)} is mixed from: {', '.join(parts)}."


def largest(table: pd.DataFrame) -> str:
    """Describe in a sentence the rows of a table with the largest numbers in its last numeric column."""
    column = [*table.select_dtypes("number")][-1]
    rows = table.dropna(subset=column).sort_values(column, key=abs, ascending=False, kind="stable")[:MOST_NAMED]
    descriptions = []
    for row in rows.to_dict("records"):
        number = digits(row.pop(column))
        token_columns = {"query": "query_token", "key": "key_token", "position": "token"}
        texts = {name: row.pop(token) for name, token in token_columns.items() if name in row and token in row}
        is_head = {"kind", "layer", "head"} <= row.keys()
        parts = [Site(row.pop("kind"), row.pop("layer")).head(row.pop("head"))] if is_head else []
        for name, value in row.items():  # the remaining columns
            text = quoted(value) if isinstance(value, str) else value
            text = quoted_token(texts[name], value) if name in texts else text
            parts.append(f"{name.replace('_', ' ')} {text}")
        descriptions.append(f"{number} ({', '.join(parts)})")
    return f"Largest {column.replace('_', ' ')}: {', '.join(descriptions)}." if descriptions else "It has no numbers."
