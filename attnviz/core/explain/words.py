"""A judgement in words: what a mask is, what is wrong with it, and what cannot be known."""

from torch import Tensor

from attnviz.core.explain import Explanation, Judgement

MOST_NAMED = 3
"""Cells that are named in a sentence at most."""

SWAPPED = {
    "inverted": "with open and blocked swapped",
    "transposed": "with rows and columns swapped",
    "shifted": "with its rows shifted by one",
    "wrong-axis": "with queries blocked where padding blocks keys",
}
FIXES = {
    "inverted": "Hand over ~mask, or say the other convention.",
    "transposed": "Hand over mask.mT: rows are queries, columns are keys.",
    "wrong-axis": "Block keys instead: hand over (B, 1, 1, K), such as (ids != pad)[:, None, None, :].",
    "shifted": "It is off by one: look for a diagonal of 1 or -1, or for a slice that begins one too late.",
}


def named(judgement: Judgement) -> str:
    """The mask that was meant: "a causal mask"; of several grids the first that is another, too."""
    first, *others = dict.fromkeys(map(article, judgement.explanations))
    return first + (f" (others: {', '.join(others[:1])}{', …' if len(others) > 1 else ''})" if others else "")


def article(explanation: Explanation) -> str:
    """One explanation with its article, which padding alone has not."""
    words = str(explanation)
    return words if words.startswith(("padding", "the ")) else f"a {words}"


def is_what(judgement: Judgement) -> str:
    """ "It is exactly a causal mask"; with how many cells differ, where some do."""
    wrong = sum(int(explanation.wrong.count_nonzero()) for explanation in judgement.explanations)
    cells = sum(explanation.wrong.numel() for explanation in judgement.explanations)
    swapped = f" {SWAPPED[judgement.mistake]}" if judgement.mistake else ""
    if not wrong:
        return f"It is exactly {named(judgement)}{swapped}"
    return f"All but {wrong:,} of {cells:,} cells are those of {named(judgement)}{swapped}"


def mistaken(judgement: Judgement, grid: Tensor) -> str:
    """The mistake as one sentence, with its evidence in a grid; empty if there is none."""
    if not judgement.mistake:
        return ""
    facts = evidence(judgement.explanations[0], grid)
    return f"{is_what(judgement)}{f': {facts}' if facts else ''}."


def evidence(explanation: Explanation, grid: Tensor) -> str:
    """Visible evidence of a mistake, counted: own keys, empty rows, the future."""
    first = max(0, explanation.reading.seen.first)
    own, empty = grid.diagonal(first), (~grid.any(1)).nonzero().flatten().tolist()
    future = grid.triu(first + 1)
    cells = int(grid.new_ones(grid.shape).triu(first + 1).count_nonzero())
    facts = ["no query sees itself"] if len(own) > 1 and not own.any() else []
    if explanation.kind.is_causal and future.any():
        facts.append(f"{int(future.count_nonzero()):,} of {cells:,} future cells are open")
    if empty:
        facts.append(f"row {empty[0]} has no key left" if len(empty) == 1 else f"{len(empty):,} rows have no key left")
    if len(facts) < 2:
        return "".join(facts)
    return " and ".join([", ".join(facts[:-1]), facts[-1]])


def otherwise(judgement: Judgement) -> str:
    """A common intention that looks like the mistake; empty if there is none."""
    backwards = judgement.mistake == "transposed" and all(
        explanation.kind.is_causal for explanation in judgement.explanations
    )
    return "a model that reads backwards" if backwards else ""


def ambiguous(judgement: Judgement) -> str:
    """Another reading of a mask that is a published one as it is; empty if nothing simpler is as likely."""
    if not judgement.rivals:
        return ""
    mistake, rival = next(iter(judgement.rivals.items()))
    return f"{is_what(judgement)}; or {named(Judgement(rival))} {SWAPPED[mistake]}. The mask alone cannot tell."


def near(explanation: Explanation) -> str:
    """Which cells a mask has more or less than a plain one that it is close to."""
    meant, cells = explanation.grid(), explanation.wrong.nonzero().tolist()
    named = [f"query {query} {'may not see' if meant[query, key] else 'sees'} key {key}" for query, key in cells]
    named = [*named[:MOST_NAMED], *([f"{len(cells) - MOST_NAMED:,} cells more"] if len(cells) > MOST_NAMED else [])]
    counts = []
    for cells, be in ((meant, "allowed cells {} missing"), (~meant, "blocked cells {} open")):
        if count := int((explanation.wrong & cells).count_nonzero()):
            counts.append(f"{count:,} of {int(cells.count_nonzero()):,} {be.format('is' if count == 1 else 'are')}")
    return f"Close to {article(explanation)}, but {', '.join(named)} ({'; '.join(counts)})."


def source(judgement: Judgement) -> str:
    """Source of the kind of a mask, in parentheses; empty if it is not known."""
    sources = {explanation.kind.source for explanation in judgement.explanations}
    return f" ({sources.pop()})" if len(sources) == 1 and sources != {""} else ""
