"""The rules a person can compose a mask of: what each means, which numbers it takes, and well-known masks of them."""

from collections.abc import Callable
from dataclasses import MISSING, dataclass, field, fields

from attnviz.core import masks
from attnviz.core.masks import Mask
from attnviz.core.stack import Entry, Stack

MOST_ITEMS = 64
"""So many lengths or positions one rule may list."""

MOST = 4096
"""The largest number a rule takes: so many tokens a page takes."""


@dataclass(frozen=True)
class Field:
    """One parameter of a rule.

    Attributes:
        name: of the field of its mask.
        label: what the control is called.
        least, most: the bounds of its numbers.
        kind: "number", "numbers" for a list of them, or "cells", which are painted and not typed.
        start: what it begins with; None where that depends on the tokens, or where it may be nothing.
        needed: whether it may not be left out.
    """

    name: str
    label: str
    least: int = 0
    most: int = MOST
    kind: str = "number"
    start: int | None = None
    needed: bool = True


@dataclass(frozen=True)
class Rule:
    """One kind of rule.

    Attributes:
        kind: its mask.
        meaning: what it does, in one line.
        join: how it is joined if nothing is said: rules that block by "and", rules that open by "or".
        fields: its parameters, in the order of the link.
        made: its mask for a number of keys and the lengths of the sentences.
    """

    kind: type[Mask]
    meaning: str
    made: Callable[[int, tuple[int, ...]], Mask]
    join: str = "and"
    fields: tuple[Field, ...] = field(default=())

    @property
    def name(self) -> str:
        return self.kind.rule

    def values(self, mask: Mask) -> dict[str, object]:
        """The parameters of a mask of this rule."""
        return {f.name: getattr(mask, f.name) for f in self.fields}

    def default(self, f: Field) -> object:
        """What the link leaves out: the start of a control, or what the mask itself begins with."""
        own = next(other.default for other in fields(self.kind) if other.name == f.name)
        return f.start if f.start is not None else None if own is MISSING else own


def _halves(keys: int) -> tuple[int, ...]:
    return tuple(part for part in ((keys + 1) // 2, keys // 2) if part)


BEFORE, AFTER = Field("before", "keys before", start=2), Field("after", "keys after", start=0)

RULES = (
    Rule(
        masks.Subsequent,
        "blocks the future: a query sees itself and what is before it",
        lambda keys, lengths: masks.Subsequent(),
        fields=(Field("offset", "offset", -MOST),),
    ),
    Rule(
        masks.Padding,
        "blocks the padding of each sentence, given its length",
        lambda keys, lengths: masks.Padding(lengths),
        fields=(
            Field("lengths", "lengths", kind="numbers"),
            Field("left", "left-padded to", needed=False),
        ),
    ),
    Rule(
        masks.Window,
        "a sliding window: a query sees the keys near it",
        lambda keys, lengths: masks.Window(2, 0),
        fields=(BEFORE, AFTER),
    ),
    Rule(
        masks.Dilated,
        "a sliding window with gaps",
        lambda keys, lengths: masks.Dilated(2, 0, 2),
        fields=(BEFORE, AFTER, Field("step", "step", 1, start=2)),
    ),
    Rule(
        masks.Prefix,
        "every query sees the first keys: after subsequent, a prefix-LM",
        lambda keys, lengths: masks.Prefix(2),
        "or",
        (Field("length", "prefix length", start=2),),
    ),
    Rule(
        masks.Documents,
        "packed documents: a query sees its own document only",
        lambda keys, lengths: masks.Documents(_halves(keys)),
        fields=(Field("lengths", "lengths", kind="numbers"),),
    ),
    Rule(
        masks.Global,
        "some tokens see all and are seen by all",
        lambda keys, lengths: masks.Global((0,)),
        "or",
        (Field("positions", "positions", kind="numbers"),),
    ),
    Rule(
        masks.Blocks,
        "block-sparse: a query sees whole blocks of keys",
        lambda keys, lengths: masks.Blocks(2),
        fields=(
            Field("size", "block size", 1, start=2),
            Field("before", "blocks before", start=1),
            Field("after", "blocks after", start=1),
            Field("first", "global blocks", start=0),
        ),
    ),
    Rule(
        masks.Strided,
        "the keys just before, and then every so many",
        lambda keys, lengths: masks.Strided(3),
        fields=(Field("stride", "stride", 1, start=3),),
    ),
    Rule(
        masks.Random,
        "each query sees some keys drawn at random",
        lambda keys, lengths: masks.Random(1, max(1, keys)),
        "or",
        (
            Field("count", "keys", start=1),
            Field("every", "of every", 1, start=8),
            Field("seed", "seed", start=0),
        ),
    ),
    Rule(
        masks.Painted,
        "blocks single cells",
        lambda keys, lengths: masks.Painted(()),
        fields=(Field("cells", "cells", kind="cells"),),
    ),
    Rule(
        masks.Opened,
        "opens single cells",
        lambda keys, lengths: masks.Opened(()),
        "or",
        (Field("cells", "cells", kind="cells"),),
    ),
)
"""Every rule; the last two hold the cells that are painted on the picture."""

BY_NAME = {rule.name: rule for rule in RULES}


def rule_of(mask: Mask) -> Rule:
    """The rule of a mask."""
    return BY_NAME[mask.rule]


def entry(mask: Mask) -> Entry:
    """A mask joined as its rule usually is."""
    return Entry(mask, rule_of(mask).join)


def _stack(*parts: Mask) -> Stack:
    return Stack(tuple(map(entry, parts)))


CAUSAL = _stack(masks.Subsequent())

PRESETS: dict[str, Callable[[int, tuple[int, ...]], Stack]] = {
    "causal": lambda keys, lengths: CAUSAL,
    "causal + padding": lambda keys, lengths: _stack(masks.Subsequent(), masks.Padding(lengths)),
    "sliding window": lambda keys, lengths: _stack(masks.Window(2, 0)),
    "prefix-LM": lambda keys, lengths: _stack(masks.Subsequent(), masks.Prefix(2)),
    "packed documents": lambda keys, lengths: _stack(masks.Subsequent(), masks.Documents(_halves(keys))),
    "Longformer: window + global": lambda keys, lengths: _stack(masks.Window(1, 1), masks.Global((0,))),
    "BigBird: blocks + random": lambda keys, lengths: _stack(
        masks.Blocks(2, first=1), masks.Random(1, max(1, keys), 0)
    ),
    "left padding with a causal mask": lambda keys, lengths: _stack(
        masks.Subsequent(), masks.Padding(lengths, left=keys)
    ),
}
"""Masks by the names they are known by, for a number of keys and the lengths of the sentences."""
