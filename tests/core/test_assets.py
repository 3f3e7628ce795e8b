"""Paths of shipped files."""

from attnviz.core import assets


def test_a_checkout_finds_the_top_level_assets():
    assert assets.path("tokenizers/bpe.json").is_file()


def test_an_installed_wheel_finds_its_own_assets(tmp_path, monkeypatch):
    """In site-packages, a folder named assets beside attnviz would belong to somebody else."""
    (tmp_path / "attnviz" / "assets").mkdir(parents=True)
    (tmp_path / "assets").mkdir()
    monkeypatch.setattr(assets, "PACKAGE", tmp_path / "attnviz")

    assert assets.path("icon.png") == tmp_path / "attnviz" / "assets" / "icon.png"
