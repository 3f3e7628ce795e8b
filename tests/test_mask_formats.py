"""Every format of other libraries says the same mask: its code gives our weights, and its tensor reads back."""

import pytest
import torch
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from rules import rules
from torch import Tensor, nn
from torch.nn.attention import flex_attention as flex

from attnviz.core.attention import scaled_dot_product_attention
from attnviz.core.masks import (
    And,
    Documents,
    Full,
    Mask,
    Or,
    Padding,
    Painted,
    Prefix,
    Random,
    Shifted,
    Subsequent,
    Window,
)
from attnviz.mask_formats import FORMATS, mask_format

B, H, Q, K, D = 2, 3, 5, 7, 4

small = st.integers(-8, 8)
lengths = st.tuples(*[st.integers(0, 9)] * B)
masks = st.recursive(
    rules(B, 8),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map(And),
        st.lists(inner, min_size=1, max_size=3).map(Or),
        inner.map(lambda mask: ~mask),
        st.builds(Shifted, inner, small),
    ),
    max_leaves=5,
)
sayable = {
    "is_causal": st.just(Subsequent()) | st.builds(Shifted, st.just(Subsequent(2)), st.just(-2)),
    "key_padding_mask": st.recursive(
        st.one_of(st.just(Full()), st.builds(Padding, lengths, st.none() | st.integers(0, 9)), st.builds(Prefix, small))
        | st.just(Documents((20,)))
        | st.just(Subsequent(9)),
        lambda inner: st.lists(inner, min_size=1, max_size=3).map(And) | inner.map(lambda mask: ~mask),
        max_leaves=4,
    ),
}


class FromScratch(nn.MultiheadAttention):
    """PyTorch's module with identity projections, so that it keeps the heads of (B, H, n, d)."""

    def __init__(self):
        super().__init__(H * D, H, bias=False, batch_first=True, dtype=torch.float64)
        with torch.no_grad():
            self.in_proj_weight.copy_(torch.eye(H * D).repeat(3, 1))
            self.out_proj.weight.copy_(torch.eye(H * D))


@pytest.fixture(autouse=True)
def flex_runs_as_it_is_written(monkeypatch):
    """Run flex_attention without its compiler, which takes seconds; one test below uses it."""
    monkeypatch.setattr(flex, "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG", True)


def inputs(queries: int, keys: int) -> list[Tensor]:
    """Return query, key and value, (B, H, n, d), of one width, which every format takes."""
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(B, H, n, D, generator=generator, dtype=torch.float64) for n in (queries, keys, keys)]


def ran(name: str, mask: Mask, queries: int = Q, keys: int = K) -> dict:
    """Run the code of a format; return its variables: its output as (B, H, Q, d) and, if present, its weights."""
    query, key, value = inputs(queries, keys)
    given = {"query": query, "key": key, "value": value}
    if name in ("attn_mask", "key_padding_mask"):
        given = {part: tensor.transpose(1, 2).flatten(2) for part, tensor in given.items()}
        given["attention"] = FromScratch()
    exec(mask_format(name).code(mask, queries, keys), given)
    if "attention" in given:
        given["output"] = given["output"].unflatten(-1, (H, D)).transpose(1, 2)
    return given


def expected(name: str, mask: Mask, queries: int = Q, keys: int = K) -> tuple[Tensor, Tensor]:
    """The output and weights of attnviz, with what this format does to empty rows."""
    return scaled_dot_product_attention(
        *inputs(queries, keys), mask.tensor(queries, keys), empty_rows=mask_format(name).empty_rows
    )


def close(ours: Tensor, theirs: Tensor) -> bool:
    return torch.allclose(ours, theirs, rtol=0, atol=1e-6, equal_nan=True)


@pytest.mark.filterwarnings("ignore")  # of empty rows, and of FlexAttention without its compiler
@pytest.mark.parametrize("name", [known.name for known in FORMATS])
@examples(30)
@given(data=st.data())
def test_the_code_of_every_format_gives_our_weights(name, data):
    """It is executed as it is printed, for any mask that the format can say, and leaves our output and weights."""
    mask = data.draw(sayable.get(name, masks))
    left = ran(name, mask)
    output, weights = expected(name, mask)

    assert close(left["output"], output)
    assert "weights" not in left or close(left["weights"], weights)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [known.name for known in FORMATS if known.name not in ("is_causal", "flex_attention")])
@examples(20)
@given(data=st.data())
def test_the_tensor_of_a_format_is_ours_and_what_its_code_builds(name, data):
    """Read back by its convention it is the mask, cell by cell, and the code leaves the same in `mask`."""
    mask = data.draw(sayable.get(name, masks))
    convention, ours = mask_format(name), mask.tensor(Q, K).expand(B, 1, Q, K)
    tensor, left = convention.to_tensor(mask, Q, K, heads=H), ran(name, mask)
    built = convention.from_tensor(left["mask"], heads=H)
    if name == "attn_mask" and "key_padding_mask" in left:
        built = built & ~left["key_padding_mask"][:, None, None]

    assert convention.from_tensor(tensor, heads=H).expand(B, 1, Q, K).equal(ours)
    assert built.expand(B, 1, Q, K).equal(ours)


