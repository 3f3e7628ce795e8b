"""Sentences about records: what one cell says, and what a picture shows for those who cannot see it."""

from collections.abc import Sequence

import numpy as np

from attnviz import metrics, views
from attnviz.core.display import isolated, shown
from attnviz.core.edits import Site
from attnviz.core.masks import Mask
from attnviz.core.record import ALL, Record, Step
from attnviz.views import Groups, View

MOST_NAMED = 3
"""So many tokens are named in a description."""


def quoted_token(text: str, position: int | str) -> str:
    """A token as it stands in a sentence: in quotes, with its position, or of a word the first and the last."""
    return f"{quoted(text)} ({position})"


def quoted(text: str) -> str:
    """A token or a word as it stands in a sentence: in quotes."""
    return isolated(f"'{shown(text)}'")


def percent(share: float, digits: int = 1) -> str:
    """A share in percent; what is not quite none or all of it does not read as if it were."""
    smallest = 10 ** -(digits + 2)
    if share != share:
        return "NaN"
    if 0 < share < smallest / 2:
        return f"<{smallest:.{digits}%}"
    return f">{1 - smallest:.{digits}%}" if 1 - smallest / 2 <= share < 1 else f"{share:.{digits}%}"


def cell(
    record: Record, site: Site, head: int | str, query: int, key: int, sentence: int = 0, *, view: View = View()
) -> str:
    """One cell as a sentence; through a view, the cell that holds it."""
    step = record.step(site)
    off = " This head is off: its output is not used." if head in step.heads_off else ""
    return f"{_cell(record, site, head, query, key, sentence, view)}{off}"


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
        return f"{looker} has no key left to look at; its weights are {_POLICIES[step.empty_rows]}."
    if state == metrics.BLOCKED:
        return f"{looked} may not be looked at by {looker}: blocked by {found.reasons[found.blocked[0, 0] - 1]}."
    if state == metrics.NAN:
        return f"The weight that {looker} gives to {looked} is not a number."
    of = "its attention" if isinstance(head, int) else f"its attention ({head} of {all_heads(step)})"
    of += " (special tokens aside)" if view.special == "renormalize" else ""
    looker += _predicting(seen.predicted, 0)
    return f"{looker} gives {weight:.2f} of {of} to {looked}."


def named(groups: Groups, i: int) -> str:
    """A row or a column as it stands in a sentence."""
    return quoted_token(groups.labels[i], groups.place(i))


def _predicting(predicted: Sequence[str] | None, row: int) -> str:
    """What a row predicts, to stand behind it; nothing where it predicts nothing."""
    return f", predicting {quoted(predicted[row])}," if predicted and predicted[row] else ""


def all_heads(step: Step) -> str:
    """What is combined; a head that is off still has weights, and they count."""
    return f"all {step.num_heads} heads, also those off" if step.heads_off else "all heads"


def strongest(record: Record, site: Site, head: int | str, sentence: int = 0, *, view: View = View()) -> str:
    """The cell with the largest weight below 1 as a sentence: a query that has but one key to look at gives it 1."""
    seen = views.see(record, site, sentence=sentence, view=view)
    most, at = seen.strongest(head)
    if not most.size:
        return ""
    row = int(np.where(most < 1, most, 0).argmax())
    query, key = int(seen.queries.starts[row]), int(seen.keys.starts[at[row]])
    return cell(record, site, head, query, key, sentence, view=view)


_POLICIES = {"zero": "zeros", "nan": "NaN", "uniform": "spread evenly over all keys", "error": "undefined"}


def head(
    record: Record,
    site: Site,
    head: int | str,
    *,
    sentence: int = 0,
    rows: slice = ALL,
    columns: slice = ALL,
    view: View = View(),
) -> str:
    """The size, the strongest weights, what the view did, and what was changed."""
    step, seen = record.step(site), views.see(record, site, sentence=sentence, view=view, rows=rows, columns=columns)
    comma = "," if step.heads_off else ""
    what = f"Head {head}" if isinstance(head, int) else f"The {head} of {all_heads(step)}{comma}"
    text = f"{what} of {site}, {len(seen.queries)} queries by {len(seen.keys)} keys."
    most, at = seen.strongest(head)
    order = [(int(i), int(at[i])) for i in np.argsort(-most, kind="stable")[:MOST_NAMED] if most[i] > 0]
    looks = [
        f"{named(seen.queries, i)}{_predicting(seen.predicted, i)} looks most at {named(seen.keys, j)}: {most[i]:.2f}"
        for i, j in order
    ]
    changed = record.edits.in_words()
    parts = [text, f"{'; '.join(looks)}." if looks else "No weight is above zero.", *map(as_sentence, seen.notes)]
    return " ".join([*parts, f"Changed: {', '.join(changed)}."] if changed else parts)


def as_sentence(note: str) -> str:
    return f"{note[:1].upper()}{note[1:]}."


def heads(record: Record, site: Site, largest: Sequence[str], *, sentence: int = 0, view: View = View()) -> str:
    step, seen = record.step(site), views.see(record, site, sentence=sentence, view=view)
    queries, keys = len(seen.queries), len(seen.keys)
    most = ", ".join(f"{head}: {weight}" for head, weight in enumerate(largest))
    off = f" Off: {', '.join(map(str, sorted(step.heads_off)))}." if step.heads_off else ""
    heads = "1 head" if step.num_heads == 1 else f"{step.num_heads} heads"
    text = f"{heads} of {site}, each a map of {queries} queries by {keys} keys. Largest weight by head: {most}.{off}"
    return " ".join([text, *map(as_sentence, seen.notes)])


