"""The learning curve of a model as a picture beside its weights."""

import json
from pathlib import Path
from typing import Any

from attnviz import export
from attnviz.charts.curve import curve
from attnviz.models import trained


def write(name: str) -> Path:
    """Draw assets/models/<name>/learning.png from the learning.json and the weights beside it."""
    learning = json.loads((trained.folder(name) / "learning.json").read_text(encoding="utf-8"))
    kept = trained.checkpoints(name)
    points = [(point["step"], point["loss"], point["score"]) for point in learning["curve"]]
    title = f"How the model “{name}” learned"
    chart = curve(points, checkpoints=kept, title=title, subtitle=reached(learning, kept))
    path = trained.folder(name) / "learning.png"
    path.write_bytes(export.render(chart, "png", scale=2))
    return path


def reached(learning: dict[str, Any], kept: tuple[int, ...]) -> str:
    """Result of a training: its last score, the steps and the minutes."""
    last, minutes = learning["curve"][-1], learning["minutes"]
    end = f"held-out score {last['score']:.1%} after {last['step']:,} steps, {minutes:g} minutes on one core"
    return f"{end}; dots: the {len(kept)} moments whose weights were kept" if kept else end
