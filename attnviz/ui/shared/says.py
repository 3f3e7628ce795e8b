"""What the model says, and what it said before anything was changed: in a line, and as a figure."""

import math
from dataclasses import dataclass
from difflib import SequenceMatcher

import streamlit as st

from attnviz import figures, metrics
from attnviz.core.display import shown
from attnviz.core.errors import ShapeError
from attnviz.core.record import Record
from attnviz.figures import Figure
from attnviz.ui.shared import cache, pictures, state
from attnviz.ui.shared.look import Look
from attnviz.ui.shared.setting import choice
from attnviz.ui.shared.state import control
from attnviz.ui.shared.text import plain, quiet
from attnviz.words import turned

NOTHING = "(nothing)"
NO_NUMBERS = "the probabilities are not numbers"


@dataclass(frozen=True)
class Said:
    """What a model says, or that it says nothing.

    Attributes:
        verb: "says" or "writes"; "" where there is nothing to say.
        place: after which token, or in place of which.
        text: what it says, in quotes if it is a word or a label.
        detail: how probable that is.
    """

    verb: str
    place: str = ""
    text: str = ""
    detail: str = ""


def said(record: Record, position: int, sentence: int) -> Said | None:
    """What a model says of a sentence, after a token or in place of one; None of a model without words.

    A model that fills in blanks says nothing where there are none.
    """
    if record.labels is not None:
        return Said("says", "", *_first(metrics.labels(record, sentence=sentence)))
    if record.prediction is None:
        return None
    if record.prediction.written:
        return Said("writes", "", record.prediction.written[sentence] or NOTHING)
    fills = metrics.fills_in(record)
    if fills and not record.prediction.blanks[sentence]:
        return Said("")
    token = f"'{shown(record.read[sentence].tokens[position].text)}' ({position})"
    place = f"{'In place of' if fills else 'After'} {token}"
    return Said("says", place, *_first(metrics.next_words(record, position, sentence=sentence, count=1)))


def _first(found: tuple[metrics.NextWord, ...]) -> tuple[str, str]:
    """The most probable word or label in quotes, and its probability; or that there is none."""
    return (f"'{shown(found[0].word)}'", f"{found[0].probability:.2f}") if found else (NOTHING, NO_NUMBERS)


def line(at: Look, position: int | None = None) -> None:
    """The text that the model wrote, a word, a label, or how alike sentences are; before the edits, too."""
    position = at.position if position is None else position
    if made := _line(at, position) if at.record.vectors is None or at.record.labels is not None else _vectors(at):
        st.html(f'<div class="says" role="status">{made}</div>')


def _line(at: Look, position: int) -> str:
    now = said(at.record, position, at.sentence)
    if now is None:
        return ""
    if not now.verb:
        return _quiet("There is no blank in the sentence for the model to fill in.")
    then = at.before and said(at.before, position, at.sentence)
    if not then:
        return _spoken("It", now, f"<b>{plain(now.text)}</b>")
    if now.verb == "says":
        same = now.text == then.text
        before = f"{_quiet('before')} {_word(then.text, same)} {_quiet(then.detail)}"
        return f"<span>{_spoken('It', now, _word(now.text, same))}</span><span>{before}</span>"
    if now == then:
        return f"{_quiet('It still writes')} <b>{plain(now.text)}</b>"
    old, new = _differing(then.text, now.text)
    return f"<span>{_quiet('It now writes')} {new}</span><span>{_quiet('before')} {old}</span>"


def _spoken(who: str, one: Said, text: str) -> str:
    """Who says it, where, what, and how probable that is: "After 'cat' (1) it says 'sat' 0.31"."""
    who = who.lower() if one.place and who == "It" else who
    detail = f" {_quiet(one.detail)}" if one.detail else ""
    return f"{_quiet(f'{one.place} {who} {one.verb}'.strip())} {text}{detail}"


def one(
    name: str, record: Record, other: Record, position: int, sentences: tuple[int, int], positions: tuple[int, int]
) -> None:
    """What one of two runs says, beginning with its name; what the other does not say is underlined.

    Args:
        sentences: of this run's batch, and of the other's.
        positions: after which token each of both is asked; `position` is this run's.
    """
    theirs = next((at for at in positions if at != position), position)
    mine, yours = said(record, position, sentences[0]), said(other, theirs, sentences[1])
    st.html(f'<div class="says">{_one(name, mine, yours)}</div>')


def _one(name: str, mine: Said | None, yours: Said | None) -> str:
    if mine is None:
        return _quiet(f"{name} says nothing.")
    if not mine.verb:
        return _quiet(f"{name} has no blank in its sentence to fill in.")
    alike = yours is not None and (yours.verb, bool(yours.place)) == (mine.verb, bool(mine.place))
    if mine.verb == "says":
        return _spoken(name, mine, _word(mine.text, not alike or yours.text == mine.text))
    return _spoken(name, mine, _differing(yours.text, mine.text)[1] if alike else plain(mine.text))


