"""Sentences about records: what one cell says, and what a picture shows for those who cannot see it."""

from collections.abc import Sequence

import numpy as np

from attnviz import metrics, views
from attnviz.core import leaks as leak_tests
from attnviz.core.amounts import counted, decimals, percent
from attnviz.core.display import as_sentence, in_title, isolated, shown
from attnviz.core.edits import Site
from attnviz.core.leaks import LeakTest
from attnviz.core.masks import Full
from attnviz.core.record import ALL, Record, Step
from attnviz.core.tokens import Token
from attnviz.metrics.beside import BLANK, Beside
from attnviz.metrics.compare import Alignment
from attnviz.views import Groups, Seen, SeenMask, View

MOST_NAMED = 3
"""Tokens named in a description, at most."""


ENDS, END = ("<eos>", "</s>"), "end of text"
"""The tokens by which models end a text, and what they mean."""

MEANS = dict.fromkeys(ENDS, END) | {".": "period", ",": "comma", ":": "colon", ";": "semicolon", "'": "apostrophe"}
"""What is read beside a prediction that is no word, or hardly seen."""

CELL = {
    "empty": "{query} has no key left to look at; its weights are {filled}.",
    "blocked": "{query} may not look at {key}: {reason}.",
    "nan": "The weight that {query} gives to {key} is not a number.",
    "weight": "{query} gives {weight} of {share} to {key}.",
    "predicts": "To predict {what} {word}, ",
    "share": "its attention",
    "token": "“{text}” ({place})",
    "word": "“{text}”",
}
"""Sentences about a cell, and their parts; the page of every head fills them in, too."""

PREDICTED = {"after": "the next word", "in place of": "in its place", "of": "its label"}
"""A predicted word as it is called in a sentence, by where it stands: after a token, in its place, or of it."""

OFF = ", but this head is off: its output is not used."
"""The end of a sentence about a cell of a head that is off."""


def quoted_token(text: str, position: int | str) -> str:
    """A token as it stands in a sentence: in quotes, with its position, or of a word the first and the last."""
    return f"{in_quotes(text)} ({position}{f', {END}' * (text in ENDS)})"


def quoted(text: str) -> str:
    """A token or a word as it stands in a sentence: in quotes; of what is no word it is said what it is."""
    return in_quotes(text) + (f" ({MEANS[text]})" if text in MEANS else "")


BECAUSE = {
    "causal": ", as a word may not see what comes after it",
    "padding": ", as no text stands there",
}
"""What rules are for, by what they are called."""


def blocked_by(reason: str) -> str:
    """What blocks a cell; a rule that is called by one word is said to be a mask."""
    return f"blocked by {reason}{' mask' * reason.split()[-1].isalpha() * (not reason.endswith('mask'))}"


def in_quotes(text: str) -> str:
    """A token or a word in quotes alone, for where there is little room."""
    return isolated(f"“{shown(text)}”")


def cell(
    record: Record, site: Site, head: int | str, query: int, key: int, sentence: int = 0, *, view: View = View()
) -> str:
    """One cell as a sentence; through a view, the cell that holds it."""
    step = record.step(site)
    said = _cell(record, site, head, query, key, sentence, view)
    return f"{said.removesuffix('.')}{OFF}" if head in step.heads_off else said


def _cell(record: Record, site: Site, head: int | str, query: int, key: int, sentence: int, view: View) -> str:
    step = record.step(site)
    every = views.see(record, site, sentence=sentence, view=view)
    row, column = every.queries.at(query), every.keys.at(key)
    if row is None or column is None:
        tokens = record.tokens(site, sentence=sentence)
        at, part = (query, tokens[0]) if row is None else (key, tokens[1])
        return f"{quoted_token(part[at].text, at)} is not seen in this view."
    starts = int(every.queries.starts[row]), int(every.keys.starts[column])
    window = {"rows": slice(starts[0], starts[0] + 1), "columns": slice(starts[1], starts[1] + 1)}
    seen = views.see(record, site, sentence=sentence, view=view, **window)
    found = seen.cells([head])[0]
    looker, looked = named(seen.queries, 0), named(seen.keys, 0)
    state, weight = int(found.states[0, 0]), float(found.weights[0, 0])
    if state == metrics.EMPTY:
        return CELL["empty"].format(query=looker, filled=FILLED[step.scoring.empty_rows])
    if state == metrics.BLOCKED:
        reason = found.reasons[found.blocked[0, 0] - 1]
        return CELL["blocked"].format(query=looker, key=looked, reason=f"{blocked_by(reason)}{BECAUSE.get(reason, '')}")
    if state == metrics.NAN:
        return CELL["nan"].format(query=looker, key=looked)
    share = CELL["share"] if isinstance(head, int) else f"{CELL['share']} ({head} of {all_heads(step)})"
    share += " (special tokens aside)" if view.special == "renormalize" else ""
    text = CELL["weight"].format(query=looker, weight=f"{weight:.2f}", share=share, key=looked)
    return f"{_to_predict(seen, 0)}{text}"


