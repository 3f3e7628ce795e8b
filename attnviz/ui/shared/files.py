"""Files that a person opens: each is one more model of that session alone, and gone with it.

In a link such a model is ``file:case.attn``. The link does not hold the file: who follows it is asked for it.
"""

from collections.abc import Mapping
from contextlib import suppress
from weakref import WeakKeyDictionary

import streamlit as st
from streamlit import config

from attnviz import cases
from attnviz.core.errors import PICTURES, AttnvizError, InputError, quoted
from attnviz.files import sounds
from attnviz.sources.saved import Saved
from attnviz.ui import budget, cache, streamlit_internals
from attnviz.ui.shared import examples, photos, state, text_file, words
from attnviz.ui.shared.setting import Setting, State, read, session_setting
from attnviz.ui.text import clean, note

PREFIX = "file:"
"""Prefix of the names of files among the models of a session, and in a link."""

MOST_FILES = 4
"""Files that a session may have open."""
MOST_HEADS, MOST_TOKENS = 512, 32_768
"""Heads of a layer, and queries and keys: a page of more takes longer than anybody waits for a file."""
MOST_BYTES = 1_000_000_000
"""Memory of the open files of all sessions, where a run may take as much."""
LONGEST_NAME = 80

OPEN: Setting[Mapping[str, Saved]] = session_setting("open files", {})
"""The files of this session by the names of their models, the newest last."""
TAKEN = session_setting("files taken", 0)
"""How often files came: each time the box for them is a new one, which holds none."""

MESSAGES: Setting[tuple[tuple[str, str], ...]] = session_setting("files said", ())
"""Messages about the files that came, each with the kind of its note."""

_bytes: WeakKeyDictionary[Saved, int] = WeakKeyDictionary()
"""Memory of each file that is open in some session."""


def megabytes() -> int:
    """Megabytes that a file may have, packed and unpacked."""
    return config.get_option("server.maxUploadSize")


def button() -> str:
    """The button that opens a file; files.js makes it work."""
    most = megabytes()
    return words.OPEN_FILE.format(megabytes=most, help=words.OPENS.format(files=MOST_FILES, megabytes=most))


def names(requested: str = "") -> tuple[str, ...]:
    """The models of this session that are files, and one that a link asks for if that is of a file."""
    return tuple(dict.fromkeys([*state.get(OPEN), *([requested] if is_file(requested) else [])]))


def is_file(model: str) -> bool:
    return model.startswith(PREFIX)


def title(model: str) -> str:
    """Name of a model in a list: of a file its own."""
    return model.removeprefix(PREFIX)


def decode(model: str) -> str:
    """The name of a file's model in a link.

    Raises:
        InputError: if no file has such a name.
    """
    if not title(model).isprintable() or not 0 < len(title(model)) <= LONGEST_NAME + len(" (4)"):
        raise InputError(words.NO_FILE_NAME.format(name=quoted(model)))
    return model


def source(model: str) -> Saved | InputError:
    """The file of that name, or that it is to be opened again."""
    missing = words.FILE_GONE.format(file=quoted(title(model), LONGEST_NAME))
    return state.get(OPEN).get(model) or InputError(missing)


def box(setting: Setting[str], settings: Mapping[str, Setting]) -> None:
    """The place of files, which nobody sees. The script of the page brings it what is dropped anywhere.

    Args:
        setting: the model, which becomes the file.
        settings: all that a link, and so a file, holds.
    """
    key = f"files {state.get(TAKEN)}"
    options = {"on_change": _take, "args": (key, setting, settings)}
    with st.container(key="open-files"):
        st.html(f'<i data-most="{megabytes()}"></i>')
        st.file_uploader(words.OPEN_FILES, accept_multiple_files=True, key=key, **options)


def _take(key: str, setting: Setting[str], settings: Mapping[str, Setting]) -> None:
    """Open files, and say of each that cannot be opened why; what was sent is let go of."""
    state.put(TAKEN, state.get(TAKEN) + 1)
    for upload in state.event(key) or ():
        name = _name(upload.name)
        try:
            messages = _taken(name, upload.getvalue(), setting, settings)
        except AttnvizError as error:
            messages = ((str(error), "error"),)
        state.put(MESSAGES, (*state.get(MESSAGES), *messages))
        streamlit_internals.drop_upload(upload.file_id)


