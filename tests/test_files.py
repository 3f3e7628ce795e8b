"""Records in files: what is read again is what was saved, and what is no record is said to be none."""

import io
import json
from collections.abc import Sequence
from dataclasses import fields, replace

import own_models
import pytest
import tiny
import torch
import transformers
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from pictures import filled_of, labels_of, record_of, story_of, vectors_of, written
from safetensors.torch import load, save
from seeing import PICTURE, Sees, seen_by
from sources.huggingface import fake_hub

import attnviz
from attnviz import ALiBi, Edits, Painted, Site, Subsequent, Window, api, figures, files
from attnviz.core.edits import Resolved
from attnviz.core.errors import AttnvizError, InputError
from attnviz.core.record import Prediction, Step
from attnviz.core.scoring import RelativeBias, Scoring
from attnviz.core.tap import Tap

TEXTS = ["The cat sat on the mat", "Ein Hund \ud800 <b> 猫"]
CHANGED = Edits(
    mask=Window(1) | Painted(((0, 3),)),
    heads_off={(Site("encoder", 0), 1)},
    own_mask=False,
    temperature=0.7,
    softcap=3.0,
    bias=(ALiBi(), RelativeBias(seed=2)),
    empty_rows="nan",
)


@pytest.fixture(scope="module")
def shipped(tmp_path_factory):
    """The trained models, tiny."""
    with pytest.MonkeyPatch.context() as patch:
        yield tiny.install(tmp_path_factory.mktemp("assets"), patch)
    tiny.forget()


def every_record(shipped):
    """Make a record for each kind of source and each kind of edit."""
    yield from (attnviz.analyze(TEXTS, "scratch", edits) for edits in (Edits(), CHANGED))
    yield attnviz.analyze("one two one two", "constructed")
    both = {"story": Edits(mask=Subsequent(1), empty_rows="uniform"), "translator": Edits(mask_cross=False)}
    for name, edits in both.items():
        yield attnviz.analyze(["the cat sat on the mat .", "a dog"], name, edits)
    yield attnviz.analyze("a", "scratch", Resolved(each_off=(frozenset({(Site("encoder", 1), 2)}),)))


def records_of_others(folder):
    """Records of models of transformers, a user's own model, a picture and arrays."""
    sizes = {"hidden_size": 16, "intermediate_size": 8, "num_hidden_layers": 2, "num_attention_heads": 4}
    sizes |= {"vocab_size": len(fake_hub.WORDS), "pad_token_id": 0}
    llama = transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes, num_key_value_heads=2))
    yield attnviz.analyze(TEXTS[0], api.load(str(fake_hub.write(folder / "llama", llama))), Edits(softcap=3.0))
    bert = transformers.BertModel(transformers.BertConfig(**sizes))
    yield attnviz.analyze(["the cat", "a dog ran"], api.load(str(fake_hub.write(folder / "bert", bert))))
    text = "the cat sat on the mat"
    source = attnviz.wrap(own_models.Writer().eval(), own_models.tokenize, text)
    yield attnviz.analyze(text, source, Edits(heads_off={(source.sites[0], 1)}))
    yield seen_by(Sees(), PICTURE).record(places=(3, 5), image=PICTURE)
    query, key = torch.randn(2, 1, 3, 5, 4).unbind()
    yield attnviz.from_arrays(query=query, key=key, tokens=list("abcde"))
    yield attnviz.from_arrays(torch.rand(2, 1, 3, 5, 5) * 0.3, tokens=list("abcde"))


def same(a, b):
    """Whether two values are equal, tensors by every bit; NaN equals NaN."""
    if isinstance(a, torch.Tensor):
        return a.dtype == b.dtype and a.shape == b.shape and bool(((a == b) | (a != a) & (b != b)).all())
    if isinstance(a, Sequence) and not isinstance(a, str):  # the vocabulary of a tokenizer is no tuple
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, Prediction | Step | Scoring) and not isinstance(a, Edits):
        named = [field.name for field in fields(a) if field.name not in ("line", "entered")]  # which no file holds
        return all(same(getattr(a, name), getattr(b, name)) for name in named)
    return a == b and type(a) is type(b)


