"""The logit lens of models of transformers, against the hidden states that transformers itself gives."""

import numpy as np
import pytest
import torch
from test_streams import SPLIT, TEXT, loaded, named, nothing_is_kept  # noqa: F401 (a fixture)

import attnviz
from attnviz.analysis import contributions, logit_lens, pushed
from attnviz.core.errors import InputError

NORMS = {
    "gpt2": "transformer.ln_f",
    "gpt_neox": "gpt_neox.final_layer_norm",
    "falcon": "transformer.ln_f",
    "bloom": "transformer.ln_f",
    "phi": "model.final_layernorm",
}
"""Last norms by family; of the others model.norm."""
FAMILIES = [key for key in SPLIT if key[0] not in ("t5", "pegasus")]


@pytest.mark.parametrize(("family", "name"), named(FAMILIES))
def test_each_row_reads_the_hidden_states_of_transformers(family, name, tmp_path):
    """Most probable words and probabilities after the embedding and each layer; what a head pushes is its part."""
    model = loaded(family, name, tmp_path, **SPLIT[family, name])
    record = attnviz.analyze(TEXT, model, stream=True)
    own = model.loaded.model
    norm = own.get_submodule(NORMS.get(family, "model.norm"))
    own.set_attn_implementation("eager")
    with torch.no_grad():
        given = own(torch.tensor([[token.id for token in record.sentences[0].tokens]]), output_hidden_states=True)
        logits = [own.lm_head(norm(states))[0] for states in given.hidden_states[:-1]]
    factor, cap = record.stream.parts.weights.readout.factor, getattr(own.config, "final_logit_softcapping", None)
    logits = [cap * torch.tanh(scores / cap) if cap else scores * factor for scores in logits]
    probabilities = torch.stack([*logits, given.logits[0]]).double().softmax(-1)

    np.testing.assert_allclose(logit_lens(record).values, probabilities.max(-1).values, atol=1e-4)
    site, vocabulary = record.sites[-1], record.prediction.vocabulary
    grid = pushed(record, site, 2, 1, count=2)
    for (word,), (value,) in zip(grid.words, grid.values, strict=True):
        table = contributions(record, [*vocabulary].index(word), 1).table
        rows = (table["layer"] == site.layer) & (table["head"] == 2)
        assert value == pytest.approx(table["contribution"][rows.fillna(False)].sum(), abs=1e-4)  # with its bias


HEADS = {
    ("bert", "BertForMaskedLM"): lambda own, states: own.cls(states),
    ("roberta", "RobertaForMaskedLM"): lambda own, states: own.lm_head(states),
    ("distilbert", "DistilBertForMaskedLM"): lambda own, states: own.vocab_projector(
        own.vocab_layer_norm(own.activation(own.vocab_transform(states)))
    ),
    ("roberta-prelayernorm", "RobertaPreLayerNormForMaskedLM"): lambda own, states: own.lm_head(
        own.roberta_prelayernorm.LayerNorm(states)
    ),
    ("bart", "BartForConditionalGeneration"): lambda own, states: own.lm_head(states),
    ("openai-gpt", "OpenAIGPTLMHeadModel"): lambda own, states: own.lm_head(states),
    ("jamba", "JambaForCausalLM"): lambda own, states: own.lm_head(own.model.final_layernorm(states)),
}
"""Heads of models whose parts are not known, by their own modules: the norm of post-norm models is in their layers."""


@pytest.mark.parametrize(("family", "name"), named(HEADS))
def test_a_model_that_is_no_sum_has_a_lens(family, name, tmp_path):
    """Each row is the model's own head on its hidden states, also where contributions are refused."""
    model = loaded(family, name, tmp_path)
    record = attnviz.analyze(TEXT, model, stream=True)
    own, texts = model.loaded.model, {"input_ids": [token.id for token in record.sentences[0].tokens]}
    if record.targets:
        texts["decoder_input_ids"] = [token.id for token in record.targets[0].tokens]
    own.set_attn_implementation("eager")
    with torch.no_grad():
        given = own(**{key: torch.tensor([ids]) for key, ids in texts.items()}, output_hidden_states=True)
        states = given.decoder_hidden_states if record.targets else given.hidden_states
        logits = [HEADS[family, name](own, state)[0] for state in states[:-1]]
    probabilities = torch.stack([*logits, given.logits[0]]).double().softmax(-1)

    np.testing.assert_allclose(logit_lens(record).values, probabilities.max(-1).values, atol=1e-4)
    with pytest.raises(InputError, match="is not taken apart"):
        contributions(record)
