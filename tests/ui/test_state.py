"""One state: what the link holds, what a bad link gets, and that nothing else remembers anything."""

import ast
from pathlib import Path
from urllib.parse import parse_qs

import pytest
import test_new_app as new_app
from hypothesis import given
from hypothesis import strategies as st
from streamlit.runtime.scriptrunner import RerunData, RerunException
from streamlit.runtime.state import SafeSessionState, SessionState, session_state_proxy

import attnviz.ui
from attnviz.analysis.views import PAIRS, SPECIAL, View
from attnviz.core.edits import KINDS, Site
from attnviz.core.errors import InputError
from attnviz.ui import settings, streamlit_internals
from attnviz.ui.compare.other import B, Other
from attnviz.ui.heads.forms import ALSO
from attnviz.ui.shared import state, words
from attnviz.ui.shared.edits import ADDED, OFF, TUNED, Added, Tuned
from attnviz.ui.shared.examples import TEXT
from attnviz.ui.shared.look import CELL, PINS, SITE, VIEW
from attnviz.ui.shared.setting import FORMER, OMITTED, PROBLEMS, State, read

small = st.integers(0, 300)
sites = st.builds(Site, st.sampled_from(KINDS), small)
heads = st.tuples(sites, small)
positions = st.integers(0, 99_999)
halves = st.integers(1, 180).map(lambda n: n / 2)
printable = st.text(st.characters(exclude_categories=("C", "Z"), include_characters=" "), max_size=30)
seeds = st.integers(0, 10**9 - 1)
UI = Path(attnviz.ui.__file__).parent
NEW = {*UI.glob("pages/**/*.py"), *(UI / f"{name}.py" for name in new_app.ROOMS)}
"""Files of the new app, which has a state of its own."""

LINKS = {
    "model": "story", "text": "a b\nc", "lines": "false", "target": "le chat", "tokenizer": "characters",
    "d_model": "32", "num_heads": "2", "num_layers": "3", "seed": "7",
    "bias": "false", "positions": "false", "cloned": "true", "own_mask": "false",
    "sos": "false", "sentence": "2", "colors": "logarithmic", "empty": "nan", "mask": "subsequent.window-4",
    "added": "alibi.softcap-5", "heads_off": "c1.2-e0.1", "cell": "2.1", "layer": "c1", "head": "mean",
    "step": "100", "effect": "next word", "view": "words.hide.ab", "scores": "unscaled.temperature-0.5",
    "query": "3", "as": "lines",
    "pins": "q2-k5", "also": "0-3", "least": "0.05", "side": "to", "stage": "softmax", "b": "sentence-The dog sat.",
    "tab": "Check", "sort": "Change of the output when off", "role": "previous token",
    "stack": "decoder", "after": "1", "dk": "256",
    "dialect": "FlexAttention", "alignment": "bottom-right",
    "tested": "this layer", "promise": "no future", "checked": "pasted numbers",
}  # fmt: skip
"""One spelling of every setting but some, as links hold them that people have kept."""


VALUES = {
    OFF: st.frozensets(heads, max_size=30),
    SITE: sites,
    CELL: st.tuples(positions, positions),
    PINS: st.frozensets(st.tuples(st.sampled_from(("query", "key")), positions), max_size=9),
    ALSO: st.lists(small, unique=True, max_size=9).map(tuple),
    VIEW: st.builds(
        lambda unit, special, pair: View(special=special, pair=pair, **{unit: True} if unit else {}),
        st.sampled_from(["", "words", "sentences"]),
        st.sampled_from(SPECIAL),
        st.sampled_from(tuple(PAIRS)),
    ),
    ADDED: st.builds(Added, st.booleans(), st.none() | st.integers(0, 9999), st.none() | halves),
    TUNED: st.builds(Tuned, halves, st.booleans()),
    B: st.one_of(
        st.builds(Other, st.just("sentence"), printable),
        st.builds(Other, st.just("head"), heads),
        st.builds(Other, st.just("step"), seeds),
        st.sampled_from((Other("untouched"), Other("model", "owner/some-model"))),
    ),
}
"""The settings that are written in a way of their own, and values of them."""


