"""Every family of models through the tap, beside its own eager attention; one test per trap that cost an hour."""

import sys
from itertools import count
from pathlib import Path

import pytest
import torch
import transformers
from families import BOTH, DECODERS, OWN, TAPPED, TOKENS, WRITTEN, answer, build, example
from torch.testing import assert_close

from attnviz.core.edits import Edits
from attnviz.core.masks import Painted
from attnviz.sources.huggingface.tapped import ModelRun, use_attnviz

CLOSE = {"rtol": 1e-5, "atol": 1e-5}
FAMILY = pytest.mark.parametrize("family", TAPPED)


def tapped(family: str, edits: Edits = Edits()):
    """Run a family with the tap in it; return its output and the steps."""
    model = build(family)
    assert use_attnviz(model)
    read, lengths = example(family)
    run = ModelRun(model, edits, lengths)
    return answer(model, read, lengths, attnviz=run), run.tap.steps


def by_hand(family: str, change) -> torch.Tensor:
    """Run a family with its own eager attention, where `change` edits each call.

    It is called with the site's number, the arguments and the eager function, and gives the output (B, n, H, d).
    """
    calls = count()

    def attention(module, *arguments, **settings):
        eager = sys.modules[type(module).__module__].eager_attention_forward
        return change(next(calls), module, arguments, settings, eager), None

    transformers.AttentionInterface.register("by hand", attention)
    transformers.AttentionMaskInterface.register("by hand", transformers.masking_utils.eager_mask)
    model = build(family)
    model.set_attn_implementation("by hand")
    read, lengths = example(family)
    return answer(model, read, lengths)


def test_the_documentation_counts_them():
    """So many families are held to their own output here."""
    page = Path(__file__).parents[3] / "docs" / "how-to" / "hugging-face.md"

    assert f"own for {len(TAPPED)} families" in " ".join(page.read_text(encoding="utf-8").split())


@FAMILY
def test_unedited_outputs_equal_eager_attention(family):
    """With padding and with causal masks, to 1e-5; weights of every head, too. A sink's column is ours alone."""
    model, (read, lengths) = build(family), example(family)
    with torch.inference_mode():
        given = model(**read, output_attentions=True)
    names = {"encoder": "encoder_attentions", "decoder": "decoder_attentions", "cross": "cross_attentions"}

    output, steps = tapped(family)

    assert_close(output, answer(model, read, lengths), **CLOSE)
    assert len({step.site for step in steps}) == len(steps) == (6 if family in BOTH else 2)
    for step in steps:
        expected = (getattr(given, names[step.site.kind]) if family in BOTH else given.attentions)[step.site.layer]
        for sentence in range(2):
            for head in range(step.num_heads):
                weights = step.weights(head, sentence=sentence)[:, : step.shape[3] - step.has_sink]
                rows = lengths[sentence] if lengths and (family in DECODERS or step.site.kind == "encoder") else None
                assert_close(weights[:rows], expected[sentence, head, :rows].float(), **CLOSE)


@FAMILY
def test_a_head_off_at_any_layer_changes_the_output_as_by_hand(family):
    """By hand: the model's own eager function, its output of that head set to zero."""
    _, steps = tapped(family)
    for number, step in enumerate(steps):

        def without(call, module, arguments, settings, eager, number=number):
            output, _ = eager(module, *arguments, **settings)
            if call == number:
                output = output.clone()
                output[:, :, 1] = 0
            return output

        edited, _ = tapped(family, Edits(heads_off={(step.site, 1)}))

        assert_close(edited, by_hand(family, without), **CLOSE)
        assert not torch.allclose(edited, tapped(family)[0], atol=1e-6)


@FAMILY
def test_a_blocked_cell_changes_the_output_as_by_hand(family):
    """By hand: the lowest number in the mask that eager attention adds."""

    def blocked(call, module, arguments, settings, eager):
        query, key, value, mask = arguments
        shape = (query.shape[0], 1, query.shape[2], key.shape[2])
        mask = torch.zeros(shape) if mask is None else mask[..., : key.shape[2]].expand(shape).clone()
        mask[:, :, 4, 2] = torch.finfo(mask.dtype).min
        return eager(module, query, key, value, mask, **settings)[0]

    edited, steps = tapped(family, Edits(mask=Painted(((4, 2),))))

    assert_close(edited, by_hand(family, blocked), **CLOSE)
    assert not torch.allclose(edited, tapped(family)[0], atol=1e-6)
    assert all(step.weights(0)[4, 2] == 0 for step in steps)


# The traps


@pytest.mark.parametrize("family", [*DECODERS, "T5", "Bart", "Marian", "Whisper"])
def test_a_decoder_never_sees_the_future(family):
    """A mask that is left out where a kernel would be causal lets the decoders of T5, Marian and BART see it."""
    _, steps = tapped(family)
    length = WRITTEN if family in BOTH else TOKENS

    for step in (step for step in steps if step.site.kind == "decoder"):
        assert not step.weights(0)[:, :length].triu(1).any()
        assert "causal" in " ".join(step.reasons(0)[0])


def test_softcap_position_bias_and_sinks_reach_the_attention():
    """Gemma 2, T5 and GPT-OSS: each record holds what its scores were made with."""
    assert tapped("Gemma2")[1][0].scoring.softcap == 0.01
    t5 = tapped("T5")[1][0]
    assert t5.scoring.scale == 1.0
    assert t5.scoring.bias[0].shape[1:] == (4, TOKENS, TOKENS)
    sink = tapped("GptOss")[1][0]
    assert sink.has_sink
    assert sink.shape[3] == TOKENS + 1
    assert (sink.weights(0)[:, -1] > 0).all()
    assert_close(sink.weights(0).sum(-1), torch.ones(TOKENS))


@pytest.mark.parametrize("family", OWN)
def test_models_with_attention_of_their_own_are_told_apart(family):
    """They would only log a warning and go on."""
    assert not use_attnviz(build(family))


def test_a_run_without_a_tap_is_an_error():
    """Rather than attention that nobody sees."""
    model, (read, lengths) = build("Bert"), example("Bert")
    use_attnviz(model)

    with pytest.raises(Exception, match="does not hand on"):
        answer(model, read, lengths)
