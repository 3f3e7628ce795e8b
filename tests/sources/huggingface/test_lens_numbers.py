"""Contributions equal those that TransformerLens computes from the same weights."""

import json
from pathlib import Path

import lens_models
import numpy as np
import pytest
import zoo

import attnviz
from attnviz import Edits, Site, Take
from attnviz.analysis import circuits, contributions
from attnviz.studies import ablation

NUMBERS = json.loads(Path(__file__).with_name("lens.json").read_text())
FAMILIES = ("gpt2", "llama")


@pytest.mark.parametrize("family", FAMILIES)
def test_contributions_are_those_of_transformer_lens(family):
    source, numbers = attnviz.load(lens_models.build(family), zoo.tokenizer()), NUMBERS[family]["direct"]
    record = source.with_stream(attnviz.analyze(lens_models.TEXTS[0], source))
    added = contributions(record, numbers["token"])
    rows = added.table.groupby("part", sort=False)["contribution"].apply(list)

    assert [token.id for token in record.sentences[0].tokens] == NUMBERS[family]["ids"]["A"]
    heads = np.array(rows["head"]) + np.array(rows.get("bias of values", 0.0))  # as of a model that is not folded
    assert heads == pytest.approx(np.ravel(numbers["heads"]), abs=1e-4)
    assert rows["feed-forward"] == pytest.approx(numbers["mlps"], abs=1e-4)
    assert rows["embedding"] == pytest.approx([numbers["embedding"]], abs=1e-4)
    assert added.logit == pytest.approx(numbers["logit"], abs=1e-4)
    if family == "gpt2":
        assert rows["position"] == pytest.approx([numbers["position"]], abs=1e-4)
        assert rows["bias of W_O"] == pytest.approx(numbers["b_O"], abs=1e-4)
        assert rows["bias of the unembedding"] == pytest.approx([numbers["ln_final.b"]], abs=1e-4)


@pytest.mark.parametrize("family", FAMILIES)
def test_circuits_are_those_of_transformer_lens(family):
    """Without the norms in the weights, as it leaves them out."""
    numbers = NUMBERS[family]
    weights = attnviz.load(lens_models.build(family), zoo.tokenizer()).model_weights()
    found = circuits(weights, fold_norms=False)

    copying = found.heads["copying"].to_numpy().reshape(2, 4)
    assert copying == pytest.approx(np.array(numbers["copying"]), abs=1e-4)
    for kind in "QKV":
        assert found.matrix(kind.lower())[:4, 4:] == pytest.approx(np.array(numbers["composition"][kind]), abs=1e-4)


@pytest.mark.parametrize("family", FAMILIES)
def test_activation_patching_is_that_of_transformer_lens(family):
    """If heads of Llama share keys and values, ours patches one head's pattern, theirs those of both keys."""
    source, numbers = attnviz.load(lens_models.build(family), zoo.tokenizer()), NUMBERS[family]["patching"]
    a, b = lens_models.TEXTS
    words = numbers["t_B"], numbers["t_A"]
    parts = {"output": "z", "pattern": "qk", "values": "v"} if family == "gpt2" else {"output": "z"}
    for part, name in parts.items():
        carried = ablation.carried(source, source.tokenize([a]), b, part=part, words=words)

        assert (carried.before, carried.other) == pytest.approx((numbers["A"], numbers["B"]), abs=1e-4)
        assert [*carried.table["difference"]] == pytest.approx(np.array(numbers[name]).flatten(), abs=1e-4)
    for layer, expected in enumerate(numbers["resid_pre"]):
        take = Take(b, "stream", Site("decoder", layer), position=numbers["changed_position"])
        logits = attnviz.analyze(a, source, Edits(taken=(take,))).prediction.logits[0, -1]

        assert float(logits[words[0]] - logits[words[1]]) == pytest.approx(expected, abs=1e-4)


def test_keys_and_values_that_heads_share_are_taken_with_those_of_the_other_head():
    """TransformerLens takes the key or the value of a pair of heads; here the same is two of them."""
    source, numbers = attnviz.load(lens_models.build("llama"), zoo.tokenizer()), NUMBERS["llama"]["patching"]
    a, b = lens_models.TEXTS
    for layer, heads in enumerate(numbers["v"]):
        for head, expected in enumerate(heads):
            pair = (head // 2 * 2, head // 2 * 2 + 1)
            taken = tuple(Take(b, "values", Site("decoder", layer), one) for one in pair)
            logits = attnviz.analyze(a, source, Edits(taken=taken)).prediction.logits[0, -1]

            assert float(logits[numbers["t_B"]] - logits[numbers["t_A"]]) == pytest.approx(expected, abs=1e-4)
