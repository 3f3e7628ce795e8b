"""Contributions equal those that TransformerLens computes from the same weights."""

import json
from pathlib import Path

import lens_models
import pytest
import torch
import zoo

import attnviz
from attnviz.metrics import contributions

NUMBERS = json.loads(Path(__file__).with_name("lens.json").read_text())
FAMILIES = ("gpt2", "llama")


@pytest.mark.parametrize("family", FAMILIES)
def test_models_are_those_that_the_numbers_come_from(family):
    model, numbers = lens_models.build(family), NUMBERS[family]
    for name, ids in numbers["ids"].items():
        logits = model(torch.tensor([ids])).logits[0, -1]

        assert logits[:8].tolist() == pytest.approx(numbers["logits"][name], abs=1e-4)
        assert int(logits.argmax()) == numbers["argmax"][name]


@pytest.mark.parametrize("family", FAMILIES)
def test_contributions_are_those_of_transformer_lens(family):
    source, numbers = attnviz.load(lens_models.build(family), zoo.tokenizer()), NUMBERS[family]["direct"]
    record = source.with_stream(attnviz.analyze(lens_models.TEXTS[0], source))
    added = contributions(record, numbers["token"])
    rows = added.table.groupby("part", sort=False)["contribution"].apply(list)

    assert [token.id for token in record.sentences[0].tokens] == NUMBERS[family]["ids"]["A"]
    assert rows["head"] == pytest.approx([one for layer in numbers["heads"] for one in layer], abs=1e-4)
    assert rows["feed-forward"] == pytest.approx(numbers["mlps"], abs=1e-4)
    assert rows["embedding"] == pytest.approx([numbers["embedding"]], abs=1e-4)
    assert added.logit == pytest.approx(numbers["logit"], abs=1e-4)
    if family == "gpt2":
        assert rows["position"] == pytest.approx([numbers["position"]], abs=1e-4)
        assert rows["bias of W_O"] == pytest.approx(numbers["b_O"], abs=1e-4)
        assert rows["bias of the unembedding"] == pytest.approx([numbers["ln_final.b"]], abs=1e-4)
