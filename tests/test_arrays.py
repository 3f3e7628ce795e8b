"""Attention of other code as a record: what is given is what is shown, or it is said what is wrong."""

import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

import attnviz
from attnviz import Site, Subsequent, files
from attnviz.cli import main
from attnviz.core.errors import InputError
from attnviz.core.record import Record
from attnviz.files.arrays import from_cache

L, B, H, Q, K, D = 2, 3, 5, 7, 7, 11
WORDS = ["a", "b", "c", "d", "e", "f", "g"]


def softmax(*shape, dtype=torch.float32):
    return torch.randn(*shape, dtype=dtype).softmax(-1)


def weights_of(record: Record) -> torch.Tensor:
    """(layers, B, H, Q, K)."""
    heads = [
        [[step.weights(head, sentence=b) for head in range(step.num_heads)] for b in range(step.shape[0])]
        for step in record.steps
    ]
    return torch.stack([torch.stack([torch.stack(one) for one in layer]) for layer in heads])


@pytest.mark.parametrize(
    "as_array", [lambda t: t, lambda t: t.numpy(), lambda t: t.tolist()], ids=["torch", "numpy", "lists"]
)
@pytest.mark.parametrize(
    ("shape", "full"),
    [
        ((Q, K), (1, 1, 1, Q, K)),
        ((H, Q, K), (1, 1, H, Q, K)),
        ((1, H, Q, K), (1, 1, H, Q, K)),
        ((L, H, Q, K), (L, 1, H, Q, K)),
        ((L, 1, H, Q, K), (L, 1, H, Q, K)),
    ],
)
def test_weights_of_any_shape_are_shown_as_they_are(shape, full, as_array):
    weights = softmax(*shape)

    record = attnviz.from_arrays(as_array(weights), tokens=WORDS)

    torch.testing.assert_close(weights_of(record), weights.reshape(full), rtol=1e-6, atol=1e-7)
    assert [token.text for token in record.tokens(record.sites[-1])[1]] == WORDS
    assert record.read_only


def test_layers_as_output_attentions_gives_them():
    """A tuple with (B, H, Q, K) of each layer, and a list of words for each sentence."""
    layers = tuple(softmax(B, H, Q, K) for _ in range(L))

    record = attnviz.from_arrays(layers, tokens=[WORDS] * B, kind="decoder")

    torch.testing.assert_close(weights_of(record), torch.stack(layers), rtol=1e-6, atol=1e-7)
    assert record.sites == (Site("decoder", 0), Site("decoder", 1))
    assert files.read(files.saved(record)).steps[1].weights_only


@settings(max_examples=30)
@given(st.data())
def test_queries_and_keys_make_what_torch_makes(data):
    """With any mask; the oracle is PyTorch in float64."""
    q, k = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 5))
    query, key, value = (torch.randn(2, 3, n, 4) for n in (q, k, k))
    allowed = torch.rand(2, 1, q, k) > 0.4
    allowed[..., 0] = True

    record = attnviz.from_arrays(query=query, key=key, value=value.numpy(), mask=allowed, kind="cross")

    scores = query.double() @ key.double().mT / 2
    expected = scores.masked_fill(~allowed, float("-inf")).softmax(-1)
    torch.testing.assert_close(weights_of(record)[0].double(), expected, rtol=1e-5, atol=1e-6)
    assert not record.read_only
    assert record.step(Site("cross", 0)).may_attend(0).equal(allowed[0, 0])


def test_weights_are_checked_against_their_queries_and_keys():
    """If they agree, the record is complete; else it has only the weights, and the text says so."""
    query, key = torch.randn(1, H, Q, D), torch.randn(1, H, K, D)
    mask = Subsequent()
    true = attnviz.from_arrays(query=query, key=key, mask=mask, kind="decoder")

    agreed = attnviz.from_arrays(weights_of(true)[0], query=query, key=key, mask=mask, kind="decoder")
    other = attnviz.from_arrays(softmax(1, H, Q, K), query=query, key=key, mask=mask, kind="decoder")

    assert not agreed.read_only
    assert other.read_only
    assert "differs from the given weights" in other.findings[-1]