def named(groups: Groups, i: int) -> str:
    """A row or a column as it stands in a sentence."""
    return quoted_token(groups.labels[i], groups.place(i))


def _to_predict(seen: Seen, row: int) -> str:
    """What a row predicts, to stand before a sentence about it; nothing where it predicts nothing."""
    if not (seen.predicted and seen.predicted[row]):
        return ""
    where = "of" if metrics.labels_tokens(seen.record) else "in place of" if metrics.fills_in(seen.record) else "after"
    return CELL["predicts"].format(what=PREDICTED[where], word=quoted(seen.predicted[row]))


def predicting(seen: Seen, row: int) -> str:
    """What a row predicts, to stand behind it; nothing where it predicts nothing."""
    if not (seen.predicted and seen.predicted[row]):
        return ""
    what = "predicting in its place" if metrics.fills_in(seen.record) else "predicting the next word"
    what = "predicting its label" if metrics.labels_tokens(seen.record) else what
    return f", {what} {quoted(seen.predicted[row])},"


def all_heads(step: Step) -> str:
    """What is combined; a head that is off still has weights, and they count."""
    return f"all {step.num_heads} heads, also those off" if step.heads_off else "all heads"


def strongest(
    record: Record,
    site: Site,
    head: int | str,
    sentence: int = 0,
    *,
    query: int | None = None,
    view: View = View(),
    rows: slice = ALL,
    columns: slice = ALL,
) -> str:
    """The largest weight of a window as a sentence: of a query, else of all that have more than one key to look at."""
    seen = views.see(record, site, sentence=sentence, view=view, rows=rows, columns=columns)
    if not len(seen.queries) or not len(seen.keys):
        return ""
    return cell(record, site, head, *seen.strongest_cell(head, query), sentence, view=view)


FILLED = {"zero": "zeros", "nan": "NaN", "uniform": "spread evenly over all keys", "error": "undefined"}


def _size(seen: Seen | SeenMask) -> str:
    return f"{counted(len(seen.queries), 'query')} by {counted(len(seen.keys), 'key')}"


def head(seen: Seen, head: int | str) -> str:
    """The size, the strongest weights, what the view did, and what was changed."""
    step = seen.step
    comma = "," if step.heads_off else ""
    what = f"Head {head}" if isinstance(head, int) else f"The {head} of {all_heads(step)}{comma}"
    text = f"{what} of {seen.site}, {_size(seen)}."
    most, at = seen.strongest(head)
    order = [(int(i), int(at[i])) for i in np.argsort(-most, kind="stable")[:MOST_NAMED] if most[i] > 0]
    looks = [
        f"{named(seen.queries, i)}{predicting(seen, i)} looks most at {named(seen.keys, j)}: {most[i]:.2f}"
        for i, j in order
    ]
    changed = seen.record.edits.in_words()
    parts = [text, f"{'; '.join(looks)}." if looks else "No weight is above zero.", *map(as_sentence, seen.notes)]
    return " ".join([*parts, f"Changed: {', '.join(changed)}."] if changed else parts)


def heads(seen: Seen, largest: Sequence[str]) -> str:
    """How large the maps of a site are, and the largest weight of each head."""
    step = seen.step
    most = ", ".join(f"{head}: {weight}" for head, weight in enumerate(largest))
    off = f" Off: {', '.join(map(str, sorted(step.heads_off)))}." if step.heads_off else ""
    each = f"{counted(step.num_heads, 'head')} of {seen.site}, each a map of {_size(seen)}"
    text = f"{each}. Largest weight by head: {most}.{off}"
    return " ".join([text, *map(as_sentence, seen.notes)])


