"""Measure the shipped models afresh and write it on their cards: ``python -m attnviz.training.evidence``."""

import argparse
import json
from importlib import import_module
from typing import Any

import torch

from attnviz.models import trained

NAMES = ("translator", "story", "induction", "constructed", "shapes")
SENTENCES = 2_000


def card(name: str, sentences: int = SENTENCES) -> dict[str, Any]:
    """The card of a shipped model, its numbers measured on so many held-out texts or pictures."""
    return import_module(f"attnviz.training.{name}").card(sentences)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)}; all if none is given")
    torch.set_num_threads(1)  # small sums: more threads only wait for each other
    for name in parser.parse_args().names or NAMES:
        made = card(name)
        path = trained.folder(name) / "card.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        print(name)
        for measure in made["measured"]:
            goal = "" if measure["goal"] is None else f"  (goal {measure['goal']:.0%})"
            print(f"  {measure['value']:7.2%}  {measure['what']}{goal}")


if __name__ == "__main__":
    main()
