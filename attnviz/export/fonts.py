"""Fonts inside of SVG files, so that a reader draws the same letters, whatever is installed there.

Of each font a file holds the characters that it uses. Programs that read no fonts from SVG, such as Inkscape, go by
the names of fonts, as before.
"""

import base64
import hashlib
import html
import re
from functools import lru_cache
from io import BytesIO

from attnviz.core import assets

FACES = {
    "monospace": ("DejaVu Sans Mono", "fonts/DejaVuSansMono.ttf"),
    "sans-serif": ("Noto Sans", "embed/NotoSans-Regular.ttf"),
}
"""The name and the file of a font, by the generic family with which each list of fonts in a picture ends."""

_TEXT = re.compile(r'(<text\b[^>]*?font-family=")([^"]*)("[^>]*(?<!/)>)(.*?)</text>', re.DOTALL)
_JOINERS = "\u200d\ufe0e\ufe0f"


def embedded(svg: bytes) -> bytes:
    """The SVG with the fonts of its texts; a character that no font here has is left to the fonts of the reader."""
    picture = svg.decode()
    used: dict[str, set[str]] = {generic: set() for generic in FACES}
    for _, families, _, text in _TEXT.findall(picture):
        for character in html.unescape(re.sub("<[^>]*>", "", text)):
            if (face := _face_of(character, _generic(families))) is not None:
                used[face].add(character)
    faces = {generic: _face(generic, "".join(sorted(characters))) for generic, characters in used.items() if characters}

    def named(match: re.Match) -> str:
        own = _generic(match[2])
        every = sorted(faces, key=lambda generic: generic != own)
        names = [f"'{faces[generic][0]}'" for generic in every]
        if own in FACES:
            names.append(f"'{FACES[own][0]}'")
        return f"{match[1]}{', '.join(names)}, {match[2]}{match[3]}{match[4]}</text>" if every else match[0]

    head, rest = _TEXT.sub(named, picture).split(">", 1)
    rules = "".join(rule for _, rule in faces.values())
    return (f"{head}><style>{rules}</style>{rest}" if rules else picture).encode()


def lacking(text: str) -> list[str]:
    """Characters of a text that no font here has, with those that are joined to them."""
    runs = re.findall(f"[^{_JOINERS}](?:[{_JOINERS}]+[^{_JOINERS}]?)*", text)
    return list(
        dict.fromkeys(run.strip() for run in runs if any(_face_of(c, "monospace") is None for c in run.strip(_JOINERS)))
    )


def _generic(families: str) -> str:
    return families.rsplit(",", 1)[-1].strip()


def _face_of(character: str, own: str) -> str | None:
    """The face that draws a character: its own, else another one that has it."""
    faces = sorted(FACES, key=lambda generic: generic != own)
    return next((face for face in faces if ord(character) in _characters(face) or character.isspace()), None)


@lru_cache
def _characters(generic: str) -> frozenset[int]:
    from fontTools.ttLib import TTFont

    with TTFont(assets.path(FACES[generic][1]), lazy=True) as font:
        return frozenset(font.getBestCmap())


@lru_cache(maxsize=32)
def _face(generic: str, characters: str) -> tuple[str, str]:
    """A name that no other font of a page has, and the rule that loads these characters of a font under it."""
    from fontTools import subset

    options = subset.Options(
        layout_features=["mark", "mkmk", "ccmp"], hinting=False, notdef_outline=True, flavor="woff"
    )
    options.name_IDs = [0, 13, 14]  # copyright and license travel with the font
    options.drop_tables += ["FFTM"]  # of the editor of fonts alone
    font = subset.load_font(assets.path(FACES[generic][1]), options)
    maker = subset.Subsetter(options)
    maker.populate(text=characters)
    maker.subset(font)
    file = BytesIO()
    subset.save_font(font, file, options)
    data = base64.b64encode(file.getvalue()).decode()
    name = f"attnviz-{hashlib.sha256(data.encode()).hexdigest()[:8]}"
    return name, f"@font-face{{font-family:'{name}';src:url(data:font/woff;base64,{data}) format('woff')}}"