def test_what_the_check_finds_is_kept_with_the_record():
    """Rows that do not sum to 1 are shown as they are, and said to be so."""
    record = attnviz.from_arrays(softmax(1, 2, Q, K) * 2, tokens=WORDS)

    torch.testing.assert_close(weights_of(record)[0].sum(-1), torch.full((1, 2, Q), 2.0))
    assert "sum" in record.findings[0]
    assert files.read(files.saved(record)).findings == record.findings
    assert attnviz.from_arrays(softmax(1, 2, Q, K)).findings == ()


@pytest.mark.parametrize(
    ("arrays", "says"),
    [
        ({}, "give weights, or query and key"),
        ({"weights": np.ones(3)}, r"shape \(3,\)"),
        ({"weights": [np.ones((2, 2)), np.array(["a"])]}, "booleans or real numbers"),
        ({"weights": [[1, 2], [3]]}, "different lengths"),
        ({"weights": np.eye(2) * 1j}, "given complex128. Give the real part, or the absolute values"),
        ({"weights": np.eye(2, dtype=bool)}, "given booleans, as a mask has: open it with 'attnviz check'"),
        ({"weights": np.ones((1001, 1, 1, 1, 1))}, "1,001 layers of weights; at most 1,000 are read"),
        ({"weights": -np.ones((2, 2))}, "hold -1"),
        (
            {"weights": np.ones((2, 2)), "tokens": ["a", "b", "c"]},
            "1 texts of 3 tokens; the arrays have 1 of 2 queries",
        ),
        ({"weights": np.ones((2, 2)), "kind": "middle"}, "no kind 'middle'"),
        ({"weights": np.ones((2, 2)), "keys": ["a", "b"]}, "use kind='cross'"),
        ({"weights": np.ones((2, 2)), "query": np.ones((3, 4)), "key": np.ones((2, 4))}, "query and key make"),
        ({"query": np.ones((3, 4)), "key": np.ones((2, 5))}, "4"),
        (
            {"query": np.ones((3, 4)), "key": np.ones((2, 4)), "mask": np.ones((3, 2))},
            "convert it with from_true_is_masked",
        ),
        ({"query": np.ones((3, 4)), "key": np.ones((2, 4)), "mask": np.ones((3, 9), bool)}, "mask"),
        (
            {"weights": np.ones((3, 2, 2, 2, 2)), "value": np.ones((1, 2, 2, 2, 2))},
            "3 layers of weights and 1 of value",
        ),
    ],
)
def test_what_does_not_fit_is_refused_in_one_sentence(arrays, says):
    with pytest.raises(attnviz.AttnvizError, match=says):
        attnviz.from_arrays(**arrays)


@pytest.mark.parametrize(
    ("given", "text", "joined"),
    [
        (
            ["The", "Ġs", "leeps", "ĠcafÃ©", "Ã", "ĠĊ", "Ġ", "<|endoftext|>"],
            "The sleeps caféÃ     <|endoftext|>",
            "2 4",
        ),
        (["The", "Ġdog", "'", "s", "Ġnap", "."], "The dog's nap.", "3"),
        (["<s>", "▁Ein", "▁Hu", "nd", "</s>"], "<s> Ein Hund </s>", "3"),
        (["[CLS]", "un", "##believ", "##able", "[SEP]"], "[CLS] unbelievable [SEP]", "2 3"),
        (["Ġenerali", "a", "b", "c", "##"], "Ġenerali a b c ##", ""),
        (["#", "#b", "c#", "#"], "# #b c# #", ""),
    ],
)
def test_pieces_of_a_tokenizer_stand_as_the_text_that_they_are(given, text, joined):
    """Bytes are a text, signs of a word's beginning are blanks; where a piece stands is where the text has it."""
    weights = softmax(1, 1, len(given), len(given))
    (sentence,) = attnviz.from_arrays(weights, tokens=given).sentences

    assert sentence.text == text
    assert " ".join(str(i) for i, token in enumerate(sentence.tokens) if token.joined) == joined
    assert all(sentence.text[token.start : token.end] in (token.text, " ") for token in sentence.tokens)


# Files of other tools


