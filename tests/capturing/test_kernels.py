"""Calls of flash-attn, xformers and torch's `varlen_attn` are seen by their arguments, and edited.

The real kernels run on GPUs alone: stand-ins with their signatures compute what their documentation says.
"""

import sys
import threading
from functools import partial
from types import ModuleType

import pytest
import stand_ins
import torch
from handmade import shown
from stand_ins import BlockDiagonalMask, LowerTriangularMask
from torch import Tensor, nn
from torch.testing import assert_close

import attnviz
from attnviz.core.edits import Edits, Site
from attnviz.core.errors import AttnvizError
from attnviz.core.masks import Documents, Subsequent, Window

B, H, FEW, W = 3, 4, 2, 5
ENDS, OTHERS = torch.tensor([0, 3, 3, 8, 10]), torch.tensor([0, 2, 3, 9, 10])
SLOPES = torch.tensor([0.5, 0.25, 0.125, 0.0625])
LIKE = {"check_dtype": False, "atol": 1e-6, "rtol": 1e-5}
THEIRS = """
from flash_attn import *
from xformers.ops import memory_efficient_attention as attention_of_xformers
"""


class Calls(nn.Module):
    """A model that calls a function of its file, by the name that the file has for it.

    It speaks of as many heads as there are sentences: a kernel says by itself which axis is which.
    """

    def __init__(self, file: ModuleType, name: str):
        super().__init__()
        self.file, self.name, self.num_heads = file, name, B

    def forward(self, *args, **options):
        return getattr(self.file, self.name)(*args, **options)


@pytest.fixture
def file(monkeypatch) -> ModuleType:
    """A file of a person, who has imported the functions before any capture."""
    ops = stand_ins.xformers()
    package, theirs = ModuleType("xformers"), ModuleType("their_model")
    for name, module in {"flash_attn": stand_ins.flash_attn(), "xformers": package, "xformers.ops": ops}.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setitem(sys.modules, "their_model", theirs)
    exec(THEIRS, vars(theirs))
    return theirs


def seen_in(model: nn.Module, *args, edits: Edits = Edits(), **options):
    """What was seen of a call, whose output is bit for bit that of the model alone."""
    with attnviz.capture(model, edits) as seen:
        output = model(*args, **options)
    if edits == Edits():
        alone = model(*args, **options)
        assert type(alone) is type(output)
        pairs = zip(*(each if isinstance(each, tuple) else (each,) for each in (alone, output)), strict=True)
        assert all(torch.equal(*pair) if isinstance(pair[0], Tensor) else pair[0] == pair[1] for pair in pairs)
    return seen


CASES = {
    "plain": {},
    "causal": {"causal": True},
    "scale": {"softmax_scale": 0.7},
    "window": {"window_size": (2, 1)},
    "left": {"window_size": (1, -1)},
    "right": {"window_size": (-1, 2)},
    "sliding": {"window_size": (2, -1), "causal": True},
    "softcap": {"softcap": 0.8, "causal": True},
    "alibi": {"alibi_slopes": SLOPES, "causal": True},
    "alibi of each": {"alibi_slopes": SLOPES * torch.rand(B, 1)},
    "together": {"alibi_slopes": SLOPES, "softcap": 0.9, "window_size": (3, 0), "softmax_scale": 0.4},
}
OURS = {"softmax_scale": "scale", "window_size": "window", "alibi_slopes": "slopes"}


def by_hand(options: dict) -> dict:
    """The options of a case as the stand-ins have them."""
    return {OURS.get(name, name): value for name, value in options.items()}


@pytest.mark.parametrize("few", [H, FEW])
@pytest.mark.parametrize(("n", "m"), [(6, 6), (2, 7), (7, 2), (1, 5)])
@pytest.mark.parametrize("case", CASES)
def test_weights_of_flash_attn_are_those_of_its_documentation(file, case, n, m, few):
    """With as many keys as queries, more and fewer; with as many heads of keys, and fewer."""
    q, k, v = torch.randn(B, n, H, W), torch.randn(B, m, few, W), torch.randn(B, m, few, W)
    seen = seen_in(Calls(file, "flash_attn_func"), q, k, v, **CASES[case])

    (step,) = seen.steps
    assert not seen.unseen
    assert_close(shown(step), stand_ins.batch(q, k, **by_hand(CASES[case])), **LIKE)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("ends", [ENDS, OTHERS])
