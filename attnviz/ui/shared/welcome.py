"""What a first visit begins with: what the app is for, and three cards, each a state with one question about it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from attnviz.ui.shared import history, pages, state, words
from attnviz.ui.shared.examples import TEXT as TYPED
from attnviz.ui.shared.pretrained import MODEL
from attnviz.ui.shared.setting import Link, Setting, State, kept, read
from attnviz.ui.shared.text import plain

CLAIM = words.CLAIM
FIRST: Link = {"model": ["story"], "text": [words.BECAUSE], "site": ["d1"], "show": ["0"], "cell": ["7.2"]}
"""The link that an empty one stands for: where "because", which predicts "it", looks at "cat"."""


@dataclass(frozen=True)
class Card:
    """A state as a link, a question that its picture answers, and the control that is framed, by its selector.

    Attributes:
        undone: what stands in the place of the question once the card's change is taken back.
    """

    link: Link
    question: str
    frame: str
    icon: str
    undone: str = ""

    def is_of(self, now: Link) -> bool:
        """Whether a link shows the model and the text of the card."""
        return all(now.get(name) == self.link.get(name) for name in ("model", "text"))

    def says(self, now: Link, changes: Iterable[str]) -> str:
        """The question, or what is said once its change is taken back; the claim, once anything else is another.

        Args:
            changes: the names of all that can be changed of a model.
        """
        here, there = (
            {name: link[name] for name in changes if link.get(name, ["none"]) not in ([""], ["none"])}
            for link in (self.link, now)
        )
        seen = ("site",) if here else ("site", "show")
        if not self.is_of(now) or any(now.get(name) != self.link[name] for name in seen) or (there and here != there):
            return CLAIM
        return self.question if here == there else self.undone


CARDS = {
    words.READ_A_MAP: Card(
        FIRST,
        words.ASK_BECAUSE,
        ".st-key-picture-head",
        "grid_on",
    ),
    words.HIDE_THE_FUTURE: Card(
        {"text": [words.TIRED], "site": ["e0"], "show": ["0"], "mask": ["subsequent"]},
        words.ASK_FUTURE,
        ".st-key-mask-menu",
        "visibility_off",
        words.NOTHING_HIDDEN,
    ),
    words.SWITCH_OFF: Card(
        {"model": ["story"], "text": [words.GIVEN], "site": ["d1"], "show": ["0"], "off": ["d1.0"]},
        words.ASK_HEAD,
        ".st-key-off-eyes button:first-child",
        "power_settings_new",
        words.HEAD_ON,
    ),
}

WELCOME = kept("welcome", "")
"""What stands there: the claim, the name of a card, or "" for nothing."""
REPLACED = kept("welcome replaced", "")
"""What the card put in the place of another: a model, a text, both or nothing."""
FRAMED = "outline: 3px solid light-dark(#a8380b, #fb923c); outline-offset: 3px; border-radius: 6px;"


def arrive(settings: Mapping[str, Setting]) -> None:
    """Take the state from the link; of a first visit, which has none, from `FIRST`."""
    first = not state.get(state.BEGUN) and not state.address()
    state.arrive(settings, FIRST if first else None)
    if first:
        state.put(WELCOME, CLAIM)


def cards(settings: Mapping[str, Setting]) -> None:
    """The claim or the question of the chosen card, and the cards; nothing once they are closed.

    Nor beside a model or a text of one's own, which a card would replace.
    """
    shown, now = state.get(WELCOME), state.now().link()
    if not shown or not any(one.is_of(now) for one in CARDS.values()):
        return
    card, changes = CARDS.get(shown), [name for name, one in settings.items() if "edits" in one.of.split()]
    says = card.says(now, changes) if card else CLAIM
    card = card if card and says == card.question else None
    with st.container(horizontal=True, vertical_alignment="center", gap="xsmall", key="welcome"):
        undo = words.UNDO_CARD.format(what=state.get(REPLACED)) if card and state.get(REPLACED) else ""
        framed = f"<style>{card.frame} {{{FRAMED}}}</style>" if card else ""
        st.html(f'<div class="guide"><p>{plain(says)}{undo}</p>{framed}</div>')
        for name, one in CARDS.items():
            look = {"icon": f":material/{one.icon}:", "type": "primary" if one is card else "secondary"}
            if st.button(name, key=f"card {name}", on_click=_open, args=(name, settings), **look):
                _to_the_first_page()
        school = {"icon": ":material/school:", "type": "tertiary"}
        if st.button(words.LEARN, key="card Learn", **school):
            pages.go_to("Learn")
        close = {"icon": ":material/close:", "type": "tertiary", "help": words.CLOSE}
        st.button(words.CLOSE, key="icon close welcome", on_click=state.put, args=(WELCOME, ""), **close)


def _open(name: str, settings: Mapping[str, Setting]) -> None:
    history.record()  # what was typed and not yet applied can be gone back to
    opened = read(CARDS[name].link, settings)
    state.change(lambda now: now.replaced(opened).put(WELCOME, name).put(REPLACED, _replaced(now, opened)))


def _replaced(before: State, after: State) -> str:
    model = words.OPENED_MODEL.format(model=after[MODEL]) if after[MODEL] != before[MODEL] else ""
    return ", ".join(filter(None, (model, words.OPENED_TEXT if after[TYPED] != before[TYPED] else "")))


def _to_the_first_page() -> None:
    """What a card asks about stands on the page Heads; the model and the text stand above the page."""
    if get_script_run_ctx().page_script_hash not in ("", pages.page(pages.TITLES[0])._script_hash):
        pages.go_to(pages.TITLES[0])
    st.rerun()