def test_a_cache_of_transformer_lens_is_read(tmp_path):
    """Saved as npz: patterns (B, H, Q, K), and queries, keys and values (B, n, H, d)."""
    cache = {}
    for layer in range(L):
        q, k, v = (torch.randn(1, Q, H, D) for _ in range(3))
        pattern = (q.transpose(1, 2) @ k.transpose(1, 2).mT / D**0.5).softmax(-1)
        for hook, array in {"q": q, "k": k, "v": v, "pattern": pattern}.items():
            cache[f"blocks.{layer}.attn.hook_{hook}"] = array.numpy()
        cache[f"blocks.{layer}.hook_resid_post"] = np.ones((1, Q, 3))
    np.savez(tmp_path / "cache.npz", **cache)
    save_file({name: torch.from_numpy(array).contiguous() for name, array in cache.items()}, tmp_path / "a.safetensors")

    record = attnviz.read(tmp_path / "cache.npz")
    assert torch.equal(weights_of(attnviz.read(tmp_path / "a.safetensors")), weights_of(record))

    expected = torch.stack([torch.from_numpy(cache[f"blocks.{n}.attn.hook_pattern"]) for n in range(L)])
    torch.testing.assert_close(weights_of(record), expected, rtol=1e-5, atol=1e-6)
    assert not record.read_only


def test_the_mask_of_a_cache_is_seen_by_its_weights():
    """A model that hides the future is fully read, and edits act; the mask is also found without weights."""
    q, k, v = (torch.randn(1, Q, H, D) for _ in range(3))
    scores = q.transpose(1, 2) @ k.transpose(1, 2).mT / D**0.5
    cache = {f"blocks.0.attn.hook_{hook}": array for hook, array in {"q": q, "k": k, "v": v}.items()}
    pattern = scores.masked_fill(torch.ones(Q, Q).triu(1).bool(), float("-inf")).softmax(-1)
    seen = from_cache(cache | {"blocks.0.attn.hook_pattern": pattern})

    assert not seen.read_only
    assert isinstance(seen.steps[0].mask, Subsequent)
    torch.testing.assert_close(weights_of(seen)[0], pattern, rtol=1e-5, atol=1e-6)
    assert torch.equal(weights_of(from_cache(cache)), weights_of(seen))


def test_queries_and_keys_of_a_file_are_read_by_their_names_with_its_tokens(tmp_path):
    query, key, value = (np.float32(np.random.default_rng(n).normal(size=(H, 3, D))) for n in range(3))
    may_attend = np.tril(np.ones((3, 3), bool))
    given = {"query": query, "key": key, "value": value, "may_attend": may_attend, "tokens": np.array(["a", "b", "c"])}
    np.savez(tmp_path / "a.npz", **given)
    record = attnviz.read(tmp_path / "a.npz")

    expected = attnviz.from_arrays(query=query, key=key, value=value, mask=torch.from_numpy(may_attend))
    assert torch.equal(weights_of(record), weights_of(expected))
    assert torch.equal(record.output, expected.output)
    assert (record.sentences[0].text, record.read_only) == ("a b c", False)
    np.savez(tmp_path / "b.npz", **given | {"mask": may_attend})
    with pytest.raises(InputError, match="a mask called 'may_attend', True where open"):
        attnviz.read(tmp_path / "b.npz")


LAYERS = 11
"""Layer 2 stands before layer 10."""