def test_packed_documents_are_blocks_of_one_row(file, case, ends):
    """`cu_seqlens` of queries and keys: each document has its own lengths, and its own corner."""
    options = dict(CASES[case])
    if case == "alibi of each":
        options["alibi_slopes"] = SLOPES * torch.rand(len(ENDS) - 1, 1)
    q, k, v = torch.randn(10, H, W), torch.randn(10, FEW, W), torch.randn(10, FEW, W)
    seen = seen_in(Calls(file, "flash_attn_varlen_func"), q, k, v, ENDS, ends, 5, 6, **options)

    (step,) = seen.steps
    assert step.shape == (1, H, 10, 10)
    assert_close(shown(step)[0], stand_ins.packed(q, k, ENDS, ends, **by_hand(options)), **LIKE)


def test_the_mask_has_the_names_of_its_rules(file):
    """Documents, causal, window."""
    q = torch.randn(10, H, W)
    model = Calls(file, "flash_attn_varlen_func")
    (step,) = seen_in(model, q, q, q, ENDS, ENDS, 5, 5, causal=True, window_size=(2, 0)).steps
    assert step.mask == Documents((3, 5, 2)) & Subsequent() & Window(2, 0)
    assert step.site == Site("decoder", 0)
    q, k = torch.randn(1, 2, H, W), torch.randn(1, 6, H, W)
    (step,) = seen_in(Calls(file, "flash_attn_func"), q, k, k, causal=True).steps
    assert step.mask == Subsequent().shifted(4)


@pytest.mark.parametrize("edits", [Edits(), Edits(temperature=2.0)])
def test_packed_arguments_and_more_results(file, edits):
    """`qkv` and `kv` in one tensor give the same map; with an output come its other results."""
    qkv = torch.randn(B, 6, 3, H, W)
    q, k, v = qkv.unbind(2)
    results = []
    for name, args in {
        "flash_attn_qkvpacked_func": (qkv,),
        "flash_attn_kvpacked_func": (q, qkv[:, :, 1:]),
        "flash_attn_func": (q, k, v),
    }.items():
        model = Calls(file, name)
        with attnviz.capture(model, edits) as seen:
            output, *more = model(*args, causal=True, return_attn_probs=True)
        assert more == ["log-sum-exp", "dropout"]
        results.append((shown(seen.steps[0]), output))
    for result in results[:2]:
        assert_close(result, results[2])
    flat = torch.randn(10, 3, H, W)
    model = nn.Module()
    model.cross, model.forward = Calls(file, "flash_attn_varlen_qkvpacked_func"), lambda *args: model.cross(*args)
    (step,) = seen_in(model, flat, ENDS, 5).steps
    assert step.site.kind == "encoder"  # one tensor has one text, whatever the module is called
    assert_close(shown(step)[0], stand_ins.packed(*flat.unbind(1)[:2], ENDS, ENDS), **LIKE)


@pytest.mark.parametrize("packed", [False, True])
def test_edits_act_in_the_call(file, packed):
    """A head that is off gives zeros, and no other changes; a temperature divides the scores."""
    q, k, v = torch.randn(2, 5, H, W), torch.randn(2, 5, FEW, W), torch.randn(2, 5, FEW, W)
    model, args = Calls(file, "flash_attn_func"), (q, k, v)
    ends = torch.tensor([0, 5, 10])
    if packed:
        model = Calls(file, "flash_attn_varlen_func")
        args = (*(x.flatten(0, 1) for x in (q, k, v)), ends, ends, 5, 5)
    off = Edits().with_heads_off(Site("encoder", 0), {1})
    with attnviz.capture(model, off):
        output = model(*args)
    expected = model(*args).clone()
    expected[..., 1, :] = 0
    assert_close(output, expected)
    args[0].requires_grad_()
    with attnviz.capture(model, Edits(temperature=2.0)):
        output = model(*args)
    expected = model(*args, softmax_scale=W**-0.5 / 2)
    assert_close(output, expected)
    assert_close(*(torch.autograd.grad(each.square().sum(), args[0]) for each in (output, expected)))


BIASES = {
    "none": lambda lead: None,
    "tensor": lambda lead: torch.randn(*lead, 6, 6).masked_fill(torch.rand(*lead, 6, 6) > 0.8, -torch.inf),
    "causal": lambda lead: LowerTriangularMask(),
    "documents": lambda lead: BlockDiagonalMask((2, 4), (3, 3)),
    "causal documents": lambda lead: BlockDiagonalMask((2, 4), (2, 4), is_causal=True),
}


