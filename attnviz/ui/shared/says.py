"""Predictions of the model, now and before anything was changed: in a line, and as a figure."""

import math
import re
from dataclasses import dataclass, replace
from difflib import SequenceMatcher

import streamlit as st

from attnviz import analysis, figures
from attnviz.analysis.sentences import label_value, quoted, quoted_token, turned
from attnviz.core.amounts import percent
from attnviz.core.display import label_text
from attnviz.core.errors import ShapeError
from attnviz.core.record import Record
from attnviz.figures import Figure
from attnviz.ui import cache
from attnviz.ui.shared import pictures, state, words
from attnviz.ui.shared.look import ViewContext
from attnviz.ui.shared.setting import choice
from attnviz.ui.shared.state import control
from attnviz.ui.text import block, plain, quiet

MOST_LARGE = 110
"""Characters of a prediction that is written large: more take two lines in the place of one, so that nothing moves."""


@dataclass(frozen=True)
class PredictionText:
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


def prediction(record: Record, position: int, sentence: int) -> PredictionText | None:
    """Prediction for a sentence, after a token or in place of one; None of a model without words.

    A model that fills in blanks predicts nothing where there are none.
    """
    if analysis.is_number(record):
        number = analysis.labels(record, sentence=sentence)[0].probability
        return PredictionText("label", words.NUMBER, label_value(record, number))
    if record.labels is not None:
        ranked = analysis.labels(record, sentence=sentence)
        named = f"“{label_text(ranked[0].word)}”" if ranked else ""
        return PredictionText("label", words.LABEL, named or words.NOTHING, _first(ranked)[1])
    if record.prediction is None:
        return None
    if record.prediction.written:
        if record.request and record.request.targets:
            return PredictionText("text", words.TARGET, record.request.targets[sentence])
        title = words.TRANSLATION if record.source.startswith("translator") else words.OUTPUT_TEXT
        ended = analysis.cut(record, sentence=sentence)
        detail = words.CUT.format(count=ended) if ended else ""
        return PredictionText("text", title, record.prediction.written[sentence] or words.NOTHING, detail)
    fills = analysis.fills_in(record)
    if fills and not record.prediction.blanks[sentence]:
        return PredictionText("")
    token = quoted_token(record.read[sentence].tokens[position].text, position)
    title = words.FILLED_WORD if fills else words.NEXT_WORD
    title = (words.TOKEN_LABEL if analysis.labels_tokens(record) else title).format(token=token)
    return PredictionText("word", title, *_first(analysis.next_words(record, position, sentence=sentence, count=1)))


def _first(ranked: tuple[analysis.NextWord, ...]) -> tuple[str, str]:
    """The most probable word or label in quotes, and its probability; or that there is none."""
    return (quoted(ranked[0].word), percent(ranked[0].probability)) if ranked else (words.NOTHING, words.NO_NUMBERS)


def line(context: ViewContext, position: int | None = None) -> None:
    """The text that the model wrote, a word, a label, or how alike sentences are; before the edits, too."""
    position = context.position if position is None else position
    is_vector = context.record.vectors is not None and context.record.labels is None
    if html := _vectors(context) if is_vector else _line(context, position):
        css = "says small" if len(re.sub("<[^>]*>", "", html)) > MOST_LARGE else "says"
        html += _nameless(context.record, html)
        st.html(f'<div class="{css}" role="status">{html}</div>')


def nameless(context: ViewContext) -> None:
    """Explain the predicted token where bars show it, if it has no text."""
    predicted = prediction(context.record, context.position, context.sentence)
    if predicted is not None and (html := _nameless(context.record, predicted.text)):
        st.html(f'<div class="says small" role="status">{html}</div>')


def _nameless(record: Record, html: str) -> str:
    """Meaning of "#48" in a line: a token of the vocabulary without a text."""
    for match in re.finditer(r"#\d{1,9}(?=”)", html):
        if (id := analysis.nameless_id(record, match[0])) is not None:
            return f" {_quiet(words.NAMELESS.format(token=match[0], id=id))}"
    return ""


def _line(context: ViewContext, position: int) -> str:
    now = prediction(context.record, position, context.sentence)
    if now is None:
        return ""
    if not now.kind:
        return _quiet(words.NO_BLANK)
    then = context.before and prediction(context.before, position, context.sentence)
    if not then:
        return _titled(now, f"<b>{plain(now.text)}</b>")
    if now.kind != "text":
        same = now.text == then.text
        if now.kind == "word" and position == context.moved_most:
            token = quoted_token(analysis.token_at(context.record, position, sentence=context.sentence), position)
            title = words.MOST_CHANGED[analysis.fills_in(context.record)]
            title = words.MOST_CHANGED_LABEL if analysis.labels_tokens(context.record) else title
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


def _titled(predicted: PredictionText, text: str, name: str = "") -> str:
    """A prediction with its title and its probability: "Predicted next word after “cat” (1): “sat” 0.31"."""
    title = (words.PREDICTED_BY if name else words.PREDICTED).format(title=predicted.title, run=name)
    return f"{_quiet(title)} {text}{_detail(predicted)}"


def _detail(predicted: PredictionText) -> str:
    return f" {_quiet(predicted.detail)}" if predicted.detail else ""


def show_run(
    name: str, record: Record, other: Record, position: int, sentences: tuple[int, int], positions: tuple[int, int]
) -> None:
    """Prediction of one of two runs, beginning with its name; words that the other lacks are marked.

    Args:
        sentences: of this run's batch, and of the other's.
        positions: after which token each of both is asked; `position` is this run's.
    """
    theirs = next((candidate for candidate in positions if candidate != position), position)
    mine, yours = prediction(record, position, sentences[0]), prediction(other, theirs, sentences[1])
    st.html(f'<div class="says">{_run_line(name, mine, yours)}</div>')


