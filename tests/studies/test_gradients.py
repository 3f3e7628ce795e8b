"""Gradients of a logit by weights and by embeddings: held to finite differences, to transformers, and to paper."""

import pytest
import tiny
import torch
import transformers
from sources.huggingface import fake_hub
from torch.testing import assert_close

import attnviz
from attnviz import Site, api
from attnviz.analysis.relevance import through_layers
from attnviz.core.errors import AttnvizError, InputError
from attnviz.sources.saved import Saved
from attnviz.studies.gradients import integrated, relevance

TEXT = "the cat sat on a mat"
SIZES = {"vocab_size": len(fake_hub.WORDS), "pad_token_id": 0}
WIDE = {"hidden_size": 12, "intermediate_size": 10, "num_hidden_layers": 2, "num_attention_heads": 3}
MODELS = {
    "gpt2": lambda: transformers.GPT2LMHeadModel(transformers.GPT2Config(**fake_hub.GPT2)),
    "llama": lambda: transformers.LlamaForCausalLM(
        transformers.LlamaConfig(**SIZES, **WIDE | {"hidden_size": 16, "num_attention_heads": 4}, num_key_value_heads=2)
    ),
    "bert": lambda: transformers.BertForMaskedLM(transformers.BertConfig(**SIZES, **WIDE)),
    "t5": lambda: transformers.T5ForConditionalGeneration(
        transformers.T5Config(**SIZES, d_model=12, d_kv=4, d_ff=10, num_layers=2, num_heads=3, decoder_start_token_id=0)
    ),
}
TEXTS = dict.fromkeys(MODELS, TEXT) | {"bert": "the cat [MASK] on a mat"}


@pytest.fixture(scope="module", autouse=True)
def shipped(tmp_path_factory):
    """The trained models, tiny."""
    with pytest.MonkeyPatch.context() as patch:
        yield tiny.install(tmp_path_factory.mktemp("assets"), patch)
    tiny.forget()


@pytest.fixture(scope="module", params=MODELS)
def pretrained(request, tmp_path_factory):
    """A tiny model of transformers as a source, a record of it, and the same weights with its own attention."""
    torch.manual_seed(3)
    folder = fake_hub.write(tmp_path_factory.mktemp("model"), MODELS[request.param]())
    source = api.load(str(folder))
    own = type(MODELS[request.param]()).from_pretrained(folder, attn_implementation="eager").eval()
    return source, attnviz.analyze(TEXTS[request.param], source), own


def test_products_are_those_of_transformers_own_attention(pretrained):
    """∇A ⊙ A by eager attention, with the weights that it gives."""
    source, record, own = pretrained
    found = relevance(source, record)
    read = {"input_ids": torch.tensor([[token.id for token in record.sentences[0].tokens]])}
    if record.targets:
        read["decoder_input_ids"] = torch.tensor([[token.id for token in record.targets[0].tokens]])
    output = own(**read, output_attentions=True)
    names = {"encoder": "encoder_attentions", "decoder": "decoder_attentions", "cross": "cross_attentions"}
    weights = {site: output[names[site.kind] if record.targets else "attentions"][site.layer] for site in record.sites}
    for each in weights.values():
        each.retain_grad()
    logit = output.logits[0, found.position, found.id]
    logit.backward()
    logit = logit.detach()

    assert found.id == output.logits[0, found.position].argmax()
    assert_close(found.logit, float(logit), rtol=1e-5, atol=1e-5)
    for site, each in weights.items():
        assert_close(found.products[site], (each * each.grad)[0].detach(), rtol=1e-4, atol=1e-7)


def test_integrated_gradients_are_those_of_a_plain_loop(pretrained):
    """Over the output of the model's own embeddings, by the middles of four parts."""
    source, record, own = pretrained
    found = integrated(source, record, steps=4)
    texts, names = [record.sentences], ["inputs_embeds"]
    stacks = [own]
    if record.targets:
        texts, names = [record.sentences, record.targets], ["inputs_embeds", "decoder_inputs_embeds"]
        stacks = [own.get_encoder(), own.get_decoder()]
    ids = [torch.tensor([[token.id for token in batch[0].tokens]]) for batch in texts]
    whole = [stack.get_input_embeddings()(one).detach() for stack, one in zip(stacks, ids, strict=True)]
    sums = [torch.zeros(one.shape[:2]) for one in whole]
    for middle in (0.125, 0.375, 0.625, 0.875):
        parts = [(one * middle).requires_grad_() for one in whole]
        own(**dict(zip(names, parts, strict=True))).logits[0, found.position, found.id].backward()
        sums = [total + (x * part.grad).sum(-1) / 4 for total, x, part in zip(sums, whole, parts, strict=True)]

    for values, total in zip(found.attributions.values(), sums, strict=True):
        assert_close(values.float(), total[0], rtol=1e-3, atol=1e-6)


def test_the_model_is_afterwards_as_it_was(pretrained):
    """Its weights, which of them ask for gradients, and that none has one."""
    source, record, _ = pretrained
    model = source.loaded.model
    before = {name: (tensor.clone(), tensor.requires_grad) for name, tensor in model.named_parameters()}
    relevance(source, record), integrated(source, record, steps=2)

    assert {name: tensor.requires_grad for name, tensor in model.named_parameters()} == {
        name: wanted for name, (_, wanted) in before.items()
    }
    for name, tensor in model.named_parameters():
        assert tensor.grad is None
        assert_close(tensor, before[name][0], rtol=0, atol=0)


