"""An answer: tokens that the model wrote behind the text, which every page shows with it."""

from dataclasses import replace

from attnviz.sources.base import Source
from attnviz.ui.shared import state, words
from attnviz.ui.shared.setting import Setting, coded, flag

MOST = 2000
"""Tokens of an answer."""


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
