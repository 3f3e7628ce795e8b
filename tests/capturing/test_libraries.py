"""Kernels and models of other libraries are seen and edited; of kernels, which run on GPUs alone, stand-ins."""

import sys
from itertools import product
from types import ModuleType

import pytest
import stand_ins
import torch
from captured import refusal, seen_in, shown
from handmade import Own
from torch import Tensor, nn
from torch.testing import assert_close

import attnviz
from attnviz import Documents, Edits, Site, Subsequent, Window

B, H, FEW, W = 3, 4, 2, 5
ENDS, OTHERS = torch.tensor([0, 3, 3, 10]), torch.tensor([0, 2, 3, 10])
LIKE = {"check_dtype": False, "atol": 1e-6, "rtol": 1e-5}


@pytest.fixture
def file(monkeypatch) -> ModuleType:
    """A file of a person, who has imported the functions before any capture."""
    flash, package, ops, theirs = map(ModuleType, ("flash_attn", "xformers", "xformers.ops", "their_model"))
    vars(flash).update(stand_ins.FLASH)
    ops.memory_efficient_attention = stand_ins.memory_efficient_attention
    vars(theirs).update(stand_ins.FLASH, attention_of_xformers=ops.memory_efficient_attention)
    for module in (flash, package, ops, theirs):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    return theirs


def calling(file: ModuleType, name: str) -> Own:
    """A model that calls a function by the name that its file has for it, and speaks of a wrong number of heads."""
    return Own(lambda *args, **options: getattr(file, name)(*args, **options), num_heads=B)


CASES = {
    "plain": {},
    "causal": {"causal": True},
    "scale": {"softmax_scale": 0.7},
    "window": {"window_size": (2, 1)},
    "left": {"window_size": (1, -1)},
    "right": {"window_size": (-1, 2)},
    "sliding": {"window_size": (2, -1), "causal": True},
    "softcap": {"softcap": 0.8, "causal": True},
    "together": {"softcap": 0.9, "window_size": (3, 0), "softmax_scale": 0.4},
}


@pytest.mark.parametrize("case", CASES)
def test_weights_of_flash_attn_are_those_of_its_documentation(file, case):
    """With as many keys as queries, more and fewer; with as many heads of keys, and fewer; of packed documents."""
    for n, m, few in product((1, 6), (2, 6), (H, FEW)):
        q, k, v = torch.randn(B, n, H, W), torch.randn(B, m, few, W), torch.randn(B, m, few, W)
        seen = seen_in(calling(file, "flash_attn_func"), q, k, v, **CASES[case])
        assert not seen.unseen
        assert_close(shown(seen.steps[0]), stand_ins.batch(q, k, **CASES[case]), **LIKE)
    q, k, v = torch.randn(10, H, W), torch.randn(10, FEW, W), torch.randn(10, FEW, W)
    (step,) = seen_in(calling(file, "flash_attn_varlen_func"), q, k, v, ENDS, ENDS, 7, 7, **CASES[case]).steps
    assert_close(shown(step), stand_ins.packed(q, k, ENDS, **CASES[case])[None], **LIKE)


def test_the_mask_has_the_names_of_its_rules(file):
    """Documents, causal, window."""
    q = torch.randn(10, H, W)
    options = {"causal": True, "window_size": (2, 0)}
    (step,) = seen_in(calling(file, "flash_attn_varlen_func"), q, q, q, ENDS, ENDS, 7, 7, **options).steps
    assert step.mask == Documents((3, 7)) & Subsequent() & Window(2, 0)
    assert step.site == Site("decoder", 0)


@pytest.mark.parametrize("edits", [Edits(), Edits(temperature=2.0)])
def test_packed_arguments_and_more_results(file, edits):
    """`qkv` and `kv` in one tensor give the same map; with an output come its other results."""
    qkv, flat, results = torch.randn(B, 6, 3, H, W), torch.randn(10, 3, H, W), []
    q, k, v = qkv.unbind(2)
    for name, args in (("_qkvpacked", (qkv,)), ("_kvpacked", (q, qkv[:, :, 1:])), ("", (q, k, v))):
        model = calling(file, f"flash_attn{name}_func")
        with attnviz.capture(model, edits) as seen:
            output, *more = model(*args, causal=True, return_attn_probs=True)
        assert more == ["log-sum-exp", "dropout"]
        results.append((shown(seen.steps[0]), output))
    assert_close(results[:2], [results[2]] * 2)
    (step,) = seen_in(calling(file, "flash_attn_varlen_qkvpacked_func"), flat, ENDS, 7).steps
    assert_close(shown(step)[0], stand_ins.packed(*flat.unbind(1)[:2], ENDS), **LIKE)