def check_same(record, again):
    for field in (field for field in fields(record) if field.name != "request"):  # which a case holds, not a record
        assert same(getattr(record, field.name), getattr(again, field.name)), field.name
    for n, step in enumerate(record.steps):
        for head in range(step.num_heads):
            ours, theirs = (one.steps[n].weights(head) for one in (record, again))
            assert torch.equal(ours.nan_to_num(9), theirs.nan_to_num(9))
            assert step.reasons(head)[0] == again.steps[n].reasons(head)[0]


def test_what_is_read_again_is_what_was_saved(shipped, tmp_path):
    """For each source, edited or not: every field, every weight, every reason."""
    for number, record in enumerate([*every_record(shipped), *records_of_others(tmp_path)]):
        path = attnviz.save(record, tmp_path / f"{number}.attn")

        check_same(record, attnviz.read(path.read_bytes() if number % 2 else path))


@pytest.mark.parametrize(
    "record",
    [
        filled_of(["the", "[MASK]", "sat"], [1], *[{"the": 0.7, "cat": 0.2}] * 3),
        labels_of(["good", "film"], [0.2, 0.1, 3.0]),
        vectors_of(["a"], [[1.0, 2.0]]),
        replace(record_of(["a", "b"]), read_only=True, unseen="half of it"),
    ],
    ids=["fills", "classifies", "embeds", "read-only"],
)
def test_so_is_what_models_say(record):
    again = files.read(files.saved(record))

    assert all(same(getattr(record, field.name), getattr(again, field.name)) for field in fields(record))


@examples(25)
@given(data=st.data())
def test_an_attention_call_of_any_kind_is_read_again(data):
    """Sinks, tensors as mask and bias, axes that only repeat, empty rows, two number types."""
    b, h, q, k = (data.draw(st.integers(1, 4)) for _ in range(4))
    dtype = data.draw(st.sampled_from([torch.float32, torch.bfloat16]))
    some = torch.rand(b, 1, q, k) > 0.4
    masks = [None, Subsequent(), ~Window(1), some, some[:1].expand(b, h, q, k)]
    biases = [(), (torch.randn(1, h, q, k),), (ALiBi(),), (torch.randn(b, 1, 1, k).expand(b, 1, q, k),)]
    sinks = data.draw(st.sampled_from([None, torch.randn(h)]))
    tap = Tap(Edits(mask=data.draw(st.sampled_from([None, Window(2)]))))
    scoring = Scoring(bias=data.draw(st.sampled_from(biases)), softcap=data.draw(st.sampled_from([None, 5.0])))
    heads = [torch.randn(b, h, n, 5, dtype=dtype) for n in (q, k, k)]
    tap.attend(*heads, site=Site("cross", 0), mask=data.draw(st.sampled_from(masks)), scoring=scoring, sinks=sinks)
    record = replace(record_of(["a"] * q), steps=tuple(tap.steps), sentences=record_of(["a"] * q).sentences * b)

    again = files.read(files.saved(record)).steps[0]

    for head in range(h):
        for sentence in range(b):
            ours, theirs = (one.weights(head, sentence=sentence) for one in (tap.steps[0], again))
            assert torch.equal(ours, theirs)
            reasons = [one.reasons(head, sentence=sentence) for one in (tap.steps[0], again)]
            assert reasons[0][0] == reasons[1][0]
            assert torch.equal(reasons[0][1], reasons[1][1])


def test_float16_halves_the_file_and_its_pictures_say_so():
    """Its weights are made of the rounded numbers: rows still sum to 1."""
    record = attnviz.analyze(TEXTS, "scratch", d_model=256, num_heads=4)
    small = files.saved(record, precision="float16")
    again = files.read(small)

    assert len(small) < 0.62 * len(files.saved(record))
    for step, rounded in zip(record.steps, again.steps, strict=True):
        for head in range(step.num_heads):
            assert torch.allclose(rounded.weights(head).sum(-1), torch.ones(step.shape[2]), atol=1e-6)
            assert torch.allclose(step.weights(head), rounded.weights(head), atol=2e-3)
    assert "kept as float16" in json.dumps(written(figures.head(again, Site("encoder", 0), 0).chart))
    assert "float16" not in json.dumps(written(figures.head(record, Site("encoder", 0), 0).chart))