def _run_line(name: str, mine: PredictionText | None, yours: PredictionText | None) -> str:
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


def _vectors(context: ViewContext) -> str:
    """How far a change moved the sentence's vector; of several sentences, which two are most alike."""
    if context.before is not None:
        moved = float(analysis.shift(context.before, context.record)[context.sentence])
        return vectors_apart(moved, words.VECTOR_MOVED)
    count = len(context.record.sentences)
    if count == 1:
        return ""
    alike = analysis.similarity(context.record)
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
}
"""The figures of what a model says, and what each is called on the page."""

STEPS, NEXT, OUTPUT, BLANKS, BLANK, LABELS = KEYS
EFFECT = choice("effect", tuple(KEYS), of="model tab")


def panel(context: ViewContext, hint: str) -> dict[str, tuple[Figure, str]]:
    """One figure, and a choice of which if the model says anything; gives it and its key, by its name.

    Args:
        hint: how to select. Where a choice comes with the first change, it takes the place of that: nothing moves.
    """
    if context.source.alone and context.before is not None:
        quiet(words.FILE_ALONE)
        return {}
    options = choices(context.record, context.sentence)
    comes = len(options) == 2
    if comes and context.before is None:
        block(hint, "quiet choice")
    elif hint and not comes:
        quiet(hint)
    if context.before is not None and context.record.prediction is not None:
        position = context.prediction_position
        is_said = position is not None and position == context.moved_most  # above the picture
        st.empty() if is_said else block(most_changed(context), "large")
    if context.before is None and len(options) > 1:
        options.remove(OUTPUT)  # which has not moved
    effect = one_of(options, words.PREDICTION)
    if effect == OUTPUT and context.before is None:
        if context.record.provenance != "random":
            fixed = context.record.read_only or context.source.alone
            run = words.ONE_RUN if context.source.one_run else words.UNCHANGED
            quiet(run if fixed else f"{run} {words.TRY_A_CHANGE}")
        return {}
    try:
        figure = of(context, effect)
    except ShapeError as error:  # the model wrote another text
        quiet(str(error))
        return {}
    pictures.picture(figure, KEYS[effect])
    if effect == OUTPUT:
        quiet(figure.description)
    return {effect: (figure, KEYS[effect])}


def most_changed(context: ViewContext) -> str:
    """Which prediction a change moved most, and how: the word that comes first now, or how probable it was and is."""
    return words.SAME_PREDICTIONS if context.moved_most is None else prediction_change(context, context.moved_most)


def prediction_change(context: ViewContext, position: int, *, most: bool = True) -> str:
    """How a change moved the prediction at a position, be it the most moved one or not."""
    ranked = analysis.next_words(context.record, position, before=context.before, sentence=context.sentence)
    token = quoted_token(analysis.token_at(context.record, position, sentence=context.sentence), position)
    text = words.IN_PLACE if analysis.fills_in(context.record) else words.AFTER
    text = words.OF_TOKEN if analysis.labels_tokens(context.record) else text
    return text[not most].format(token=token, change=_change(ranked))


def _change(ranked: tuple[analysis.NextWord, ...]) -> str:
    """How the words of a prediction have changed: another one comes first, or how probable one was and is."""
    if not ranked or math.isnan(ranked[0].probability):
        return words.NO_NUMBERS
    new, old = ranked[0], max(ranked, key=lambda word: word.before)
    if new is old:
        new = old = max(ranked, key=lambda word: abs(word.probability - word.before))
    before, now = percent(old.before), percent(new.probability)
    text = words.STAYS if before == now else words.SAME_WORD
    text = words.OTHER_WORD if new is not old else text
    return text.format(word=quoted(new.word), old=quoted(old.word), before=before, now=now)


def of(context: ViewContext, effect: str) -> Figure:
    """The figure of one choice for what is looked at."""
    return prediction_figure(
        effect, context.record, context.before, context.position, sentence=context.sentence, dark=context.dark
    )


def choices(record: Record, sentence: int = 0) -> list[str]:
    """Names of the figures that can be shown; first of predictions, then of how the output moved."""
    if record.labels is not None:
        return [LABELS, OUTPUT]
    if record.prediction is None:
        return [OUTPUT]
    if analysis.fills_in(record):
        blanks = len(record.prediction.blanks[sentence])
        return [*([BLANK] if blanks else []), *([BLANKS] if blanks > 1 else []), OUTPUT]
    return [STEPS, NEXT, OUTPUT] if record.prediction.written else [NEXT, OUTPUT]


def prediction_figure(effect: str, record: Record, before: Record | None, position: int, **options) -> Figure:
    """The figure of one choice.

    Args:
        position: after which token the next word is asked for, or which blank.
    """
    if effect in (STEPS, BLANKS):
        return cache.rendered(figures.step_by_step, record, before=before, **options)
    if effect in (NEXT, BLANK):
        return cache.rendered(figures.next_word, record, position, before=before, **options)
    if effect == LABELS:
        return cache.rendered(figures.labels, record, before=before, **options)
    return cache.rendered(figures.change, before, record, **options)


def one_of(options: list[str], title: str) -> str:
    """The chosen one of some figures, else the first."""
    chosen = state.one_of(EFFECT, options)
    if len(options) > 1:
        control(st.segmented_control, title, EFFECT, options, shown=chosen, lead="")
    return chosen
