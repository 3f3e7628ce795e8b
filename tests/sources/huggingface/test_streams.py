"""Residual streams of models of transformers: their parts sum to the logits, and are those that hooks of a test see."""

import threading

import numpy as np
import pytest
import torch
import transformers
import zoo
from examples import some
from peft import LoraConfig, get_peft_model
from torch import Tensor

import attnviz
from attnviz import Edits, Site
from attnviz.analysis import circuits, contributions, logit_lens, pushed, steps
from attnviz.core.errors import AttnvizError, InputError
from attnviz.sources.huggingface import module_search

pytestmark = pytest.mark.usefixtures("nothing_is_kept")
TEXT = "A cat sat on it."
SPLIT = {
    ("gpt2", "GPT2LMHeadModel"): {},
    ("llama", "LlamaForCausalLM"): {},
    ("qwen3", "Qwen3ForCausalLM"): {},
    ("gemma2", "Gemma2ForCausalLM"): {"final_logit_softcapping": 5.0},
    ("gemma3_text", "Gemma3ForCausalLM"): {},
    ("olmo2", "Olmo2ForCausalLM"): {},
    ("granite", "GraniteForCausalLM"): {"residual_multiplier": 0.5, "logits_scaling": 4.0, "embedding_multiplier": 3.0},
    ("cohere", "CohereForCausalLM"): {},
    ("gpt_neox", "GPTNeoXForCausalLM"): {},
    ("phi", "PhiForCausalLM"): {},
    ("falcon", "FalconForCausalLM"): {},
    ("bloom", "BloomForCausalLM"): {},
    ("mixtral", "MixtralForCausalLM"): {},
    ("gpt_oss", "GptOssForCausalLM"): {},
    ("t5", "T5ForConditionalGeneration"): {},
    ("pegasus", "PegasusForConditionalGeneration"): {},
}
"""Classes that are taken apart, with settings that change how parts are added."""


def loaded(family: str, name: str, folder, **more) -> attnviz.sources.base.Source:
    zoo.save(family, name, folder, **more)
    return attnviz.load(str(folder))


@pytest.mark.parametrize(("family", "name"), zoo.named(some(tuple(SPLIT), 6)))
def test_contributions_sum_to_the_logit(family, name, tmp_path):
    """At each position, of several words, of a model as it is and with edits."""
    model = loaded(family, name, tmp_path, **SPLIT[family, name])
    site = next(site for site in model.sites if site.kind == "decoder")
    for edits in (Edits(), Edits(heads_off={(site, 1)}, temperature=2, mask=attnviz.mask("window(2)"))):
        record = model.with_stream(attnviz.analyze([TEXT, "A cat"], model, edits))
        assert abs(contributions(record, sentence=1).residual) < 1e-4
        for position in (0, record.read[0].length - 1):
            for token, minus in ((None, None), (5, None), (5, 9)):
                added = contributions(record, token, position, minus=minus)
                assert abs(added.residual) < 1e-4
                assert added.logit == pytest.approx(
                    float(record.prediction.logits[0, position, 5] - record.prediction.logits[0, position, 9])
                    if minus
                    else added.logit
                )
                off = added.heads[(added.heads["kind"] == "decoder") & (added.heads["layer"] == site.layer)]
                assert (off[off["head"] == 1]["contribution"] == 0).all() == bool(edits.heads_off)


def test_a_layer_that_adds_more_than_its_parts_is_refused(tmp_path):
    zoo.save("gpt2", "GPT2LMHeadModel", tmp_path)
    own = transformers.AutoModelForCausalLM.from_pretrained(tmp_path)
    own.transformer.h[1].register_forward_hook(lambda module, given, output: output + 0.01 * output.roll(1, -1))
    model = attnviz.load(own, zoo.tokenizer())

    with pytest.raises(InputError, match="layer 1 adds more than its attention"):
        contributions(model.with_stream(attnviz.analyze(TEXT, model)))


