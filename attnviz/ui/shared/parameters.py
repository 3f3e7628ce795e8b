"""The parameters of a model that is made anew from them, such as one with random weights."""

import streamlit as st

from attnviz import api
from attnviz.core.errors import InputError
from attnviz.core.parameters import Parameter, parameters
from attnviz.sources.base import Source
from attnviz.ui.shared import state
from attnviz.ui.shared.state import Setting, control


def _setting(one: Parameter) -> Setting:
    if one.kind == "flag":
        return state.flag(one.name, one.default)
    if one.kind == "choice":
        return state.choice(one.name, one.choices, one.default)
    return state.whole(one.name, one.default, one.least, one.most)


SETTINGS = {one.name: _setting(one) for made in api.SOURCES.values() for one in parameters(made)}
"""What a link and a session keep of each."""
DECLARED = tuple(SETTINGS.values())


def chosen(source: Source) -> Source | InputError:
    """The source with what is chosen: behind one button that says what it is, and the choices under it."""
    known = parameters(type(source))
    if not known:
        return source
    with st.popover(source.title.lower(), icon=":material/tune:", width="stretch"):
        st.caption(source.does)
        columns = st.columns(2)
        ordered = [one for kind in ("number", "flag") for one in known if one.kind == kind]
        for i, one in enumerate(ordered):
            behavior = control(SETTINGS[one.name]) | {"help": one.help}
            if one.kind == "flag":
                columns[i % 2].toggle(one.label, **behavior)
            else:
                columns[i % 2].number_input(one.label, one.least, one.most, **behavior)
    for one in (one for one in known if one.kind == "choice"):
        options = {"required": True, "label_visibility": "collapsed", "width": "stretch"}
        st.segmented_control(one.label, one.choices, **control(SETTINGS[one.name]), **options)
    try:
        return type(source)(**{one.name: state.get(SETTINGS[one.name]) for one in known})
    except InputError as error:
        return error
