"""Banner of a first visit: the purpose of the app, three things to try, and links to the check and the lessons."""

from dataclasses import dataclass
from urllib.parse import urlencode

import streamlit as st

from attnviz import link
from attnviz.lessons import link_of
from attnviz.ui import main
from attnviz.ui.request import change, now, session
from attnviz.ui.text import block


@dataclass(frozen=True)
class FirstStep:
    """Suggestion for a first visit: choices of the app as URL parameters, and a question that the picture answers."""

    icon: str
    link: str
    question: str


CARDS = {
    "Read a map": FirstStep(
        "grid_on",
        urlencode(main.FIRST),
        "Row “because”: to predict “it”, the head looks most at “cat”. Where does it look in row “was”?",
    ),
    "Hide the future": FirstStep(
        "visibility_off",
        "model=translator&text=The mouse sat on the mat because it was tired.&layer=e0&head=0&mask=causal",
        "In this translator each English word now sees only those before it. Which French words change?",
    ),
    "Switch off a head": FirstStep(
        "power_settings_new",
        "model=story&text=Anna and Tom went to the park. Anna gave the ball to&layer=d1&head=0&heads_off=d1.0",
        "Head 0 is off. Who gets the ball now, and who did before? Switch it on.",
    ),
}


def banner() -> None:
    """Draw the purpose of the app with buttons, or the question of the clicked button; nothing once it is closed."""
    memory = session().memory
    if memory.pop("card opens", False):
        st.rerun()  # draws the row of model and text again, too
    card = CARDS.get(memory.get("card", ""))
    first_choices, _ = link.read(link_of(CARDS["Read a map"].link))
    is_first_view = now() == first_choices
    if memory.get("welcome closed") or (card is None and not is_first_view):
        return
    with st.container(horizontal=True, vertical_alignment="center", gap="xsmall", key="welcome"):
        claim = "See where each attention head looks, and what breaks when you change it."
        block(card.question if card else claim, "claim", "p")
        if card is None:
            _buttons()
        action = {"on_click": memory.update, "args": ({"welcome closed": True},)}
        st.button("", key="close welcome", icon=":material/close:", type="tertiary", help="Close", **action)


def _buttons() -> None:
    """Draw buttons for three things to try, for the check of a mask or a model, and for the lessons."""
    for name, offered in CARDS.items():
        st.button(name, key=f"card {name}", icon=f":material/{offered.icon}:", on_click=_open, args=(name,))
    if st.button("Check a mask or a model", key="card check", icon=":material/rule:"):
        change(lambda choices: choices.put(lab="check"))
        main.go_to("Masks")
    if st.button("Learn", key="card learn", icon=":material/school:", type="tertiary"):
        main.go_to("Learn")


def _open(name: str) -> None:
    """Open the choices of a card, and remember it for its question."""
    session().memory |= {"card": name, "card opens": True}
    choices, _ = link.read(link_of(CARDS[name].link))
    change(lambda _: choices)