def test_a_model_without_words_has_no_parts(tmp_path):
    model = loaded("bert", "BertModel", tmp_path)

    with pytest.raises(InputError, match="it gives no word a logit"):
        model.with_stream(attnviz.analyze(TEXT, model))


def test_adapters_are_part_of_the_projections(tmp_path):
    zoo.save("llama", "LlamaForCausalLM", tmp_path)
    config = LoraConfig(r=2, target_modules=["o_proj", "v_proj", "q_proj"], init_lora_weights=False)
    own = get_peft_model(transformers.AutoModelForCausalLM.from_pretrained(tmp_path), config)
    model = attnviz.load(own, zoo.tokenizer())
    record = model.with_stream(attnviz.analyze(TEXT, model))

    assert abs(contributions(record).residual) < 1e-4
    projections = model.model_weights().sites[Site("decoder", 0)]
    for name, part in (("w_o", "o_proj"), ("w_q", "q_proj")):
        layer = getattr(own.base_model.model.model.layers[0].self_attn, part)
        assert torch.allclose(
            getattr(projections, name).weight, layer.base_layer.weight + layer.get_delta_weight("default"), atol=1e-5
        )


def test_a_model_in_half_precision_shows_what_rounding_leaves(tmp_path):
    zoo.save("llama", "LlamaForCausalLM", tmp_path)
    own = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.bfloat16)
    model = attnviz.load(own, zoo.tokenizer())

    added = contributions(model.with_stream(attnviz.analyze(TEXT, model)))

    assert 0 < abs(added.residual) < 0.1
    stages = steps.chain(attnviz.analyze(TEXT, model), model, Site("decoder", 0), 0)
    assert all(stage.matrices for stage in stages if stage.is_used)


def test_runs_of_others_are_not_taken_for_its_own():
    """A run of the same model in another thread is not recorded."""
    own = zoo.build("gpt2", "GPT2LMHeadModel")
    with module_search.calls_of([own.transformer.wte]) as calls:
        thread = threading.Thread(target=own, args=(torch.tensor([[5, 6]]),))
        thread.start()
        thread.join()
        assert calls == []
        own(torch.tensor([[5, 6]]))
        assert len(calls) == 1


BEGIN = {
    ("gpt2", "GPT2LMHeadModel"): (False, "transformer.h.0.attn"),
    ("bert", "BertForMaskedLM"): (False, "bert.encoder.layer.0.attention.output.dense"),
    ("t5", "T5ForConditionalGeneration"): (False, "encoder.block.0.layer.0.SelfAttention"),
    ("llama", "LlamaForCausalLM"): (True, "model.layers.0.self_attn"),
    ("gptj", "GPTJForCausalLM"): (True, "transformer.h.0.attn"),
    ("phi", "PhiForCausalLM"): (True, "model.layers.0.self_attn"),
    ("qwen3", "Qwen3ForCausalLM"): (True, "model.layers.0.self_attn"),
    ("olmo2", "Olmo2ForCausalLM"): (True, "model.layers.0.self_attn"),
}
"""Whether queries and keys are more than their projections; module that gives the last stage of the first layer."""


