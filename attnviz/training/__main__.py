"""Make shipped files again: ``python -m attnviz.training WHAT [NAME ...]``.

train: weights of a model. evidence: numbers for its card. texts: held-out texts for it. atlases:
its heads over these texts. tokenizer: the byte-pair encoding. pictures: examples for models that read pictures.
"""

import argparse
import shutil
from importlib import import_module
from types import ModuleType

import torch

from attnviz import atlas
from attnviz.core import assets
from attnviz.models import trained
from attnviz.training import recipe

READERS = ("translator", "story", "induction")
NAMES = {
    "train": (*READERS, "shapes"),
    "evidence": (*READERS, "shapes"),
    "texts": READERS,
    "atlases": READERS,
    "tokenizer": ("bpe",),
    "pictures": ("examples",),
}
"""Names for each kind of file."""
SENTENCES = 2_000
"""Number of held-out texts or pictures measured for a card."""
TEXTS_SEED, TEXTS = 50_000, 50
"""Seed of the shipped texts, which no card uses, and their number."""


def module(name: str) -> ModuleType:
    """Import a module of this folder, such as the one of a model."""
    return import_module(f"attnviz.training.{name}")


def texts(name: str) -> list[str]:
    """Draw the held-out texts that ship for a model."""
    return module(name).shipped_texts(TEXTS_SEED, TEXTS)


def make(what: str, name: str) -> str:
    """Make one of the files in `NAMES`, and return its path, or for "evidence" the measured numbers."""
    if what == "train":
        recipe.train(module(name).RECIPE)
        return str(trained.folder(name))
    if what == "evidence":
        torch.set_num_threads(1)  # the matrices are small; more threads only wait for each other
        card = module(name).card(SENTENCES)
        recipe.write_json(trained.folder(name) / "card.json", card)
        return "\n".join([name, *[f"  {row['value']:7.2%}  {row['what']}" for row in card["measured"]]])
    if what == "texts":
        path = assets.path(f"texts/{name}.txt")
        path.write_text("".join(f"{text}\n" for text in texts(name)), encoding="utf-8")
        return str(path)
    if what == "atlases":
        folder = assets.path(f"atlas/{name}")
        shutil.rmtree(folder, ignore_errors=True)
        built = atlas.build(name, assets.path(f"texts/{name}.txt"), folder, atlas.Options(pairs=60))
        return f"{folder}: {built.texts} texts"
    if what == "tokenizer":
        path = assets.path("tokenizers/bpe.json")
        path.write_text(module("corpus").train_tokenizer(), encoding="utf-8")
        return str(path)
    shapes = module("shapes")
    for label in shapes.EXAMPLES:
        shapes.example(label).save(assets.path(shapes.file(label)), optimize=True)
    return str(assets.path("pictures"))


def main() -> None:
    """Run the command line of this module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=NAMES, metavar="WHAT", help=", ".join(NAMES))
    parser.add_argument("names", nargs="*", metavar="NAME", help="models; all if none is given")
    arguments = parser.parse_args()
    available = NAMES[arguments.what]
    if unknown := [name for name in arguments.names if name not in available]:
        parser.error(f"{arguments.what} does not know {', '.join(unknown)}; it knows {', '.join(available)}")
    for name in arguments.names or available:
        print(make(arguments.what, name), flush=True)


if __name__ == "__main__":
    main()
