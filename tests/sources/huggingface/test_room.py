"""Weights are kept while there is memory for them; what needs no weights loads none."""

from collections import Counter
from types import SimpleNamespace

import fake_hub
import psutil
import pytest
import torch
import transformers
from fake_hub import GPT2

from attnviz import api
from attnviz.core.cache import BoundedCache
from attnviz.core.edits import Edits
from attnviz.core.errors import InputError
from attnviz.core.masks import Window
from attnviz.sources import estimate as estimates
from attnviz.sources.estimate import estimate
from attnviz.sources.huggingface import files, loading, running, tapped
from attnviz.sources.huggingface.source import HuggingFace

TEXT = "the cat sat"


@pytest.fixture(scope="module")
def places(tmp_path_factory) -> list[str]:
    """Three models of the same size."""
    path = tmp_path_factory.mktemp("room")
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**GPT2))
    return [str(fake_hub.write(path / name, model)) for name in "abc"]


@pytest.fixture(scope="module")
def size(places) -> int:
    return loading.load(places[0]).size


@pytest.fixture
def loads(monkeypatch) -> Counter[str]:
    """How often each model is read, by its name."""
    loads, build = Counter(), files.build

    def counted(model, folder, *rest, **options):
        loads[str(folder)] += 1
        return build(model, folder, *rest, **options)

    monkeypatch.setattr(files, "build", counted)
    return loads


@pytest.fixture
def keep(monkeypatch):
    """Keep models of so many bytes in all."""

    def keep(most: int) -> BoundedCache:
        kept = BoundedCache(most, loading._size)
        monkeypatch.setattr(loading, "_models", kept)
        return kept

    return keep


def run(place: str):
    return api.analyze(TEXT, api.load(place)).output


def test_models_that_do_not_fit_together_work_one_after_the_other(places, size, loads, keep):
    """The one that was not run for the longest makes room."""
    keep(2 * size)
    first = [run(place) for place in places]
    for place in places[1:]:
        api.load(place)

    again = run(places[0])

    assert again.equal(first[0])
    assert loads == {places[0]: 2, places[1]: 1, places[2]: 1}
    run(places[2])
    assert loads[places[2]] == 1

    kept = keep(size // 2)  # a model larger than the room is kept alone: loading takes longer than a run
    loads.clear()
    for place in (*places[:1] * 3, *places[1:2] * 3):
        run(place)
    assert loads == dict.fromkeys(places[:2], 1)
    assert kept.keys() == (places[1],)


def test_where_memory_is_short_others_make_room(places, size, loads, keep, monkeypatch):
    """Though they might all be kept; if all others together would not make enough room, they stay."""
    kept = keep(100 * size)
    needs = round(size * (1 + loading.RUN))
    needs += estimate(api.load(places[0]), 5).bytes
    kept.clear()
    loads.clear()
    monkeypatch.setattr(loading, "free_bytes", lambda device: needs + size - kept.bytes)
    for place in places:
        run(place)

    assert kept.keys() == tuple(places[1:])
    assert set(loads.values()) == {1}
    kept.drop(lambda key: key == places[1])
    monkeypatch.setattr(loading, "free_bytes", lambda device: 100)
    with pytest.raises(InputError, match=r"and 100 bytes are free here\. Choose a smaller model"):
        run(places[0])
    assert kept.keys() == (places[2],)


def test_a_run_that_needs_more_memory_gets_that_of_other_models(places, size, keep, monkeypatch):
    """Its own model stays; if the others are too small, the run is refused and they stay, too."""
    kept = keep(100 * size)
    for place in places:
        run(place)
    opened = api.load(places[0])
    room, needs = 0, estimate(opened, 5).bytes
    monkeypatch.setattr(loading, "free_bytes", lambda device: room + 3 * size - kept.bytes)
    room = needs - 3 * size
    with pytest.raises(InputError, match=r"tokens need about .* Shorten it"):
        opened.run(opened.tokenize([TEXT]))

    assert set(kept.keys()) == set(places)
    room = needs - size
    opened.run(opened.tokenize([TEXT]))
    assert kept.keys() == (places[2], places[0])


def test_what_is_known_of_a_model_needs_no_weights(places, size, loads, keep):
    """A page that tells of one, or draws a record that is there, waits for no load."""
    kept = keep(size)
    opened = api.load(places[0])
    known = opened.sites
    kept.clear()

    assert (opened.id, opened.read_only, opened.sites, opened.num_heads) == (places[0], None, known, 2)
    assert opened.unknown(["the cat purrs"]) == {"purrs": ()}
    assert opened.tokenize([TEXT])[0].length == 5
    assert opened == HuggingFace(places[0])
    assert loads == {places[0]: 2}


@pytest.mark.parametrize(("limit", "free"), [(10**9, 10**9 - 600), (10**12, 10**10)])
def test_a_container_has_what_its_limit_leaves(tmp_path, monkeypatch, limit, free):
    """Files that were read into memory leave it when it is needed; the machine may have less."""
    for name, text in {"max": limit, "current": 1000, "stat": "anon 5\ninactive_file 400\nslab 7"}.items():
        (tmp_path / f"memory.{name}").write_text(f"{text}\n")
    monkeypatch.setattr(estimates, "GROUP", tmp_path)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=10**10))

    assert estimates.free_bytes(torch.device("cpu")) == free


@pytest.mark.parametrize("edits", [Edits(), Edits(own_mask=False), Edits(mask=Window(1))])
def test_a_long_text_is_run_without_a_mask_of_tokens_by_tokens(edits, places, monkeypatch):
    """The substitute for the causal mask gives the same record; short texts and batches use the model's own masks."""
    model, mask = HuggingFace(model=places[0]), tapped._mask
    sentences = model.tokenize([TEXT])
    expected = model.run(sentences, edits)
    monkeypatch.setattr(running, "LONG", 1)
    handed = []

    def seen(*args, **asked):
        handed.append(mask(*args, **asked))
        return handed[-1]

    transformers.AttentionMaskInterface.register(tapped.NAME, seen)
    try:
        found = model.run(sentences, edits)
    finally:
        transformers.AttentionMaskInterface.register(tapped.NAME, mask)

    assert [one.untyped_storage().nbytes() for one in handed] == [4]
    assert torch.equal(found.output, expected.output)
    for one, other in zip(found.steps, expected.steps, strict=True):
        assert torch.equal(one.weights(0), other.weights(0))
    assert model.facts.squares == 0