@pytest.mark.parametrize(("family", "name"), zoo.named(BEGIN))
def test_steps_go_from_the_embeddings_to_what_transformers_gives(family, name, tmp_path):
    """Projections of the input are the values, and the queries and keys where nothing follows.

    Weights and output of a layer are those of eager attention of transformers, but for rounding.
    """
    is_adjusted, module = BEGIN[family, name]
    model = loaded(family, name, tmp_path)
    record = attnviz.analyze(TEXT, model)
    for site in (record.sites[0], record.sites[-1]):
        origin, step = model.origin(record, site), record.step(site)
        assert origin.is_adjusted == is_adjusted
        assert torch.allclose(heads(origin.w_v(origin.key_input), step.value), step.value, atol=1e-5)
        if not is_adjusted:
            assert torch.allclose(heads(origin.w_q(origin.query_input), step.query), step.query, atol=1e-5)
            assert torch.allclose(heads(origin.w_k(origin.key_input), step.key), step.key, atol=1e-5)
        stages = [stage for stage in steps.chain(record, model, site, 1) if stage.is_used]
        assert all(stage.matrices for stage in stages)
        assert stages[0].key == "embedding"
        assert ("adjust" in [stage.key for stage in stages]) == is_adjusted

    own = getattr(transformers, name).from_pretrained(tmp_path, attn_implementation="eager").eval()
    outputs = []
    own.get_submodule(module).register_forward_hook(lambda module, given, output: outputs.append(output))
    given = own(**ids_of(record), output_attentions=True)
    attentions = (given.encoder_attentions if record.targets else given.attentions)[0]
    output = outputs[0][0] if isinstance(outputs[0], tuple) else outputs[0]
    for head in range(attentions.shape[1]):
        stages = {stage.key: stage for stage in steps.chain(record, model, record.sites[0], head)}
        assert torch.allclose(stages["softmax"].matrix("weights").values, attentions[0, head], atol=1e-5)
        assert torch.allclose(stages["output"].matrix("y").values, output.reshape(-1, output.shape[-1]), atol=1e-5)


def ids_of(record) -> dict[str, Tensor]:
    """Inputs of transformers for the first text of a record, and for what its decoder reads."""
    texts = {"input_ids": record.sentences, "decoder_input_ids": record.targets}
    return {name: torch.tensor([[token.id for token in read[0].tokens]]) for name, read in texts.items() if read}


def heads(projected: Tensor, like: Tensor) -> Tensor:
    return projected.unflatten(-1, (like.shape[1], -1)).transpose(1, 2)


def test_positions_are_those_of_the_longest_text(tmp_path):
    """OPT gives padding other positions; the first text of the batch is the shorter one."""
    model = loaded("opt", "OPTForCausalLM", tmp_path)
    record = attnviz.analyze(["A cat", TEXT], model)
    tokens = model.origin(record, record.sites[0]).query_tokens

    own, ids = model.loaded.model, torch.tensor([[token.id for token in record.sentences[1].tokens]])
    own.set_attn_implementation("eager")
    states = own(ids, output_hidden_states=True).hidden_states

    assert torch.allclose(tokens.words[1] + tokens.positions, states[0], atol=1e-5)


@pytest.mark.parametrize(
    ("family", "name", "sizes"),
    [("stablelm", "StableLmForCausalLM", {"qk_layernorm": True}), ("gpt_oss", "GptOssForCausalLM", {})],
)
def test_a_call_without_known_projections_begins_at_its_vectors(family, name, sizes, tmp_path):
    """StableLM keeps one norm per head, GPT-OSS stretches its rotary positions: queries are not what W_Q gives."""
    model = loaded(family, name, tmp_path, **sizes)
    record = attnviz.analyze(TEXT, model, stream=True)
    projections = model.model_weights().sites[record.sites[0]]

    assert model.origin(record, record.sites[0]) is None
    assert "queries, keys and values on" in steps.chain(record, model, record.sites[0], 0)[0].missing
    assert (projections.w_q, projections.w_k) == (None, None) != projections.w_v
    assert abs(contributions(record).residual) < 1e-4


