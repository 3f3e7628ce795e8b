"""The whole chain of an attention call at a glance: a thumbnail per stage, from tokens to what the layer gives."""

from typing import Unpack

from attnviz.charts import frame, panels
from attnviz.charts.frame import Frame, box, text_width
from attnviz.charts.panels import Panel, Panels
from attnviz.charts.style import Style
from attnviz.charts.theme import Theme
from attnviz.core.display import in_title
from attnviz.core.edits import Site
from attnviz.core.record import Record
from attnviz.figures.figure import Drawn, Figure, stem, subtitles, titled
from attnviz.figures.stage import Tokens, are_weights, called, table
from attnviz.walk import Matrix, Stage
from attnviz.walk.stages import plural_of

WIDTH = 318
"""Pixels of the whole rail, so that it fits a phone."""

HIGH, WIDE, MISSING = 36, 84, 24
"""Pixels of a thumbnail, and of a line of stages that the model does not have."""

LINE_CHARACTER = 5.9
"""Pixels of a character of such a line."""

GAP, NUMBER = 8, 304
"""Pixels between two thumbnails, and from their left to the end of the number under the pointer."""

SEEN = 16
"""Dimensions of a vector that a thumbnail shows, the first: more could not be told apart."""

MAIN = {"embedding": "words_query", "position": "embedded_query", "project": "q_all", "split": "q", "output": "y"}
MAIN |= {"mask": "masked"}
"""Which table of a stage stands for it, where it is not the first."""


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
    made, areas, around, y = [], [], Frame(), 0.0
    for i, (stage, matrix) in enumerate(zip(stages, mains, strict=True)):
        chosen, goes_on = stage.key == current, mains[i + 1 : i + 2] == [None]
        if matrix is None:
            if i == 0 or mains[i - 1] is not None:
                last = next((j for j, one in enumerate(mains) if j > i and one is not None), len(mains))
                line, places, y = _missing(i, stages[i:last], current, y, colors)
                around, areas = around + line, areas + places
            continue
        areas.append({"x": -10, "y": y - 1, "x2": WIDTH - 10, "y2": y + HIGH + 1, "position": i})
        if chosen:
            around += Frame(boxes=(box(-10, y - GAP / 2 + 1, -6, y + HIGH + GAP / 2 - 1, fill=colors.accent, width=0),))
        made.append(panel := _thumbnail(i, stage, matrix, y))
        around += Frame(boxes=(box(panel.x, y, panel.x + panel.width, y + panel.height, stroke=colors.line),))
        around += _said(i, stage, y, colors, chosen=chosen)
        y += HIGH + (2 if goes_on else GAP)
    if not style.on_screen:
        around += frame.heading(*said, left=-10, top=-12, width=WIDTH, narrowest=WIDTH, colors=colors)
    rest, more = style.selected or (-1, -1), {"areas": tuple(areas), "select": "stage"}
    return Panels(tuple(made), around, style, rest, *called(tokens), readout=(0.0, -14.0), **more)


def _thumbnail(i: int, stage: Stage, matrix: Matrix, y: float) -> Panel:
    """A table on a scale of its own: what makes it larger or smaller is said by the number beside it."""
    of_tokens = set(matrix.axes) == {"query", "key"}
    seen = None if of_tokens else SEEN
    values, weights = matrix.values[:, :seen].double().numpy(), are_weights(stage, matrix)
    limit = panels.limit_of(values)
    rows, columns = values.shape
    width = min(WIDE, HIGH * columns / max(1, rows)) if of_tokens else WIDE
    sides, beside = (0.0, y, max(12.0, width), HIGH), (NUMBER, y + 8.0)
    limit = max(1.0, limit) if weights else limit
    blocked = None if matrix.blocked is None else matrix.blocked[:, :seen].numpy()
    return Panel(
        matrix.axes,
        matrix.rows,
        matrix.columns[:seen],
        values,
        *sides,
        limit,
        not weights,
        beside,
        i,
        blocked,
        right=True,
    )


def in_nouns(stage: Stage) -> str:
    """What a stage has of one sentence: "2 heads × 11 queries × 11 keys"; "" if its sizes are not known."""
    sizes = zip(stage.letters[1:], stage.shape[1:], strict=False)
    return " × ".join(f"{size:,} {plural_of(letter, size)}" for letter, size in sizes)


def _said(i: int, stage: Stage, y: float, colors: Theme, *, chosen: bool) -> Frame:
    """The name of a stage and its shape."""
    title = frame.words(WIDE + 14, y + 8, f"{i + 1}  {stage.title}", colors.accent if chosen else colors.text)
    return Frame(titles=(title,), words=(frame.words(WIDE + 14, y + 27, in_nouns(stage), colors.quiet),))


def _missing(
    first: int, stages: tuple[Stage, ...], current: str, y: float, colors: Theme
) -> tuple[Frame, list[dict], float]:
    """Stages in a row that have no numbers, and why: each line is one text, so that its gaps are even in any font.

    Gives also where each is clicked, and where what follows begins.
    """
    why = "not shown" if stages[-1].is_used else "not used"
    names = [f"{i} {stage.title}" for i, stage in enumerate(stages, first + 1)]
    lines, areas, x = [["", colors.quiet]], [], 0.0
    for i, text in enumerate([*(f"{name}, " for name in names[:-1]), f"{names[-1]}: {why}"]):
        wide = text_width(text, LINE_CHARACTER)
        if x + wide > WIDTH - 10:
            lines.append(["", colors.quiet])
            x, y = 0.0, y + MISSING
        lines[-1][0] += text
        if stages[i].key == current:
            lines[-1][1] = colors.accent
        areas.append({"x": x, "y": y, "x2": x + wide, "y2": y + MISSING, "position": first + i})
        x += wide
    top = y - MISSING * (len(lines) - 1.5)
    drawn = (frame.words(0, top + MISSING * i, text, color) for i, (text, color) in enumerate(lines))
    return Frame(words=tuple(drawn)), areas, y + MISSING + GAP
