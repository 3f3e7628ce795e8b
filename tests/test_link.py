"""The link: what is written is read again, and what cannot be read is named and left out."""

import string
from urllib.parse import parse_qs, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnviz import link
from attnviz.analysis.views import View
from attnviz.core.edits import KINDS, Edits, Site, Take
from attnviz.core.masks.text import stack_from_text
from attnviz.core.scoring import ALiBi, RelativeBias
from attnviz.link import Choices

NUMBER = st.integers(0, 999)
SITES = st.builds(Site, st.sampled_from(KINDS), NUMBER)
HEADS = st.frozensets(st.tuples(SITES, NUMBER), max_size=4)
TEXTS = st.text(min_size=1, max_size=30)
MASKS = st.sampled_from(
    ["causal", "window(2)", "causal | prefix(3)", "(causal | prefix(2)) & ~window(1)", "padding(3)"]
)
TAKES = st.builds(Take, st.text(string.ascii_letters, min_size=1), st.just("output"), SITES, NUMBER | st.none())
ASKED = {
    "model": TEXTS,
    "step": NUMBER,
    "text": TEXTS,
    "lines": st.booleans(),
    "target": TEXTS,
    "chat": st.just("") | TEXTS.filter(lambda text: text != "-"),
    "answer": st.lists(NUMBER, min_size=1).map(tuple),
    "picture": TEXTS,
    "gray": st.lists(NUMBER, min_size=1).map(tuple),
    "mask": MASKS.map(stack_from_text),
    "heads_off": HEADS,
    "take": st.lists(TAKES, min_size=1, max_size=2).map(tuple),
    "own_mask": st.booleans(),
    "cross": st.booleans(),
    "bias": st.sampled_from([(), (ALiBi(),), (RelativeBias(seed=3),), (ALiBi(), RelativeBias(seed=0))]),
    "softcap": st.sampled_from([0.5, 30.0]),
    "temperature": st.sampled_from([0.25, 1.0, 2.0, 100.0]),
    "scaled": st.booleans(),
    "scored": SITES,
    "layer": SITES,
    "head": NUMBER | st.sampled_from(link.COMBINED),
    "cell": st.tuples(NUMBER, NUMBER),
    "pins": st.frozensets(st.tuples(st.sampled_from(["query", "key"]), NUMBER)),
    "sentence": st.integers(1, 32),
    "view": st.builds(View, st.booleans(), st.sampled_from(["show", "hide"])),
    "zoom": st.lists(st.tuples(NUMBER, NUMBER, NUMBER, NUMBER), max_size=3).map(tuple),
    "also": st.lists(NUMBER, max_size=3).map(tuple),
    "least": st.sampled_from([0.01, 0.5]),
    "word": TEXTS,
    "chapter": st.integers(1, 12),
}
CHOICES = st.fixed_dictionaries({}, optional=ASKED).map(Choices)


def opened(written: dict[str, str]) -> tuple[Choices, tuple[str, ...]]:
    """Read choices from an address as text, as a browser has it."""
    return link.read(parse_qs(urlencode(written), keep_blank_values=True))


@given(CHOICES, CHOICES)
def test_a_link_opens_as_it_was_written(choices, other):
    """Also with another run B in it."""
    with_other = choices.put(b=other)

    assert opened(link.write(choices)) == (choices, ())
    assert opened(link.write(with_other)) == (with_other, ())


def test_the_link_has_at_most_45_names():
    assert len(link.NAMES) <= 45


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        ({"layer": "x9"}, "The link's layer was left out: 'x9' cannot be read; it should look like d1."),
        ({"temprature": "2"}, "The link holds 'temprature', which is unknown. Did you mean 'temperature'?"),
        ({"temperature": "0"}, "The link's temperature was left out: '0' cannot be read; it should look like 0.5."),
        ({"side": "up"}, "The link's side was left out: 'up' cannot be read; it should look like from or to."),
        ({"sentence": "0"}, "The link's sentence was left out: '0' cannot be read; it should look like 1."),
        ({"b": "layer=x9"}, "The link's b was left out: The link's layer was left out: 'x9' cannot be read;"),
    ],
)
def test_what_cannot_be_read_is_named_and_left_out(address, sentence):
    choices, (complaint,) = opened(address | {"head": "2"})

    assert complaint.startswith(sentence)
    assert choices == Choices({"head": 2})


@given(st.dictionaries(st.sampled_from([*link.NAMES, "bogus"]), st.text(max_size=40)))
def test_no_address_raises(address):
    """Whatever stands in it: each name is read, or has a sentence."""
    choices, complaints = link.read({name: [value] for name, value in address.items()})

    assert all(sentence.startswith("The link") for sentence in complaints)
    assert isinstance(link.edits(choices), Edits)


def test_a_text_that_is_too_long_for_an_address_is_named():
    choices = Choices({"text": "word " * 4000, "head": 1})

    assert link.write(choices) == {"model": "translator", "head": "1"}
    assert link.too_long(choices) == ("text",)
