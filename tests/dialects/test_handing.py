"""A mask handed to the wrong reader: what comes out is what PyTorch gives, and the words say it."""

import math
from itertools import product

import pytest
import torch
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from attnviz.core.errors import MaskError
from attnviz.core.masks import Full, Padding, Subsequent, Window
from attnviz.dialects import DIALECTS, dialect, handed_to

NAMES = [known.name for known in DIALECTS if known.name != "is_causal"]
N = 5


def words(handed) -> list[str]:
    return [note.words for note in handed.notes]


def random(batch=1, heads=2, queries=N, keys=N):
    return torch.randn(batch, heads, queries, 8), torch.randn(batch, heads, keys, 8)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("mask", [Subsequent() & Padding((3, 5)), Padding((3, 5)), Window(1, 1)], ids=str)
def test_whoever_reads_his_own_dialect_reads_what_was_meant(name, mask):
    """Nothing changes on the way, and the weights are zero where the mask is closed."""
    if dialect(name).refuses(mask, N, 7):
        return
    handed = handed_to(mask, N, 7, meant=name, read_as=name)

    assert words(handed) == ["It is read as it was meant."]
    assert handed.seen.equal(handed.meant_grid)
    assert not handed.weights[~handed.meant_grid[:, None]].any()
    assert handed.weights.sum(-1).allclose(torch.ones(2, 1, N))


@pytest.mark.parametrize(
    ("meant", "read_as"),
    [
        ("attn_mask", "sdpa"),
        ("sdpa", "attn_mask"),
        ("true_is_masked", "zero_is_masked"),
        ("zero_is_masked", "true_is_masked"),
        ("attn_mask", "flex_attention"),
        ("sdpa_additive", "zero_is_masked"),
    ],
)
def test_a_subsequent_mask_read_the_wrong_way_round(meant, read_as):
    """Row 0 sees only the future, the last row has no key left, and the detector names the mistake."""
    boolean = torch.bool if meant == "zero_is_masked" else None
    handed = handed_to(Subsequent(), N, N, meant=meant, read_as=read_as, dtype=boolean)
    empty = {"nan": "its weights are NaN", "zero": "its weights are zeros"}.get(
        dialect(read_as).empty_rows, "each of the 5 keys gets the same weight, though all are masked"
    )

    assert words(handed)[0] == "Every cell is read as the opposite of what was meant."
    assert words(handed)[1] == "Row 0 sees only the future: keys 1 to 4, instead of key 0."
    assert words(handed)[-1] == f"Row 4 has no key left: {empty}."
    assert handed.seen[0].equal(torch.ones(N, N).triu(1).bool())
    assert (handed.judgement.mistake, str(handed.judgement.explanations[0].mask)) == ("inverted", "causal")


@pytest.mark.parametrize("meant", ["sdpa", "zero_is_masked"])
@pytest.mark.parametrize("read_as", ["sdpa_additive", "attn_mask"])
def test_zeros_and_ones_handed_as_floats_block_nothing(meant, read_as):
    """They are added to the scores: every key stays open, and the allowed ones weigh e times as much."""
    query, key = random()
    handed = handed_to(Subsequent(), N, N, meant=meant, read_as=read_as, dtype=torch.float32, query=query, key=key)
    oracle = (query @ key.mT / math.sqrt(8) + torch.ones(N, N).tril()).softmax(-1)

    assert words(handed) == [
        "Nothing is blocked: the floats 0 and 1 were added to the scores, "
        "which makes one key up to 2.72 times as heavy as another."
    ]
    assert handed.seen.all()
    assert handed.weights.allclose(oracle, atol=1e-6)


def test_a_boolean_with_four_axes_blocks_nothing_in_an_eager_hugging_face_model():
    """It is added to the scores, as 0 and 1."""
    query, key = random()
    handed = handed_to(Subsequent(), N, N, meant="sdpa", read_as="huggingface", query=query, key=key)

    assert handed.seen.all()
    assert handed.weights.allclose((query @ key.mT / math.sqrt(8) + torch.ones(N, N).tril()).softmax(-1), atol=1e-6)


def test_a_boolean_handed_to_the_additive_reader_is_read_as_a_boolean():
    """PyTorch's function goes by the type: the same argument takes both."""
    assert words(handed_to(Subsequent(), N, N, meant="sdpa", read_as="sdpa_additive")) == [
        "It is read as it was meant."
    ]
    assert handed_to(Subsequent(), N, N, meant="attn_mask", read_as="sdpa_additive").seen[0, 0].tolist() == [
        False,
        *[True] * 4,
    ]


def test_padding_of_one_library_in_the_other_keeps_the_padding_alone():
    """1 = token of Hugging Face is True = padding of PyTorch."""
    handed = handed_to(Padding((3, 5)), N, N, meant="huggingface", read_as="key_padding_mask", dtype=torch.bool)

    assert handed.seen.equal(~handed.meant_grid)
    assert handed.weights[0, 0, :, :3].eq(0).all()
    assert handed.weights[1].isnan().all()
    assert "inverted" in handed.judgement.rivals  # padding on the left looks the same
    assert words(handed)[1] == "Row 0 sees only the future: keys 3 to 4, instead of keys 0 to 2."
    assert words(handed)[-1] == "Row 4 sees keys 3 to 4 instead of keys 0 to 2."