def test_the_completeness_gap_goes_to_zero_with_the_steps():
    """And is the rest of a sum that the test adds up itself."""
    source = attnviz.load("story")
    record = attnviz.analyze("the cat sat on the", source)
    few, many = (integrated(source, record, steps=steps) for steps in (2, 256))
    total = sum(float(values.sum()) for values in many.attributions.values())

    assert abs(many.gap) < min(1e-3, abs(few.gap))
    assert_close(many.gap, total - many.logit + many.baseline)
    assert many.table["attribution"].sum() == pytest.approx(total)


def test_relevance_goes_through_two_layers_as_on_paper():
    """R = (1 + Ā_1)(1 + Ā_0) of 2 x 2 maps."""
    first = torch.tensor([[0.0, 0.0], [0.5, 0.0]])
    second = torch.tensor([[0.2, 0.0], [1.0, 0.4]])
    layers = through_layers({Site("decoder", 0): first, Site("decoder", 1): second})

    assert_close(layers[0]["decoder"], torch.tensor([[1.0, 0.0], [0.5, 1.0]]))
    assert_close(layers[1]["decoder"], torch.tensor([[1.2, 0.0], [1.7, 1.4]]))


def test_relevance_of_an_encoder_decoder_is_that_of_the_paper():
    """Encoder: R_ii = [[1, 0], [3, 1]], N = [[1, 0], [1, 1]].

    Decoder: R_tt = [[1, 0], [2, 3]], N = [[1, 0], [.5, 1.5]]. Rule 10 from R_ti = 0 gives N(R_tt)ᵀ Ā N(R_ii), and rule
    7 adds to it in the next layer.
    """
    none = torch.zeros(2, 2)
    maps = {
        Site("encoder", 0): torch.tensor([[0.0, 0.0], [3.0, 0.0]]),
        Site("decoder", 0): torch.tensor([[0.0, 0.0], [2.0, 2.0]]),
        Site("cross", 0): torch.tensor([[0.0, 1.0], [2.0, 0.0]]),
        Site("decoder", 1): torch.tensor([[0.0, 0.0], [1.0, 0.0]]),
        Site("cross", 1): none,
    }
    layers = through_layers(maps)

    assert_close(layers[0]["encoder"], torch.tensor([[2.0, 1.0], [3.0, 0.0]]))
    assert_close(layers[1]["encoder"], torch.tensor([[2.0, 1.0], [5.0, 1.0]]))
    assert_close(layers[1]["decoder"], torch.tensor([[1.0, 0.0], [3.0, 3.0]]))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda s, r: relevance(s, r, "zebra"), "'story' has no token 'zebra'"),
        (lambda s, r: relevance(s, r, position=9), "There is no position 9; there are 7, counted from 0."),
        (lambda s, r: relevance(s, r, sentence=1), "There is no sentence 1; there are 1, counted from 0."),
        (lambda s, r: integrated(s, r, steps=0), "steps is 0; it must be"),
        (
            lambda s, r: relevance(s, r).head(Site("cross", 0), 0),
            "There is no cross layer 0. Available: decoder layer 0, decoder",
        ),
        (lambda s, r: relevance(s, r).head(r.sites[0], 9), "There is no head 9 of decoder layer 0; there are"),
        (lambda s, r: relevance(s, attnviz.analyze("a", "scratch")), "'scratch' predicts no words."),
        (lambda s, r: relevance(attnviz.load("scratch"), r), "'scratch' is not a model that attnviz can differentiate"),
    ],
)
def test_what_cannot_be_differentiated_says_so(call, message):
    source = attnviz.load("story")

    with pytest.raises(InputError) as raised:
        call(source, attnviz.analyze(TEXT, source))
    assert message in str(raised.value)


def test_models_that_attnvizs_tap_does_not_reach_say_so(tmp_path):
    """One that computes attention in its own code, one that only classifies, and a run from a file."""
    sizes = {"hidden_size": 12, "num_layers": 1, "attention_types": [[["global"], 1]], "num_heads": 3}
    bert = transformers.BertConfig(**SIZES, **WIDE)
    models = {
        "computes attention in its own code, so there": transformers.GPTNeoForCausalLM(
            transformers.GPTNeoConfig(**sizes, vocab_size=SIZES["vocab_size"], max_position_embeddings=16)
        ),
        "predicts no words.": transformers.BertForSequenceClassification(bert),
    }
    for number, (message, model) in enumerate(models.items()):
        source = api.load(str(fake_hub.write(tmp_path / str(number), model)))
        with pytest.raises(InputError, match=message):
            relevance(source, attnviz.analyze(TEXT, source))

    path = attnviz.save(attnviz.analyze(TEXT, "story"), tmp_path / "run.attn")
    with pytest.raises(InputError, match="is not a model that attnviz can differentiate"):
        relevance(Saved("run.attn", attnviz.read(path)), attnviz.read(path))


def test_another_run_than_the_record_is_refused():
    """The record of other weights."""
    source = attnviz.load("story")

    with pytest.raises(AttnvizError, match="gives other logits with vectors in place of tokens"):
        relevance(source, attnviz.analyze(TEXT, "story", step=source.steps[0]))