def _differing(before: str, after: str) -> tuple[str, str]:
    """Both texts as HTML, with the words that are not in the other underlined and bold."""
    old, new = before.split(), after.split()
    olds, news = [], []
    for same, a, b, c, d in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        olds += [_word(word, same == "equal") for word in old[a:b]]
        news += [_word(word, same == "equal") for word in new[c:d]]
    return " ".join(olds), " ".join(news)


def _word(word: str, same: bool) -> str:
    return plain(word) if same else f"<u>{plain(word)}</u>"


def _quiet(text: str) -> str:
    return f'<span class="quiet">{plain(text)}</span>'


def vectors_apart(moved: float, what: str = "The vectors of A and B are apart by") -> str:
    """How far two vectors are apart, as HTML."""
    return f"{_quiet(what)} <b>{plain(turned(moved))}</b> {_quiet('(1 less the cosine)')}"


def _vectors(at: Look) -> str:
    """How far a change moved the sentence's vector; of several sentences, which two are most alike."""
    if at.before is not None:
        moved = float(metrics.shift(at.before, at.record)[at.sentence])
        return vectors_apart(moved, "The vector of the sentence moved by")
    count = len(at.record.sentences)
    if count == 1:
        return ""
    alike = metrics.similarity(at.record)
    pairs = [(float(alike[i, j]), i + 1, j + 1) for i in range(count) for j in range(i + 1, count)]
    cosine, first, second = max((pair for pair in pairs if pair[0] == pair[0]), default=(math.nan, 0, 0))
    if math.isnan(cosine):
        return _quiet("The vectors are not numbers, or zero, so none are alike.")
    most = f"Most alike of {count} sentences: {first} and {second}" if count > 2 else "Similarity of both sentences"
    return f"{_quiet(most)} <b>{cosine:.2f}</b>"


KEYS = {
    "step by step": "steps",
    "next word": "words",
    "output vectors": "change",
    "blanks": "blanks",
    "one blank": "blank",
    "labels": "labels",
    "similarity": "similarity",
}
"""The figures of what a model says, and what each is called on the page."""

STEPS, NEXT, OUTPUT, BLANKS, BLANK, LABELS, ALIKE = KEYS
EFFECT = choice("effect", tuple(KEYS), of="model")


def panel(at: Look) -> None:
    """One figure, and a choice of which if the model says anything."""
    effect = one_of(choices(at.record, at.sentence), "What the model says")
    if effect == OUTPUT and at.before is None:
        if at.record.provenance != "random":
            how = "" if at.record.read_only else " Switch a head off, or set a mask."
            quiet(f"Nothing is changed, so no output vector moved.{how}")
        return
    try:
        figure = drawn(effect, at.record, at.before, at.position, sentence=at.sentence, dark=at.dark)
    except ShapeError as error:  # the model wrote another text
        quiet(str(error))
        return
    pictures.picture(figure, KEYS[effect])
    if effect == OUTPUT:
        quiet(figure.description)
    pictures.take_away(figure, KEYS[effect], KEYS[effect])
    pictures.numbers(figure, KEYS[effect])


def choices(record: Record, sentence: int = 0) -> list[str]:
    """What can be shown; first what the model says, then how its output moved."""
    if record.labels is not None:
        return [LABELS, OUTPUT]
    if record.vectors is not None and len(record.sentences) > 1:
        return [ALIKE, OUTPUT]
    if record.prediction is None:
        return [OUTPUT]
    if metrics.fills_in(record):
        blanks = len(record.prediction.blanks[sentence])
        return [*([BLANK] if blanks else []), *([BLANKS] if blanks > 1 else []), OUTPUT]
    return [STEPS, NEXT, OUTPUT] if record.prediction.written else [NEXT, OUTPUT]


def drawn(effect: str, record: Record, before: Record | None, position: int, **shown) -> Figure:
    """The figure of one choice.

    Args:
        position: after which token the next word is asked for, or which blank.
    """
    if effect in (STEPS, BLANKS):
        return cache.drawn(figures.step_by_step, record, before=before, **shown)
    if effect in (NEXT, BLANK):
        return cache.drawn(figures.next_word, record, position, before=before, **shown)
    if effect == LABELS:
        return cache.drawn(figures.labels, record, before=before, **shown)
    if effect == ALIKE:
        return cache.drawn(figures.similarity, record, before=before, dark=shown["dark"])
    return cache.drawn(figures.change, before, record, **shown)


def one_of(options: list[str], title: str) -> str:
    """The chosen one of some figures, else the first."""
    chosen = state.one_of(EFFECT, options)
    if len(options) > 1:
        control(st.segmented_control, title, EFFECT, options, shown=chosen, lead="")
    return chosen
