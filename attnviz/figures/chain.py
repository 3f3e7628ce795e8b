"""The whole chain of an attention call at a glance: a thumbnail per stage, from tokens to what the layer gives."""

from typing import Unpack

from attnviz.charts import frame, panels
from attnviz.charts.frame import Frame, box
from attnviz.charts.panels import Panel, Panels
from attnviz.charts.style import Style
from attnviz.core.display import in_title
from attnviz.core.edits import Site
from attnviz.core.record import Record
from attnviz.figures.figure import Drawn, Figure, stem, subtitles, titled
from attnviz.figures.stage import Tokens, are_weights, called, table
from attnviz.walk import Matrix, Stage
from attnviz.walk.stages import NOT_TAKEN_APART, READ_ONLY, plural_of

WIDTH = 318
"""Pixels of the whole rail, so that it fits a phone."""

HIGH, WIDE, MISSING = 40, 84, 24
"""Pixels of a thumbnail, and of the line of a stage that the model does not have."""

GAP, NUMBER = 10, 258
"""Pixels between two thumbnails, and from their left to the number under the pointer."""

SEEN = 16
"""Dimensions of a vector that a thumbnail shows, the first: more could not be told apart."""

MAIN = {"embedding": "words_query", "position": "embedded_query", "project": "q_all", "split": "q", "output": "y"}
MAIN |= {"mask": "masked"}
"""Which table of a stage stands for it, where it is not the first."""

SCORES = ("products", "scaled", "capped", "biased", "tempered", "masked")
"""Tables that share one scale, so that it is seen what makes them larger and smaller."""


def chain(
    record: Record,
    site: Site,
    head: int,
    stages: tuple[Stage, ...],
    *,
    sentence: int = 0,
    current: str = "",
    **drawn: Unpack[Drawn],
) -> Figure:
    """All stages of a call as thumbnails; a click selects one under the name "stage" with the fields stage and rev.

    Args:
        stages: what `walk.chain` gave.
        current: the key of the stage that is marked on the screen.
        drawn: `selected` is the (query, key) whose numbers stand beside each table; -1 for none.
    """
    tokens = record.tokens(site, sentence=sentence)
    what = f"Step by step · {site.head(head)} · {in_title(record.source)}"
    known = tuple(matrix for stage in stages if (matrix := main(stage)) is not None)
    said = (what, subtitles(record))
    return Figure(
        name=stem(record, site, f"head-{head}-steps", sentence=sentence),
        title=titled(what, record),
        style=Style(**drawn),
        draw=lambda style: drawing_of(stages, tokens, current if style.on_screen else "", said, style),
        describe=lambda: " ".join(
            f"{i}. {stage.title}: {stage.missing or stage.changed}" for i, stage in enumerate(stages, 1)
        ),
        tabulate=lambda: table(known, tokens),
        collect=lambda: {matrix.key: matrix.values.numpy() for matrix in known},
    )


def main(stage: Stage) -> Matrix | None:
    """The table that stands for a stage; None if its numbers are not known."""
    if not stage.matrices:
        return None
    key = MAIN.get(stage.key)
    return next((matrix for matrix in stage.matrices if matrix.key == key), stage.matrices[0])


def drawing_of(
    stages: tuple[Stage, ...], tokens: Tokens, current: str, said: tuple[str, list[str]], style: Style
) -> Panels:
    """The thumbnails one under the other; a screen says elsewhere what they are."""
    colors, mains = style.colors, [main(stage) for stage in stages]
    shared = panels.limit_of(*(m.values.double().numpy() for m in mains if m is not None and m.key in SCORES))
    made, areas, around, y = [], [], Frame(), 0.0
    for i, (stage, matrix) in enumerate(zip(stages, mains, strict=True)):
        high = MISSING if matrix is None else HIGH
        y += 8 if matrix is not None and i and mains[i - 1] is None else 0
        areas.append({"x": -10, "y": y - 1, "x2": WIDTH - 10, "y2": y + high + 1, "position": i})
        if stage.key == current:
            around += Frame(boxes=(box(-10, y - GAP / 2 + 1, -6, y + high + GAP / 2 - 1, fill=colors.accent, width=0),))
        if matrix is not None:
            made.append(panel := _thumbnail(i, stage, matrix, y, shared))
            around += Frame(boxes=(box(panel.x, y, panel.x + panel.width, y + panel.height, stroke=colors.line),))
        around += _said(i, stage, matrix, y, stage.key == current, style)
        y += high + (GAP if matrix is not None else 2)
    if not style.on_screen:
        around += frame.heading(*said, left=-10, top=-12, width=WIDTH, narrowest=WIDTH, colors=colors)
    rest, more = style.selected or (-1, -1), {"areas": tuple(areas), "select": "stage"}
    return Panels(tuple(made), around, style, rest, *called(tokens), readout=(0.0, y + 6), **more)


def _thumbnail(i: int, stage: Stage, matrix: Matrix, y: float, shared: float) -> Panel:
    of_tokens = set(matrix.axes) == {"query", "key"}
    seen = None if of_tokens else SEEN
    values, weights = matrix.values[:, :seen].double().numpy(), are_weights(stage, matrix)
    limit = shared if matrix.key in SCORES and not weights else panels.limit_of(values)
    rows, columns = values.shape
    width = min(WIDE, HIGH * columns / max(1, rows)) if of_tokens else WIDE
    sides, beside = (0.0, y, max(12.0, width), HIGH), (NUMBER, y + 8.0)
    limit = max(1.0, limit) if weights else limit
    blocked = None if matrix.blocked is None else matrix.blocked[:, :seen].numpy()
    return Panel(
        matrix.axes, matrix.rows, matrix.columns[:seen], values, *sides, limit, not weights, beside, i, blocked
    )


def in_nouns(stage: Stage) -> str:
    """What a stage has of one sentence: "2 heads × 11 queries × 11 keys"; "" if its sizes are not known."""
    sizes = zip(stage.letters[1:], stage.shape[1:], strict=False)
    return " × ".join(f"{size:,} {plural_of(letter, size)}" for letter, size in sizes)


def _said(i: int, stage: Stage, matrix: Matrix | None, y: float, chosen: bool, style: Style) -> Frame:
    """The name of a stage and its shape; of one without numbers, that there are none."""
    colors, name = style.colors, f"{i + 1}  {stage.title}"
    if matrix is None:
        why = "not shown" if stage.missing in (READ_ONLY, NOT_TAKEN_APART) else "not used"
        color = colors.accent if chosen else colors.quiet
        return Frame(words=(frame.words(0, y + MISSING / 2, f"{name}: {why}", color),))
    title = frame.words(WIDE + 14, y + 8, name, colors.accent if chosen else colors.text)
    return Frame(titles=(title,), words=(frame.words(WIDE + 14, y + 28, in_nouns(stage), colors.quiet),))
