"""The export menu: a figure in any format, its Python code, or all figures of a page together with the run."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any
from urllib.parse import parse_qs, urlencode

import streamlit as st

from attnviz import cases, link
from attnviz.core.errors import AttnvizError
from attnviz.figures import Figure
from attnviz.figures.base import stem
from attnviz.ui import snippet, streamlit_internals
from attnviz.ui.request import now, session
from attnviz.ui.text import note
from attnviz.ui.toolbar import Context

USES = {"Screen": {"scale": 2}, "Paper": {"preset": "paper"}, "Slide": {"preset": "slide", "scale": 2}}
"""Uses of a picture with their options of `export.render`; `scale` applies to PNG only."""


def menu(context: Context, figures: dict[str, Figure], key: str) -> None:
    """Draw the export menu of a page with its figures, by their names in the menu."""
    popover = st.popover("Export", icon=":material/download:", on_change="rerun", key=f"export {key}")
    if not popover.open:
        return
    from attnviz import export

    with popover:
        name = next(iter(figures))
        if len(figures) > 1:
            name = st.segmented_control("Picture", [*figures], default=name, required=True, key=f"which {key}")
        use = st.segmented_control("Made for", [*USES], default="Screen", required=True, key=f"use {key}")
        figure = replace(figures[name])  # a copy, so that what a file needs is not kept with the figure of the page
        for group in ("first", "more"):
            with st.container(horizontal=True, gap="xsmall"):
                for kind in (name for name, format in export.FORMATS.items() if format.place == group):
                    _save(figure, kind, use, key)
        st.caption("Caption")
        st.code(figure.caption, None, wrap_lines=True, width=560)
        if lines := snippet.python(figure):
            with st.expander("Python that makes this picture"):
                st.code(lines, "python", wrap_lines=True, width=560)
        _run(context, [*figures.values()], key)
        if reason := session().memory.pop("not saved", ""):
            note(reason)


def _save(figure: Figure, kind: str, use: str, key: str) -> None:
    """Draw the button that saves a figure in one format (`kind`, such as "svg") for one of `USES`."""
    from attnviz import export

    options = {name: value for name, value in USES[use].items() if name != "scale" or kind == "png"}
    file, file_format = export.filename(figure, kind, **options), export.FORMATS[kind]
    make = partial(export.render, figure, kind, **options)
    _download(kind.upper(), make, file, file_format.mime, key=f"save {kind} {key}", help=file_format.label)


def _run(context: Context, figures: list[Figure], key: str) -> None:
    """Draw the buttons that save the run: an HTML page of every head, and a ZIP of all pictures and the run."""
    from attnviz.export import everything
    from attnviz.export.explore import explore

    record, text, head = context.record, context.sentence, context.head if isinstance(context.head, int) else 0
    in_view = {"before": context.before, "sentence": text, "site": context.site, "head": head}
    settings = getattr(context.source, "case", None)  # an opened file has the settings it was saved with
    if not settings:
        settings = cases.settings_of(context.source, context.request)
    copies, name = tuple(map(replace, figures)), stem(record, sentence=text)
    page = partial(explore, record, **in_view)
    archive = partial(everything, record, copies, settings=settings | _state(), dark=context.dark, **in_view)
    with st.container(horizontal=True, gap="xsmall"):
        about = "Every head as map, lines and text, in a page that opens in any browser"
        options = {"key": f"save page {key}", "help": about, "icon": ":material/web:"}
        _download("Page to explore", page, f"{name}.html", "text/html", **options)
        about = "All pictures with their numbers, the page to explore, and the run, which opens here and in Python"
        options = {"key": f"save all {key}", "help": about, "icon": ":material/folder_zip:"}
        _download("All in one ZIP", archive, f"{name}.zip", "application/zip", **options)


def _state() -> dict[str, Any]:
    """Return the page's choices to save with a run, without text and edits, which the run itself contains."""
    view = now().without("edits").put(model=cases.without_path(now()["model"]), text=None, target="", answer=())
    return {"state": parse_qs(urlencode(link.write(view)))}


def _download(title: str, make: Callable[[], bytes | str], file: str, mime: str, **options: Any) -> None:
    """Draw a button that makes and downloads a file; an error is shown in the menu."""
    keep_file, current = streamlit_internals.file_keeper(mime, file), session()

    def contents() -> bytes:
        try:
            content = make()
        except AttnvizError as error:
            current.memory["not saved"] = str(error)
            raise
        content = content.encode() if isinstance(content, str) else content
        keep_file(content)
        return content

    st.download_button(title, contents, file, mime, on_click="ignore", **options)
