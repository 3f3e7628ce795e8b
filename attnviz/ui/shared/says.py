"""What the model says, and what it said before anything was changed."""

import math
from difflib import SequenceMatcher
from html import escape

import streamlit as st

from attnviz import metrics
from attnviz.core.display import shown
from attnviz.core.edits import Site
from attnviz.core.record import Record
from attnviz.ui.shared.notes import clean
from attnviz.words import turned

NOTHING = "(nothing)"
NO_NUMBERS = "the probabilities are not numbers"


def line(record: Record, before: Record | None, *, position: int, sentence: int = 0) -> None:
    """The text that the model wrote, a word, a label, or how alike sentences are; with `before`, both.

    Args:
        position: after which token the next word is asked for, or which blank, of a model that predicts.
    """
    if said := _line(record, before, position, sentence):
        st.html(f'<div class="says" role="status">{said}</div>')


def _line(record: Record, before: Record | None, position: int, sentence: int) -> str:
    if record.labels is not None:
        return _compared(f"{_quiet('It says')}", _label(record, sentence), before and _label(before, sentence))
    if record.vectors is not None:
        return _vectors(record, before, sentence)
    if record.prediction is None:
        return ""
    if record.prediction.written:
        return _written(record, before, position, sentence)
    if metrics.fills_in(record) and not record.prediction.blanks[sentence]:
        return _quiet("There is no blank in the sentence for the model to fill in.")
    return _word_at(record, before, position, sentence)


def position(record: Record, site: Site, cell: tuple[int, int] | None, sentence: int) -> int:
    """Where to ask for a word: at the query of the selected cell, else after the last token; of blanks at the first."""
    looks = cell is not None and not (site.kind == "encoder" and record.targets)
    chosen = cell[0] if looks and cell[0] < len(record.read[sentence].tokens) else record.read[sentence].length - 1
    blanks = record.prediction.blanks[sentence] if metrics.fills_in(record) else ()
    return blanks[0] if blanks and chosen not in blanks else chosen


def _written(record: Record, before: Record | None, position: int, sentence: int) -> str:
    now = record.prediction.written[sentence] or NOTHING
    if before is None:
        return f"{_quiet('It writes')} <b>{_plain(now)}</b>"
    then = before.prediction.written[sentence] or NOTHING
    if now == then:
        return f"{_quiet('It still writes')} <b>{_plain(now)}</b>"
    old, new = _differing(then, now)
    return f"<span>{_quiet('It now writes')} {new}</span><span>{_quiet('before')} {old}</span>"


def _differing(before: str, after: str) -> tuple[str, str]:
    """Both texts as HTML, with the words that are not in the other underlined and bold."""
    old, new = before.split(), after.split()
    olds, news = [], []
    for same, a, b, c, d in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        olds += [_word(word, same == "equal") for word in old[a:b]]
        news += [_word(word, same == "equal") for word in new[c:d]]
    return " ".join(olds), " ".join(news)


def one(
    name: str, record: Record, other: Record, position: int, sentences: tuple[int, int], positions: tuple[int, int]
) -> None:
    """What one of two runs says, beginning with its name; what the other does not say is underlined.

    Args:
        sentences: of this run's batch, and of the other's.
        positions: after which token each of both is asked; `position` is this run's.
    """
    theirs = next((at for at in positions if at != position), position)
    if said := _one(name, record, other, position, theirs, sentences):
        st.html(f'<div class="says">{said}</div>')


