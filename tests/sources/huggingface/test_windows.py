"""Models that attend within windows of a picture: one attention over all of it, held against the model's own code."""

import sys

import numpy as np
import pytest
import torch
from sight import WINDOWED, folder
from torch.nn.functional import normalize, pad

import attnviz
from attnviz.core.edits import Resolved
from attnviz.core.errors import InputError
from attnviz.core.request import Request

PICTURE = (np.random.RandomState(0).rand(60, 90, 3) * 255).astype(np.uint8)
TEXT = attnviz.picture(PICTURE)
SITES = [attnviz.Site("encoder", layer) for layer in range(4)]


@pytest.fixture(scope="module", params=WINDOWED)
def source(request, tmp_path_factory):
    return attnviz.load(str(folder(tmp_path_factory.mktemp(request.param), request.param)))


def blocks(source):
    """The blocks, in the order of the layers."""
    return [block for stage in base(source).encoder.layers for block in stage.blocks]


def base(source):
    return next(source.loaded.model.children())


def of_transformers(block, name):
    """A function of the module of transformers that a block is written in."""
    return getattr(sys.modules[type(block).__module__], name)


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
    return of_transformers(block, "window_partition")(grid, block.window_size).flatten(1)


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


def test_queries_are_those_of_the_patches_in_their_order(source):
    """Computed from what the block was given. Those of Swin V2 are normalized, and scaled for each head."""
    record, run = attnviz.analyze(TEXT, source), Run(source)
    for layer, (step, block) in enumerate(zip(record.steps, blocks(source), strict=True)):
        states, (height, width) = run.given[layer]
        rows, columns = run.sides(layer, block.window_size)
        is_first = hasattr(block.attention, "q_proj")
        states = block.layernorm_before(states) if is_first else states
        states = states.view(1, height, width, -1)
        states = pad(states, (0, 0, 0, columns - width, 0, rows - height)).flatten(1, 2)
        project = block.attention.q_proj if is_first else block.attention.self.query
        query = project(states).unflatten(-1, (step.num_heads, -1)).transpose(1, 2)
        own = step.query if is_first else normalize(step.query, dim=-1)
        assert torch.allclose(own, query if is_first else normalize(query, dim=-1), atol=1e-5)


def test_outputs_are_those_of_the_attention_in_the_order_of_patches(source):
    """All heads side by side, through the block's own projection, and rolled back by transformers' own function."""
    record, run = attnviz.analyze(TEXT, source), Run(source)
    for layer, (step, block) in enumerate(zip(record.steps, blocks(source), strict=True)):
        rows, columns = run.sides(layer, block.window_size)
        own = run.attended[layer][0].unflatten(1, (block.window_size, -1))
        own = of_transformers(block, "window_reverse")(own, block.window_size, rows, columns)
        own = torch.roll(own, (block.shift_size, block.shift_size), (1, 2)).flatten(0, 2)
        heads = torch.cat([step.output(head) for head in range(step.num_heads)], -1)
        assert torch.allclose(output_projection(block)(heads), own, atol=1e-5)


def output_projection(block):
    return getattr(block.attention, "o_proj", None) or block.attention.output.dense


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

    hook = output_projection(blocks(source)[1]).register_forward_pre_hook(zero)
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


def test_a_temperature_acts_in_the_windows_and_opens_no_other(source, monkeypatch):
    """What Swin adds to hide a part of a rolled window would leak if it were divided, too."""
    record = attnviz.analyze(TEXT, source, attnviz.Edits(temperature=20.0))
    plain = attnviz.analyze(TEXT, source)
    step, before = record.step(SITES[0]), plain.step(SITES[0])

    assert torch.allclose(step.weights(1), torch.softmax(before.masked_scores(1) / 20, -1), atol=1e-6)
    if not hasattr(blocks(source)[0].attention, "scaling"):
        return
    for block in blocks(source):
        monkeypatch.setattr(block.attention, "scaling", block.attention.scaling / 20)
        table = block.attention.relative_position_bias.relative_position_bias_table
        monkeypatch.setattr(table, "data", table.data / 20)
    assert torch.allclose(record.labels[1], Run(source).logits, atol=1e-5)


def test_heads_are_off_in_one_picture_of_a_batch_alone(source):
    sentences = source.sentences(Request.of([TEXT, TEXT]))
    edits = Resolved(each_off=(frozenset(), frozenset({(SITES[1], 0)})))
    both = source.run(sentences, edits).labels[1]

    assert torch.allclose(both[:1], attnviz.analyze(TEXT, source).labels[1], atol=1e-5)
    alone = attnviz.analyze(TEXT, source, attnviz.Edits(heads_off={(SITES[1], 0)})).labels[1]
    assert torch.allclose(both[1:], alone, atol=1e-5)


def test_what_cannot_act_in_windows_is_refused(source):
    for edits in (attnviz.Edits(bias=attnviz.ALiBi()), attnviz.Edits(own_mask=False)):
        with pytest.raises(InputError, match="within windows of a picture: no bias can be added, the built-in mask"):
            attnviz.analyze(TEXT, source, edits)


def test_a_small_part_of_the_weights_is_computed_alone(source):
    """Bias and mask are never laid out for all pairs of patches."""
    step = attnviz.analyze(TEXT, source).step(SITES[1])
    rows, columns = slice(5, 30, 3), slice(2, 40)

    torch.testing.assert_close(step.weights(1, rows, columns), step.weights(1)[rows, columns])
    size = blocks(source)[1].window_size
    assert max(bias.table.numel() for bias in step.scoring.bias) == step.num_heads * size**4