@pytest.mark.parametrize("case", BIASES)
@pytest.mark.parametrize("lead", [(), (H,), (2, 3)])
def test_weights_of_xformers_are_those_of_its_documentation(file, case, lead):
    """Of three, four and five axes; its causal mask has its corner at the top left."""
    q, k, v = (torch.randn(B, 6, *lead, W) for _ in range(3))
    torch.manual_seed(5)
    bias = BIASES[case]((B, *lead))
    seen = seen_in(Calls(file, "attention_of_xformers"), q, k, v, attn_bias=bias, scale=0.6)

    scores = q.double().movedim(1, -2) @ k.double().movedim(1, -2).mT * 0.6
    if bias is not None:
        scores = scores + stand_ins.scores_bias(q, k, bias)
    (step,) = seen.steps
    assert not seen.unseen
    assert_close(shown(step).flatten(0, 1), scores.softmax(-1).flatten(0, -3), **LIKE)
    if case == "causal documents":
        assert step.site.kind == "decoder"
        assert step.mask == Documents((2, 4)) & Subsequent()


def test_heads_of_xformers_that_are_off(file):
    """In five axes, where heads are grouped, too."""
    model = Calls(file, "attention_of_xformers")
    for lead in ((H,), (2, 2)):
        q = torch.randn(B, 6, *lead, W)
        with attnviz.capture(model, Edits().with_heads_off(Site("encoder", 0), {2})):
            output = model(q, q, q)
        expected = model(q, q, q).flatten(2, -2).clone()
        expected[:, :, 2] = 0
        assert_close(output.flatten(2, -2), expected)


def test_the_number_of_heads_is_asked_for_where_they_share_an_axis(file):
    """With sentences: `heads=` says it, and changes nothing where the kernel has an axis of heads."""
    model, q = Calls(file, "attention_of_xformers"), torch.randn(B, 6, H, W)
    maps = []
    for each, heads in ((q, 2), (q.transpose(1, 2).flatten(0, 1), H)):
        with attnviz.capture(model, heads=heads) as seen:
            model(each, each, each)
        maps.append(shown(seen.steps[0]))
    assert_close(*maps)


class TwoTexts(nn.Module):
    """Attention to its own text, and then to another one of the same length, with no name that says so."""

    def __init__(self, file: ModuleType):
        super().__init__()
        self.file, self.layers = file, nn.ModuleList(nn.Linear(W, W) for _ in range(3))

    def forward(self, x: Tensor, other: Tensor) -> Tensor:
        q, k, more = (layer(each) for layer, each in zip(self.layers, (x, x, other), strict=True))
        mixed = self.file.flash_attn_func(q, k, k)
        return self.file.flash_attn_func(nn.functional.linear(mixed, self.layers[0].weight), more, more)


def test_the_output_of_a_kernel_is_a_text(file):
    """Its queries and the keys of another text make cross-attention."""
    x, other = torch.randn(B, 6, H, W), torch.randn(B, 6, H, W)
    seen = seen_in(TwoTexts(file), x, other)
    assert list(seen.sites) == [Site("encoder", 0), Site("cross", 0)]


def varlen(query, key, value, cu_seq_q, cu_seq_k, max_q, max_k, is_causal, scale, window_size, *more):
    """What torch's operator computes on GPUs, on the CPU."""
    every = stand_ins.packed(query, key, cu_seq_q, cu_seq_k, scale=scale, causal=is_causal, window=tuple(window_size))
    return (
        stand_ins.output(every, value).to(query),
        query.new_zeros(query.shape[1::-1]),
        torch.zeros(2).to(torch.uint64),
    )


class Varlen(nn.Module):
    def forward(self, *args, **options):
        from torch.nn.attention.varlen import varlen_attn

        return varlen_attn(*args, **options)


@pytest.mark.parametrize("options", [{}, {"window_size": (-1, 0)}, {"window_size": (2, 1), "scale": 0.3}])
@pytest.mark.parametrize("ends", [ENDS, OTHERS])
def test_varlen_attn_of_torch_is_seen(options, ends):
    """By its operator; PyTorch has no kernel of it for CPUs."""
    pytest.importorskip("torch.nn.attention.varlen")
    q, k, v = torch.randn(10, H, W), torch.randn(10, FEW, W), torch.randn(10, FEW, W)
    with torch.library._scoped_library("torch_attn", "IMPL") as library:
        library.impl("_varlen_attn", varlen, "CPU")
        (step,) = seen_in(Varlen(), q, k, v, ENDS, ends, 5, 6, enable_gqa=True, **options).steps
    expected = by_hand({OURS.get(name, name): value for name, value in options.items()})
    assert_close(shown(step)[0], stand_ins.packed(q, k, ENDS, ends, **expected), **LIKE)


