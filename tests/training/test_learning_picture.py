"""The picture of how a model learned."""

import json

import pytest

from attnviz.models import trained
from attnviz.training import curve


@pytest.fixture
def learning():
    points = [{"step": step, "loss": None if step == 0 else 5 / step, "score": step / 400} for step in (0, 100, 300)]
    return {"seed": 0, "minutes": 1.5, "curve": points}


def tables(chart):
    return list(chart.to_dict()["datasets"].values())


def test_every_point_and_every_kept_moment_is_drawn(learning):
    """The score at all steps; the loss only where there is one, and so its dots."""
    steps = [[row["step"] for row in table] for table in tables(curve.draw("story", learning, (0, 300)))]

    assert [0, 100, 300] in steps
    assert [100, 300] in steps
    assert [0, 300] in steps
    assert [300] in steps


def test_the_title_says_what_was_reached(learning):
    title = curve.draw("story", learning, (0, 300)).to_dict()["title"]

    assert "story" in title["text"]
    assert "75.0%" in title["subtitle"]
    assert "300 steps" in title["subtitle"]
    assert "2 moments" in title["subtitle"]


def test_the_picture_is_written_beside_the_weights(learning, tmp_path, monkeypatch):
    monkeypatch.setattr(trained, "folder", lambda name: tmp_path / name)
    (tmp_path / "story").mkdir()
    (tmp_path / "story" / "learning.json").write_text(json.dumps(learning))

    path = curve.write("story")

    assert path == tmp_path / "story" / "learning.png"
    assert path.read_bytes().startswith(b"\x89PNG")
