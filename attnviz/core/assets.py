"""Paths of the files that ship with attnviz: trained weights, tokenizers, example texts."""

from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]


def path(name: str) -> Path:
    """Return the path of a shipped file, such as "tokenizers/bpe.json".

    An installed wheel has it in attnviz/assets, a checkout in the top-level assets folder.
    """
    installed = PACKAGE / "assets"
    return (installed if installed.is_dir() else PACKAGE.parent / "assets") / name
