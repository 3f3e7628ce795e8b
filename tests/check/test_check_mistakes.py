"""The mistakes in a mask whose intent is stated: the fewest that give exactly this mask, and their repairs."""

import re
from itertools import product

import pytest
import torch
from arrays import additive
from examples import examples
from hypothesis import assume, given
from hypothesis import strategies as st

from attnviz.check import check
from attnviz.check.mask_mistakes import Intent, explain, mask_readings
from attnviz.core.masks import mask_from_text

CONVENTIONS = ("may-attend", "true-is-masked")
OF_WHOLE = ("inverted", "transposed")


def band(n, before, after):
    """Keys from i - before to i + after."""
    distance = torch.arange(n) - torch.arange(n)[:, None]
    return (distance >= -before) & (distance <= after)


def documents(n, lengths, by=0):
    """Row i has the keys of the document of position i + by, if there is one."""
    owner = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))
    rows = [owner == owner[i + by] if 0 <= i + by < n else torch.zeros(n, dtype=torch.bool) for i in range(n)]
    return torch.stack(rows)


def prefix(n, length):
    return (torch.arange(n) < length).expand(n, n)


def of_rule(rule, n, numbers, *, is_or):
    """A rule as it should be and with each mistake, (n, n), in the order in which they are tried."""
    match rule:
        case "full":
            return {"": band(n, n, n)}
        case "causal":
            states = {"": band(n, n, 0), "next-key": band(n, n, 1), "own-key": band(n, n, -1)}
        case "window":
            before, after = numbers
            states = {"": band(n, before, after)}
            states |= {"ahead": band(n, before - 1, after + 1), "behind": band(n, before + 1, after - 1)}
            states |= {"longer": band(n, before + 1, after)}
            states |= {"shorter": band(n, before - 1, after)} if before else {}
        case "prefix":
            states = {"": prefix(n, *numbers), "ahead": prefix(n, *numbers), "behind": prefix(n, *numbers)}
            states |= {"longer": prefix(n, numbers[0] + 1), "shorter": prefix(n, numbers[0] - 1)}
        case "documents":
            states = {"": documents(n, numbers), "ahead": documents(n, numbers, 1)}
            states |= {"behind": documents(n, numbers, -1)}
    states |= {"transposed": states[""].T, "inverted": ~states[""]}
    return states | {"open-future" if rule == "causal" else "missing": torch.full((n, n), not is_or)}


def of_padding(real):
    """Padding as it should be and with each mistake, (B, 1, n or 1, n)."""
    n, longer, shorter = real.shape[1], real.clone(), real.clone()
    for text, key in product(range(len(real)), range(n)):
        beside = real[text, max(0, key - 1) : key + 2]
        longer[text, key], shorter[text, key] = beside.any(), beside.all()
    of_keys = {"missing": torch.ones_like(real), "opens-padding": longer, "blocks-token": shorter, "inverted": ~real}
    states = {"": real[:, None, None], "wrong-axis": real[:, None, :, None]}
    states |= {name: tokens[:, None, None] for name, tokens in of_keys.items()}
    return states | ({"as-queries": real[None, None]} if len(real) == n else {})


