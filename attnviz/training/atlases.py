"""The atlases that ship, each of a trained model over its held-out texts: ``python -m attnviz.training.atlases``."""

import shutil

from attnviz import atlas
from attnviz.core import assets
from attnviz.training.texts import TEXTS

OPTIONS = atlas.Options(pairs=60)


def main() -> None:
    for name in TEXTS:
        folder = assets.path(f"atlas/{name}")
        shutil.rmtree(folder, ignore_errors=True)
        made = atlas.build(name, assets.path(f"texts/{name}.txt"), folder, OPTIONS)
        size = sum(path.stat().st_size for path in folder.rglob("*.*"))
        print(f"built {name}: {made.texts} texts, {size / 1000:,.0f} kB")


if __name__ == "__main__":
    main()
