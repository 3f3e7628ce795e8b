"""Pictures and sounds in the shell: a file stands for a text, or is read with one."""

import sys
from pathlib import Path

import numpy as np
import pytest

import attnviz
from attnviz import cases
from attnviz.cli import main
from attnviz.core import assets

sys.path.append(str(Path(__file__).parent / "sources" / "huggingface"))
import mixed

STILL_LIFE = str(assets.path("pictures/still-life.jpg"))


@pytest.fixture(scope="module")
def llava(tmp_path_factory):
    return str(mixed.folder(tmp_path_factory.mktemp("llava"), "llava"))


def test_a_picture_stands_for_a_text_or_beside_one(capsys):
    """Both are the same to a model that reads no text."""
    given = []
    for text in ([STILL_LIFE], ["", "--picture", STILL_LIFE]):
        assert main(["predict", *text, "--model", "shapes"]) == 0
        given.append(capsys.readouterr().out)
    label = attnviz.analysis.labels(attnviz.analyze(attnviz.picture(STILL_LIFE), "shapes"))[0]

    assert given[0] == given[1]
    assert label.word in given[0]


def test_an_exported_overlay_has_the_weights_and_places_of_the_run(tmp_path):
    record = attnviz.analyze(attnviz.picture(STILL_LIFE), "shapes")
    options = ["--model", "shapes", "--form", "picture", "--layer", "0", "--head", "1", "--set", "pins=q0"]

    assert main(["export", STILL_LIFE, *options, "-o", str(tmp_path / "look.npz")]) == 0
    with np.load(tmp_path / "look.npz") as arrays:
        weights = record.step(attnviz.Site("encoder", 0)).weights(1)[0].numpy()
        assert arrays["weights"] == pytest.approx(weights)
        assert arrays["boxes"][1].tolist() == [0, 0, 0, 0.125, 0.125]
    assert main(["export", STILL_LIFE, *options, "--set", "less=sinks", "-o", str(tmp_path / "sinks.npz")]) == 0
    with np.load(tmp_path / "sinks.npz") as arrays:
        assert np.nansum(arrays["weights"][1:]) == pytest.approx(1)


def test_a_question_about_a_picture_is_answered_and_compared(llava, tmp_path, capsys):
    """Every command that takes a text reads the picture with it; another question has the same picture."""
    asked = ["What?", "--picture", STILL_LIFE, "--model", llava]

    assert main(["generate", *asked, "--max-new-tokens", "3"]) == 0
    source = attnviz.load(llava)
    answer = attnviz.generate(attnviz.picture(STILL_LIFE, "What?"), source, 3).answer
    assert answer.strip() in capsys.readouterr().out
    assert main(["export", *asked, "--compare", "text=Who??", "-o", str(tmp_path / "both.npz")]) == 0
    assert main(["predict", *asked, "--show", "tokens"]) == 0
    assert "row0·col0" in capsys.readouterr().out


def test_a_link_of_the_app_exports_the_picture_that_it_names(tmp_path):
    """In the form that the page has for it; what is gray there is said to be the app's."""
    name = "red%20square%20below%20blue%20triangle"
    assert main(["export", f"?model=shapes&layer=e0&head=1&picture={name}", "-o", str(tmp_path / "a.npz")]) == 0
    record = attnviz.analyze(attnviz.picture(assets.path("pictures/red-square-below-blue-triangle.png")), "shapes")
    weights = record.step(attnviz.Site("encoder", 0)).weights(1).numpy()
    with np.load(tmp_path / "a.npz") as arrays:
        assert "boxes" in arrays
        assert arrays["weights"] == pytest.approx(weights[0])
    link = f"?model=shapes&layer=e0&head=1&side=to&pins=k19&picture={name}&text=of+another+model"
    assert main(["export", link, "-o", str(tmp_path / "b.npz")]) == 0
    with np.load(tmp_path / "b.npz") as arrays:
        assert arrays["weights"] == pytest.approx(weights[:, 19])


def test_gray_patches_are_the_app_s(tmp_path, capsys):
    assert main(["export", "?model=shapes&gray=19", "-o", str(tmp_path / "a.png")]) == 2
    assert "The command line cannot make patches gray" in capsys.readouterr().err


def test_a_picture_that_is_none_is_one_sentence(tmp_path, capsys):
    (tmp_path / "cat.png").write_bytes(b"hello")

    assert main(["predict", "", "--picture", str(tmp_path / "cat.png"), "--model", "shapes"]) == 2
    assert "'cat.png' is not a PNG, JPEG or WebP picture" in capsys.readouterr().err


def test_a_saved_run_of_a_picture_comes_out_the_same_or_says_that_the_file_keeps_a_smaller_one(tmp_path):
    """The file holds the picture itself, up to 384 pixels of its longer side."""
    small, large = (np.random.RandomState(0).randint(0, 255, (side, side, 3), np.uint8) for side in (60, 500))
    same, other = (
        cases.verify(cases.save(attnviz.picture(pixels), tmp_path / f"{len(pixels)}.attn", "shapes"))
        for pixels in (small, large)
    )

    assert same.lines == ("The same, bit for bit: shapes, 2 attention calls.",)
    assert not other.same
    assert "The file stores pictures with at most 384 pixels per side" in str(other)
