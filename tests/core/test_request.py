"""A request is one value: a key that differs where anything that was asked differs."""

from dataclasses import fields, replace

import numpy as np
import pytest
import torch

import attnviz
from attnviz import api
from attnviz.core.edits import Edits, Site
from attnviz.core.errors import InputError
from attnviz.core.request import Request

NOISE = np.random.RandomState(0).randint(0, 255, (20, 30, 3), np.uint8)
REQUEST = Request(("the cat",))
OTHERS = {
    "texts": ("the dog",),
    "targets": ("le chat",),
    "answer": (3, 4),
    "pictures": attnviz.picture(NOISE).pictures,
    "edits": Edits(temperature=2.0),
}


def test_a_request_differs_from_one_in_which_anything_else_is_asked():
    """No record is taken for that of another request."""
    assert set(OTHERS) == {field.name for field in fields(Request)}
    changed = [replace(REQUEST, **{name: value}) for name, value in OTHERS.items()]

    assert len({REQUEST, *changed}) == 1 + len(OTHERS)
    assert replace(REQUEST, **OTHERS) == replace(REQUEST, **OTHERS)


def test_of_a_list_each_text_keeps_its_picture():
    a, b = attnviz.picture(NOISE, "a"), attnviz.picture(NOISE[::-1].copy(), "b")
    both = Request.of([a, b])

    assert both.texts == ("a", "b")
    assert both.pictures == (*a.pictures, *b.pictures)
    assert Request.of(both) is both


def test_a_prompt_has_no_target_no_answer_and_no_edits():
    whole = replace(REQUEST, **OTHERS)

    assert whole.prompt == replace(REQUEST, texts=whole.texts, pictures=whole.pictures)
    assert whole.unchanged == replace(whole, edits=Edits())


@pytest.mark.parametrize(
    ("parts", "sentence"),
    [
        ({"texts": ("a", "b"), "targets": ("c",)}, "There are 2 texts and 1 targets"),
        ({"texts": ("a", "b"), "answer": (1,)}, "An answer continues one text; there are 2"),
        ({"texts": ("a", "b"), "pictures": (*OTHERS["pictures"], ())}, "Some texts have pictures and some have none"),
    ],
)
def test_what_does_not_fit_the_texts_is_refused(parts, sentence):
    with pytest.raises(InputError, match=sentence):
        Request(**parts)


@pytest.mark.parametrize("model", ["story", "translator"])
def test_a_source_makes_the_record_of_a_request(model):
    """Its targets, its answer and its edits arrive as if each had been given alone, and the record names it."""
    source = api.load(model)
    more = {"targets": ("le chat",)} if source.writes else {"answer": source.tokenize(["sat on"])[0].tokens[1:]}
    more = {name: tuple(getattr(part, "id", part) for part in parts) for name, parts in more.items()}
    edits = Edits(heads_off={(Site("decoder", 0), 1)})
    request = replace(REQUEST, edits=edits, **more)
    record = source.analyze(request)
    targets = source.tokenize_targets(["le chat"]) if source.writes else ()
    expected = source.run(source.sentences(request), edits, targets)

    assert record.request == request
    assert record.edits == edits
    assert record.targets == expected.targets
    assert "sat" in record.sentences[0].labels or source.writes
    assert torch.equal(record.output, expected.output)
    assert torch.equal(record.output, api.analyze(request, source).output)