def test_of_many_words_the_most_probable_are_kept_and_the_rest_as_one():
    """Their probabilities are those that they had; the rest is never named as a prediction."""
    words = tuple(f"w{i}" for i in range(5000))
    logits = torch.randn(1, 3, len(words))
    record = story_of(["a", "b"], *[{"a": 0.5}] * 3)
    record = replace(record, prediction=replace(record.prediction, logits=logits, vocabulary=words))

    again = files.read(files.saved(record))

    for position in range(3):
        found, whole_ones = (one.prediction.most_probable(position, 50) for one in (again, record))
        for (word, p), (expected, probability) in zip(found, whole_ones, strict=True):
            assert word == expected
            assert p == pytest.approx(probability, rel=1e-6)
        assert float(again.prediction.probabilities(position).sum()) == pytest.approx(1)
    assert again.prediction.words() == record.prediction.words()
    assert again.prediction.others == 5000 - len(again.prediction.vocabulary) + 1


# Files of anybody


@pytest.fixture(scope="module")
def content():
    return files.saved(record_of(["a", "b", "c"], edits=Edits(mask=Subsequent())))


def with_header(content, change):
    """The file with another header, which tells the truth about its tensors."""
    length = int.from_bytes(content[:8], "little")
    header = json.loads(json.loads(content[8 : 8 + length])["__metadata__"]["attnviz"])
    change(header)
    return save(load(content), {"attnviz": json.dumps(header)})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda h: h.update(version=2), "was written by a later attnviz (format 2; this one reads up to 1)"),
        (lambda h: h.update(version="1; rm"), "later attnviz"),
        (lambda h: h.update(steps=[{}]), "its entries contradict each other"),
        (lambda h: h.update(steps=7), "steps is not a list"),
        (lambda h: h["steps"][0].update(query="output"), "has 3 axes"),
        (lambda h: h["steps"][0].update(key="steps.9.key"), "its entries contradict each other"),
        (lambda h: h["steps"][0].update(query=["steps.0.query", [1, 10**9, 10**9, 10**9]]), "an axis is too long"),
        (lambda h: h["steps"][0].update(kind="nowhere"), "no site"),
        (lambda h: h["steps"][0].update(dtype="int32"), "holds no numbers"),
        (lambda h: h["steps"][0].update(has_sink=True), "a sink has no score"),
        (lambda h: h["steps"].append(h["steps"][0]), "a layer twice"),
        (lambda h: h["steps"].clear(), "no attention"),
        (lambda h: h["sentences"][0]["tokens"].clear(), "a text is longer"),
        (lambda h: h["steps"][0].update(mask={"text": "nothing"}), "there is no rule"),
        (lambda h: h["steps"][0].update(mask={"rule": "full"}), "its mask is JSON, as attnviz 0.2 wrote it. Make the"),
        (lambda h: h.update(patches={"rows": 3}), "its picture has the format of attnviz 0.2. Make the record"),
        (lambda h: h["steps"][0]["scoring"].update(temperature=0), "temperature"),
        (lambda h: h["steps"][0]["scoring"].update(bias=[{"bias": "evil"}]), "no bias"),
        (lambda h: h["edits"].update(heads_off=[["encoder", 0, -1]]), "There is no head -1"),
        (lambda h: h["edits"].update(mask="~" * 40 + "full"), "nested"),
        (lambda h: h["sentences"][0]["tokens"].append([1, 2]), "text is 1"),
        (lambda h: h["sentences"].clear(), "no texts"),
        (lambda h: h["sentences"].append(h["sentences"][0]), "do not fit each other"),
        (lambda h: h.update(checksum="0"), "not those that were saved"),
    ],
)
def test_a_file_that_is_wrong_is_refused_in_one_sentence(content, change, said):
    with pytest.raises(InputError) as refused:
        files.read(with_header(content, change), "case.attn")

    assert said in str(refused.value)
    assert "case.attn" in str(refused.value)


