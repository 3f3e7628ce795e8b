"""Files that the user opens: a saved run or weights become a model of the session, a text replaces the text.

A link names such a model ``file:case.attn`` but does not contain the file: open the file before you open the link.
"""

import codecs

import numpy as np
import streamlit as st
from streamlit import config

from attnviz import api, cases, link
from attnviz.core.errors import PICTURES, AttnvizError, InputError, quoted
from attnviz.files import media
from attnviz.sources.saved import Saved
from attnviz.ui import budget, cache, pictures, streamlit_internals
from attnviz.ui.request import change, now, session
from attnviz.ui.text import clean, note

PREFIX = "file:"
TEXTS = (".txt", ".text", ".md")
MOST_FILES = 4
"""Maximum number of files that a session may have open."""
MOST_HEADS, MOST_TOKENS = 512, 32_768
"""Maximum numbers of heads of a layer, and of queries or keys, in a file; above them a page would take too long."""
LONGEST_NAME, KEPT_AT_END = 80, 15
"""Maximum number of characters of a file's name, and of these the number kept at the end of a shortened name."""


def open_files() -> dict[str, Saved]:
    """Saved runs that are open in this session, by their model names, the newest last."""
    return session().memory.setdefault("files", {})


def source(model: str) -> Saved:
    """Return the opened file with this model name; raise InputError if the file is not open in this session."""
    if model not in open_files():
        name = quoted(model.removeprefix(PREFIX), LONGEST_NAME)
        raise InputError(f"The link refers to the file {name}: open this file, or choose a model.")
    return open_files()[model]


def button() -> None:
    """Draw the menu that opens files, and the messages about the files that were opened last."""
    popover = st.popover("Open", icon=":material/folder_open:", on_change="rerun", key="open menu")
    if popover.open:
        with popover:
            count = session().memory.get("upload count", 0)
            most = config.get_option("server.maxUploadSize")
            label = f"A saved run, weights, a text, a picture or a sound, up to {most} MB"
            st.file_uploader(label, accept_multiple_files=True, key=f"files {count}", on_change=_open, args=(count,))
    for text, kind in session().memory.pop("about files", ()):
        note(text, kind)


def _open(count: int) -> None:
    """Open each uploaded file by the ending of its name, and store the messages for the next drawing of the button.

    Args:
        count: number of earlier uploads, a part of the key of the upload box.
    """
    memory = session().memory
    memory["upload count"] = count + 1  # a new key, so that the upload box is empty again
    messages = []
    for upload in streamlit_internals.peek(f"files {count}") or ():
        name = _name(upload.name)
        try:
            if name.lower().endswith(TEXTS):
                messages += _text(name, upload.getvalue())
            elif name.lower().endswith((*PICTURES, media.SOUND_ENDING)):
                messages += _picture(name, upload.getvalue())
            else:
                messages += _run(name, upload.getvalue())
        except AttnvizError as error:
            messages.append((str(error), "error"))
        streamlit_internals.drop_upload(upload.file_id)
    memory["about files"] = messages


def _picture(name: str, content: bytes) -> list[tuple[str, str]]:
    """Keep a picture or a sound in the session; return notes, for example that the current model reads only text."""
    notes = pictures.open_file(name, content)
    model = api.SOURCES.get(now()["model"].partition(":")[0])
    if model is not None and model.reads == "text":
        example = "" if name.lower().endswith(media.SOUND_ENDING) else ", such as shapes"
        notes.append((f"{name} is open, but this model reads only text: choose another model{example}.", "notice"))
    return notes


def _text(name: str, content: bytes) -> list[tuple[str, str]]:
    """Use a file as the text of the page; line breaks become spaces, as they seldom end a sentence."""
    is_utf16 = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        text = content.decode("utf-16" if is_utf16 else "utf-8-sig")
    except UnicodeDecodeError as error:
        problem = f"is not {error.encoding.upper()} at byte {error.start}"
        raise InputError(f"{quoted(name)} {problem}: save it as UTF-8.") from None
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if "\0" in text or not lines:
        raise InputError(f"{quoted(name)} has no text; open a plain text file.")
    joined = " ".join(lines)
    cache.check_characters(joined)
    change(lambda choices: choices.without("text").put(text=joined, lines=False))
    return [(f"The {len(lines)} lines of {name} were joined to one text.", "notice")] if len(lines) > 1 else []


def _run(name: str, content: bytes) -> list[tuple[str, str]]:
    """Add a saved run or weights as a model of the session, and open the view that was saved with it."""
    if len(open_files()) >= MOST_FILES:
        way_out = f"Reload the page to close them, then open {quoted(name)}"
        raise InputError(f"{MOST_FILES} files are open already. {way_out}.")
    saved = cases.source(name, content)
    _check(saved)
    model, number = f"{PREFIX}{name}", 2
    while model in open_files():
        model, number = f"{PREFIX}{name} ({number})", number + 1
    open_files()[model] = saved
    view, _ = link.read(cases.state_of(saved))
    change(lambda _: view.without("edits").put(model=model, text=None))
    return []


def _check(saved: Saved) -> None:
    """Raise InputError if a file has more texts, heads or tokens than a page shows, or if memory is lacking."""
    shapes = np.array([step.shape for step in saved.record.steps])  # (steps, 4)
    _, heads, queries, keys = shapes.max(0).tolist()
    sizes = {
        "texts": (len(saved.record.sentences), cache.MOST_SENTENCES),
        "heads in a layer": (heads, MOST_HEADS),
        "queries": (queries, MOST_TOKENS),
        "keys": (keys, MOST_TOKENS),
    }
    for unit, (count, most) in sizes.items():
        if count > most:
            limit = f"a page shows up to {most:,}. Use the command line"
            raise InputError(f"{quoted(saved.name)} has {count:,} {unit}; {limit}.")
    if sum(other.record.nbytes for other in (*open_files().values(), saved)) > budget.memory():
        raise InputError(f"There is no memory left for {quoted(saved.name)}; reload the page to close other files.")


def _name(name: str) -> str:
    """Shorten the name of a file for links and lists, and keep its ending."""
    plain = "".join(c if c.isprintable() else " " for c in clean(name)).strip() or "file"
    if len(plain) <= LONGEST_NAME:
        return plain
    return f"{plain[: LONGEST_NAME - 1 - KEPT_AT_END]}…{plain[-KEPT_AT_END:]}"