class Case:
    """An intent, and each of its parts right and with each mistake.

    Attributes:
        text: of the intended rules.
        tokens: (B, n), True at tokens; None without padding.
        size: (B, n).
        states: of each part, the rules first.
    """

    def __init__(self, names, numbers, tokens, size):
        self.tokens, self.size, self.is_or = tokens, size, "|" in names
        self.text = " ".join(f"{name}{numbers.get(name, '')}".replace(",)", ")") for name in names.split())
        rules = [name for name in names.split() if name not in ("&", "|")]
        self.states, self.num_rules = (
            [of_rule(rule, size[1], numbers.get(rule), is_or=self.is_or) for rule in rules],
            len(rules),
        )
        if tokens is not None:
            self.states.append(of_padding(tokens))
        elif len(rules) == 1:  # it is the whole mask
            self.states = [{name: cells for name, cells in self.states[0].items() if name not in OF_WHOLE}]
        rest = self.joined([state[""] for state in self.states[: self.num_rules]])
        if rest.triu(1).any():
            self.states.append({"": torch.ones_like(rest), "extra": band(size[1], size[1], 0)})

    def joined(self, cells):
        """Rules joined as the intent joins them, (n, n)."""
        return torch.stack(cells).any(0) if self.is_or else torch.stack(cells).all(0)

    def made(self, mistakes=None, whole=""):
        """The mask with these mistakes, (B, 1, n, n), True = may attend."""
        names = mistakes or [""] * len(self.states)
        cells = [state[name] for state, name in zip(self.states, names, strict=True)]
        mask = self.joined(cells[: self.num_rules]).expand(self.size[0], 1, self.size[1], self.size[1])
        for others in cells[self.num_rules :]:
            mask = mask & others
        return turned(mask, whole)

    def combinations(self, wholes):
        """Every combination of at most two mistakes, in the order that is documented."""
        ordered = []
        for mistakes, whole in product(product(*self.states), ("", *wholes)):
            where = [place for place, mistake in enumerate(mistakes) if mistake]
            ranks = [list(self.states[place]).index(mistakes[place]) for place in where]
            faults = len(where) + bool(whole)
            ordered += [((faults, ["", *wholes].index(whole), where, ranks), mistakes, whole)] if faults <= 2 else []
        return [(faults[0], mistakes, whole) for faults, mistakes, whole in sorted(ordered, key=lambda entry: entry[0])]

    @property
    def counts(self):
        """Rows that are read, (B, 1, n, 1)."""
        every = torch.ones(*self.size, dtype=torch.bool)
        return (every if self.tokens is None else self.tokens)[:, None, :, None].expand(-1, -1, -1, self.size[1])


def turned(mask, whole):
    return {"": mask, "inverted": ~mask, "transposed": mask.mT}[whole]


INTENTS = ("causal", "window", "documents", "causal & window", "causal | prefix", "causal & documents", "full")


@st.composite
def cases(draw):
    n, cut = draw(st.integers(4, 12)), draw(st.integers(1, 3))
    numbers = {"window": (draw(st.integers(0, 3)), draw(st.integers(0, 1))), "documents": (cut, n - cut)}
    numbers |= {"prefix": (draw(st.integers(1, 3)),)}
    lengths = draw(st.lists(st.integers(1, n), min_size=1, max_size=3))
    real = torch.arange(n) < torch.tensor(lengths)[:, None]
    real = real.flip(1) if draw(st.booleans()) else real
    return Case(draw(st.sampled_from(INTENTS)), numbers, real if draw(st.integers(0, 3)) else None, (len(lengths), n))


@examples(150)
@given(case=cases(), data=st.data(), stated=st.booleans())
def test_the_fewest_mistakes_that_give_the_mask_are_named(case, data, stated):
    """The first in the documented order; none if every row that is read is right. Their repair is the intended mask."""
    wholes = OF_WHOLE if stated else OF_WHOLE[1:]
    combinations = case.combinations(wholes)
    _, mistakes, whole = data.draw(st.sampled_from(combinations))
    mask = case.made(mistakes, whole)
    if data.draw(st.booleans()):  # nobody reads queries that are padding
        mask = mask.where(case.counts, torch.rand(mask.shape, generator=torch.Generator().manual_seed(0)) < 0.5)
    conventions = [data.draw(st.sampled_from(CONVENTIONS))] if stated else CONVENTIONS
    mask = ~mask if not stated and data.draw(st.booleans()) else mask
    masks = {name: mask if name == conventions[0] else ~mask for name in conventions}
    readings = [*mask_readings(masks, Intent.of(mask_from_text(case.text)), case.tokens)]
    best = next((reading for reading in readings if reading.is_right), None) or explain(readings)
    mistakes = tuple(best.mistakes.get(place, "") for place in range(len(case.states)))

    right = [name for name in conventions if not ((masks[name] ^ case.made()) & case.counts).any()]
    exact = [
        (bool(wrong[~case.counts].any()), faults, conventions.index(name), place, name, *named)
        for name in conventions
        for place, (faults, *named) in enumerate(combinations)
        if not ((wrong := case.made(*named) ^ masks[name]) & case.counts).any()
    ]
    expected = (right[0], ("",) * len(case.states), "") if right else min(exact)[4:]
    assert (best.convention, mistakes, best.whole) == expected
    named = {best.parts.index(part) for part, *_ in best.faults() if part is not None}
    harmless = tuple("" if place in named else mistake for place, mistake in enumerate(mistakes))
    assert not ((case.made(harmless) ^ case.made()) & case.counts).any()
    assert not best.differences()[1].any()
    assert not ((best.expected ^ case.made()) & case.counts).any()


