"""The menu that saves a figure of a page in any format."""

from dataclasses import replace

import streamlit as st

from attnviz.core.errors import AttnvizError
from attnviz.figures import Figure
from attnviz.ui import streamlit_internals
from attnviz.ui.request import session
from attnviz.ui.text import note

USES = {"Screen": {"scale": 2}, "Paper": {"preset": "paper"}, "Slide": {"preset": "slide", "scale": 2}}
"""Uses of a picture, and the options of `export.render` for each; a scale is for PNG alone."""


def menu(figures: dict[str, Figure], key: str) -> None:
    """One button for all figures of a page: one is chosen, then saved.

    Args:
        figures: by their names in the menu.
    """
    popover = st.popover("Export", icon=":material/download:", on_change="rerun", key=f"export {key}")
    if not popover.open:
        return
    from attnviz import export

    with popover:
        name = next(iter(figures))
        if len(figures) > 1:
            name = st.segmented_control("Picture", [*figures], default=name, required=True, key=f"which {key}")
        use = st.segmented_control("Made for", [*USES], default="Screen", required=True, key=f"use {key}")
        figure = replace(figures[name])  # a copy holds nothing yet of what a file needs
        for group in ("first", "more"):
            with st.container(horizontal=True, gap="xsmall"):
                for kind in export.formats_for(group):
                    _save(figure, kind, use, key)
        if reason := session().memory.pop("not saved", ""):
            note(reason)
        st.caption("Caption")
        st.code(figure.caption, None, wrap_lines=True, width=560)


def _save(figure: Figure, kind: str, use: str, key: str) -> None:
    """The button of one format; its file is made when it is asked for."""
    from attnviz import export

    options = {name: value for name, value in USES[use].items() if name != "scale" or kind == "png"}
    file, described = export.filename(figure, kind, **options), export.FORMATS[kind]
    keep = streamlit_internals.file_keeper(described.mime, file)
    current = session()

    def contents() -> bytes:
        try:
            content = export.render(figure, kind, **options)
        except AttnvizError as error:
            current.memory["not saved"] = str(error)
            raise
        keep(content)
        return content

    st.download_button(
        kind.upper(),
        contents,
        file,
        described.mime,
        key=f"save {kind} {key}",
        on_click="ignore",
        help=described.label,
    )