@pytest.mark.parametrize(
    ("sizes", "name"),
    [
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


NORMS = {
    "gpt2": "transformer.ln_f",
    "gpt_neox": "gpt_neox.final_layer_norm",
    "falcon": "transformer.ln_f",
    "bloom": "transformer.ln_f",
    "phi": "model.final_layernorm",
}
"""Last norms by family; of the others model.norm."""
HEADS = {
    ("bert", "BertForMaskedLM"): lambda own, states: own.cls(states),
    ("distilbert", "DistilBertForMaskedLM"): lambda own, states: own.vocab_projector(
        own.vocab_layer_norm(own.activation(own.vocab_transform(states)))
    ),
    ("roberta-prelayernorm", "RobertaPreLayerNormForMaskedLM"): lambda own, states: own.lm_head(
        own.roberta_prelayernorm.LayerNorm(states)
    ),
    ("bart", "BartForConditionalGeneration"): lambda own, states: own.lm_head(states),
    ("jamba", "JambaForCausalLM"): lambda own, states: own.lm_head(own.model.final_layernorm(states)),
    ("minicpm3", "MiniCPM3ForCausalLM"): lambda own, states: own.lm_head(
        own.model.norm(states) / own.config.logits_scaling
    ),
}
"""Heads of models whose parts are not known, by their own modules: the norm of post-norm models is in their layers."""


def usual_head(own, states) -> Tensor:
    """Logits of a decoder whose parts sum to them."""
    scores = own.lm_head(own.get_submodule(NORMS.get(own.config.model_type, "model.norm"))(states))
    scores *= getattr(own.config, "logit_scale", 1) / getattr(own.config, "logits_scaling", 1)
    cap = getattr(own.config, "final_logit_softcapping", None)
    return cap * torch.tanh(scores / cap) if cap else scores


@pytest.mark.parametrize(
    ("family", "name"), zoo.named([key for key in (*SPLIT, *HEADS) if key[0] not in ("t5", "pegasus")])
)
def test_each_row_reads_the_hidden_states_of_transformers(family, name, tmp_path):
    """Most probable words and probabilities after the embedding and each layer, by the model's own head.

    The words of a head follow from its contribution; a model whose stream is not a sum has a lens alone.
    """
    model = loaded(family, name, tmp_path, **SPLIT.get((family, name), {}))
    record = attnviz.analyze(TEXT, model, stream=True)
    own = model.loaded.model
    own.set_attn_implementation("eager")
    with torch.no_grad():
        given = own(**ids_of(record), output_hidden_states=True)
        states = given.decoder_hidden_states if record.targets else given.hidden_states
        logits = [HEADS.get((family, name), usual_head)(own, state)[0] for state in states[:-1]]
    probabilities = torch.stack([*logits, given.logits[0]]).double().softmax(-1)

    np.testing.assert_allclose(logit_lens(record).values, probabilities.max(-1).values, atol=1e-4)
    if (family, name) in HEADS:
        reason = {"jamba": "layer 0 adds more than its attention and one other part"}.get(family, "post-norm")
        with pytest.raises(InputError, match=f"is not taken apart into .*{reason}[^\n]*$"):
            contributions(record)
        return
    site, vocabulary = record.sites[-1], record.prediction.vocabulary
    grid = pushed(record, site, 2, 1, count=2)
    for (word,), (value,) in zip(grid.words, grid.values, strict=True):
        table = contributions(record, [*vocabulary].index(word), 1).table
        rows = (table["layer"] == site.layer) & (table["head"] == 2)
        assert value == pytest.approx(table["contribution"][rows.fillna(False)].sum(), abs=1e-4)  # with its bias


@pytest.mark.sweep
@pytest.mark.parametrize(("family", "name"), zoo.named(zoo.combinations()))
def test_every_class_is_taken_apart_or_refused(family, name, tmp_path, record_property):
    """Parts sum to the logit, or one sentence says why it is no sum."""
    if {family, name} & zoo.UNBUILT or not zoo.reads_text(family, name):
        record_property("outcome", ("not built", family, name, "it is not built here, or reads no text"))
        return
    try:
        model = loaded(family, name, tmp_path)
        record = attnviz.analyze(TEXT, model)
    except AttnvizError as error:
        assert "\n" not in str(error)
        record_property("outcome", ("not loaded", family, name, str(error)))
        return
    try:
        kind, said = "works", f"{abs(contributions(model.with_stream(record)).residual):.0e}"
        assert float(said) < 1e-4
    except InputError as error:
        kind, said = "refused", str(error)
        assert "\n" not in said
    for site in record.sites:
        if not record.read_only:
            model.origin(record, site)
    record_property("outcome", (kind, family, name, said))
