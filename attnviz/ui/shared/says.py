"""What the model predicts, and what it predicted before anything was changed: in a line, and as a figure."""

import math
import re
from dataclasses import dataclass, replace
from difflib import SequenceMatcher

import streamlit as st

from attnviz import figures, metrics
from attnviz.core.amounts import percent
from attnviz.core.errors import ShapeError
from attnviz.core.record import Record
from attnviz.figures import Figure
from attnviz.ui.shared import cache, pictures, state, words
from attnviz.ui.shared.look import Look
from attnviz.ui.shared.setting import choice
from attnviz.ui.shared.state import control
from attnviz.ui.shared.text import block, plain, quiet
from attnviz.words import label_value, quoted, quoted_token, turned

MOST_LARGE = 110
"""Characters of a prediction that is written large: more take two lines in the place of one, so that nothing moves."""


@dataclass(frozen=True)
class Said:
    """A prediction.

    Attributes:
        kind: "word", "label" or "text"; "" where there is nothing to predict.
        title: what is predicted, and where.
        text: the prediction, in quotes if it is a word or a label.
        detail: its probability.
    """

    kind: str
    title: str = ""
    text: str = ""
    detail: str = ""


def said(record: Record, position: int, sentence: int) -> Said | None:
    """What a model predicts for a sentence, after a token or in place of one; None of a model without words.

    A model that fills in blanks predicts nothing where there are none.
    """
    if metrics.is_number(record):
        number = metrics.labels(record, sentence=sentence)[0].probability
        return Said("label", words.NUMBER, label_value(record, number))
    if record.labels is not None:
        return Said("label", words.LABEL, *_first(metrics.labels(record, sentence=sentence)))
    if record.prediction is None:
        return None
    if record.prediction.written:
        if target := cache.target_of(record, sentence):
            return Said("text", words.TARGET, target)
        title = words.TRANSLATION if record.source.startswith("translator") else words.OUTPUT_TEXT
        ended = metrics.cut(record, sentence=sentence)
        detail = words.CUT.format(count=ended) if ended else ""
        return Said("text", title, record.prediction.written[sentence] or words.NOTHING, detail)
    fills = metrics.fills_in(record)
    if fills and not record.prediction.blanks[sentence]:
        return Said("")
    token = quoted_token(record.read[sentence].tokens[position].text, position)
    title = words.TOKEN_LABEL if metrics.labels_tokens(record) else words.FILLED_WORD if fills else words.NEXT_WORD
    title = title.format(token=token)
    return Said("word", title, *_first(metrics.next_words(record, position, sentence=sentence, count=1)))


def _first(found: tuple[metrics.NextWord, ...]) -> tuple[str, str]:
    """The most probable word or label in quotes, and its probability; or that there is none."""
    return (quoted(found[0].word), percent(found[0].probability)) if found else (words.NOTHING, words.NO_NUMBERS)


def line(at: Look, position: int | None = None) -> None:
    """The text that the model wrote, a word, a label, or how alike sentences are; before the edits, too."""
    position = at.position if position is None else position
    if made := _line(at, position) if at.record.vectors is None or at.record.labels is not None else _vectors(at):
        css = "says small" if len(re.sub("<[^>]*>", "", made)) > MOST_LARGE else "says"
        made += _nameless(at.record, made)
        st.html(f'<div class="{css}" role="status">{made}</div>')


def nameless(at: Look) -> None:
    """What the predicted token stands for where bars show it, if it has no text."""
    found = said(at.record, at.position, at.sentence)
    if found is not None and (made := _nameless(at.record, found.text)):
        st.html(f'<div class="says small" role="status">{made}</div>')


def _nameless(record: Record, made: str) -> str:
    """What "#48" stands for in a line: a token of the vocabulary without a text."""
    for found in re.finditer(r"#\d{1,9}(?=”)", made):
        if (id := metrics.nameless_id(record, found[0])) is not None:
            return f" {_quiet(words.NAMELESS.format(token=found[0], id=id))}"
    return ""