def places(value, at=()):
    """Yield the path of every value in a JSON document; of a list only the first three."""
    parts = value.items() if isinstance(value, dict) else enumerate(value[:3]) if isinstance(value, list) else ()
    yield from ([at] if at else [])
    for name, part in parts:
        yield from places(part, (*at, name))


NUMBERS = [-1, 0, 1, 10**6, 10**30, 1.5, float("nan"), float("inf")]
OTHERS = [None, False, "", "x", "output", [], [[]], ["output", [9, 9]], {}, {"rule": "not"}]


@examples(300)
@given(data=st.data())
def test_a_header_in_which_anything_was_changed_is_refused_or_drawn(data):
    """In one sentence: of what was read, every head can be drawn and the run be saved again."""
    record = story_of(["a", "b"], {"a": 0.5, "b": 0.5}, {"a": 0.2, "b": 0.8}, edits=Edits(mask=Subsequent()))
    content = files.saved(record)

    def change(header):
        *above, last = data.draw(st.sampled_from([*places(header)]))
        part = header
        for name in above:
            part = part[name]
        part[last] = data.draw(st.sampled_from(NUMBERS + OTHERS))

    try:
        record = files.read(with_header(content, change))
        attnviz.explore(record)
        figures.overview(record).table  # noqa: B018
        files.saved(record)
    except AttnvizError as error:
        assert "\n" not in str(error)


@pytest.mark.parametrize("cut", [0, 1, 7, 8, 100, -1, -100])
def test_a_file_that_is_cut_is_refused(content, cut):
    with pytest.raises(InputError, match=r"cut short|not a file that attnviz.save wrote"):
        files.read(content[:cut])


def test_a_number_that_changed_on_the_way_is_noticed(content):
    damaged = bytearray(content)
    damaged[-3] ^= 1

    with pytest.raises(InputError, match="damaged"):
        files.read(bytes(damaged))


def test_of_a_file_that_is_no_record_only_the_header_is_read(tmp_path, monkeypatch):
    """However large it is."""
    read = []

    class File(io.BytesIO):
        def read(self, count=-1):
            read.append(count)
            return super().read(count)

    (tmp_path / "large.attn").touch()
    for start in (b"", b"\x10" + bytes(7) + b"{" * 16, b"\xff" * 8):
        monkeypatch.setattr(files.Path, "open", lambda path, mode, start=start: File(start + b"x" * 10**6))
        with pytest.raises(InputError):
            files.read(tmp_path / "large.attn")

    assert sum(read) < 100
    assert min(read) > 0


@examples(60)
@given(st.binary(max_size=200) | st.text().map(str.encode))
def test_no_bytes_bring_anything_but_one_sentence(given):
    with pytest.raises(InputError):
        files.read(given)


def test_files_that_are_not_there_cannot_be_written_or_are_pickles_are_refused(tmp_path):
    torch.save({"a": torch.ones(2)}, tmp_path / "evil.attn")
    record = record_of(["a"])

    for path in (tmp_path, tmp_path / "none.attn", tmp_path / "evil.attn"):
        with pytest.raises(InputError):
            files.read(path)
    with pytest.raises(InputError, match="is not a file that attnviz") as refused:
        files.read(tmp_path / "evil.attn")
    assert "cannot be read" not in str(refused.value)
    with pytest.raises(InputError, match="cannot be written"):
        files.save(record, tmp_path / "no folder" / "a.attn")
    with pytest.raises(InputError, match="float8"):
        files.save(record, tmp_path / "a.attn", precision="float8")


def test_numbers_too_large_for_float16_are_not_rounded_to_infinity():
    record = record_of(["a", "b"])
    large = replace(record.steps[0], value=torch.full_like(record.steps[0].value, 1e6))

    with pytest.raises(InputError, match="too large for float16"):
        files.saved(replace(record, steps=(large,)), precision="float16")