def mask(mask: Mask, rows: Sequence[str], columns: Sequence[str], sentence: int) -> str:
    blocks = metrics.row_blocks(mask, len(rows), len(columns), sentence)
    open_keys = [count for block in blocks for count in block.sum(1).tolist()]
    allowed, of = sum(open_keys), f"{len(rows)} queries by {len(columns)} keys"
    last = ""
    if len(rows):
        last = f" The last query, {quoted_token(rows[-1], len(rows) - 1)}, may look at {open_keys[-1]} keys."
    return f"Mask '{mask}', {of}: {allowed} of {len(rows) * len(columns)} cells may attend.{last}"


def change(moved: np.ndarray, labels: Sequence[str]) -> str:
    text = f"How far the output vector of each of {len(moved)} tokens moved, as a share of its length."
    if not moved.any():
        return f"{text} None moved."
    order = np.argsort(-np.nan_to_num(moved, nan=np.inf), kind="stable")[:MOST_NAMED]
    amounts = {i: percent(moved[i]) if np.isfinite(moved[i]) else str(moved[i]).replace("nan", "NaN") for i in order}
    named = ", ".join(f"{quoted_token(labels[i], i)} {amounts[i]}" for i in order if moved[i] != 0)
    return f"{text} Most: {named}."


def next_word(record: Record, position: int, *, before: Record | None = None, sentence: int = 0, count: int = 5) -> str:
    """The words that are most probable after a position, with their probabilities."""
    after = quoted_token(metrics.token_at(record, position, sentence=sentence), position)
    found = metrics.next_words(record, position, before=before, sentence=sentence, count=count)
    if not found:
        return f"The probabilities of the words after {after} are not numbers."
    was = {next.word: "" if next.before is None else f" (before the change {percent(next.before)})" for next in found}
    listed = ", ".join(f"{quoted(next.word)} {percent(next.probability)}{was[next.word]}" for next in found)
    other = before is not None and not metrics.read_alike(before, record, position, sentence=sentence)
    return f"Most probable after {after}: {listed}.{f' {OTHER_WORDS}.' if other else ''}"


OTHER_WORDS = "Before the change the model had read other words by then"
"""Why what it said then is not shown beside."""


def step_by_step(record: Record, *, before: Record | None = None, sentence: int = 0) -> str:
    """How much is said, where the model was least sure, and where it says other words than before a change."""
    said = metrics.said(record, sentence=sentence)
    at = min(range(len(said)), key=lambda i: np.nan_to_num(said[i].probability, nan=-1.0))
    least = f"{quoted(said[at].word)} {percent(said[at].probability)}, after {quoted_token(said[at].token, at)}"
    each = "1 token" if len(said) == 1 else f"each of {len(said)} tokens"
    text = f"After {each}, the most probable next word. The least sure: {least}."
    if before is None:
        return text
    old = metrics.said(before, sentence=sentence)
    pairs = list(enumerate(zip(old, said, strict=False)))
    others = [(i, one, other) for i, (one, other) in pairs if one.word != other.word]
    count = len(others) + abs(len(old) - len(said))
    if not count:
        return f"{text} All are as before the change."
    named = "; ".join(
        f"{quoted(other.word)} after {quoted_token(other.token, i)}, before {quoted(one.word)}"
        for i, one, other in others[:MOST_NAMED]
    )
    return (
        f"{text} {count} {'differs' if count == 1 else 'differ'} from before the change{f': {named}' if named else ''}."
    )


def says(record: Record, *, before: Record | None = None, sentence: int = 0) -> str:
    """What an encoder-decoder writes, or what a language model expects next; "" of a model that says no words."""
    if record.prediction is None:
        return ""
    now = _says(record, sentence)
    if before is None:
        return now
    text, was = (_written(run, sentence) for run in (record, before))
    return f"{now} {'(As before the change.)' if text == was else f'(Before the change: {was}.)'}"


def _says(record: Record, sentence: int) -> str:
    text, last = _written(record, sentence), metrics.said(record, sentence=sentence)[-1]
    broken = text == NOTHING and last.probability != last.probability
    why = ": the probabilities are not numbers" if broken else ""
    if record.prediction.written:
        return f"It writes{'' if text == NOTHING else ':'} {text}{why}."
    if broken:
        return f"After {quoted(last.token)} it expects {text}{why}."
    return f"After {quoted(last.token)} it expects {quoted(last.word)} ({percent(last.probability, 0)})."


NOTHING = "nothing"
"""What is written, or expected, where there is nothing."""


def _written(record: Record, sentence: int) -> str:
    """The text that was written; of a language model, the word it expects next with its probability."""
    if record.prediction.written:
        return isolated(" ".join(shown(word) for word in record.prediction.written[sentence].split())) or NOTHING
    last = metrics.said(record, sentence=sentence)[-1]
    return NOTHING if last.probability != last.probability else f"{quoted(last.word)}, {percent(last.probability, 0)}"
