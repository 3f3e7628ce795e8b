"""Contributions, circuits and patching equal what TransformerLens computes from the same weights, in lens.json.

Each family has `ids` of A and B (`TEXTS`, one token differs). Lists of heads go by layer, head. All is read after the
last token.
"""

import json
import math
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
import zoo

import attnviz
from attnviz import Edits, Site, Take
from attnviz.analysis import circuits, contributions
from attnviz.studies import ablation

NUMBERS = json.loads(Path(__file__).with_name("lens.json").read_text())
FAMILIES = ("gpt2", "llama")
TEXTS = ("A cat s", "A bat s")


def build(family: str) -> transformers.PreTrainedModel:
    """A model of 'gpt2' or 'llama': each weight is a sine of its squared index, at a rate from its name."""
    sizes = {"vocab_size": zoo.VOCABULARY, "bos_token_id": 1, "eos_token_id": 2, "attn_implementation": "eager"}
    if family == "gpt2":
        config = transformers.GPT2Config(n_layer=2, n_head=4, n_embd=32, n_positions=32, **sizes)
        model = transformers.GPT2LMHeadModel(config)
    else:
        sizes |= {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
        config = transformers.LlamaConfig(intermediate_size=64, max_position_embeddings=32, **sizes)
        model = transformers.LlamaForCausalLM(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            rate = 1 + zlib.crc32(name.encode()) / 2**32
            index = torch.arange(1, parameter.numel() + 1, dtype=torch.float64)
            wave = torch.sin(rate * index.square()).view(parameter.shape)
            if parameter.dim() == 2:
                value = 2 * wave / math.sqrt(32)
            elif name.endswith("bias"):
                value = 0.1 * wave
            else:
                value = 1 + 0.2 * wave
            parameter.copy_(value)
    return model.eval().requires_grad_(False)


@pytest.mark.parametrize("family", FAMILIES)
def test_contributions_are_those_of_transformer_lens(family):
    source, numbers = attnviz.load(build(family), zoo.tokenizer()), NUMBERS[family]["direct"]
    record = source.with_stream(attnviz.analyze(TEXTS[0], source))
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
    weights = attnviz.load(build(family), zoo.tokenizer()).model_weights()
    found = circuits(weights, fold_norms=False)

    copying = found.heads["copying"].to_numpy().reshape(2, 4)
    assert copying == pytest.approx(np.array(numbers["copying"]), abs=1e-4)
    for kind in "QKV":
        assert found.matrix(kind.lower())[:4, 4:] == pytest.approx(np.array(numbers["composition"][kind]), abs=1e-4)


@pytest.mark.parametrize("family", FAMILIES)
def test_activation_patching_is_that_of_transformer_lens(family):
    """If heads of Llama share keys and values, ours patches one head's pattern, theirs those of both keys."""
    source, numbers = attnviz.load(build(family), zoo.tokenizer()), NUMBERS[family]["patching"]
    a, b = TEXTS
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
    source, numbers = attnviz.load(build("llama"), zoo.tokenizer()), NUMBERS["llama"]["patching"]
    a, b = TEXTS
    for layer, heads in enumerate(numbers["v"]):
        for head, expected in enumerate(heads):
            pair = (head // 2 * 2, head // 2 * 2 + 1)
            taken = tuple(Take(b, "values", Site("decoder", layer), one) for one in pair)
            logits = attnviz.analyze(a, source, Edits(taken=taken)).prediction.logits[0, -1]

            assert float(logits[numbers["t_B"]] - logits[numbers["t_A"]]) == pytest.approx(expected, abs=1e-4)
