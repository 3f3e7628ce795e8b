"""One state: what the link holds, what a bad link gets, and that nothing else remembers anything."""

import ast
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import attnviz.ui
from attnviz.core.edits import KINDS, Site
from attnviz.core.errors import InputError
from attnviz.ui import settings
from attnviz.ui.shared import written
from attnviz.ui.shared.examples import TEXT
from attnviz.ui.shared.state import PROBLEMS, State, read

sites = st.builds(Site, st.sampled_from(KINDS), st.integers(0, 99))
heads = st.frozensets(st.tuples(sites, st.integers(0, 99)), max_size=30)
UI = Path(attnviz.ui.__file__).parent

LINKS = {
    "model": "story", "text": "a b\nc", "tokenizer": "characters", "d_model": "32", "num_heads": "2", "num_layers": "3",
    "seed": "7", "bias": "false", "positions": "false", "cloned": "true", "own_mask": "false", "sums": "true",
    "sos": "false", "sentence": "2", "colors": "logarithmic", "empty": "nan", "mask": "subsequent.window-4",
    "meant": "none", "added": "alibi.softcap-5", "off": "c1.2-e0.1", "cell": "2.1", "site": "c1", "show": "mean",
    "step": "100", "effect": "next word", "view": "words.hide.ab", "tuned": "unscaled.temperature-0.5",
    "knobs": "after.add.dropout-0.3-7", "changes": "e0_1_wq_3_4_0_n0.5", "query": "3", "as": "lines",
    "pins": "q2-k5", "also": "0-3", "least": "0.05", "side": "to", "stage": "softmax", "b": "sentence-The dog sat.",
    "tab": "Leak test", "sort": "Change of the output when off", "role": "previous token", "across": "Confidence",
    "up": "Entropy (nats)", "stack": "decoder", "after": "1", "part": "Why the scale", "dk": "256",
    "dialect": "FlexAttention", "written": "mask == 0", "reader": "SDPA, boolean", "alignment": "bottom-right",
    "tested": "this layer", "promise": "no future", "checked": "pasted numbers",
}  # fmt: skip
"""One spelling of every setting but some, as links hold them that people have kept."""


@given(heads)
def test_heads_that_are_off_survive_the_link(off):
    """Reading what was written gives the same heads."""
    assert written.decode_heads(written.encode_heads(off)) == off


@given(st.none() | st.tuples(st.integers(0, 99_999), st.integers(0, 99_999)))
def test_the_selected_cell_survives_the_link(cell):
    """Reading what was written gives the same cell."""
    assert written.decode_cell(written.encode_cell(cell)) == cell


@given(st.text(max_size=40))
def test_any_other_text_is_refused_with_a_sentence(text):
    """A link may hold anything; it is read, or refused by the one error whose words can be shown."""
    for decode, encode in ((written.decode_heads, written.encode_heads), (written.decode_cell, written.encode_cell)):
        try:
            assert decode(encode(decode(text))) == decode(text)
        except InputError as error:
            assert "should look like" in str(error)


@pytest.mark.parametrize("text", ["e0", "x0.1", "e0.1-", "e٣.1", "e-1.0", "e0.1 ", "e1000.1"])
def test_what_does_not_name_heads_is_refused(text):
    """Letters, digits and order are all checked; digits of other scripts are not digits here."""
    with pytest.raises(InputError, match="does not name heads"):
        written.decode_heads(text)


@pytest.mark.parametrize("name", settings.LINKED)
@given(st.text(max_size=40))
def test_every_setting_takes_or_refuses_any_text(name, text):
    """What is taken is written as it is read; what is refused is named with its setting, and the default holds."""
    before = read({name: [text]}, settings.LINKED)
    after = read(before.link(), settings.LINKED)

    assert after.linked() == before.linked()
    assert all(problem.startswith(f"{name}: ") for problem in before[PROBLEMS])
    assert not before[PROBLEMS] or not before.linked().chosen


def test_a_link_is_written_as_it_was_read():
    """Name by name, in the spelling of links that people have kept."""
    state = read({name: [text] for name, text in LINKS.items()}, settings.LINKED)

    assert state[PROBLEMS] == ()
    assert {name: ".".join(texts) for name, texts in state.link().items()} == LINKS
    assert {setting.name for setting in state.linked().chosen} == set(LINKS)


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


def test_of_a_model_and_of_a_text_are_let_go_of_with_it():
    """Where one setting is about another it goes with it, and no other does."""
    chosen = read({name: [text] for name, text in LINKS.items()}, settings.LINKED).linked()
    without_text = {*chosen.link()} - {*chosen.without("text").link()}
    without_model = {*chosen.link()} - {*chosen.without("model").link()}

    assert without_text == {"cell", "pins"}
    assert without_model == {"off", "also", "site", "show", "step", "effect"}


def trees() -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in UI.rglob("*.py")}


def test_nothing_but_the_state_is_kept_in_a_session():
    """One module knows of Streamlit's session, and no widget keeps itself in the link."""
    keeps = [path.name for path, tree in trees().items() if "session_state" in ast.dump(tree)]
    binds = [path.name for path, tree in trees().items() if "keyword(arg='bind'" in ast.dump(tree)]

    assert keeps == ["state.py"]
    assert binds == []


DECLARED_BY = ("coded", "choice", "several", "flag", "whole", "kept")
WIDGETS = (
    "checkbox toggle pills segmented_control selectbox multiselect select_slider slider number_input text_input "
    "text_area radio tabs"
).split()


def test_every_widget_with_a_value_belongs_to_a_setting():
    """Its key, its value and what follows come from one place: none is given by hand."""
    by_hand = [
        f"{path.name}:{call.lineno}"
        for path, tree in trees().items()
        for call in ast.walk(tree)
        if isinstance(call, ast.Call) and getattr(call.func, "attr", "") in WIDGETS
        if any(word.arg in ("key", "on_change", "default", "value") for word in call.keywords)
        or all(word.arg is not None for word in call.keywords)
    ]

    assert by_hand == []