@pytest.mark.parametrize("setting", VALUES, ids=lambda setting: setting.name)
@given(st.data())
def test_what_is_chosen_survives_the_link(setting, data):
    """Reading what was written gives the same."""
    value = data.draw(VALUES[setting])
    back = setting.decode([setting.encode(value)])

    assert back == value


def test_too_many_parts_are_refused():
    """A link takes 200 pinned tokens."""
    with pytest.raises(InputError, match="201 parts; a link takes 200"):
        PINS.decode(["-".join(["q0"] * 201)])


@pytest.mark.parametrize("text", ["e0", "x0.1", "e0.1-", "e٣.1", "e-1.0", "e0.1 ", "e1000.1"])
def test_what_does_not_name_heads_is_refused(text):
    """Letters, digits and order are all checked; digits of other scripts are not digits here."""
    with pytest.raises(InputError, match="cannot be read"):
        OFF.decode([text])


@pytest.mark.parametrize("name", settings.LINKED)
@given(st.text(max_size=40))
def test_every_setting_takes_or_refuses_any_text(name, text):
    """What is taken is written as it is read; what is refused is named with its setting, and the default holds."""
    before = read({name: [text]}, settings.LINKED)
    after = read(before.link(), settings.LINKED)

    assert after.linked() == before.linked()
    assert all(
        problem.startswith(f'The page opens without the link setting "{name}": ') for problem in before[PROBLEMS]
    )
    assert not before[PROBLEMS] or not before.linked().chosen


@pytest.mark.parametrize(
    ("name", "meant"),
    [("hed", "Did you mean 'head'?"), ("kind", "Did you mean 'layer'?"), ("zzz", words.COPY_A_LINK.strip())],
)
def test_a_setting_that_there_is_not_is_answered_with_the_one_that_may_be_meant(name, meant):
    """A slip of a letter, a name from elsewhere, or where all names are seen."""
    assert read({name: ["1"]}, settings.LINKED)[PROBLEMS] == (
        f'The page opens without the unknown link setting "{name}". {meant}',
    )


@pytest.mark.parametrize(
    ("old", "link"),
    [
        ({"site": ["c1"], "show": ["mean"]}, {"layer": ["c1"], "head": ["mean"]}),
        ({"off": ["c1.2-e0.1"], "tuned": ["unscaled"]}, {"heads_off": ["c1.2-e0.1"], "scores": ["unscaled"]}),
    ],
)
def test_a_link_with_former_names_opens_the_same_and_is_written_with_those_of_today(old, link):
    """People keep links: a renamed setting is read by its old name."""
    state = read(old, settings.LINKED)

    assert state == read(link, settings.LINKED)
    assert not state[PROBLEMS]
    assert state.link() == link


def test_a_link_is_written_as_it_was_read():
    """Name by name, as people have kept it, a mask as its text; a setting that is no more says nothing."""
    state = read({name: [text] for name, text in LINKS.items()}, settings.LINKED)
    there = {name: text for name, text in LINKS.items() if name not in FORMER} | {"mask": "causal & window(4)"}

    assert state[PROBLEMS] == ()
    assert {name: ".".join(texts) for name, texts in state.link().items()} == there
    assert {setting.name for setting in state.linked().chosen} == set(there)


def test_what_nobody_chose_stands_in_no_link():
    """Neither before anything is chosen nor after it is chosen as it was."""
    state = State()
    for setting in settings.LINKED.values():
        state = state.put(setting, setting.default)

    assert State().link() == state.link() == {}


def test_every_setting_has_a_name_of_its_own():
    """Two features do not call two things the same."""
    names = [
        call.args[0].value
        for tree in trees().values()
        for call in ast.walk(tree)
        if isinstance(call, ast.Call)
        and getattr(call.func, "attr", getattr(call.func, "id", "")) in DECLARED_BY
        and call.args
        and isinstance(call.args[0], ast.Constant)
    ]

    assert len(names) > 60
    assert sorted(names) == sorted({*names})


def test_a_text_too_long_for_a_link_is_left_out():
    """And an empty one is not."""
    assert State().put(TEXT, "ö" * 10_000).link() == {}
    assert State().put(TEXT, "").link() == {"text": [""]}


