"""Losses over the same training steps, a line for each model, with its name where it ends."""

import altair as alt

from attnviz.charts.picture import Form, Picture, Table
from attnviz.charts.theme import FONT, TEXT_SIZE, Theme, config

Models = tuple[tuple[str, tuple[tuple[int, float], ...]], ...]
"""By name, the step and the loss of its batch, in nats."""
HEADROOM = 1.12
"""Factor by which the axis goes on above the largest loss, for the name of the dashed line."""


def losses(models: Models, guess: float, colors: Theme, *, width: int, height: int) -> Picture:
    """Draw the losses of each model and a dashed line for that of a guess.

    Args:
        width, height: pixels of the panel.
    """
    last = max(points[-1][0] for _, points in models)
    top = HEADROOM * max(guess, *(loss for _, points in models for _, loss in points))
    x = alt.X(
        "step:Q", scale=alt.Scale(domain=(0, last), nice=False), axis=alt.Axis(title="training step", tickCount=6)
    )
    grid = {"grid": True, "gridColor": colors.line, "gridOpacity": 0.6, "tickCount": 4}
    y = alt.Y("loss:Q", scale=alt.Scale(domain=(0, top), nice=False), axis=alt.Axis(title="loss (nats)", **grid))
    color = alt.Color(
        "model:N",
        scale=alt.Scale(domain=[name for name, _ in models], range=[*colors.hues[: len(models)]]),
        legend=None,
    )
    tooltip = ["model:N", "step:Q", alt.Tooltip("loss:Q", format=".3f")]
    lines = alt.Chart(alt.NamedData("losses")).mark_line(strokeWidth=2.5).encode(x, y, color, tooltip=tooltip)
    write = {"font": FONT, "fontSize": TEXT_SIZE, "align": "right", "dx": -4}
    write |= {"baseline": "bottom", "dy": -6}
    names, ground = alt.Chart(alt.NamedData("ends")), {"stroke": colors.background, "strokeWidth": 4}
    grounds = names.mark_text(**write, **ground).encode(x, y, text="text:N")  # no line of the grid goes through a name
    names = names.mark_text(**write).encode(x, y, text="text:N", color=color)
    rule = alt.Chart(alt.NamedData("guess")).mark_rule(strokeDash=[5, 4], color=colors.quiet).encode(y=y)
    of_guess = alt.Chart(alt.NamedData("guess")).mark_text(color=colors.quiet, **(write | {"baseline": "top", "dy": 6}))
    of_guess = of_guess.encode(x, y, text="text:N")
    chart = alt.layer(rule, of_guess, grounds, lines, names).properties(width=width, height=height)
    return Picture(Form.of(chart.configure(**config(colors))), _tables(models, guess, last))


def _tables(models: Models, guess: float, last: int) -> dict[str, Table]:
    points = [(name, step, loss) for name, points in models for step, loss in points]
    ends = [(name, points[-1][1], f"{name}: {points[-1][1]:.2f}") for name, points in models]
    return {
        "losses": dict(zip(("model", "step", "loss"), map(list, zip(*points, strict=True)), strict=True)),
        "ends": dict(zip(("model", "loss", "text"), map(list, zip(*ends, strict=True)), strict=True))
        | {"step": [last] * len(ends)},
        "guess": {"step": [last], "loss": [guess], "text": [f"a guess: {guess:.2f}"]},
    }
