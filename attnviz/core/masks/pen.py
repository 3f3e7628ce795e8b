"""Writer for the code of one mask rule: expressions, and lines that come before them.

A predicate is written over `b`, `q_idx` and `kv_idx`, as FlexAttention calls them; else `i` and `j` count queries and
keys.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from attnviz.core.masks.symbols import Script, Symbol, plus
from attnviz.core.parameters import parameters

QUERIES, KEYS = (f"torch.arange({number}, device=query.device)" for number in ("queries", "keys"))

GRID, ROW, PREDICATE = "grid", "row", "predicate"
"""Over all queries and keys, (Q, K), (B, 1, 1, K) or (B, 1, Q, K); over keys alone, (K,) or (B, K); over one cell."""


class Expression(NamedTuple):
    """An expression, and which of the axes B, Q and K its value depends on."""

    text: str
    axes: frozenset[str]
    loose: bool = False
    """Whether it needs parentheses beside &, | and ~."""
    opposite: str = ""
    """The expression that it negates, if it does."""

    @property
    def tight(self) -> str:
        return f"({self.text})" if self.loose else self.text

    @property
    def called(self) -> str:
        """With parentheses where a method follows."""
        return f"({self.text})" if self.loose or self.opposite else self.text

    @property
    def denied(self) -> str:
        """The opposite, without a double ~."""
        return self.opposite or f"~{self.tight}"


@dataclass(frozen=True)
class Pen:
    """Writer of one rule: the style, the places of its queries and keys, and lines before it.

    Attributes:
        style: `GRID`, `ROW` or `PREDICATE`.
        queries, keys: how many there are.
        lines: those of the whole mask, to which a rule adds its own.
        shift: by how many positions its queries are further on; see `Mask.shifted`.
        name: what a line of the rule is called.
        number: what other names of it end in, where the rule comes twice.
    """

    style: str
    queries: int
    keys: int
    lines: list[str]
    shift: int
    name: str
    number: str

    @property
    def query(self) -> Symbol:
        """The number of a query, (Q, 1) where it is no predicate."""
        return Symbol("q_idx" if self.style == PREDICATE else "i", frozenset("Q")) + self.shift

    @property
    def key(self) -> Symbol:
        """The number of a key, (K,) where it is no predicate."""
        return Symbol("kv_idx" if self.style == PREDICATE else "j", frozenset("K"))

    @property
    def lone_key(self) -> str:
        """The numbers of the keys where no query stands beside them."""
        return "kv_idx" if self.style == PREDICATE else KEYS

    def traced(self, allows: Callable[[Symbol, Symbol, Symbol], Symbol]) -> Expression:
        """The predicate of a rule as it prints itself."""
        printed = allows(self.query, self.key, Symbol("b", frozenset("B")))
        if self.style == GRID and printed.axes in (frozenset("Q"), frozenset("K")):
            return Expression(f"({printed.text}).expand(queries, keys)", printed.axes)
        return Expression(printed.text, printed.axes, printed.is_loose)

    def over_keys(self, text: str) -> Expression:
        """Expression that is the same for every query and every sentence."""
        if self.style == GRID:
            return Expression(f"({text}).expand(queries, keys)", frozenset("K"))
        return Expression(text, frozenset("K"), True)

    def band(self, lowest: str | None, highest: str) -> Expression:
        """The cells whose key - query is from `lowest` to `highest`."""
        if self.style != PREDICATE:
            above = "" if lowest is None else f".triu({_argument(lowest)})"
            return Expression(
                f"torch.ones(queries, keys, dtype=torch.bool, device=query.device){above}.tril({_argument(highest)})",
                frozenset("QK"),
            )
        upper = f"kv_idx <= {plus('q_idx', highest)}"
        text = upper if lowest is None else f"(kv_idx >= {plus('q_idx', lowest)}) & ({upper})"
        return Expression(text, frozenset("QK"), True)

    def diagonal(self, offset: int) -> str:
        """A number, or the difference of the lengths where it is that: then the code holds for other lengths too."""
        offset += self.shift
        return "keys - queries" if offset and offset == self.keys - self.queries else str(offset)

    def line(self, name: str, text: str) -> str:
        """A line before, under a name that is given back."""
        name += self.number
        self.lines.append(f"{name} = {text}")
        return name

    def numbers(self, name: str, numbers: Iterable[int], then: str = "") -> str:
        """A line with whole numbers, under a name that is given back."""
        listed = list(numbers)
        dtype = "" if listed else ", dtype=torch.int64"
        return self.line(name, f"torch.tensor({listed}{dtype}, device=query.device){then}")

    def of_queries(self, name: str, of: Callable[[str], str]) -> str:
        """Code of `of` for the positions of the queries, (Q, 1)."""
        variable = self.line(name, of(plus(QUERIES, str(self.shift))))
        return f"{variable}[q_idx]" if self.style == PREDICATE else f"{variable}[:, None]"

    def looked_up(self, name: str, of: Callable[[str], str]) -> tuple[str, str]:
        """Code of `of` for the positions of the queries, (Q, 1), and of the keys, (K,); one line if they are alike.

        Args:
            of: takes code for positions, and gives code for what belongs to each.
        """
        if self.queries == self.keys and not self.shift:
            ours = theirs = self.line(name, of(KEYS))
        else:
            ours = self.line(f"query_{name}", of(plus(QUERIES, str(self.shift))))
            theirs = self.line(f"key_{name}", of(KEYS))
        return (f"{ours}[q_idx]", f"{theirs}[kv_idx]") if self.style == PREDICATE else (f"{ours}[:, None]", theirs)


def javascript(rule: type) -> str:
    """JavaScript of a mask rule: a function of its numbers that gives one of a query `q` and a key `k`.

    Its predicate is called with names in the place of numbers. It uses `mod` and `numEnds`, which the page of a live
    model defines.
    """
    names = [parameter.name for parameter in parameters(rule)]
    nameless = object.__new__(rule)
    for name in names:
        object.__setattr__(nameless, name, Script(name, frozenset()))
    query, key, sentence = (Script(name, frozenset()) for name in ("q", "k", "sentence"))
    return f"({', '.join(names)}) => (q, k) => {nameless.allows(query, key, sentence).text}"


def _argument(number: str) -> str:
    return "" if number == "0" else number