def mask(seen: SeenMask) -> str:
    """How many cells of a mask are open, how many keys its last row has left, and what the view did."""
    rows, columns = len(seen.queries), len(seen.keys)
    open_keys = seen.open_keys.tolist()
    cells = f"{sum(open_keys)} of {rows * columns} cells may attend."
    last = rows and f"The last query, {named(seen.queries, rows - 1)}, may look at {counted(open_keys[-1], 'key')}."
    named_mask = "No mask" if isinstance(seen.mask, Full) else f"Mask '{seen.mask}'"
    text = f"{named_mask}, {_size(seen)}: {cells}"
    parts = [text, "" if seen.notes else last, *map(as_sentence, filter(None, [seen.window, *seen.notes]))]
    return " ".join(filter(None, parts))


def leak(test: LeakTest, query: int, key: int) -> str:
    """One cell of a leak test as a phrase: "position 3 “sat” saw position 7 “mat”: its output moved by 12.0%"."""
    looker, looked = (f"position {i} {quoted(token.text)}" for i, token in _ends(test, query, key))
    state, moved = int(test.states[query, key]), float(test.moved[query, key])
    if state == leak_tests.NOT_TESTED and test.tested[key]:
        return f"the output of {looker} is no number, so nothing is known of it"
    if state == leak_tests.NOT_TESTED:
        return f"{looked} was not changed, so nothing is known of {looker}"
    if not test.saw[query, key]:
        return f"{looker} did not see {looked}, {'though it may' if state == leak_tests.UNUSED else 'as expected'}"
    far = f"moved by {percent(moved)}" if moved < np.inf else "became a number or ceased to be one"
    return f"{looker} saw {looked}{', as it may' if state == leak_tests.SAW else ''}: its output {far}"


def _ends(test: LeakTest, query: int, key: int) -> tuple[tuple[int, Token], ...]:
    return (query, test.queries[query]), (key, test.keys[key])


def count_of_leaks(test: LeakTest) -> str:
    if test.pairs:
        return counted(len(test.pairs), "leak")
    if test.is_tested:
        return "no leak"
    if test.is_blind:
        return "not tested, as no output moved with another token"
    return "not tested, as no token is hidden from any output"


def leaks(test: LeakTest) -> str:
    """How many leaks there are, the first of them, what was compared and promised, and what was left out."""
    pairs = test.pairs
    first = "; ".join(leak(test, *pair) for pair in pairs[:MOST_NAMED])
    more = f"; and {len(pairs) - MOST_NAMED:,} more" if len(pairs) > MOST_NAMED else ""
    found = f"{as_sentence(count_of_leaks(test))[:-1]}{f': {first}{more}' if pairs else ''}."
    changed, unused = int(test.tested.sum()), int(test.unused.sum())
    what = f"Compared: {test.where}, the output at {len(test.queries)} positions"
    how = f"{what}, when each of {counted(changed, 'token')} is changed; expected: {test.promise}."
    still = f"Of what may be seen, {counted(unused, 'cell')} did not move." if unused else ""
    edits = test.edits.in_words()
    parts = [found, how, still, *map(as_sentence, test.notes), f"Changed: {', '.join(edits)}." if edits else ""]
    return " ".join(filter(None, parts))


def change(moved: np.ndarray, labels: Sequence[str]) -> str:
    text = f"How far the output vector of each of {len(moved)} tokens moved, as a share of its length."
    if not moved.any():
        return f"{text} None moved."
    order = np.argsort(-np.nan_to_num(moved, nan=np.inf), kind="stable")[:MOST_NAMED]
    named = ", ".join(f"{quoted_token(labels[i], i)} {percent(moved[i])}" for i in order if moved[i] != 0)
    return f"{text} Most: {named}."