def _line(at: Look, position: int) -> str:
    now = said(at.record, position, at.sentence)
    if now is None:
        return ""
    if not now.kind:
        return _quiet(words.NO_BLANK)
    then = at.before and said(at.before, position, at.sentence)
    if not then:
        return _titled(now, f"<b>{plain(now.text)}</b>")
    if now.kind != "text":
        same = now.text == then.text
        if now.kind == "word" and position == at.moved_most:
            token = quoted_token(metrics.token_at(at.record, position, sentence=at.sentence), position)
            title = words.MOST_CHANGED[metrics.fills_in(at.record)]
            title = words.MOST_CHANGED_LABEL if metrics.labels_tokens(at.record) else title
            now = replace(now, title=title.format(token=token))
        if same:  # no other word: how probable it was and is
            text = words.AS_IT_STOOD if then.detail == now.detail else words.FROM_TO
            now = replace(now, detail=text.format(before=then.detail, now=now.detail))
            return _titled(now, _word(now.text, same=True))
        before = f"{_quiet(words.PREDICTED_BEFORE)} {_word(then.text, same)} {_quiet(then.detail)}"
        return f"<span>{_titled(now, _word(now.text, same))}</span><span>{before}</span>"
    if now == then:
        return f"{_quiet(words.AS_BEFORE.format(title=now.title))} <b>{plain(now.text)}</b>{_detail(now)}"
    old, new = _differing(then.text, now.text)
    title = words.PREDICTED.format(title=now.title)
    before = f"{_quiet(words.PREDICTED_BEFORE)} {old}{_detail(then)}"
    return f"<span>{_quiet(title)} {new}{_detail(now)}</span><span>{before}</span>"


def _titled(one: Said, text: str, name: str = "") -> str:
    """A prediction with its title and its probability: "Predicted next word after “cat” (1): “sat” 0.31"."""
    title = (words.PREDICTED_BY if name else words.PREDICTED).format(title=one.title, run=name)
    return f"{_quiet(title)} {text}{_detail(one)}"


def _detail(one: Said) -> str:
    return f" {_quiet(one.detail)}" if one.detail else ""


def one(
    name: str, record: Record, other: Record, position: int, sentences: tuple[int, int], positions: tuple[int, int]
) -> None:
    """What one of two runs says, beginning with its name; what the other does not say is marked.

    Args:
        sentences: of this run's batch, and of the other's.
        positions: after which token each of both is asked; `position` is this run's.
    """
    theirs = next((at for at in positions if at != position), position)
    mine, yours = said(record, position, sentences[0]), said(other, theirs, sentences[1])
    st.html(f'<div class="says">{_one(name, mine, yours)}</div>')


def _one(name: str, mine: Said | None, yours: Said | None) -> str:
    if mine is None:
        return _quiet(words.NONE_BY.format(run=name))
    if not mine.kind:
        return _quiet(words.NO_BLANK_BY.format(run=name))
    alike = yours is not None and yours.kind == mine.kind
    if mine.kind != "text":
        return _titled(mine, _word(mine.text, not alike or yours.text == mine.text), name)
    return _titled(mine, _differing(yours.text, mine.text)[1] if alike else plain(mine.text), name)


def _differing(before: str, after: str) -> tuple[str, str]:
    """Both texts as HTML, with the words that are not in the other marked and bold."""
    old, new = before.split(), after.split()
    olds, news = [], []
    for same, a, b, c, d in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        olds += [_word(word, same == "equal") for word in old[a:b]]
        news += [_word(word, same == "equal") for word in new[c:d]]
    return " ".join(olds), " ".join(news)


def _word(word: str, same: bool) -> str:
    """A word, marked if it is not the same: without the stop after it."""
    bare = word.rstrip(".,;:!?") or word
    return plain(word) if same else f"<u>{plain(bare)}</u>{plain(word[len(bare) :])}"


def _quiet(text: str) -> str:
    return f'<span class="quiet">{plain(text)}</span>'


def vectors_apart(distance: float, text: str = words.VECTORS_APART) -> str:
    """How far two vectors are apart, as HTML."""
    return _marked(turned(distance), text)


def _marked(value: str, text: str, **others: object) -> str:
    """A sentence as HTML in which one value stands out."""
    before, _, after = (part.strip() for part in text.format(value="\0", **others).partition("\0"))
    return " ".join((_quiet(before), f"<b>{plain(value)}</b>", *([_quiet(after)] if after else [])))