def _taken(
    name: str, content: bytes, setting: Setting[str], settings: Mapping[str, Setting]
) -> tuple[tuple[str, str], ...]:
    """Open one file, a text or a run; gives what is to be said of it."""
    if name.lower().endswith((*PICTURES, sounds.ENDING)):
        return _picture_taken(name, content)
    if not text_file.is_text(name):
        state.change(_opened, name, content, setting, settings)
        return _finding_messages(state.get(OPEN)[state.get(setting)])
    if state.get(photos.READS) in ("picture", "sound"):
        raise InputError(words.NO_TEXT_READ.format(file=quoted(name)))
    text, lines = text_file.read(name, content)
    if is_file(state.get(setting)):  # which is one run, of one text
        state.change(examples.with_other_model(setting), setting.default)
    state.change(examples.with_text, text, state.get(examples.OFFERED))
    return ((words.ONE_TEXT.format(lines=lines, file=name), "notice"),) if lines > 1 else ()


def _picture_taken(name: str, content: bytes) -> tuple[tuple[str, str], ...]:
    """Show a picture, or a sound, to the model; another one leaves it for the next that reads it."""
    picture, notes = photos.read(name, content)
    state.change(photos.dropped, name, picture)
    return tuple((f"{name}: {note}", "notice") for note in notes)


def _finding_messages(opened: Saved) -> tuple[tuple[str, str], ...]:
    """Message about the first finding of the check of a file."""
    if not opened.findings:
        return ()
    first, *others = opened.findings
    if others:
        return ((words.FILE_FINDINGS.format(file=opened.name, found=first, count=len(others)), "notice"),)
    return ((words.FILE_FINDING.format(file=opened.name, found=first), "notice"),)


def say() -> None:
    """Show the messages about the files that came, once."""
    for text, kind in state.get(MESSAGES):
        note(text, kind)
    state.put(MESSAGES, ())


def _name(name: str) -> str:
    """The name of a file as a link and a list hold it, with its ending."""
    plain = "".join(c if c.isprintable() else " " for c in clean(name)).strip() or "file"
    return plain if len(plain) <= LONGEST_NAME else f"{plain[: LONGEST_NAME - 16]}…{plain[-15:]}"


def _opened(now: State, name: str, content: bytes, setting: Setting[str], settings: Mapping[str, Setting]) -> State:
    """The step to a file, where that was saved; a link that asked for it says where instead."""
    if len(now[OPEN]) >= MOST_FILES:
        raise InputError(words.MANY_FILES.format(most=MOST_FILES, file=quoted(name)))
    opened = cases.source(name, content, most=megabytes() * 2**20)
    _check(opened)
    model, number = f"{PREFIX}{name}", 2
    while model in now[OPEN]:
        model, number = f"{PREFIX}{name} ({number})", number + 1
    before, now = now[setting], now.put(OPEN, {**now[OPEN], model: opened})
    if before == model:
        return now
    now = examples.with_other_model(setting)(now, model)
    chosen = read(cases.state_of(opened), settings).without("edits").linked().chosen
    for other in chosen.keys() - {setting, examples.TEXT}:
        now = now.put(other, chosen[other])
    return now


def _check(opened: Saved) -> None:
    """Raises: InputError: if a file has more texts, heads or tokens than a page shows, or there is no memory for it."""
    _, heads, queries, keys = (max(sizes) for sizes in zip(*(step.shape for step in opened.record.steps), strict=True))
    counts = len(opened.record.sentences), heads, queries, keys
    bounds = cache.MOST_SENTENCES, MOST_HEADS, MOST_TOKENS, MOST_TOKENS
    for what, count, most in zip(words.PARTS_OF_FILE, counts, bounds, strict=True):
        if count > most:
            raise InputError(words.TOO_MANY_IN_FILE.format(file=quoted(opened.name), count=count, what=what, most=most))
    size = opened.record.nbytes
    if size + sum(_bytes.values()) > min(MOST_BYTES, budget.memory()):
        raise InputError(words.NO_MEMORY.format(file=quoted(opened.name)))
    _bytes[opened] = size


def close(model: str, setting: Setting[str]) -> None:
    """Let go of a file; where it is looked at, of that too."""
    now = state.now()
    others = {name: saved for name, saved in now[OPEN].items() if name != model}
    with suppress(KeyError):
        del _bytes[now[OPEN][model]]
    state.change(lambda now: now.put(OPEN, others).put(setting, setting.default).without("model", "text"))