def next_word(record: Record, position: int, *, before: Record | None = None, sentence: int = 0, count: int = 5) -> str:
    """The words that are most probable after a position, in place of a blank, or as its label, with probabilities."""
    after = f"{_where(record)} {quoted_token(metrics.token_at(record, position, sentence=sentence), position)}"
    found = metrics.next_words(record, position, before=before, sentence=sentence, count=count)
    if not found:
        words = "labels" if metrics.labels_tokens(record) else "words"
        return f"The probabilities of the {words} {after} are not numbers."
    was = {next.word: "" if next.before is None else f" (before the change {percent(next.before)})" for next in found}
    listed = ", ".join(f"{quoted(next.word)} {percent(next.probability)}{was[next.word]}" for next in found)
    other = before is not None and not metrics.read_alike(before, record, position, sentence=sentence)
    what = "Most probable label" if metrics.labels_tokens(record) else "Most probable"
    return f"{what} {after}: {listed}.{f' {OTHER_WORDS}.' if other else ''}"


def _where(record: Record) -> str:
    """Where the model says a word, to stand before a token."""
    if metrics.labels_tokens(record):
        return "of"
    return "in place of" if metrics.fills_in(record) else "after"


NO_BLANK = "there is no blank in the sentence to fill in"

OTHER_WORDS = "Before the change the model had read other words by then"
"""Why what it said then is not shown beside."""


def step_by_step(record: Record, *, before: Record | None = None, sentence: int = 0) -> str:
    """How much is predicted, where the model was least sure, and where it says other words than before a change."""
    now, where = metrics.predicted_words(record, sentence=sentence), _where(record)
    if not now:
        return as_sentence(NO_BLANK)
    one = min(now, key=lambda one: np.nan_to_num(one.probability, nan=-1.0))
    least = f"{quoted(one.word)} {percent(one.probability)}, {where} {quoted_token(one.token, one.position)}"
    what, word = ("blank", "word") if metrics.fills_in(record) else ("token", "next word")
    what, word = ("token", "label") if metrics.labels_tokens(record) else (what, word)
    ended = metrics.cut(record, sentence=sentence)
    ended = f" The text was cut after {ended} tokens." if ended else ""
    each = f"1 {what}" if len(now) == 1 else f"each of {len(now)} {what}s"
    text = f"{where.capitalize()} {each}, the most probable {word}. The least sure: {least}.{ended}"
    if before is None:
        return text
    old = metrics.predicted_words(before, sentence=sentence)
    others = [(one, other) for one, other in zip(old, now, strict=False) if one.word != other.word]
    count = len(others) + abs(len(old) - len(now))
    if not count:
        return f"{text} All are as before the change."
    named = "; ".join(
        f"{quoted(other.word)} {where} {quoted_token(other.token, other.position)}, before {quoted(one.word)}"
        for one, other in others[:MOST_NAMED]
    )
    return (
        f"{text} {count} {'differs' if count == 1 else 'differ'} from before the change{f': {named}' if named else ''}."
    )


def labels(record: Record, *, before: Record | None = None, sentence: int = 0) -> str:
    """The most probable labels with their probabilities; of a regression its numbers."""
    found = metrics.labels(record, before=before, sentence=sentence)
    if not found:
        return "The probabilities of the labels are not numbers."
    was = ["" if one.before is None else f" (before the change {label_value(record, one.before)})" for one in found]
    listed = [
        f"{quoted(one.word)} {label_value(record, one.probability)}{old}" for one, old in zip(found, was, strict=True)
    ]
    if metrics.is_number(record):
        return f"The model gives {counted(len(found), 'number')}: {', '.join(listed[:MOST_NAMED])}."
    several = ", each with a probability of its own" if record.label_kind == "several" else ""
    return f"The most probable of {len(found)} labels{several}: {', '.join(listed[:MOST_NAMED])}."


def label_value(record: Record, value: float) -> str:
    """The probability of a label in percent, or the number that a regression gives."""
    return decimals(value, 4) if metrics.is_number(record) else percent(value)


def _sentence(text: str) -> str:
    return isolated(f"“{in_title(text)}”")


