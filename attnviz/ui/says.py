"""What the model says, and what it said before anything was changed."""

from difflib import SequenceMatcher
from html import escape

import streamlit as st

from attnviz.core.display import shown
from attnviz.core.edits import Site
from attnviz.core.record import Record
from attnviz.ui.notes import clean

NOTHING = "(nothing)"


def line(record: Record, before: Record | None, *, position: int, sentence: int = 0) -> None:
    """The text that the model wrote, or the most probable next word; with `before`, both and how they differ.

    Args:
        position: after which token the next word is asked for, of a model that only predicts.
    """
    if record.prediction is None:
        return
    say = _written if record.prediction.written else _next
    st.html(f'<div class="says" role="status">{say(record, before, position, sentence)}</div>')


def position(record: Record, site: Site, cell: tuple[int, int] | None, sentence: int) -> int:
    """After which token to ask for the next word: the query of the selected cell, else the last token."""
    looks = cell is not None and not (site.kind == "encoder" and record.targets)
    return cell[0] if looks and cell[0] < len(record.read[sentence].tokens) else record.read[sentence].length - 1


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


def _word(word: str, same: bool) -> str:
    return _plain(word) if same else f"<u>{_plain(word)}</u>"


def _next(record: Record, before: Record | None, position: int, sentence: int) -> str:
    after = _quiet(f"After '{shown(record.read[sentence].tokens[position].text)}' ({position}) it says")
    now, probability = _most_probable(record, position, sentence)
    if before is None:
        return f"{after} <b>{_plain(now)}</b> {probability}"
    then, was = _most_probable(before, position, sentence)
    same = now == then
    old = f"<span>{_quiet('before')} {_word(then, same)} {was}</span>"
    return f"<span>{after} {_word(now, same)} {probability}</span>{old}"


def _most_probable(record: Record, position: int, sentence: int) -> tuple[str, str]:
    """The word in quotes, and its probability as HTML."""
    ((word, probability),) = record.prediction.most_probable(position, 1, sentence=sentence)
    return f"'{word}'", _quiet(f"{probability:.2f}")


def _quiet(text: str) -> str:
    return f'<span class="quiet">{_plain(text)}</span>'


def _plain(text: str) -> str:
    return escape(clean(text))
