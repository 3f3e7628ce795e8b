"""The picture of how a model learned."""

import json

import pytest

from attnviz.models import trained
from attnviz.training import curve


@pytest.fixture
def learning():
    points = [{"step": step, "loss": None if step == 0 else 5 / step, "score": step / 400} for step in (0, 100, 300)]
    return {"seed": 0, "minutes": 1.5, "curve": points}


def test_the_title_says_what_was_reached(learning):
    said = curve.reached(learning, (0, 300))

    assert "75.0%" in said
    assert "300 steps" in said
    assert "2 moments" in said


def test_the_picture_is_written_beside_the_weights(learning, tmp_path, monkeypatch):
    monkeypatch.setattr(trained, "folder", lambda name: tmp_path / name)
    (tmp_path / "story").mkdir()
    (tmp_path / "story" / "learning.json").write_text(json.dumps(learning))

    path = curve.write("story")

    assert path == tmp_path / "story" / "learning.png"
    assert path.read_bytes().startswith(b"\x89PNG")
