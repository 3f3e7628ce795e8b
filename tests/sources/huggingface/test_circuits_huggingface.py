"""Circuits of models of transformers, against their own weights and full matrices in float64."""

import pytest
import torch
import zoo

import attnviz
from attnviz.analysis import circuits, contributions
from attnviz.core.errors import InputError

SIZES = {"gpt2": "GPT2LMHeadModel", "llama": "LlamaForCausalLM"}


def gpt2(network, layer, head, count):
    """Gain of the norm, whether it centers, and W_Q, W_K, W_V, W_O of a head, as the paper writes them."""
    block = network.transformer.h[layer]
    q, k, v = (part.chunk(count, 1)[head] for part in block.attn.c_attn.weight.double().chunk(3, 1))
    return block.ln_1.weight.double(), 1, (q, k, v, block.attn.c_proj.weight.double().chunk(count)[head])


def llama(network, layer, head, count):
    block = network.model.layers[layer]
    attention, shared = block.self_attn, network.config.num_key_value_heads
    kept = head * shared // count
    q = attention.q_proj.weight.double().mT.chunk(count, 1)[head]
    k, v = (linear.weight.double().mT.chunk(shared, 1)[kept] for linear in (attention.k_proj, attention.v_proj))
    output = attention.o_proj.weight.double().mT.chunk(count)[head]
    return block.input_layernorm.weight.double(), 0, (q, k, v, output)


@pytest.mark.parametrize("family", SIZES)
def test_circuits_are_those_of_the_weights_of_the_model(family, tmp_path):
    """Copying with the gains of both norms, and the composition of the first head with the last."""
    zoo.save(family, SIZES[family], tmp_path)
    source = attnviz.load(str(tmp_path))
    network, count, result = source.loaded.model, source.num_heads, circuits(source.model_weights())
    last = network.transformer.ln_f.weight if family == "gpt2" else network.model.norm.weight
    weights_of = {"gpt2": gpt2, "llama": llama}[family]

    def head(layer, number):
        gain, centered, (q, k, v, o) = weights_of(network, layer, number, count)
        center = torch.eye(len(gain)).double() - centered / len(gain)
        return center, [center @ gain.diag() @ part for part in (q, k, v)], o

    with torch.no_grad():
        e, u = (table.weight.double() for table in (network.get_input_embeddings(), network.get_output_embeddings()))
        for row in result.heads.itertuples():
            center, (_, _, v), o = head(row.layer, row.head)
            values = torch.linalg.eigvals(e @ v @ o @ center @ last.double().diag() @ u.mT)
            assert row.copying == pytest.approx(float(values.sum().real / values.abs().sum()), abs=1e-5)
        pair = result.composition.iloc[count - 1]
        _, (_, _, v), o = head(0, 0)
        _, (q, k, v_later), o_later = head(1, count - 1)
        for name, read in (("q", q @ k.mT), ("k", k @ q.mT), ("v", v_later @ o_later)):
            expected = (v @ o @ read).norm() / (v @ o).norm() / read.norm()
            assert pair[name] == pytest.approx(float(expected), abs=1e-6)
    assert result.heads["previous_token"].isna().all() == (family == "llama")


@pytest.mark.parametrize(
    ("sizes", "name"),
    [
        ({}, "queries"),
        ({"q_lora_rank": 32, "kv_lora_rank": 32}, "queries"),
        ({"q_lora_rank": None, "kv_lora_rank": 32}, "values"),
    ],
)
def test_latent_attention_has_no_circuits_also_where_the_latent_is_as_wide_as_the_stream(sizes, name):
    """Its matrices read a normalized vector between, and not the stream; what its heads add is known all the same."""
    source = attnviz.load(zoo.build("deepseek_v3", "DeepseekV3ForCausalLM", **sizes), zoo.tokenizer())
    with pytest.raises(InputError, match=f"has no circuits here: the {name} of decoder layer 0 are not projected from"):
        circuits(source.model_weights())
    record = source.with_stream(attnviz.analyze("A cat", source))

    assert contributions(record).logit == pytest.approx(float(record.prediction.logits[0, -1].max()), abs=1e-4)


def test_a_model_that_normalizes_its_embeddings_still_reads_what_enters_its_layers():
    """A norm of normalized vectors gives them again."""
    source = attnviz.load(zoo.build("nanochat", "NanoChatForCausalLM"), zoo.tokenizer())

    assert circuits(source.model_weights()).composition["v"].notna().all()
