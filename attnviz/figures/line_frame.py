"""What stands around the lines of a head: tokens, what is picked, weights in digits, the legend, the title."""

from collections.abc import Sequence

import numpy as np

from attnviz.charts import frame, hatch
from attnviz.charts.axes import KEY, PADDING, QUERY
from attnviz.charts.domain import colored
from attnviz.charts.frame import Frame, box, sign, text_width, words
from attnviz.charts.theme import LINE
from attnviz.figures.line_plan import NUMBER, SAMPLES, Plan, shown_labels

STRONGER = "the stronger a line, the larger its weight"
UNLESS = "stronger line: larger weight; gray: other rows"


def around(plan: Plan, title: str, said: Sequence[str]) -> Frame:
    """Everything but the lines.

    Args:
        title, said: what stands over the picture, and the sentences under that.
    """
    width = plan.left + plan.gap + PADDING + plan.width(1)
    drawn = _labels(plan) + _ends(plan) + _written(plan) + _legend(plan)
    top = -LINE - 14
    return drawn + frame.heading(title, said, left=-plan.left, top=top, width=width, colors=plan.colors)


def _labels(plan: Plan) -> Frame:
    cross = plan.drawn.seen.site.kind == "cross"
    names = [f"{QUERY}{' · decoder' * cross}", f"{KEY}{' · encoder' * cross}"]
    left, right = (_side(plan, side) for side in (0, 1))
    width = plan.style.width
    right_of = plan.gap if width is None else min(plan.gap, width - plan.left - text_width(names[1]) - PADDING)
    titles = words(-plan.left, -12, names[0], plan.colors.quiet), words(right_of, -12, names[1], plan.colors.quiet)
    return Frame(rows=left, tokens=right, words=titles) + _ties(plan)


def _side(plan: Plan, side: int) -> tuple[dict, ...]:
    part = plan.sides[side]
    picked = {part.at(at) for name, at in plan.drawn.pins if name == ("query", "key")[side]}
    picked |= {part.at(plan.style.selected[side])} if plan.style.selected else {plan.led} if side == 0 else set()
    x = plan.gap + PADDING + 2 if side else -PADDING - 2
    colors = (
        plan.colors.accent if i in picked else plan.colors.quiet if token.special else plan.colors.text
        for i, token in enumerate(part.tokens)
    )
    labels = zip(shown_labels(part), colors, strict=True)
    return tuple(words(x, (i + 0.5) * plan.cell, text, color) for i, (text, color) in enumerate(labels))


def _ends(plan: Plan) -> Frame:
    """A bar at each picked token; at a row with no weights, why."""
    boxes, signs, said = [], [], []
    for side, at in sorted(plan.drawn.pins):
        i, x = plan.sides[side == "key"].at(at), plan.gap + 1.0 if side == "key" else -4.0
        boxes.append(box(x, i * plan.cell + 2, x + 3, (i + 1) * plan.cell - 2, fill=plan.colors.accent, width=0))
    labels = shown_labels(plan.sides[0])
    for i, text in plan.empty.items():
        x, y = -PADDING - 2 - text_width(labels[i]) - 14, plan.y(i)
        signs.append(sign(x, y, hatch.CROSS, plan.colors.warning, 2.0, 9))
        said.append(words(x - 10, y, text, plan.colors.warning))
    return Frame(boxes=tuple(boxes), signs=tuple(signs), rows=tuple(said))


def _ties(plan: Plan) -> Frame:
    """A line along the pieces of each word; a rule where the second text of a pair begins."""
    boxes = []
    for side, part in enumerate(plan.sides):
        x = plan.gap + 1.5 if side else -2.75
        begins = [i for i, token in enumerate(part.tokens) if not (token.joined and i)]
        for a, b in zip(begins, [*begins[1:], len(part)], strict=True):
            if b - a > 1:
                y, y2 = a * plan.cell + 2, b * plan.cell - 2
                boxes.append(box(x, y, x + 1.25, y2, fill=plan.colors.quiet, width=0))
        segments = [token.segment for token in part.tokens]
        for i in range(1, len(part)):
            if segments[i] != segments[i - 1]:
                far, y = plan.width(side) + PADDING, i * plan.cell
                ends = (plan.gap + PADDING, plan.gap + far) if side else (-far, -PADDING)
                boxes.append(box(ends[0], y - 0.5, ends[1], y + 0.5, fill=plan.colors.line, width=0))
    return Frame(boxes=tuple(boxes))


def _written(plan: Plan) -> Frame:
    """The weights of the one picked token, at their other ends."""
    if not plan.numbered:
        return Frame()
    (side, at), found = next(iter(plan.drawn.pins)), plan.drawn.found[0]
    index = plan.sides[side == "key"].at(at)
    pick = (index, slice(None)) if side == "query" else (slice(None), index)
    weights, there = np.nan_to_num(found.weights[pick]), (colored(found) & (found.blocked == 0))[pick]
    x = plan.gap + PADDING + 2 + plan.width(1) + NUMBER if side == "query" else -PADDING - 2 - plan.width(0) - 10
    taken = plan.empty if side == "key" else {}
    return Frame(
        rows=tuple(
            words(x, plan.y(i), f"{weight:.2f}", plan.colors.text)
            for i, weight in enumerate(weights.tolist())
            if there[i] and i not in taken
        )
    )


def _legend(plan: Plan) -> Frame:
    y = plan.height + 40
    drawn = Frame(
        words=(words(-plan.left, plan.height + 22, STRONGER if plan.led is None else UNLESS, plan.colors.quiet),),
        ticks=tuple(
            words(x + 16, y + 15, f"{weight:g}", plan.colors.text)
            for x, weight in zip(plan.sample_places(), SAMPLES, strict=True)
        ),
    )
    if len(plan.styles) == 1:
        return drawn
    named = zip(plan.styles, plan.places(), strict=True)
    return drawn + Frame(words=tuple(words(x + 42, y, style.name, plan.colors.text) for style, (x, y) in named))
