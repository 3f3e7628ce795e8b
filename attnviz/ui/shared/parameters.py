"""The parameters of a model that is made anew from them, such as one with random weights."""

import streamlit as st

from attnviz import api
from attnviz.core.errors import InputError
from attnviz.core.parameters import Parameter, parameters
from attnviz.sources.base import Source
from attnviz.ui.shared import state
from attnviz.ui.shared.setting import Setting, State, choice, flag, whole
from attnviz.ui.shared.state import control


def _setting(one: Parameter) -> Setting:
    if one.kind == "flag":
        return flag(one.name, one.default)
    if one.kind == "choice":
        return choice(one.name, one.choices, one.default)
    return whole(one.name, one.default, one.least, one.most)


SETTINGS = {one.name: _setting(one) for made in api.SOURCES.values() for one in parameters(made)}
"""What a link and a session keep of each."""
DECLARED = tuple(SETTINGS.values())


def chosen(source: Source) -> Source | InputError:
    """The source with what is chosen: behind one button that says what it is."""
    known = parameters(type(source))
    if not known or source.id in api.OFFERED:
        return source
    menu = state.menu(source.title, icon=":material/tune:", width=220, key="parameters")
    if menu.open:
        with menu:
            _controls(source.does, known)
    try:
        return of(state.now(), source)
    except InputError as error:
        return error


def _controls(does: str, known: tuple[Parameter, ...]) -> None:
    st.caption(does)
    columns = st.columns(2)
    for i, one in enumerate(one for one in known if one.on_page):
        place, setting = columns[i % 2], SETTINGS[one.name]
        if one.kind == "choice":
            control(place.selectbox, one.label, setting, one.choices, help=one.help)
        elif one.kind == "flag":
            control(place.toggle, one.label, setting, help=one.help)
        else:
            control(place.number_input, one.label, setting, one.least, one.most, help=one.help)


def of(now: State, source: Source) -> Source:
    """The source with what a state chooses.

    Raises:
        InputError: if it cannot be made so.
    """
    known = parameters(type(source))
    return type(source)(**{one.name: now[SETTINGS[one.name]] for one in known}) if known else source