def test_an_empty_text_of_a_link_names_none_of_several():
    assert read({"kinds": [""]}, settings.LINKED) == State().put(PROBLEMS, ())


def test_of_a_model_and_of_a_text_are_let_go_of_with_it():
    """Where one setting is about another it goes with it, and no other does."""
    chosen = read({name: [text] for name, text in LINKS.items()}, settings.LINKED).linked()
    without_text = {*chosen.link()} - {*chosen.without("text").link()}
    without_model = {*chosen.link()} - {*chosen.without("model").link()}

    assert without_text == {"cell", "pins", "target"}
    assert without_model == {"heads_off", "also", "layer", "head", "step", "effect", "target"}


def trees() -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in UI.rglob("*.py")}


def test_nothing_but_the_state_is_kept_in_a_session():
    """One module knows of Streamlit's session, and no widget keeps itself in the link."""
    keeps = [path.name for path, tree in trees().items() if "session_state" in ast.dump(tree) and path not in NEW]
    binds = [path.name for path, tree in trees().items() if "keyword(arg='bind'" in ast.dump(tree)]

    assert sorted(keeps) == ["state.py", "streamlit_internals.py"]
    assert binds == []


def test_a_run_that_is_asked_for_meanwhile_does_not_end_what_a_widget_reports(monkeypatch):
    """Streamlit ends a run at each look at its `session_state`, also within a report."""

    def ends() -> None:
        raise RerunException(RerunData())

    session = SafeSessionState(SessionState(), ends)
    session._state["state"] = state.Session()
    for module in (streamlit_internals, session_state_proxy):
        monkeypatch.setattr(module, "get_session_state", lambda: session, raising=False)
    state.put(TEXT, "typed")

    assert state.get(TEXT) == "typed"


DECLARED_BY = ("coded", "choice", "several", "flag", "whole", "kept")
WIDGETS = (
    "checkbox toggle pills segmented_control selectbox multiselect select_slider slider number_input text_input "
    "text_area radio tabs"
).split()


def test_every_widget_with_a_value_belongs_to_a_setting():
    """Its key, its value and what follows come from one place: no page draws one by hand."""
    by_hand = [
        f"{path.name}:{call.lineno}"
        for path, tree in trees().items()
        for call in ast.walk(tree)
        if path not in NEW and isinstance(call, ast.Call) and getattr(call.func, "attr", "") in WIDGETS
    ]

    assert by_hand == []


def test_a_link_says_how_many_of_its_settings_were_left_out_before_what_else_is_wrong_with_it():
    link = {"nonsense": ["1"], OMITTED: ["1012"]}

    first, second = read(link, settings.LINKED)[PROBLEMS]

    assert first == "The page opens without the last 1,012 settings of its link, which has more than are read."
    assert "nonsense" in second
    assert "unknown link setting" in read({OMITTED: ["<b>"]}, settings.LINKED)[PROBLEMS][0]


@pytest.mark.parametrize(
    ("model", "form"),
    [
        ("huggingface:gpt2", "hf=gpt2"),
        ("gpt2", "hf=gpt2"),
        ("google-bert/bert-base-uncased", "hf=google-bert/bert-base-uncased"),
        ("./my model", "hf=./my%20model"),
        ("/models/a&b", "hf=/models/a%26b"),
    ],
)
def test_a_model_of_hugging_face_or_a_folder_in_a_link_is_refused_with_the_form_that_works(model, form, monkeypatch):
    monkeypatch.delenv("ATTNVIZ_MODELS", raising=False)

    (problem,) = read({"model": [model]}, settings.LINKED)[PROBLEMS]

    assert problem.endswith(f"stands in a link as model=huggingface&{form}.")
    (value,) = parse_qs(form)["hf"]
    assert read({"model": ["huggingface"], "hf": [value]}, settings.LINKED)[PROBLEMS] == ()


def test_where_a_server_has_no_other_model_no_form_is_told(monkeypatch):
    """It would be refused, too."""
    monkeypatch.setenv("ATTNVIZ_MODELS", "gpt2")

    assert "hf=" not in read({"model": ["other"]}, settings.LINKED)[PROBLEMS][0]
    assert "hf=gpt2." in read({"model": ["gpt2"]}, settings.LINKED)[PROBLEMS][0]