def test_an_eager_model_of_hugging_face_takes_its_tensor():
    """A tiny BERT gives our weights for two axes of tokens, and for four axes that are added."""
    transformers = pytest.importorskip("transformers")
    sizes = {"vocab_size": 9, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = transformers.BertConfig(**sizes, intermediate_size=8, attn_implementation="eager")
    model = transformers.BertModel(config, add_pooling_layer=False).eval()
    ids, attention = torch.arange(2 * Q).reshape(2, Q) % 9, model.encoder.layer[0].attention.self
    with torch.no_grad():
        embedded = model.embeddings(ids)
        parts = (attention.query, attention.key, attention.value)
        heads = [layer(embedded).unflatten(-1, (2, 4)).transpose(1, 2) for layer in parts]
        for mask in (Padding((3, 5)), Subsequent(), Subsequent() & Padding((3, 5))):
            tensor = mask_format("huggingface").to_tensor(mask, Q, Q)
            tensor = tensor.expand(2, *tensor.shape[1:])
            theirs = model(ids, attention_mask=tensor, output_attentions=True).attentions[0]

            assert close(theirs, scaled_dot_product_attention(*heads, mask.tensor(Q, Q))[1])


@pytest.mark.filterwarnings("ignore")
def test_flex_attention_takes_the_code_with_its_compiler(monkeypatch):
    """As a person calls it, not only as its debug mode does."""
    monkeypatch.setattr(flex, "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG", False)
    mask = (Subsequent() | Prefix(2)) & Padding((3, 7)) & Documents((4, 3))

    assert close(ran("flex_attention", mask, K, K)["output"], expected("flex_attention", mask, K, K)[0])


@pytest.mark.parametrize(
    ("name", "mask", "idiom"),
    [
        ("sdpa", Subsequent(), "device=query.device).tril()\noutput"),
        ("attn_mask", Subsequent(), "mask = ~torch.ones(queries, keys, dtype=torch.bool, device=query.device).tril()"),
        ("sdpa", Padding((3, 5)), "torch.arange(keys, device=query.device) < lengths[:, None, None, None]"),
        ("huggingface", Padding((3, 5)), "< lengths[:, None]).long()  # 1 = token, 0 = padding"),
        ("sdpa", Documents((3, 4)), "document[:, None] == document"),
        ("flex_attention", Subsequent() & Padding((3, 5)), "return (kv_idx <= q_idx) & (kv_idx < lengths[b])"),
        ("attn_mask", Subsequent() & Padding((3, 5)), "attn_mask=mask, key_padding_mask=key_padding_mask"),
        ("sdpa", Painted(((1, 2), (3, 0))), "blocked[[1, 3], [2, 0]] = False"),
        ("sdpa", Random(1, 4), 'random = attnviz.mask("random(1, 4)").tensor(queries, keys)[0, 0]'),
    ],
)
def test_a_rule_is_written_as_people_write_it(name, mask, idiom):
    """With an idiom if there is one; else the code says that there is none."""
    assert idiom in mask_format(name).code(mask, 7, 7)


@pytest.mark.parametrize("name", [known.name for known in FORMATS if known.name != "is_causal"])
@given(queries=st.integers(1, 9), keys=st.integers(1, 9))
@examples(4)
@pytest.mark.filterwarnings("ignore")
def test_code_of_a_formula_holds_for_other_lengths(name, queries, keys):
    """Pasted code reads the lengths from the tensors, also the difference of a cache."""
    mask = Prefix(2) if name == "key_padding_mask" else Subsequent(K - Q) & ~Window(1, 1)
    meant = Prefix(2) if name == "key_padding_mask" else Subsequent(keys - queries) & ~Window(1, 1)
    code, query_key_value = mask_format(name).code(mask, Q, K), inputs(queries, keys)
    left = dict(zip(("query", "key", "value"), query_key_value, strict=True))
    if name in ("attn_mask", "key_padding_mask"):
        left = {part: tensor.transpose(1, 2).flatten(2) for part, tensor in left.items()} | {"attention": FromScratch()}
    exec(code, left)
    output = left["output"].unflatten(-1, (H, D)).transpose(1, 2) if "attention" in left else left["output"]

    assert close(output, expected(name, meant, queries, keys)[0])


def test_what_a_format_cannot_say_is_said_in_one_sentence():
    """With the cell that makes it impossible; then there is no tensor and no code."""
    causal, padding = mask_format("is_causal"), mask_format("key_padding_mask")

    assert causal.refuses(Subsequent(2), 5, 7).endswith("this mask opens key 1 for query 0.")
    assert causal.refuses(Subsequent() & Window(1), 5, 5).endswith("this mask blocks key 0 for query 2.")
    assert padding.refuses(Subsequent(), 5, 5).endswith("this mask opens key 1 for query 1.")
    assert padding.refuses(Padding((3, 5)) & ~Subsequent(), 5, 5).count(".") == 1
    for known, mask in ((causal, Window(1)), (padding, Subsequent())):
        assert (known.to_tensor(mask, 5, 5), known.code(mask, 5, 5)) == (None, "")
