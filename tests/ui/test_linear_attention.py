"""Words about linear attention: mixing weights in sentences, legends, tables and on every page."""

import numpy as np
import pytest
import test_app
import zoo

import attnviz
from attnviz import figures
from attnviz.analysis import maps, sentences, tables, views
from attnviz.analysis.align import Side, beside
from attnviz.analysis.steps import stages
from attnviz.charts.signs import Domain
from attnviz.core.errors import InputError

TEXT = "a cat sat on the mat"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bamba")
    zoo.save("bamba", "BambaForCausalLM", folder, max_position_embeddings=192)
    return str(folder)


@pytest.fixture(scope="module")
def record(folder):
    return attnviz.analyze(TEXT, attnviz.load(folder))


def test_sentences_speak_of_mixing_weights_and_name_the_rule(record):
    """A weight is no share of a row there; of a softmax the words stay."""
    linear, softmax = record.sites
    weight = float(record.step(linear).weights(0)[5, 5])
    words = sentences.head(views.see(record, linear), 0)
    both = beside(*(Side(record, site, 0) for site in record.sites))

    assert f"(5) takes “␣” (5) with the mixing weight {weight:.2f}." in sentences.cell(record, linear, 0, 5, 5)
    assert "of its attention to" in sentences.cell(record, softmax, 0, 5, 4)
    assert "takes most from" in words
    assert "State space, Mamba-2: weights may be negative and do not sum to 1. A short convolution" in words
    assert " takes " in sentences.compared_cell(both, 5, 5)
    assert np.isnan(both.variation).all()
    assert "A short convolution" in tables.weights_table(views.see(record, linear), 0).attrs["note"]
    with pytest.raises(InputError, match="its weights are no shares"):
        assert figures.distance(record, linear, 0).table is None


def test_each_kind_of_weights_has_its_color_scale(record):
    """Diverging for mixing weights, though all are positive; from 0 for a softmax beside them."""
    linear = record.sites[0]
    ramps = [figures.head(record, site, 0).drawing.squares.ramp for site in record.sites]

    assert [(ramp.title, ramp.signed) for ramp in ramps] == [("mixing weight", True), ("weight", False)]
    assert ramps[0].top == pytest.approx(float(record.step(linear).weights(0).abs().max()))
    assert [ramp.signed for ramp in figures.overview(record)._legends] == [False, True]
    assert figures.difference(beside(*(Side(record, site, 0) for site in record.sites))).drawing
    strip = figures.text_strip(record, linear, 0, chosen=5)
    assert (strip.ramp.signed, isinstance(strip.scale, Domain)) == (True, True)
    assert (figures.lines(record, linear, [0]).edges.weights < 0).sum() == (record.step(linear).weights(0) < 0).sum()


def test_a_tile_and_a_row_have_the_weight_farthest_from_0(record):
    """With its sign and its place."""
    step, tile = record.steps[0], 3
    weights = step.weights(1).numpy()
    several = maps.pooled(step, [0, 1], tile).largest[1]
    alone = maps.pooled(step, 1, tile)
    most, columns = maps.strongest(step, 1)
    for i, j in np.ndindex(several.shape):
        cells = weights[i * tile : (i + 1) * tile, j * tile : (j + 1) * tile].ravel()

        assert several[i, j] == alone.largest[i, j] == cells[np.abs(cells).argmax()]
        assert not cells.any() or weights[alone.at_query[i, j], alone.at_key[i, j]] == several[i, j]
    assert (columns == np.abs(weights).argmax(1)).all()
    assert (most == weights[np.arange(len(weights)), columns]).all()
    assert (several < 0).any()


def test_the_steps_of_a_head_are_those_that_it_has(record):
    chain = [stage for stage in stages.chain(record, None, record.sites[0], 0) if stage.is_used]

    assert [stage.title for stage in chain if stage.matrices] == [
        "Split into heads", "Mixing weights", "Weighted values", "Concatenate"
    ]  # fmt: skip
    assert not {"products", "scale", "mask"} & {stage.key for stage in chain}


@pytest.mark.parametrize("page", test_app.PAGES)
def test_every_page_shows_a_layer_of_linear_attention(folder, page):
    """And lives with a head off, a mask and a temperature, which is refused in a sentence."""
    app = test_app.opened(page, model=folder, text=TEXT, layer="d0")

    assert "no scores" not in test_app.html(app) or page == "Steps"
    assert app.get("vega_lite_chart")
    for name, value in {"heads_off": "d0.1", "mask": "window(2)", "temperature": "2"}.items():
        app = test_app.opened(page, model=folder, text=TEXT, layer="d0", **{name: value})
        refused = "decoder layer 0 is linear attention" in test_app.html(app)
        assert refused == (name == "temperature"), (name, test_app.html(app)[-300:])