def causal(*shape):
    return torch.randn(*shape).masked_fill(torch.ones(shape[-2:]).triu(1).bool(), -torch.inf).softmax(-1).numpy()


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Write the same attention to files as users do, with or without tokens."""
    folder = tmp_path_factory.mktemp("written")
    layers = [causal(1, H, Q, K) for _ in range(LAYERS)]
    named = {f"attentions.{n}": layer for n, layer in enumerate(layers)}
    shuffled = dict(reversed(named.items()))
    ids = np.arange(Q)[None]
    np.savez(folder / "stacked.npz", attentions=np.stack(layers), tokens=np.array(WORDS), input_ids=ids)
    np.savez(folder / "listed.npz", *layers)
    np.savez(folder / "named.npz", **shuffled, tokens=np.array(WORDS))
    np.savez(folder / "masked.npz", attn=np.stack(layers), attention_mask=np.ones((1, Q)))
    np.savez(folder / "objects.npz", attn=np.stack(layers), tokens=np.array(WORDS, dtype=object))
    np.save(folder / "one.npy", np.stack(layers)[:, 0])
    save_file({name: torch.from_numpy(layer) for name, layer in shuffled.items()}, folder / "listed.safetensors")
    said = {"tokens": WORDS, "attention": [layer[0].tolist() for layer in layers]}
    (folder / "said.json").write_text(json.dumps(said))
    return folder, np.stack(layers)


@pytest.mark.parametrize(
    "name", ["stacked", "listed", "named", "masked", "objects", "one.npy", "listed.safetensors", "said.json"]
)
def test_attention_is_read_as_people_save_it(written, name, capsys):
    """One array, or one of each layer in any order; tokens are those beside it; what hides the future is a decoder."""
    folder, layers = written
    file = folder / (name if "." in name else f"{name}.npz")

    record = attnviz.read(file)

    np.testing.assert_allclose(weights_of(record), layers, rtol=1e-5, atol=1e-7)
    assert record.sites[0] == Site("decoder", 0)
    expected = WORDS if name in ("stacked", "named", "said.json") else [str(n) for n in range(Q)]
    assert [*record.sentences[0].labels] == expected
    stacked = "(11, 5, 7, 7) is read as (layers, H, Q, K) of one text."
    notes = {"masked": "'attention_mask' is not read.", "one.npy": stacked, "said.json": stacked}
    assert [*record.findings] == ([notes[name]] if name in notes else [])
    array = ("--array", "attn") if name == "masked" else ()
    assert main(["check", str(file), *array]) == 0
    assert capsys.readouterr().out.count("Nothing wrong was found.") == 1


@pytest.mark.parametrize("command", ["export", "open", "check"])
def test_a_file_that_is_a_pickle_is_refused_with_what_to_do(command, tmp_path, monkeypatch, capsys):
    """It is no text, and no page of the app."""
    monkeypatch.chdir(tmp_path)
    torch.save([torch.ones(2)], "list.pt")

    assert main([command, "list.pt"]) == 2
    assert "numpy.savez(file, *layers) writes what is read" in capsys.readouterr().err


EYE = np.eye(3)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", ">f4", ">f8", "g", "u1", "u2", "u4", "u8", "i1", "i4", ">i8"])
def test_weights_of_any_kind_of_number_are_read(dtype, tmp_path):
    """For any width, sign and byte order."""
    np.save(tmp_path / "a.npy", EYE.astype(dtype))

    torch.testing.assert_close(weights_of(attnviz.read(tmp_path / "a.npy")), torch.eye(3)[None, None, None])


@pytest.mark.parametrize(
    "content", ["true,false\nfalse,true", "[[true, false], [false, true]]", "True False\nFalse True"]
)
def test_booleans_in_a_text_are_a_mask(content, tmp_path, monkeypatch, capsys):
    """As in any file of arrays: no weights, and where a mask is read."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text(content)
    np.savez("a.npz", x=EYE.astype(bool))
    np.savez("named.npz", attn=EYE.astype(bool))
    np.savez("mask.npz", mask=EYE)
    save_file({"x": torch.eye(3).bool()}, "a.safetensors")

    for name in ("a.txt", "a.npz", "named.npz", "mask.npz", "a.safetensors"):
        with pytest.raises(InputError, match=r"a mask.* not weights: open it with 'attnviz check'"):
            attnviz.read(tmp_path / name)
        assert main(["export", "0 1", "--model", name]) == 2
        assert len(capsys.readouterr().err.splitlines()) == 1


def test_the_output_of_weights_alone_is_nothing_and_with_values_theirs():
    weights, value = softmax(2, 3, Q, K), torch.randn(2, 3, K, D)

    alone, both = attnviz.from_arrays(weights), attnviz.from_arrays(weights, value=value)

    assert torch.equal(alone.output, torch.zeros(2, Q, 3))
    torch.testing.assert_close(both.output, (weights @ value).transpose(1, 2).flatten(2), rtol=1e-5, atol=1e-6)
