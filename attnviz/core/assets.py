"""Paths of the files that ship with attnviz: trained weights, tokenizers, example texts."""

from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]


def path(name: str) -> Path:
    """The place of a shipped file, such as "tokenizers/bpe.json".

    It is in attnviz/assets of an installed wheel, else in the top-level assets folder of a checkout.
    """
    installed = PACKAGE / "assets"
    return (installed if installed.is_dir() else PACKAGE.parent / "assets") / name