@pytest.mark.parametrize("packed", [False, True])
def test_edits_act_in_the_call(file, packed):
    """A head that is off gives zeros, and no other changes; a temperature divides the scores."""
    q, k, v = torch.randn(2, 5, H, W), torch.randn(2, 5, FEW, W), torch.randn(2, 5, FEW, W)
    model, ends = calling(file, f"flash_attn_{'varlen_' * packed}func"), torch.tensor([0, 5, 10])
    args = (*(x.flatten(0, 1) for x in (q, k, v)), ends, ends, 5, 5) if packed else (q, k, v)
    with attnviz.capture(model, Edits().with_heads_off(Site("encoder", 0), {1})):
        output = model(*args)
    assert_close(output, model(*args) * torch.tensor([1, 0, 1, 1])[:, None])
    args[0].requires_grad_()
    with attnviz.capture(model, Edits(temperature=2.0)):
        output = model(*args)
    expected = model(*args, softmax_scale=W**-0.5 / 2)
    assert_close(output, expected)
    assert_close(*(torch.autograd.grad(each.square().sum(), args[0]) for each in (output, expected)))


@pytest.mark.parametrize(("scale", "window"), [(None, (-1, -1)), (None, (-1, 0)), (0.3, (2, 1))])
def test_varlen_attn_of_torch_is_seen(scale, window):
    """By its operator; PyTorch has no kernel of it for CPUs."""
    varlen_attn = pytest.importorskip("torch.nn.attention.varlen").varlen_attn
    q, k, v = torch.randn(10, H, W), torch.randn(10, FEW, W), torch.randn(10, FEW, W)
    options = {"scale": scale, "window_size": window, "enable_gqa": True}
    with torch.library._scoped_library("torch_attn", "IMPL") as library:
        library.impl("_varlen_attn", stand_ins.varlen, "CPU")
        (step,) = seen_in(varlen_attn, q, k, v, ENDS, ENDS, 7, 7, **options).steps
    expected = stand_ins.packed(q, k, ENDS, window_size=window, softmax_scale=scale)
    assert_close(shown(step)[0], expected, **LIKE)


@torch.library.custom_op("attnviz_tests::_flash_attn_forward", mutates_args=())
def operator(q: Tensor) -> Tensor:
    """An operator as flash-attn 2.7 has one under its functions."""
    return q.clone()


def test_a_call_that_cannot_be_read_is_said(file):
    """Such as a block table, ALiBi, a kernel's own cache, tokens in no document, an operator called by itself."""
    q, cache = torch.randn(10, H, W), torch.randn(B, 6, H, W)
    file.operator = operator
    for name, args, options, what in (
        ("flash_attn_varlen_func", (q, q, q, ENDS, ENDS, 7, 7), {"block_table": torch.zeros(1)}, "block_table"),
        ("flash_attn_varlen_func", (q, q, q, ENDS[:-1], ENDS[:-1], 7, 7), {}, "leave tokens out"),
        ("flash_attn_varlen_func", (q, q, q, ENDS, OTHERS, 7, 7), {}, "other lengths of queries than of keys"),
        ("flash_attn_func", (cache, cache, cache), {"alibi_slopes": torch.ones(H)}, "alibi_slopes"),
        ("flash_attn_with_kvcache", (cache[:, :1], cache, cache), {}, "k_cache"),
        ("operator", (q,), {}, "_flash_attn_forward"),
        ("attention_of_xformers", (cache, cache, cache), {}, "memory_efficient_attention"),
    ):
        with attnviz.capture(model := calling(file, name)) as seen:
            model(*args, **options)
        assert what in seen.unseen[0]
        assert not seen.sites


def test_a_kernel_that_does_something_else_is_not_misread(file, monkeypatch):
    """As flash-attn before 2.1, whose causal mask has its corner at the top left."""

    def flash_attn_func(q, k, v, causal=False):
        is_open, (q, k, v) = torch.ones(3, 6, dtype=torch.bool).tril(), (x.transpose(1, 2) for x in (q, k, v))
        return nn.functional.scaled_dot_product_attention(q, k, v, is_open).transpose(1, 2)

    monkeypatch.setattr(sys.modules["flash_attn"], "flash_attn_func", flash_attn_func)
    file.flash_attn_func, q, k = flash_attn_func, torch.randn(1, 3, H, W), torch.randn(1, 6, H, W)
    assert "differs from the model's own" in refusal(calling(file, "flash_attn_func"), q, k, k, causal=True)


def test_nothing_is_left_of_the_stand_ins(file, monkeypatch):
    """Not after an error, not under another name, not in a file that is imported while a capture runs."""
    own, late, q = file.flash_attn_func, ModuleType("late"), torch.randn(1, 5, H, W)
    monkeypatch.setitem(sys.modules, "late", late)

    def nested():
        with attnviz.capture(nn.Identity()) as seen:
            with attnviz.capture(nn.Identity()):
                assert file.flash_attn_func is sys.modules["flash_attn"].flash_attn_func is not own
            assert file.flash_attn_func is not own
            exec("from flash_attn import flash_attn_func as another", vars(late))
            calling(file, "flash_attn_func")(q, q, q)
            assert not seen.sites  # another model
            raise KeyError

    with pytest.raises(KeyError):
        nested()
    assert own is file.flash_attn_func is late.another is sys.modules["flash_attn"].flash_attn_func
