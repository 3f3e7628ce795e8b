"""Draw the pictures that ship again: ``python -m attnviz.training.shapes``."""

from attnviz.core import assets
from attnviz.training.shapes import still_life
from attnviz.training.shapes.examples import EXAMPLES, example, file


def main() -> None:
    for label in EXAMPLES:
        example(label).save(assets.path(file(label)), optimize=True)
    still_life.render().save(assets.path("pictures/still-life.jpg"), quality=92)


if __name__ == "__main__":
    main()
