"""Models that attend within windows of a picture: one attention over all of it, held against the model's own code."""

import sys

import numpy as np
import pytest
import torch
from sight import WINDOWED, folder

import attnviz
from attnviz.core.errors import InputError

PICTURE = (np.random.RandomState(0).rand(60, 90, 3) * 255).astype(np.uint8)
TEXT = attnviz.picture(PICTURE)
SITES = [attnviz.Site("encoder", layer) for layer in range(4)]


@pytest.fixture(scope="module", params=WINDOWED)
def source(request, tmp_path_factory):
    return attnviz.load(str(folder(tmp_path_factory.mktemp(request.param), request.param)))


def blocks(source):
    """The blocks, in the order of the layers."""
    base = next(source.loaded.model.children())
    return [block for stage in base.encoder.layers for block in stage.blocks]


class Run:
    """A run of the model's own eager attention, and what its blocks were given and gave."""

    def __init__(self, source):
        self.given, self.attended, hooks = [], [], []
        for block in blocks(source):
            hooks.append(block.register_forward_pre_hook(lambda _, args: self.given.append(args[:2])))
            hooks.append(block.attention.register_forward_hook(lambda *call: self.attended.append(call[-1])))
        model, read = source.loaded.model, source.loaded.processor([PICTURE], return_tensors="pt")
        try:
            with torch.no_grad():
                self.logits = model(**read, output_attentions=True).logits
        finally:
            for hook in hooks:
                hook.remove()

    def sides(self, layer, size):
        """Rows and columns of a block, padded to windows."""
        return [side + -side % size for side in self.given[layer][1]]


def places(block, rows, columns):
    """Positions of the picture in each window, cut by transformers' own function, (windows, n)."""
    grid = torch.arange(rows * columns).reshape(1, rows, columns, 1)
    grid = torch.roll(grid, (-block.shift_size, -block.shift_size), (1, 2))
    return sys.modules[type(block).__module__].window_partition(grid, block.window_size).flatten(1)


def test_weights_are_those_of_the_model_in_its_windows(source):
    """And 0 between them; in shifted blocks also between parts of a window that were rolled together."""
    record, run = attnviz.analyze(TEXT, source), Run(source)

    assert record.sites == tuple(SITES)
    assert not record.unseen
    for layer, (step, block) in enumerate(zip(record.steps, blocks(source), strict=True)):
        rows, columns = run.sides(layer, block.window_size)
        own = run.attended[layer][1]
        whole = torch.zeros(step.num_heads, rows * columns, rows * columns)
        for weights, place in zip(own, places(block, rows, columns), strict=True):
            whole[:, place[:, None], place] = weights
        weights = torch.stack([step.weights(head) for head in range(step.num_heads)])
        assert torch.allclose(weights, whole, atol=1e-6)
        assert bool((weights > 0).any())


def test_each_stage_has_its_own_patches(source):
    """In the picture; what pads the last windows has no place in it."""
    record, run = attnviz.analyze(TEXT, source), Run(source)
    for layer, site in enumerate(SITES):
        height, width = run.given[layer][1]
        tokens = record.texts(site)[0].tokens
        placed = [token for token in tokens if token.box]
        assert len(tokens) == record.step(site).shape[2]
        assert [token.text for token in placed] == [f"row{i}·col{j}" for i in range(height) for j in range(width)]
        assert {token.text for token in tokens if not token.box} <= {"padding"}
        assert [token.id for token in tokens] == [*range(len(tokens))]
        assert placed[-1].box.right == pytest.approx(1, abs=0.01)
        side = 4 * 2 ** (layer // 2) / source.loaded.processor.size["height"]
        assert placed[width + 1].box.top == pytest.approx(side, abs=0.01)


def test_a_head_that_is_off_changes_the_logits_as_zeroing_it_does(source):
    """The part of a head is cut out of the input of the output projection, by a hook of the test's own."""
    record = attnviz.analyze(TEXT, source, attnviz.Edits(heads_off={(SITES[1], 1)}))

    def zero(module, args):
        states = args[0].clone()
        states[..., 8:16] = 0
        return (states, *args[1:])

    attention = blocks(source)[1].attention
    projection = getattr(attention, "o_proj", None) or attention.output.dense
    hook = projection.register_forward_pre_hook(zero)
    try:
        assert torch.allclose(record.labels[1], Run(source).logits, atol=1e-5)
    finally:
        hook.remove()
    assert not record.step(SITES[1]).output(1).any()


def test_blanked_patches_are_blank_in_the_windows(source, monkeypatch):
    """The model is given the same in the mask of its own windows."""
    blank = (3, 9, 30)
    record = attnviz.analyze(TEXT, source, attnviz.Edits(mask=attnviz.Blank(blank)))
    for block in blocks(source):

        def mask(rows, columns, dtype, device=None, block=block, own=block.get_attn_mask):
            hidden = torch.isin(places(block, rows, columns), torch.tensor(blank))[:, None, :] * -1e4
            given = own(rows, columns, dtype, device)
            return hidden.expand(-1, block.window_size**2, -1) + (0 if given is None else given)

        monkeypatch.setattr(block, "get_attn_mask", mask)

    assert torch.allclose(record.labels[1], Run(source).logits, atol=1e-5)
    for step in record.steps:
        inside = [key for key in blank if key < step.shape[3]]
        weights = torch.stack([step.weights(head) for head in range(step.num_heads)])
        assert not weights[..., inside].any()
        assert torch.allclose(weights.sum(-1), torch.ones(weights.shape[:2]))


def test_what_cannot_act_in_windows_is_refused(source):
    for edits in (attnviz.Edits(bias=attnviz.ALiBi()), attnviz.Edits(own_mask=False)):
        with pytest.raises(InputError, match="within windows of a picture: no bias can be added, the built-in mask"):
            attnviz.analyze(TEXT, source, edits)
