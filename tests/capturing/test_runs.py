"""Runs of a model stay apart: each has a record, and the passes of one generation are one run."""

import pytest
import torch
import transformers
from captured import shown
from torch import Tensor, nn
from torch.testing import assert_close

import attnviz
from attnviz.core.errors import InputError

W, HEADS = 12, 3
SPECIAL = {"vocab_size": 40, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "attn_implementation": "eager"}


class Denoiser(nn.Module):
    """A step of diffusion: a picture looks at itself, or has no self-attention, and at a text."""

    def __init__(self, has_self: bool):
        super().__init__()
        self.attn1, self.cross_attn = (nn.MultiheadAttention(W, HEADS, batch_first=True) for _ in range(2))
        self.has_self = has_self

    def forward(self, picture: Tensor, text: Tensor) -> Tensor:
        picture = picture + self.attn1(picture, picture, picture)[0] if self.has_self else picture
        return picture + self.cross_attn(picture, text, text)[0]


@pytest.mark.parametrize("has_self", [True, False])
def test_each_step_of_a_diffusion_is_a_run(has_self):
    """The text is the same in all; where no number is given, the sentence asks for one."""
    model, text, pictures = Denoiser(has_self), torch.randn(1, 5, W), torch.randn(3, 1, 4, W)
    with attnviz.capture(model) as seen:
        for picture in pictures:
            model(picture, text)

    assert seen.runs == 3
    with pytest.raises(InputError, match=r"3 runs.* record\(run=0\) to record\(run=2\)"):
        seen.record()
    with pytest.raises(InputError, match="no run 3"):
        seen.record(run=3)
    for run, picture in enumerate(pictures):
        with attnviz.capture(model) as alone:
            model(picture, text)
        record = seen.record(run=run)
        assert len(record.steps) == 1 + has_self
        assert_close([*map(shown, record.steps)], [*map(shown, alone.steps)])
        assert record.unseen is None


@pytest.mark.parametrize("whole", [True, False])
def test_two_texts_through_one_encoder_are_two_runs(whole):
    """Also where a part of the model is called from outside of its forward; heads are off in both."""
    layer = nn.TransformerEncoderLayer(W, HEADS, 8, batch_first=True)
    model, texts = nn.Sequential(nn.TransformerEncoder(layer, 2)).eval(), torch.randn(2, 1, 4, W)
    edits = attnviz.Edits().with_heads_off(attnviz.Site("encoder", 1), {0})
    with attnviz.capture(model, edits) as seen:
        for text in texts:
            (model if whole else model[0])(text)

    assert seen.runs == 2
    for run, text in enumerate(texts):
        with attnviz.capture(model, edits) as alone:
            model(text)
        assert_close([*map(shown, seen.record([*"abcd"], run=run).steps)], [*map(shown, alone.steps)])


def test_the_generation_of_an_encoder_decoder_is_one_run():
    """Its rows are those of a whole forward over what it wrote; the same text again is another run."""
    sizes = {f"{part}_{name}": n for part in ("encoder", "decoder") for name, n in (("layers", 2), ("ffn_dim", 16))}
    heads = {"encoder_attention_heads": HEADS, "decoder_attention_heads": HEADS, "d_model": W}
    config = transformers.BartConfig(**SPECIAL, **sizes, **heads, decoder_start_token_id=2, forced_eos_token_id=None)
    model, ids = transformers.BartForConditionalGeneration(config).eval(), torch.tensor([[5, 6, 7, 2], [9, 3, 8, 2]])
    with torch.no_grad(), attnviz.capture(model) as seen:
        answers = [model.generate(ids, max_new_tokens=5, min_new_tokens=5, do_sample=True) for _ in range(2)]

    assert seen.runs == 2
    for run, answer in enumerate(answers):
        given = {"input_ids": ids, "decoder_input_ids": answer[:, :-1]}
        with torch.no_grad():
            output = model(**given, use_cache=False, output_attentions=True)
        steps = [step for step in seen.steps_of({}, run) if step.site.kind != "encoder"]
        own = {"decoder": output.decoder_attentions, "cross": output.cross_attentions}
        for step in steps:
            assert_close(shown(step), own[step.site.kind][step.site.layer], atol=1e-5, rtol=1e-4)


def test_a_recurrent_decoder_looks_once_in_each_pass():
    """It has no self-attention that could grow."""
    with attnviz.capture(model := Denoiser(has_self=False)) as seen:
        text = torch.randn(1, 5, W)
        for word in torch.randn(3, 1, 1, W):
            model(word, text)

    assert seen.record([*"abc"], [*"vwxyz"]).steps[0].shape == (1, HEADS, 3, 5)


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
def test_a_batch_with_padding_on_the_left_is_written_as_one_whole_forward(implementation):
    """Rows of padding have no key. SDPA is given one new token with the heads of a group where queries stand."""
    sizes = {"hidden_size": 32, "intermediate_size": 16, "num_attention_heads": 4, "num_key_value_heads": 2}
    config = transformers.LlamaConfig(**SPECIAL | {"attn_implementation": implementation}, **sizes, num_hidden_layers=2)
    model = transformers.LlamaForCausalLM(config).eval()
    ids, real = torch.tensor([[0, 0, 5, 6, 7], [1, 2, 3, 4, 5]]), torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]])
    with torch.no_grad(), attnviz.capture(model) as seen:
        answer = model.generate(ids, attention_mask=real, max_new_tokens=4, min_new_tokens=4, do_sample=False)
    real = torch.cat([real, torch.ones(2, 3, dtype=torch.long)], 1)
    given = {"attention_mask": real, "position_ids": (real.cumsum(1) - 1).clamp(min=0)}
    model.set_attn_implementation("eager")
    with torch.no_grad():
        whole = model(answer[:, :-1], **given, output_attentions=True).attentions

    assert seen.record().unseen is None
    rows = real[:, None, :, None].bool()
    for step, expected in zip(seen.steps, whole, strict=True):
        assert step.shape == tuple(expected.shape)
        assert_close(shown(step) * rows, expected * rows, atol=1e-5, rtol=1e-4)
