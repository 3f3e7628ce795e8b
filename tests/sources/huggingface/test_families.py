"""Every family of models through the tap, compared with its own eager attention."""

import sys
from itertools import count
from pathlib import Path

import pytest
import torch
import transformers
from families import BOTH, DECODERS, TAPPED, answer, build, example
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
    """The number of families in the documentation is the number compared here."""
    page = Path(__file__).parents[3] / "docs" / "how-to" / "hugging-face.md"

    assert f"own for {len(TAPPED)} families" in " ".join(page.read_text(encoding="utf-8").split())


@FAMILY
def test_unedited_outputs_equal_eager_attention(family):
    """Outputs and the weights of every head, with padding and with causal masks; a decoder never sees the future."""
    model, (read, lengths) = build(family), example(family)
    with torch.inference_mode():
        given = model(**read, output_attentions=True)
    names = {"encoder": "encoder_attentions", "decoder": "decoder_attentions", "cross": "cross_attentions"}

    output, steps = tapped(family)

    assert_close(output, answer(model, read, lengths), **CLOSE)
    assert len({step.site for step in steps}) == len(steps) == (6 if family in BOTH else 2)
    for step in steps:
        expected = (getattr(given, names[step.site.kind]) if family in BOTH else given.attentions)[step.site.layer]
        keys = step.shape[3] - step.has_sink
        for sentence in range(2):
            rows = lengths[sentence] if lengths and (family in DECODERS or step.site.kind == "encoder") else None
            for head in range(step.num_heads):
                weights = step.weights(head, sentence=sentence)
                assert_close(weights[:rows, :keys], expected[sentence, head, :rows].float(), **CLOSE)
                if step.has_sink:  # its column, which eager attention leaves out, is the rest
                    assert_close(weights[:rows].sum(-1), torch.ones(len(weights[:rows])))
        if step.site.kind == "decoder":
            assert not step.weights(0)[:, :keys].triu(1).any()
            assert "causal" in " ".join(step.reasons(0)[0])


@FAMILY
def test_edits_change_the_output_as_by_hand(family):
    """A head that is off has zeros in the output of eager attention; a blocked cell has the lowest number added."""
    output, steps = tapped(family)

    def without(number):
        def change(call, module, arguments, settings, eager):
            given = eager(module, *arguments, **settings)[0].clone()
            if call == number:
                given[:, :, 1] = 0
            return given

        return change

    def blocked(call, module, arguments, settings, eager):
        query, key, value, mask = arguments
        shape = (query.shape[0], 1, query.shape[2], key.shape[2])
        mask = torch.zeros(shape) if mask is None else mask[..., : key.shape[2]].expand(shape).clone()
        mask[:, :, 4, 2] = torch.finfo(mask.dtype).min
        return eager(module, query, key, value, mask, **settings)[0]

    changes = [(Edits(heads_off={(step.site, 1)}), without(number)) for number, step in enumerate(steps)]
    for edits, change in [*changes, (Edits(mask=Painted(((4, 2),))), blocked)]:
        edited, _ = tapped(family, edits)

        assert_close(edited, by_hand(family, change), **CLOSE)
        assert not torch.allclose(edited, output, atol=1e-6)