@examples(60)
@given(case=cases(), convention=st.sampled_from([*CONVENTIONS, "additive", None]), data=st.data())
def test_a_mask_with_the_intended_cells_has_no_finding_and_a_repaired_one_has_them(case, convention, data):
    """Whatever queries that are padding see, and in the convention of the mask."""
    intent = {"intent": case.text, "padding": case.tokens}
    to = {"true-is-masked": torch.logical_not, "additive": additive}
    noise = torch.rand(case.made().shape, generator=torch.Generator().manual_seed(0)) < 0.5
    right = case.made().where(case.counts, noise)
    assume(right.any() and not right.all())
    _, mistakes, whole = data.draw(st.sampled_from(case.combinations(OF_WHOLE)))
    wrong = check(to.get(convention, torch.clone)(case.made(mistakes, whole)), convention=convention, **intent)

    report = check(to.get(convention, torch.clone)(right), convention=convention, **intent)
    assert report.rules("error", "warning") - {"empty-row"} == set()
    assert report.convention == (convention or "may-attend")
    if wrong.rules("error"):
        assert wrong.repaired is not None
        repaired = {"true-is-masked": wrong.repaired == 0, "additive": wrong.repaired == 0}
        given_back = repaired.get(wrong.convention, wrong.repaired)
        assert not ((given_back ^ case.made()) & case.counts).any()


