"""Train the shipped models and draw how they learned: ``python -m attnviz.training [NAME ...]``."""

import argparse
from importlib import import_module

from attnviz.training import curve, harness

NAMES = ("translator", "story", "induction", "shapes")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)}; all if none is given")
    names = parser.parse_args().names or NAMES
    if unknown := [name for name in names if name not in NAMES]:
        parser.error(f"there is no recipe for {', '.join(unknown)}; there are those for {', '.join(NAMES)}")
    for name in names:
        harness.train(import_module(f"attnviz.training.{name}").RECIPE)
        print(f"wrote {curve.write(name)}")


if __name__ == "__main__":
    main()
