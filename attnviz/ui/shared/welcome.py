"""Start of a first visit: the purpose of the app, and three cards, each a state with one question about it."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import streamlit as st

from attnviz import api
from attnviz.core.edits import Site
from attnviz.sources.base import Source
from attnviz.ui.shared import edits, history, look, pages, state, words
from attnviz.ui.shared.examples import TEXT as TYPED
from attnviz.ui.shared.pretrained import MODEL
from attnviz.ui.shared.setting import Link, Setting, State, read, session_setting
from attnviz.ui.text import plain

CLAIM = words.CLAIM
FIRST: Link = {"model": ["story"], "layer": ["d1"], "head": ["0"]}
"""The link that an empty one stands for: the head opens where "because", which predicts "it", looks at "cat". A text
alone is opened in that model, too."""


@dataclass(frozen=True)
class GuideCard:
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

    def sentence(self, now: Link, changes: Iterable[str]) -> str:
        """The question, or what is said once its change is taken back; what to try, once anything else is another.

        Args:
            changes: the names of all that can be changed of a model.
        """
        here, there = (
            {name: link[name] for name in changes if link.get(name, ["none"]) not in ([""], ["none"])}
            for link in (self.link, now)
        )
        compared = ("layer",) if here else ("layer", "head")
        if (
            not self.is_of(now)
            or any(now.get(name) != self.link[name] for name in compared)
            or (there and here != there)
        ):
            return words.THREE_TO_TRY
        return self.question if here == there else self.undone


CARDS = {
    words.READ_A_MAP: GuideCard(
        FIRST,
        words.ASK_BECAUSE,
        ".st-key-picture-head",
        "grid_on",
    ),
    words.HIDE_THE_FUTURE: GuideCard(
        {"model": ["translator"], "text": [words.TIRED], "layer": ["e0"], "head": ["0"], "mask": ["causal"]},
        words.ASK_FUTURE,
        ".st-key-mask-menu",
        "visibility_off",
        words.NOTHING_HIDDEN,
    ),
    words.SWITCH_OFF: GuideCard(
        {"model": ["story"], "text": [words.BALL], "layer": ["d1"], "head": ["0"], "heads_off": ["d1.0"]},
        words.ASK_HEAD,
        ".st-key-heads_off-eyes button:first-child, [class*=st-key-chip-][class*=-layer-] button",
        "power_settings_new",
        words.HEAD_ON,
    ),
}


@dataclass(frozen=True)
class Here:
    """Action of a card on a text of one's own: a step, whether its change still stands, and its question."""

    step: Callable[[State, Source], State]
    stands: Callable[[State], bool]
    question: str
    frame: Callable[[Source], str]


def _looked_at(source: Source) -> tuple[Site, int]:
    """The attention call and the head on the screen; of all heads combined the first."""
    site = state.one_of(look.SITE, source.sites, look.opening_site(source))
    return site, state.one_of(look.SHOW, range(source.num_heads), look.opening_head(source))


def _without_future(now: State, source: Source) -> State:
    """Hide the future in a part of the model that sees it. A model that hides it by itself is left as it is."""
    if _hides_by_itself(source):
        return now
    site, head = _looked_at(source)
    encoder_site = site if site.kind == "encoder" else next(other for other in source.sites if other.kind == "encoder")
    return edits.without_future(now.put(look.SITE, encoder_site).put(look.SHOW, head))


def _head_off(now: State, source: Source) -> State:
    site, head = _looked_at(source)
    return now.put(look.SITE, site).put(look.SHOW, head).put(edits.OFF, now[edits.OFF] | {(site, head)})


HERE = {
    words.READ_A_MAP: Here(
        lambda now, _: now.without("tab"), lambda _: True, words.READ_HERE, lambda _: ".st-key-picture-head"
    ),
    words.HIDE_THE_FUTURE: Here(
        _without_future, edits.hides_future, words.FUTURE_HERE, lambda _: CARDS[words.HIDE_THE_FUTURE].frame
    ),
    words.SWITCH_OFF: Here(
        _head_off,
        lambda now: bool(now[edits.OFF]),
        words.OFF_HERE,
        lambda source: CARDS[words.SWITCH_OFF].frame.replace("first-child", f"nth-child({_looked_at(source)[1] + 1})"),
    ),
}
PRESSED = session_setting("card on own text", "", of="text model")
"""The card that was pressed last beside a text of one's own."""
WELCOME = session_setting("welcome", "")
"""Visible part: the claim, the name of a card, or "" for nothing."""
REPLACED = session_setting("welcome replaced", "")
"""Things that the card replaced: a model, a text, both or nothing."""
FRAMED = "outline: 3px solid light-dark(#a8380b, #fb923c); outline-offset: 3px; border-radius: 6px;"