def _one(name: str, record: Record, other: Record, position: int, theirs: int, sentences: tuple[int, int]) -> str:
    mine, yours = sentences
    if record.labels is not None:
        then = _label(other, yours) if other.labels is not None else None
        return _alone(f"{name} says", _label(record, mine), then)
    if record.prediction is None:
        return _quiet(f"{name} says nothing.")
    if record.prediction.written:
        now = record.prediction.written[mine] or NOTHING
        written = other.prediction.written if other.prediction is not None else ()
        text = _differing(written[yours] or NOTHING, now)[1] if written else _plain(now)
        return f"{_quiet(f'{name} writes')} {text}"
    if metrics.fills_in(record) and not record.prediction.blanks[mine]:
        return _quiet(f"{name} has no blank in its sentence to fill in.")
    token = f"'{shown(record.read[mine].tokens[position].text)}' ({position})"
    asked = f"In place of {token} {name} says" if metrics.fills_in(record) else f"After {token} {name} says"
    then = None
    if other.prediction is not None and not other.prediction.written:
        then = _most_probable(other, theirs, yours)
    return _alone(asked, _most_probable(record, position, mine), then)


def _alone(asked: str, now: tuple[str, str], other: tuple[str, str] | None) -> str:
    """What is said; underlined if the other says something else."""
    return f"{_quiet(asked)} {_word(now[0], other is None or now[0] == other[0])} {_quiet(now[1])}"


def vectors_apart(moved: float) -> None:
    """How far the vectors of two sentences are apart."""
    apart = f"<b>{_plain(turned(moved))}</b> {_quiet('(1 less the cosine)')}"
    st.html(f'<div class="says">{_quiet("The vectors of A and B are apart by")} {apart}</div>')


def _word(word: str, same: bool) -> str:
    return _plain(word) if same else f"<u>{_plain(word)}</u>"


def _word_at(record: Record, before: Record | None, position: int, sentence: int) -> str:
    """The most probable word after a token, or in place of a blank."""
    token = f"'{shown(record.read[sentence].tokens[position].text)}' ({position})"
    asked = f"In place of {token} it says" if metrics.fills_in(record) else f"After {token} it says"
    was = before and _most_probable(before, position, sentence)
    return _compared(_quiet(asked), _most_probable(record, position, sentence), was)


def _compared(asked: str, now: tuple[str, str], was: tuple[str, str] | None) -> str:
    """What is said, and what was said before a change; another word is underlined."""
    if was is None:
        return f"{asked} <b>{_plain(now[0])}</b> {_quiet(now[1])}"
    same = now[0] == was[0]
    old = f"<span>{_quiet('before')} {_word(was[0], same)} {_quiet(was[1])}</span>"
    return f"<span>{asked} {_word(now[0], same)} {_quiet(now[1])}</span>{old}"


def _most_probable(record: Record, position: int, sentence: int) -> tuple[str, str]:
    return _first(metrics.next_words(record, position, sentence=sentence, count=1))


def _label(record: Record, sentence: int) -> tuple[str, str]:
    return _first(metrics.labels(record, sentence=sentence))


def _first(found: tuple[metrics.NextWord, ...]) -> tuple[str, str]:
    """The most probable word or label in quotes, and its probability; or that there is none."""
    return (f"'{shown(found[0].word)}'", f"{found[0].probability:.2f}") if found else (NOTHING, NO_NUMBERS)


def _vectors(record: Record, before: Record | None, sentence: int) -> str:
    """How far a change moved the sentence's vector; of several sentences, which two are most alike."""
    if before is not None:
        moved = turned(float(metrics.shift(before, record)[sentence]))
        return f"{_quiet('The vector of the sentence moved by')} <b>{_plain(moved)}</b> {_quiet('(1 less the cosine)')}"
    count = len(record.sentences)
    if count == 1:
        return ""
    alike = metrics.similarity(record)
    pairs = [(float(alike[i, j]), i + 1, j + 1) for i in range(count) for j in range(i + 1, count)]
    cosine, first, second = max((pair for pair in pairs if pair[0] == pair[0]), default=(math.nan, 0, 0))
    if math.isnan(cosine):
        return _quiet("The vectors are not numbers, or zero, so none are alike.")
    most = f"Most alike of {count} sentences: {first} and {second}" if count > 2 else "Similarity of both sentences"
    return f"{_quiet(most)} <b>{cosine:.2f}</b>"


def _quiet(text: str) -> str:
    return f'<span class="quiet">{_plain(text)}</span>'


def _plain(text: str) -> str:
    return escape(clean(text))