def similarity(record: Record, *, before: Record | None = None) -> str:
    """Which sentences are most alike and which least, and how far a change moved them."""
    cosine, texts = metrics.similarity(record).numpy(), [_sentence(one.text) for one in record.sentences]
    rows, columns = np.triu_indices(len(texts), 1)
    pairs = sorted(
        (-float(cosine[i, j]), i, j) for i, j in zip(rows, columns, strict=True) if cosine[i, j] == cosine[i, j]
    )
    ends = dict(zip(("most", "least"), (pairs[:1], pairs[1:][-1:]), strict=True))
    named = [f"{what} alike {texts[i]} and {texts[j]}, {-c:.2f}" for what, found in ends.items() for c, i, j in found]
    listed = f": {'; '.join(named)}" if named else ""
    pooled = f" ({record.pooling})" if record.pooling else ""
    text = f"Similarity of {counted(len(texts), 'sentence')}, the cosine of their vectors{pooled}{listed}."
    if before is None:
        return text
    moved = metrics.shift(before, record).tolist()
    order = sorted(range(len(moved)), key=lambda i: -np.nan_to_num(moved[i], nan=np.inf))[:MOST_NAMED]
    return f"{text} Moved by the change, 1 − cosine: {', '.join(f'{texts[i]} {turned(moved[i])}' for i in order)}."


def turned(moved: float) -> str:
    """How far a vector turned (see `metrics.shift`): what is not quite nothing does not read as if it were."""
    return decimals(moved, 4) if moved else "0"


FINE = 0.05
"""Smaller differences are said with four digits after the point."""


UNSEEN = 0.005
"""Differences that two digits after the point do not show."""


def compared(both: Beside, *, with_cell: bool = True) -> str:
    """Which row differs most between A and B and, if asked for, which cell; and which tokens only one of them has."""
    row, cell = both.most_row, both.most_cell
    parts, with_cell = [], with_cell and not nearly_same(both)
    if nearly_same(both):
        apart = decimals(_largest_difference(both), 4)
        parts.append(f"A and B are nearly the same map: their largest difference is {apart}.")
    elif row is not None:
        variation = float(both.variation[row])
        apart = decimals(variation, 4 if variation < FINE else 2)
        parts.append(f"The row that differs most is {_place(both, 0, row)}: by {apart} of its attention.")
    if cell is not None and with_cell:
        parts.append(f"The cell that differs most: {compared_cell(both, *cell)}")
    if row is None and cell is None:
        parts.append("Nothing differs: wherever both have the token, A and B are the same map.")
    where = [as_sentence(both.seen)] if both.seen else []
    return " ".join([*where, *parts, *_unpaired(both)])


def nearly_same(both: Beside) -> bool:
    """Whether two maps differ, but in no weight so far that it is seen."""
    return 0 < _largest_difference(both) < UNSEEN


def _largest_difference(both: Beside) -> float:
    if both.most_cell is None:
        return 0.0
    row, column = both.most_cell
    return abs(float(both.part(slice(row, row + 1), slice(column, column + 1)).difference[0, 0]))


def compared_cell(both: Beside, row: int, column: int) -> str:
    """One cell of two maps as a sentence; the places are those of their grid."""
    one = both.part(slice(row, row + 1), slice(column, column + 1))
    more = float(one.difference[0, 0])
    digits = int(digits_of(*(weights[0, 0] for weights, _ in one.maps), one.difference[0, 0]))
    each = [_gives(one, end, digits) for end in range(2)]
    much = f": higher in {'A' if more > 0 else 'B'} by {decimals(abs(more), digits)}" if more == more and more else ""
    if None in each:
        clause, name = (each[0], "A") if each[0] else (each[1], "B")
        return f"{clause} in {name}; {'B' if name == 'A' else 'A'} has no such cell."
    query, _ = tokens = _tokens(one, 0)
    if tokens == _tokens(one, 1) and all(clause.startswith(f"{query} gives ") for clause in each):
        return f"{each[0]} in A and {decimals(float(one.maps[1][0][0, 0]), digits)} in B{much}."
    return f"{each[0]} in A, and in B {each[1]}{much}."


def digits_of(a: np.ndarray, b: np.ndarray, more: np.ndarray) -> np.ndarray:
    """With how many digits two weights and their difference are read, so that the rounded ones agree; of each cell."""
    agree = [np.abs(np.round(a, n) - np.round(b, n) - np.round(more, n)) < 1e-9 for n in (2, 3)]
    unseen = (np.abs(more) > 0) & (np.abs(more) < FINE)
    return np.select([unseen, np.isnan(more) | agree[0], agree[1]], [4, 2, 3], 4)


