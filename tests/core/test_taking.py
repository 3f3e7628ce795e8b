"""Parts of the run of another text, put into a call by the tap, and their text form."""

import pytest
import torch
from hypothesis import given
from strategies import B, H, K, takes, tensors
from torch.testing import assert_close

from attnviz.core.attention import attend
from attnviz.core.edits import Donor, Edits, Resolved, Site, Take
from attnviz.core.errors import InputError
from attnviz.core.masks import Subsequent
from attnviz.core.scoring import Scoring
from attnviz.core.tap import Tap

SITE = Site("encoder", 0)
NAMES = {"output": ("output",), "pattern": ("query", "key"), "values": ("value",)}


def run(*donors: Donor, edits: Edits = Edits()):
    tap = Tap(Resolved(**vars(edits), donors=donors))
    return tap.attend(*tensors(), site=SITE), tap.steps[0]


def donor(part: str, numbers: float | None = None, **where) -> Donor:
    """Make a donor with constant numbers, or with those of a random run."""
    query, key, value = (tensor + torch.randn_like(tensor[:1]) for tensor in tensors())
    own = {"query": query, "key": key, "value": value, "output": attend(query, key, value)[0]}
    filled = {name: own[name] if numbers is None else torch.full_like(own[name], numbers) for name in NAMES[part]}
    return Donor(Take("b", part, SITE, **where), filled)


def test_taking_zeros_is_switching_off():
    """Zeros as the output of a head, and as its values, are zero ablation."""
    off = Tap(Edits(heads_off={(SITE, 1)}))
    expected = off.attend(*tensors(), site=SITE)

    for part in ("output", "values"):
        output, step = run(donor(part, 0.0, head=1))
        assert_close(output, expected)
        assert_close(step.output(1), torch.zeros_like(step.output(1)))


PLACES = [{}, {"head": 1}, {"head": 1, "position": 2}, {"position": 2, "from_position": 4}]


@pytest.mark.parametrize(
    ("part", "where"), [(part, where) for part in NAMES for where in PLACES[: 2 if part == "pattern" else 4]]
)
def test_the_rest_of_the_call_stays(part, where):
    """Against tensors that the test itself puts together; and the step gives what went on."""
    own = dict(zip(("query", "key", "value"), tensors(), strict=True))
    given = donor(part, **where)
    heads = [where["head"]] if "head" in where else [*range(H)]
    position, first = where.get("position"), where.get("from_position", where.get("position"))

    def put(tensor, name):
        tensor = tensor.clone()
        for head in heads if name in given.tensors else ():
            if position is None:
                tensor[:, head] = given.tensors[name][:, head]
            else:
                tensor[:, head, position] = given.tensors[name][:, head, first]
        return tensor

    expected = put(attend(*(put(tensor, name) for name, tensor in own.items()))[0], "output")
    output, step = run(given)

    assert_close(output, expected)
    assert_close(torch.stack([torch.stack([step.output(h, sentence=b) for h in range(H)]) for b in range(B)]), expected)
    assert not torch.allclose(output, attend(*tensors())[0])


@pytest.mark.parametrize("head", [None, 1])
@pytest.mark.parametrize("more", [{}, {"mask": Subsequent(), "sinks": torch.tensor([0.5, 1.0, 2.0])}])
def test_a_pattern_at_one_position_is_that_row_of_weights(head, more):
    """Whatever makes the scores; of two texts the later one is taken, the rest of the map stays, and values are own."""
    query, key, value = tensors()
    bias = torch.randn(1, H, 1, K, generator=torch.Generator().manual_seed(1), dtype=query.dtype)
    more = {"scoring": Scoring(softcap=2.0, temperature=0.7, bias=bias), "site": SITE} | more
    others = [tensors(seed=seed)[:2] for seed in (2, 3)]
    rows = [more["scoring"].scores(*other)[:, :, 2:3] for other in others]
    takes = [Take(text, "pattern", SITE, head, 2) for text in "bc"]
    tap = Tap(Resolved(donors=tuple(Donor(take, {"row": row}) for take, row in zip(takes, rows, strict=True))))
    output, (step,) = tap.attend(query, key, value, **more), tap.steps
    expected, row = (Tap().weights(*one, **more) for one in ((query, key), others[1]))
    heads = slice(head, head and head + 1)
    expected[:, heads, 2] = row[:, heads, 2]

    assert_close(output, expected[..., :K] @ value)
    weights = torch.stack([torch.stack([step.weights(h, sentence=b) for h in range(H)]) for b in range(B)])
    assert_close(weights, expected)
    assert_close(step.query, query)


def test_a_later_one_wins_and_a_head_that_is_off_stays_off():
    output, _ = run(donor("output", 1.0), donor("output", 2.0, head=0), edits=Edits(heads_off={(SITE, 1)}))

    assert output[:, 0].eq(2).all()
    assert output[:, 1].eq(0).all()


def test_one_sentence_of_a_batch_takes_alone():
    numbers = donor("output", 3.0, head=0)
    output, _ = run(Donor(numbers.take, {"output": numbers.tensors["output"][:1]}, rows=slice(1, 2)))
    own = attend(*tensors())[0]

    assert output[1, 0].eq(3).all()
    assert_close(output[0], own[0])


def test_what_is_not_resolved_is_refused():
    with pytest.raises(InputError, match="Nothing can be taken from another text here"):
        Tap(Edits(taken=(Take("b", "values", SITE),))).attend(*tensors(), site=SITE)


@given(takes)
def test_its_text_is_read_again(take):
    assert Take.read(str(take)) == take


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("output-d0.1-The dog sat.", "output of head 1 of decoder layer 0 from 'The dog sat.'"),
        ("values-e2@3-a-b", "values of all heads of encoder layer 2 at position 3 from 'a-b'"),
        ("stream-d0@3.5-The dog", "input of decoder layer 0 at position 3 from position 5 of 'The dog'"),
    ],
)
def test_its_text_and_its_words(text, words):
    take = Take.read(text)

    assert str(take) == text
    assert take.in_words() == words
    assert Edits(taken=(take, take)).in_words() == (words,)
    assert Edits(taken=(take,)).to_json() == {"taken": [text]}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "does not name a part of a run"),
        ("output-d0.1", "write it like output-d0.1-The dog sat."),
        ("stream-d0.1-b", "The stream enters a whole layer, not head 1 of decoder layer 0"),
        ("stream-c0-b", "give no head, and choose an encoder or decoder layer"),
        ("pattern-c0.1@2-b", "Queries and keys of cross-attention are positions of two texts"),
        ("output-d0- ", "There is no other text"),
    ],
)
def test_what_cannot_be_taken_is_refused_in_a_sentence(text, why):
    with pytest.raises(InputError, match=why):
        Take.read(text)


def test_arguments_of_a_wrong_kind_are_refused():
    with pytest.raises(InputError, match="from_position is 3, but position is not given"):
        Take("b", "output", SITE, from_position=3)
    with pytest.raises(InputError, match="Row 4 of a pattern cannot replace row 2"):
        Take("b", "pattern", SITE, position=2, from_position=4)
    with pytest.raises(InputError, match="head is -1"):
        Take("b", "output", SITE, -1)
    with pytest.raises(InputError, match="Available parts: output, pattern, values, stream"):
        Take("b", "weights", SITE)
    with pytest.raises(InputError, match="each item must be a Take"):
        Edits(taken=("b",))
