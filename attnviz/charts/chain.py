"""The whole chain of an attention call at a glance: a thumbnail per stage, from tokens to what the layer gives."""

from attnviz.charts import frame, panels
from attnviz.charts.frame import Frame, box, words
from attnviz.charts.panels import Panel, Panels
from attnviz.charts.stage import Tokens, are_weights
from attnviz.charts.theme import Theme, theme
from attnviz.core.display import shown
from attnviz.walk import Matrix, Stage
from attnviz.walk.stages import NOT_TAKEN_APART, READ_ONLY

WIDTH = 318
"""Pixels of the whole rail, so that it fits a phone."""

HIGH, WIDE, MISSING = 54, 84, 24
"""Pixels of a thumbnail, and of the line of a stage that the model does not have."""

GAP = 12

MAIN = {"embedding": "words_query", "position": "embedded_query", "project": "q_all", "split": "q", "output": "y"}
MAIN |= {"mask": "masked"}
"""Which table of a stage stands for it, where it is not the first."""

SCORES = ("products", "scaled", "capped", "biased", "tempered", "masked")
"""Tables that share one scale, so that it is seen what makes them larger and smaller."""


def main(stage: Stage) -> Matrix | None:
    """The table that stands for a stage; None if its numbers are not known."""
    if not stage.matrices:
        return None
    key = MAIN.get(stage.key)
    return next((matrix for matrix in stage.matrices if matrix.key == key), stage.matrices[0])


def drawing_of(
    stages: tuple[Stage, ...],
    tokens: Tokens,
    *,
    current: str = "",
    selected: tuple[int, int] = (-1, -1),
    title: str = "",
    lines: tuple[str, ...] = (),
    dark: bool = False,
    rev: int = 0,
) -> Panels:
    """What is drawn of the chain; a click selects a stage under the name "stage" with the fields stage and rev.

    Args:
        current: the key of the stage that is marked.
        selected: the (query, key) whose numbers stand beside each table; -1 for none.
        title, lines: what stands above; nothing on a screen that says it elsewhere.
    """
    colors = theme(dark)
    scores = [m.values.double().numpy() for stage in stages if (m := main(stage)) is not None and m.key in SCORES]
    shared = panels.limit_of(*scores)
    made, areas, around, y = [], [], Frame(), 0.0
    for i, stage in enumerate(stages):
        matrix = main(stage)
        high = MISSING if matrix is None else HIGH
        y += 8 if matrix is not None and i and main(stages[i - 1]) is None else 0
        is_current = stage.key == current
        areas.append({"x": -10, "y": y - 1, "x2": WIDTH - 10, "y2": y + high + 1, "position": i})
        if is_current:
            around += Frame(boxes=(box(-10, y - GAP / 2 + 1, -6, y + high + GAP / 2 - 1, fill=colors.accent, width=0),))
        if matrix is None:
            around += _missing(i, stage, y + high / 2, is_current, colors)
        else:
            panel = _thumbnail(i, stage, matrix, y, shared)
            made.append(panel)
            around += Frame(boxes=(box(panel.x, y, panel.x + panel.width, y + panel.height, stroke=colors.line),))
            around += _said(i, stage, y, is_current, colors)
        y += high + (GAP if matrix is not None else 2)
    if title:
        around += frame.heading(title, lines, left=-10, top=-12, width=WIDTH, narrowest=WIDTH, colors=colors)
    names = tuple(tuple(f"{shown(t.text)} ({i})" for i, t in enumerate(part)) for part in tokens)
    return Panels(tuple(made), around, selected, *names, areas=tuple(areas), readout=(0.0, y + 6), rev=rev)


def _thumbnail(i: int, stage: Stage, matrix: Matrix, y: float, shared: float) -> Panel:
    values = matrix.values.double().numpy()
    weights = are_weights(stage, matrix)
    scored = matrix.key in SCORES and not weights
    limit = shared if scored else panels.limit_of(values)
    rows, columns = values.shape
    both = set(matrix.axes) == {"query", "key"}
    width = min(WIDE, HIGH * columns / max(1, rows)) if both else WIDE
    beside = WIDE + 14.0, y + HIGH - 7.0
    limit = max(1.0, limit) if weights else limit
    return Panel(
        matrix.axes, matrix.rows, matrix.columns, values, 0.0, y, max(12.0, width), HIGH, limit, not weights, beside, i
    )


def _said(i: int, stage: Stage, y: float, is_current: bool, colors: Theme) -> Frame:
    shape = " × ".join(f"{size:,}" for size in stage.shape)
    title = words(WIDE + 14, y + 8, f"{i + 1}  {stage.title}", colors.accent if is_current else colors.text)
    letters = f"({', '.join(stage.letters)}) = {shape}"
    return Frame(titles=(title,), words=(words(WIDE + 14, y + 28, letters, colors.quiet),))


def _missing(i: int, stage: Stage, y: float, is_current: bool, colors: Theme) -> Frame:
    color = colors.accent if is_current else colors.quiet
    why = "not shown" if stage.missing in (READ_ONLY, NOT_TAKEN_APART) else "not here"
    return Frame(words=(words(0, y, f"{i + 1}  {stage.title}: {why}", color),))