def _tokens(one: Beside, end: int) -> tuple[str, str]:
    """The query and the key of a cell, the only one, in A (0) or B (1)."""
    tokens, places = (one.a, one.b)[end].tokens, (one.rows[0][end], one.columns[0][end])
    return quoted_token(tokens[0][places[0]].text, places[0]), quoted_token(tokens[1][places[1]].text, places[1])


def _gives(one: Beside, end: int, digits: int) -> str | None:
    """What a cell, the only one, says in A (0) or B (1); None if it has no such cell."""
    weights, states = one.maps[end]
    if states[0, 0] == BLANK:
        return None
    query, key = _tokens(one, end)
    if states[0, 0] == metrics.BLOCKED:
        return f"{query} may not look at {key}"
    if states[0, 0] == metrics.EMPTY:
        return f"{query} has no key left"
    return f"{query} gives {decimals(float(weights[0, 0]), digits)} to {key}"


def _place(both: Beside, axis: int, at: int) -> str:
    """A row or a column of the grid: by its token in A and, where that is another one, in B."""
    each = zip((both.a, both.b), (both.rows, both.columns)[axis][at], strict=True)
    named = [(side.tokens[axis][i].text, i) for side, i in each if i is not None]
    texts = [quoted_token(text, i) for text, i in named]
    if len(named) == 1 or named[0][0] == named[1][0]:
        return texts[0]
    return f"{texts[0]}, in B {texts[1]}"


def _unpaired(both: Beside) -> list[str]:
    """Which tokens differ, or are only on one side; once where queries and keys are the same."""
    alignments = {(a.changed, a.only_before, a.only_after): axis for axis, a in enumerate(_alignments(both))}
    sentences = []
    for axis in alignments.values():
        found_here = _alignments(both)[axis]
        for ends, side, name in ((found_here.only_before, both.a, "A"), (found_here.only_after, both.b, "B")):
            tokens = [quoted_token(side.tokens[axis][i].text, i) for i in ends[:MOST_NAMED]]
            more = f" and {len(ends) - MOST_NAMED} more" if len(ends) > MOST_NAMED else ""
            if tokens:
                sentences.append(f"Only in {name}, and left blank: {', '.join(tokens)}{more}.")
    return sentences


def _alignments(both: Beside) -> tuple[Alignment, Alignment]:
    return both.queries, both.keys


def reaches(shares: np.ndarray, texts: Sequence[str]) -> str:
    """Of rollout, (n, n): from which token most comes on the whole, and where most of another one stands."""
    most = int(shares.mean(0).argmax())
    part = f"{percent(float(shares[:, most].mean()))} of what stands at the {len(texts)} positions, on average"
    most_of_all = f"Most comes from {quoted_token(texts[most], most)}: {part}."
    others = np.where(np.eye(len(texts), dtype=bool), 0.0, shares)
    row, column = (int(i) for i in np.unravel_index(others.argmax(), others.shape))
    return (
        most_of_all
        if len(texts) < 2
        else f"{most_of_all} Most of another token: {_reaches(shares, texts, row, column)}."
    )


def reached(shares: np.ndarray, texts: Sequence[str], position: int) -> str:
    """Of a row of rollout, (n,), from which tokens its position is mixed, those with the largest shares."""
    order = np.argsort(-shares, kind="stable")[:MOST_NAMED].tolist()
    names = ["itself" if i == position else quoted_token(texts[i], i) for i in order]
    named = [f"{name} {percent(float(shares[i]))}" for name, i in zip(names, order, strict=True)]
    if rest := len(texts) - len(order):
        left = percent(float(1 - shares[order].sum()))
        named.append(f"{rest:,} other{'s' * (rest > 1)} {left}")
    return f"{quoted_token(texts[position], position)} is mixed from: {', '.join(named)}."


def _reaches(shares: np.ndarray, texts: Sequence[str], row: int, column: int) -> str:
    """One share in words: "23.0% of what stands at “it” (8) came from “cat” (1)"."""
    ends = quoted_token(texts[row], row), quoted_token(texts[column], column)
    return f"{percent(float(shares[row, column]))} of what stands at {ends[0]} came from {ends[1]}"