def batch(n, left=False):
    """Tokens of two texts, the second padded: (2, n)."""
    real = torch.arange(n) < torch.tensor([[n], [n // 2]])
    return real.flip(1) if left else real


def test_cells_of_a_mistake_are_those_that_its_repair_changes():
    """By hand: two tokens and two of padding, off by one and inverted."""
    real = torch.tensor([[True, True, False, False]])
    mask = torch.tensor([[0, 0, 0, 0], [0, 0, 1, 0], [0, 0, 1, 1], [0, 0, 1, 1]]).bool()[None, None]
    ahead, inverted = check(mask, intent="causal", padding=real, convention="may-attend").findings[:2]

    assert (ahead.rule, [cell[2:] for cell in ahead.cells]) == ("future-leak", [(1, 2), (2, 3)])
    assert inverted.rule == "inverted"
    assert {cell[2:] for cell in inverted.cells} == {(0, 0), (0, 1)} | {(i, j) for i in (1, 2, 3) for j in (0, 1)} | {
        (1, 2),
        (2, 2),
        (2, 3),
        (3, 2),
        (3, 3),
    }


@pytest.mark.parametrize("text", ["causal", "causal & window(2, 0)"])
def test_padding_at_the_right_that_no_token_sees_need_not_be_blocked(text):
    """And what queries of padding see is nobody's concern."""
    real, mask = batch(8), mask_from_text(text).grid(8).expand(2, 1, 8, 8)
    zeroed = mask & real[:, None, :, None]

    for each in (mask, mask & real[:, None, None], zeroed):
        assert check(each, intent=text, padding=real, convention="may-attend").rules("error", "warning") == set()
    assert check(mask, intent=text, padding=real.flip(1), convention="may-attend").rules("error") == {"deviation"}


def code_of(fix):
    """The code of a repair: between its colon and what its names stand for."""
    code = fix.partition(": ")[2].partition(", where ")[0].partition(", as ")[0].partition(". (Both")[0].rstrip(".")
    return re.sub(r"^mask = mask [&|] ", "", code)


@pytest.mark.parametrize("convention", CONVENTIONS)
@pytest.mark.parametrize("text", ["causal", "window(2, 0)", "documents(3, 5)", "causal & window(2, 0)", "prefix(3)"])
def test_a_repair_is_code_in_the_convention_of_the_mask(text, convention):
    """Run with n, tokens or padding, it is the right part: True = masked where the mask has True = masked."""
    import attnviz

    real, rules = batch(8), text.split(" & ")
    names = {"torch": torch, "attnviz": attnviz, "n": 8, "tokens": real, "padding": ~real}
    parts = [mask_from_text(rule).grid(8) for rule in rules] + [real[:, None, None]]
    joined = "&" if convention == "may-attend" else "|"
    for place, part in enumerate(parts):
        others = [each for number, each in enumerate(parts) if number != place]
        mask = others[0].expand(2, 1, 8, 8)
        for each in others[1:]:
            mask = mask & each
        if not ((mask ^ (mask & part)) & real[:, None, :, None]).any():  # harmless
            continue
        given_mask = mask if convention == "may-attend" else ~mask
        (finding,) = [
            one
            for one in check(given_mask, intent=text, padding=real, convention=convention).findings
            if one.severity == "error"
        ]
        code = eval(code_of(finding.fix), names)

        assert finding.message.endswith("missing.")
        assert f"mask = mask {joined} " in finding.fix
        assert torch.equal((code if convention == "may-attend" else ~code).expand_as(mask), part.expand_as(mask))


def test_a_whole_mask_is_mended_by_code():
    """In booleans, whole numbers and floats that are added."""
    mask = mask_from_text("causal & window(3, 0)").grid(7)
    for wrong, rule in ((~mask, "inverted"), (mask.T, "transposed")):
        for each, convention in (
            (wrong, "may-attend"),
            (wrong.long(), "zero-is-masked"),
            (additive(wrong), "additive"),
        ):
            stated = {"intent": "causal & window(3, 0)", "convention": convention}
            (finding,) = [one for one in check(each, **stated).findings if one.severity == "error"]
            code = finding.fix.removeprefix("Pass ").partition(", or state")[0].partition(": rows")[0]

            assert finding.rule == rule
            assert check(eval(code, {"mask": each, "torch": torch}), **stated).rules("error", "warning") == set()


def test_a_mask_that_hides_the_future_is_named_where_two_way_is_meant():
    (finding,) = check(band(6, 6, 0), intent="two-way", convention="may-attend").findings

    assert finding.message == "Causal part that is not intended: it hides the future."


def test_what_no_two_mistakes_give_is_said_with_the_cells_that_differ():
    """The nearest combination, and the cells beside it."""
    mask = band(12, 12, 1)
    mask[8, 2] = False
    ahead, deviation = check(mask, intent="causal", convention="may-attend").findings[:2]

    assert ahead.message == "Causal part off by one: it opens the next key."
    assert (deviation.rule, deviation.cells) == ("deviation", ((8, 2),))
    assert "besides the mistakes" in deviation.message


def test_a_mask_on_scores_of_many_queries_is_held_against_all_of_them():
    """(B, 1, 1, K) is repeated over the queries: padding alone hides no future."""
    real = batch(6)
    report = check(real[:, None, None], intent="causal", padding=real, shape=(2, 1, 6, 6), convention="may-attend")

    assert [one.message for one in report.findings if one.severity == "error"] == ["Causal part missing."]


@pytest.mark.parametrize("said", [{}, {"convention": "may-attend"}, {"intent": "causal"}])
def test_a_large_mask_is_known_to_its_last_cell(said):
    """Beyond the rows that are compared first."""
    mask = band(1100, 1100, 0)
    wrong = mask.clone()
    wrong[101, 200] = True

    assert (check(mask, **said).causal, check(mask, **said).rules("error", "warning")) == (True, set())
    assert check(wrong, **said).question or check(wrong, **said).rules("error") == {"future-leak"}
