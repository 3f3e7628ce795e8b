"""Held-out texts for each trained model, to measure heads on: ``python -m attnviz.training.texts`` writes them."""

import random
from collections.abc import Callable

from attnviz.core import assets
from attnviz.tokenizers.vocabulary import UNK
from attnviz.training.induction import texts as induction
from attnviz.training.story.grammar import stories
from attnviz.training.translator import recipe

SEED = 50_000
"""Of these texts alone: those that are measured for the cards and the learning curves have others."""
COUNT = 50
LONGEST_STORY = 40
"""In words."""


def translator() -> list[str]:
    return [pair.text for pair in recipe.held_out(COUNT, SEED)]


def story() -> list[str]:
    """Short enough to be read."""
    found: dict[str, None] = {}
    for one in stories(random.Random(SEED), held_out=True):
        if len(found) == COUNT:
            break
        if len(one.words) <= LONGEST_STORY:
            found[one.text] = None
    return list(found)


def induction_texts() -> list[str]:
    """Without unknown words, and with as many as the model reads after <sos>."""
    drawn = induction.sample(random.Random(SEED), 4 * COUNT, held_out=True)
    words = [one.words[: induction.LONGEST - 1] for one in drawn]
    return [" ".join(each) for each in words if UNK not in each][:COUNT]


TEXTS: dict[str, Callable[[], list[str]]] = {"translator": translator, "story": story, "induction": induction_texts}


def main() -> None:
    for name, make in TEXTS.items():
        path = assets.path(f"texts/{name}.txt")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{text}\n" for text in make()), encoding="utf-8")
        print(f"wrote {path.name}")


if __name__ == "__main__":
    main()
