"""The parameters of a model that is made anew from them, such as one with random weights."""

import streamlit as st

from attnviz import api
from attnviz.core.errors import InputError
from attnviz.core.parameters import Parameter, parameters
from attnviz.sources.base import Source
from attnviz.ui.shared import state
from attnviz.ui.shared.setting import Setting, State, choice, flag, whole
from attnviz.ui.shared.state import control


def _setting(parameter: Parameter) -> Setting:
    if parameter.kind == "flag":
        return flag(parameter.name, parameter.default)
    if parameter.kind == "choice":
        return choice(parameter.name, parameter.choices, parameter.default)
    return whole(parameter.name, parameter.default, parameter.least, parameter.most)


SETTINGS = {
    parameter.name: _setting(parameter)
    for source_class in api.SOURCES.values()
    for parameter in parameters(source_class)
}
"""Setting of each parameter, for links and sessions."""
DECLARED = tuple(SETTINGS.values())


def chosen(source: Source) -> Source | InputError:
    """The source with what is chosen: behind one button that says what it is."""
    declared = parameters(type(source))
    if not declared or source.id in api.OFFERED:
        return source
    menu = state.menu(source.title, icon=":material/tune:", width=220, key="parameters")
    if menu.open:
        with menu:
            _controls(source.does, declared)
    try:
        return of(state.now(), source)
    except InputError as error:
        return error


def _controls(does: str, declared: tuple[Parameter, ...]) -> None:
    st.caption(does)
    columns = st.columns(2)
    for i, parameter in enumerate(parameter for parameter in declared if parameter.on_page):
        place, setting = columns[i % 2], SETTINGS[parameter.name]
        if parameter.kind == "choice":
            control(place.selectbox, parameter.label, setting, parameter.choices, help=parameter.help)
        elif parameter.kind == "flag":
            control(place.toggle, parameter.label, setting, help=parameter.help)
        else:
            control(place.number_input, parameter.label, setting, parameter.least, parameter.most, help=parameter.help)


def of(now: State, source: Source) -> Source:
    """The source with what a state chooses.

    Raises:
        InputError: if it cannot be made so.
    """
    declared = parameters(type(source))
    if not declared:
        return source
    return type(source)(**{parameter.name: now[SETTINGS[parameter.name]] for parameter in declared})