@pytest.mark.parametrize(
    ("meant", "read_as", "says"),
    [
        ("zero_is_masked", "sdpa", "Expected attn_mask dtype to be bool or float"),
        ("zero_is_masked", "attn_mask", "only bool and floating types of attn_mask are supported"),
        ("zero_is_masked", "true_is_masked", "masked_fill_ only supports boolean masks"),
        ("zero_is_masked", "flex_attention", "mask.dtype must be torch.bool, got torch.int64"),
        ("sdpa", "key_padding_mask", "Expected key_padded_mask.shape[0] to be 1, but got 5"),
    ],
)
def test_what_pytorch_refuses_is_said_in_its_words(meant, read_as, says):
    """Then nothing was seen."""
    handed = handed_to(Subsequent(), N, N, meant=meant, read_as=read_as)

    assert handed.error.startswith("PyTorch refuses it: ")
    assert says in handed.error
    assert handed.seen is handed.weights is handed.added is None


@pytest.mark.parametrize("read_as", NAMES)
def test_what_a_reader_is_said_to_add_gives_his_weights(read_as):
    """Whoever writes, of whatever type: PyTorch refuses it, or the weights are softmax(scores + added)."""
    mask, (query, key) = Padding((2, 4)), random(2)
    ran = 0
    for meant, dtype in product(NAMES, (None, torch.float32, torch.bool)):
        handed = handed_to(mask, N, N, meant=meant, read_as=read_as, dtype=dtype, query=query, key=key)
        if handed.error:
            continue
        ran += 1
        left = handed.seen.any(-1)[:, None].expand(-1, 2, -1)
        oracle = (query @ key.mT / math.sqrt(8) + handed.added[:, None]).softmax(-1)

        assert handed.weights[left].allclose(oracle[left], atol=1e-5)
    assert ran >= 3


@pytest.mark.filterwarnings("ignore")
def test_flex_attention_gives_what_its_reader_gives():
    """The real function, also where a row has no key left."""
    query, key = random()
    handed = handed_to(Subsequent(), N, N, meant="attn_mask", read_as="flex_attention", query=query, key=key)
    block_mask = create_block_mask(lambda b, h, i, j: j > i, None, None, N, N, device="cpu")
    weights = flex_attention(query, key, torch.eye(N).expand(1, 2, N, N).contiguous(), block_mask=block_mask)

    assert handed.weights.allclose(weights, atol=1e-6)


def test_an_eager_model_of_hugging_face_gives_what_its_reader_gives():
    """A tiny BERT: two axes of tokens, and four axes that are added, booleans too."""
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        vocab_size=9,
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=8,
        attn_implementation="eager",
    )
    model = transformers.BertModel(config, add_pooling_layer=False).eval()
    ids, attention = torch.arange(10).reshape(2, 5) % 9, model.encoder.layer[0].attention.self
    with torch.no_grad():
        embedded = model.embeddings(ids)
        heads = [layer(embedded).unflatten(-1, (2, 4)).transpose(1, 2) for layer in (attention.query, attention.key)]
    query, key = heads
    for mask, meant, dtype in (
        (Padding((3, 5)), "huggingface", None),
        (Padding((3, 5)), "key_padding_mask", None),
        (Subsequent(), "huggingface", None),
        (Subsequent(), "sdpa", None),
        (Subsequent(), "zero_is_masked", torch.float32),
    ):
        given = dialect(meant).tensor(mask, N, N)
        given = given if dtype is None else given.to(dtype)
        given = given if mask.batch_size else given.expand(2, 1, N, N)
        with torch.no_grad():
            theirs = model(ids, attention_mask=given, output_attentions=True).attentions[0]
        ours = handed_to(mask, N, N, meant=meant, read_as="huggingface", dtype=dtype, query=query, key=key)

        assert ours.weights.allclose(theirs, atol=1e-6)


def test_what_hands_over_no_mask_is_refused():
    """A flag, and a mask that its dialect cannot say."""
    with pytest.raises(MaskError, match="is_causal is a flag"):
        handed_to(Subsequent(), N, N, meant="is_causal", read_as="sdpa")
    with pytest.raises(MaskError, match="queries differ here"):
        handed_to(Subsequent(), N, N, meant="key_padding_mask", read_as="sdpa")


def test_nothing_is_said_to_be_wrong_with_no_mask():
    """All keys are open and nothing was added."""
    assert words(handed_to(Full(), N, N, meant="sdpa", read_as="zero_is_masked")) == ["It is read as it was meant."]


def test_an_empty_row_that_was_meant_is_still_told():
    """A batch padded on the left, with a causal mask: its first rows have no key."""
    handed = handed_to(Subsequent() & Padding((3,), left=5), N, N, meant="attn_mask", read_as="attn_mask")

    assert words(handed)[1:] == [f"Row {row} has no key left: its weights are NaN." for row in (0, 1)]
