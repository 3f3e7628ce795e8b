"""An answer: tokens that the model wrote behind the text, which every page shows with it."""

from collections.abc import Sequence
from dataclasses import replace

from attnviz.core.tokens import Sentence
from attnviz.sources.base import Source
from attnviz.ui.shared import state, words
from attnviz.ui.shared.setting import Setting, coded, flag
from attnviz.ui.shared.target import TextWith

MOST = 2000
"""Tokens of an answer."""


class AnsweredText(TextWith):
    """A text with the ids that were written behind it."""

    @property
    def ids(self) -> tuple[int, ...]:
        return self.part


def _decode(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("-") if part.isdecimal())[:MOST]


def _lacks(there: object, _: object) -> str:
    is_one = not isinstance(there, Source) or there.generates
    return "" if is_one else words.WRITES_NOTHING.format(model=there.name)


ANSWER: Setting[tuple[int, ...]] = coded(
    "continued", (), lambda ids: "-".join(map(str, ids)), _decode, "text model", lacks=_lacks
)
"""Ids of the tokens that were written behind the text."""
CHAT = flag("chat", False, "model")
"""Whether the text is what a user says in a chat."""
SYSTEM: Setting[str] = coded("system", "", str, str, "model")
"""What the system says in it."""


def in_chat(source: Source) -> Source:
    """The source with the chat that was chosen, if it has a template for one."""
    is_chat = source.can_chat and state.get(CHAT)
    return replace(source, chat=True, system=state.get(SYSTEM)) if is_chat else source


def with_answer(source: Source, lines: tuple[str, ...], ids: tuple[int, ...]) -> tuple[str, ...]:
    """The text with its answer, where there is one text and the model continues texts."""
    return (AnsweredText(lines[0], ids),) if ids and source.generates and len(lines) == 1 else lines


def whole(text: str, sentence: Sentence) -> str:
    """A text with its answer in words, for another model, which has other ids; `sentence` holds both."""
    return sentence.text if isinstance(text, AnsweredText) else text


def tokens(source: Source, lines: Sequence[str], sentences: tuple[Sentence, ...]) -> tuple[Sentence, ...]:
    """The sentences, with the tokens of the answer behind the text that has one."""
    if not (len(lines) == 1 and isinstance(lines[0], AnsweredText)):
        return sentences
    return (source.continued(sentences[0], lines[0].ids),)