def arrive(settings: Mapping[str, Setting]) -> None:
    """Take the state from the link; of one that says at most a text and which part of a page also from `FIRST`.

    Where a person brought a model of their own, such a link opens that one.
    """
    link, own = state.address(), [*api.OFFERED][-1:]
    begins, first = not state.get(state.BEGUN), link.keys() <= state.PLACES and not own
    bare = link.keys() <= {TYPED.name, *state.PLACES}
    opened = FIRST if first else {MODEL.name: own or FIRST[MODEL.name]}
    state.arrive(settings, opened | link if begins and bare else None)
    if begins and first:
        state.put(WELCOME, CLAIM)


def cards(settings: Mapping[str, Setting], source: Source | None, *, here: bool = True) -> None:
    """The claim, the question of the chosen card, and the cards; nothing once they are closed.

    Beside a model or a text of one's own a card does what it is about with that.

    Args:
        source: the model, if there is anything to look at.
        here: whether this is the page that they speak of; elsewhere there is the way back to them alone.
    """
    current, now = state.get(WELCOME), state.now()
    link = state.link()
    own = not any(card.is_of(link) for card in CARDS.values())
    if own and (source is None or source.read_only or source.alone):
        return
    if not (current and here):  # nobody sees this button; the list behind "?" presses it
        if st.button(words.GUIDE, key="guide again", on_click=state.put, args=(WELCOME, CLAIM)):
            pages.go_to(pages.TITLES[0])
        return
    chosen, sentence, frame = _on_own_text(now, source) if own else _on_its_own(now, settings)
    with st.container(horizontal=True, vertical_alignment="center", gap="xsmall", key="welcome"):
        undo = words.UNDO_CARD.format(what=now[REPLACED]) if frame and not own and now[REPLACED] else ""
        framed = f"<style>{frame} {{{FRAMED}}}</style>" if frame else ""
        css = "guide rests" if sentence in words.RESTING else "guide"
        if own and not frame:
            css = "guide quiet"
        claim = "" if own else f'<p class="claim">{plain(CLAIM)}</p>'
        st.html(f'<div class="{css}">{claim}<p>{plain(sentence)}{undo}</p>{framed}</div>')
        for name, card in CARDS.items():
            act = (_try, (name, source)) if own else (_open, (name, settings))
            filled = name == (chosen or words.READ_A_MAP)
            options = {"icon": f":material/{card.icon}:", "type": "primary" if filled else "secondary"}
            if st.button(name, key=f"card {name}", on_click=act[0], args=act[1], **options):
                st.rerun()  # the model and the text stand above the page
        school = {"icon": ":material/school:", "type": "tertiary"}
        if st.button(words.LEARN, key="card Learn", **school):
            pages.go_to("Learn")
        close = {"icon": ":material/close:", "type": "tertiary", "help": words.CLOSE_GUIDE}
        st.button(words.CLOSE, key="icon close welcome", on_click=state.put, args=(WELCOME, ""), **close)


def _on_its_own(now: State, settings: Mapping[str, Setting]) -> tuple[str, str, str]:
    """The card that is chosen, what is said, and what is framed; of none why a cell is outlined, or what to try."""
    changes = [name for name, setting in settings.items() if "edits" in setting.of.split()]
    card = CARDS.get(now[WELCOME])
    link = state.link()
    other = words.WHY_BECAUSE if link == FIRST else words.THREE_TO_TRY
    sentence = card.sentence(link, changes) if card else other
    return (now[WELCOME], sentence, card.frame) if card and sentence == card.question else ("", sentence, "")


def _on_own_text(now: State, source: Source) -> tuple[str, str, str]:
    """The same beside a text of one's own."""
    card = HERE.get(now[PRESSED])
    if now[PRESSED] == words.HIDE_THE_FUTURE and _hides_by_itself(source):
        return now[PRESSED], words.FUTURE_HIDDEN, HERE[words.READ_A_MAP].frame(source)
    if card is None or not card.stands(now):
        return "", words.TRY_HERE, ""
    return now[PRESSED], card.question, card.frame(source)


def _hides_by_itself(source: Source) -> bool:
    """Whether there is nothing to hide: a model that writes word by word hides the future by itself."""
    return all(site.kind != "encoder" for site in source.sites)


def _try(name: str, source: Source) -> None:
    """Do what a card is about with the model and the text that stand there."""
    history.record()  # what was typed and not yet applied can be gone back to
    state.change(lambda now: HERE[name].step(now, source).put(PRESSED, name))


def _open(name: str, settings: Mapping[str, Setting]) -> None:
    history.record()  # what was typed and not yet applied can be gone back to
    opened = read(CARDS[name].link, settings)
    state.change(lambda now: now.replaced(opened).put(WELCOME, name).put(REPLACED, _replaced(now, opened)))


def _replaced(before: State, after: State) -> str:
    model = words.OPENED_MODEL.format(model=after[MODEL]) if after[MODEL] != before[MODEL] else ""
    return ", ".join(filter(None, (model, words.OPENED_TEXT if after[TYPED] != before[TYPED] else "")))