def _vectors(at: Look) -> str:
    """How far a change moved the sentence's vector; of several sentences, which two are most alike."""
    if at.before is not None:
        moved = float(metrics.shift(at.before, at.record)[at.sentence])
        return vectors_apart(moved, words.VECTOR_MOVED)
    count = len(at.record.sentences)
    if count == 1:
        return ""
    alike = metrics.similarity(at.record)
    pairs = [(float(alike[i, j]), i + 1, j + 1) for i in range(count) for j in range(i + 1, count)]
    cosine, first, second = max((pair for pair in pairs if pair[0] == pair[0]), default=(math.nan, 0, 0))
    if math.isnan(cosine):
        return _quiet(words.NONE_ALIKE)
    text = words.MOST_ALIKE if count > 2 else words.BOTH_ALIKE
    return _marked(f"{cosine:.2f}", text, count=count, first=first, second=second)


KEYS = {
    words.STEP_BY_STEP: "steps",
    words.NEXT_WORDS: "words",
    words.VECTORS: "change",
    words.BLANKS: "blanks",
    words.ONE_BLANK: "blank",
    words.LABELS: "labels",
    words.SIMILARITY: "similarity",
}
"""The figures of what a model says, and what each is called on the page."""

STEPS, NEXT, OUTPUT, BLANKS, BLANK, LABELS, ALIKE = KEYS
EFFECT = choice("effect", tuple(KEYS), of="model tab")


def panel(at: Look, hint: str) -> dict[str, tuple[Figure, str]]:
    """One figure, and a choice of which if the model says anything; gives it and its key, by its name.

    Args:
        hint: how to select. Where a choice comes with the first change, it takes the place of that: nothing moves.
    """
    if at.source.alone and at.before is not None:
        quiet(words.FILE_ALONE)
        return {}
    options = choices(at.record, at.sentence)
    comes = len(options) == 2
    if comes and at.before is None:
        block(hint, "quiet choice")
    elif hint and not comes:
        quiet(hint)
    if at.before is not None and at.record.prediction is not None:
        is_said = at.asked is not None and at.asked == at.moved_most  # above the picture
        st.empty() if is_said else block(most_changed(at), "large")
    if at.before is None and len(options) > 1:
        options.remove(OUTPUT)  # which has not moved
    effect = one_of(options, words.PREDICTION)
    if effect == OUTPUT and at.before is None:
        if at.record.provenance != "random":
            fixed = at.record.read_only or at.source.alone
            run = words.ONE_RUN if at.source.one_run else words.UNCHANGED
            quiet(run if fixed else f"{run} {words.TRY_A_CHANGE}")
        return {}
    try:
        figure = of(at, effect)
    except ShapeError as error:  # the model wrote another text
        quiet(str(error))
        return {}
    pictures.picture(figure, KEYS[effect])
    if effect == OUTPUT:
        quiet(figure.description)
    return {effect: (figure, KEYS[effect])}


def most_changed(at: Look) -> str:
    """Which prediction a change moved most, and how: the word that comes first now, or how probable it was and is."""
    return words.SAME_PREDICTIONS if at.moved_most is None else prediction_change(at, at.moved_most)


def prediction_change(at: Look, position: int, *, most: bool = True) -> str:
    """How a change moved the prediction at a position, be it the most moved one or not."""
    found = metrics.next_words(at.record, position, before=at.before, sentence=at.sentence)
    token = quoted_token(metrics.token_at(at.record, position, sentence=at.sentence), position)
    text = words.IN_PLACE if metrics.fills_in(at.record) else words.AFTER
    text = words.OF_TOKEN if metrics.labels_tokens(at.record) else text
    return text[not most].format(token=token, change=_change(found))


def _change(found: tuple[metrics.NextWord, ...]) -> str:
    """How the words of a prediction have changed: another one comes first, or how probable one was and is."""
    if not found or math.isnan(found[0].probability):
        return words.NO_NUMBERS
    new, old = found[0], max(found, key=lambda one: one.before)
    if new is old:
        new = old = max(found, key=lambda one: abs(one.probability - one.before))
    before, now = percent(old.before), percent(new.probability)
    text = words.OTHER_WORD if new is not old else words.STAYS if before == now else words.SAME_WORD
    return text.format(word=quoted(new.word), old=quoted(old.word), before=before, now=now)


def of(at: Look, effect: str) -> Figure:
    """The figure of one choice for what is looked at."""
    return drawn(effect, at.record, at.before, at.position, sentence=at.sentence, dark=at.dark)


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
