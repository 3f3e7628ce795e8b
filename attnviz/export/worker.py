"""The process that draws: it reads jobs from stdin and answers on stdout, until stdin ends.

vl-convert aborts its whole process on some texts, and some pictures take forever; here neither harms anybody. This file
is run by its path, so that it loads vl-convert and nothing else.

A job is 8 bytes of length (big-endian) and JSON: {"what": "png" | "svg" | "pdf" | "javascript", "picture": Vega-Lite as
text, "ppi": number, "fits": as of `resized` or null, "seconds": whole number}. An answer is "+" or "-", 8 bytes of
length, and the file, or a reason.
"""

import json
import os
import re
import signal
import struct
import sys
from functools import lru_cache

MOST_PIXELS = 100_000_000
POINTS_PER_INCH = 72


class Refused(Exception):
    """A picture that is not drawn on purpose; the reason is a sentence."""


def draw(what: str, picture: str = "", ppi: float = POINTS_PER_INCH, fits: list[float] | None = None) -> bytes:
    """Draw Vega-Lite, without ever asking another host for anything."""
    import vl_convert

    if what == "javascript":
        return vl_convert.javascript_bundle().encode()
    svg = resized(to_svg(picture), *fits) if fits else to_svg(picture)
    if what == "svg":
        return (re.sub(_SIDES, r'width="\1pt" height="\2pt"', svg, count=1) if fits else svg).encode()
    svg = with_signs(svg)
    if what == "pdf":
        return vl_convert.svg_to_pdf(svg)
    sides = re.search(_SIDES, svg).groups()
    width, height = (float(side) * ppi / POINTS_PER_INCH for side in sides)
    if width * height > MOST_PIXELS:
        raise Refused(
            f"The picture would be {width:,.0f} x {height:,.0f} pixels, more than {MOST_PIXELS:,}: "
            "take a smaller scale, SVG or PDF."
        )
    return vl_convert.svg_to_png(svg, ppi=ppi)


_SIDES = r'width="(\S+)" height="(\S+)"'


def with_signs(svg: str) -> str:
    """The SVG whose texts with arrows or signs of mathematics ask first for a font that has them.

    Noto Sans has none: of a text with one of them the whole was drawn in any font that does, bold and slanted.
    """
    return re.sub(_SIGNED, r"\1DejaVu Sans, \2", svg)


_SIGNED = r'(<text\b[^<>]*font-family=")([^"]*sans-serif"[^<>]*>(?:(?!</?text\b).)*[\u2190-\u22ff\u25a0-\u25ff])'


def resized(svg: str, scale: float, narrow: float, wide: float, high: float) -> str:
    """The SVG `scale` times as large, no higher than `high` and no wider than `narrow`, or `wide` if it must."""
    width, height = map(float, re.search(_SIDES, svg).groups())
    most = narrow if width * scale <= narrow * 1.02 else wide
    scale = min(scale, most / width, high / height)
    return re.sub(_SIDES, f'width="{width * scale:.6g}" height="{height * scale:.6g}"', svg, count=1)


_GRADIENT = r'(<(?:linearGradient id="|[^<>]*="url\(#)gradient_)(\d+)'
"""The number of a gradient, which Vega counts through all pictures of a process: the same picture is the same file."""


@lru_cache(maxsize=1)
def to_svg(picture: str) -> str:
    """The SVG that the other formats are made from; the last is kept for who takes one picture in several formats."""
    import vl_convert

    svg = vl_convert.vegalite_to_svg(picture, allowed_base_urls=[])
    # allowed_base_urls keeps data from being fetched, but not images.
    if re.search(r'<image\b[^<]*?href="(?!data:)', svg):
        raise Refused("The picture holds an image from another place; only images within the data are drawn.")
    names = [*dict.fromkeys(re.findall(r'<linearGradient id="gradient_(\d+)"', svg))]
    return re.sub(_GRADIENT, lambda match: f"{match[1]}{names.index(match[2])}", svg)


def reason(error: Exception) -> str:
    """The line of a library's message that says what is wrong."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or ["no reason was given"]
    return next((line for line in lines if "Error:" in line), lines[0])[:200].rstrip(".")


def main(fonts: str) -> None:
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # Nothing that a library prints may get among the answers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl+C is for the parent; this process ends with its stdin.
    if os.name == "posix":
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    import vl_convert

    if os.path.isdir(fonts):
        vl_convert.register_font_directory(fonts)
    while len(head := sys.stdin.buffer.read(8)) == 8:
        job = json.loads(sys.stdin.buffer.read(struct.unpack(">Q", head)[0]))
        seconds = job.pop("seconds")
        if hasattr(signal, "alarm"):
            signal.alarm(seconds)  # If the parent is gone, nobody else ends a picture that takes forever.
        try:
            sign, answer = b"+", draw(**job)
        except Refused as refused:
            sign, answer = b"-", str(refused).encode()
        except Exception as error:
            sign, answer = b"-", f"The picture could not be drawn: {reason(error)}.".encode("utf-8", "replace")
        if hasattr(signal, "alarm"):
            signal.alarm(0)
        answers.write(sign + struct.pack(">Q", len(answer)) + answer)
        answers.flush()


if __name__ == "__main__":
    del sys.path[0]  # The folder of this file; its neighbors are not for this process.
    main(sys.argv[1])