class Cached(nn.Module):
    """Attention with the keys and values of earlier passes, as models call it when they write."""

    def __init__(self, file: ModuleType):
        super().__init__()
        self.file, self.qkv, self.cache = file, nn.Linear(W, 3 * H * W), []

    def forward(self, x: Tensor) -> Tensor:
        q, *kv = self.qkv(x).unflatten(-1, (3, H, W)).unbind(2)
        self.cache.append(kv)
        k, v = (torch.cat(parts, 1) for parts in zip(*self.cache, strict=True))
        return self.file.flash_attn_func(q, k, v, causal=True, alibi_slopes=SLOPES).flatten(2)


def test_passes_with_a_cache_become_one_map(file):
    """It is that of one whole run."""
    model, x = Cached(file), torch.randn(B, 6, W)
    with attnviz.capture(model) as seen:
        outputs = [model(x[:, :3]), model(x[:, 3:4]), model(x[:, 4:])]
    model.cache = []
    with attnviz.capture(model) as whole:
        output = model(x)

    assert_close(torch.cat(outputs, 1), output)
    (step,), (expected,) = seen.steps, whole.steps
    assert step.site == expected.site == Site("decoder", 0)
    assert step.mask == expected.mask == Subsequent()
    assert_close(shown(step), shown(expected))


def test_a_call_that_cannot_be_read_is_said(file):
    """With a block table, with a cache of the kernel's own, with tokens that are in no document."""
    q, cache = torch.randn(10, H, W), torch.randn(B, 6, H, W)
    for name, args, options, what in (
        ("flash_attn_varlen_func", (q, q, q, ENDS, ENDS, 5, 5), {"block_table": torch.zeros(1)}, "block_table"),
        ("flash_attn_varlen_func", (q, q, q, ENDS[:-1], ENDS[:-1], 5, 5), {}, "cu_seqlens that leave tokens out"),
        ("flash_attn_with_kvcache", (cache[:, :1], cache, cache), {}, "k_cache"),
    ):
        with attnviz.capture(model := Calls(file, name)) as seen:
            model(*args, **options)
        assert seen.notes == [f"Calls calls {name} with {what}, which is not seen"]
        assert not seen.calls


def test_a_kernel_that_does_something_else_is_not_misread(file, monkeypatch):
    """As flash-attn before 2.1, whose causal mask has its corner at the top left."""

    def flash_attn_func(q, k, v, causal=False):
        is_open = torch.ones(q.shape[1], k.shape[1], dtype=torch.bool).tril()
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        return nn.functional.scaled_dot_product_attention(q, k, v, is_open).transpose(1, 2)

    monkeypatch.setattr(sys.modules["flash_attn"], "flash_attn_func", flash_attn_func)
    file.flash_attn_func = flash_attn_func
    q, k = torch.randn(1, 3, H, W), torch.randn(1, 6, H, W)
    with attnviz.capture(model := Calls(file, "flash_attn_func")) as seen:
        model(q, k, k, causal=True)
    with pytest.raises(AttnvizError, match="differs from the model's own weights or output"):
        seen.record()


@torch.library.custom_op("attnviz_tests::_flash_attn_forward", mutates_args=())
def operator(q: Tensor) -> Tensor:
    """An operator as flash-attn 2.7 has one under its functions."""
    return q.clone()


def test_an_operator_that_is_called_by_itself_is_said():
    """As where a function of flash-attn is held by a partial, or a class."""

    class Direct(nn.Module):
        def forward(self, q):
            return operator(q)

    with attnviz.capture(model := Direct()) as seen:
        model(torch.randn(2))
    assert seen.notes == ["Direct calls _flash_attn_forward, not through a function of a module, so it is not seen"]


def test_nothing_is_left_of_the_stand_ins(file, monkeypatch):
    """Not after an error, not under another name, not in a file that is imported while a capture runs."""
    own, late = file.flash_attn_func, ModuleType("late")
    monkeypatch.setitem(sys.modules, "late", late)

    def nested():
        with attnviz.capture(nn.Identity()):
            with attnviz.capture(nn.Identity()):
                assert file.flash_attn_func is sys.modules["flash_attn"].flash_attn_func is not own
            assert file.flash_attn_func is not own
            exec("from flash_attn import flash_attn_func as another", vars(late))
            raise KeyError

    with pytest.raises(KeyError):
        nested()
    assert own is file.flash_attn_func is late.another is sys.modules["flash_attn"].flash_attn_func


def test_other_threads_and_other_models_are_not_seen(file):
    """A capture is of one model in one thread."""
    q = torch.randn(1, 5, H, W)
    model = Calls(file, "flash_attn_func")
    with attnviz.capture(model) as seen:
        thread = threading.Thread(target=partial(model, q, q, q))
        thread.start()
        thread.join()
        Calls(file, "flash_attn_func")(q, q, q)
    assert not seen.calls
