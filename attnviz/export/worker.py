"""The process that draws: it reads jobs from stdin and answers on stdout, until stdin ends.

vl-convert aborts its whole process on some texts, and some pictures take forever; here neither harms anybody. This file
is run by its path, so that it loads vl-convert and nothing else.

A job is a line of JSON: the arguments of `draw` and "seconds", after which the process ends itself. An answer is a line
of JSON: {"file": base64} or {"refused": sentence}.
"""

import base64
import json
import os
import re
import signal
import sys
from collections.abc import Sequence
from functools import lru_cache

MOST_PIXELS, POINTS_PER_INCH = 100_000_000, 72
SIDES = r'width="(\S+)" height="(\S+)"'


class Refused(Exception):
    """A picture that is not drawn on purpose; the reason is a sentence."""


def draw(kind: str, picture: str = "", ppi: float = 72, fits: Sequence = (), one_sign: Sequence = ()) -> bytes:
    """Draw Vega-Lite without asking another host for anything.

    Args:
        kind: "png", "svg", "pdf", or "javascript" for Vega as a script.
        fits: arguments of `resized`.
        one_sign: a pattern and the sign that PNG and PDF show in place of what matches it.
    """
    import vl_convert

    if kind == "javascript":
        return vl_convert.javascript_bundle().encode()
    svg = resized(to_svg(picture), *fits) if fits else to_svg(picture)
    if kind == "svg":
        return (re.sub(SIDES, r'width="\1pt" height="\2pt"', svg, count=1) if fits else svg).encode()
    if one_sign:
        svg = re.sub(*one_sign, svg)
    if kind == "pdf":
        return vl_convert.svg_to_pdf(svg)
    width, height = (float(side) * ppi / POINTS_PER_INCH for side in re.search(SIDES, svg).groups())
    if width * height > MOST_PIXELS:
        raise Refused(
            f"The picture would be {width:,.0f} x {height:,.0f} pixels, more than {MOST_PIXELS:,}: "
            "take a smaller scale, SVG or PDF."
        )
    return vl_convert.svg_to_png(svg, ppi=ppi)


def resized(svg: str, scale: float, narrow: float, wide: float, high: float, smallest: float) -> str:
    """The SVG `scale` times as large, or smaller where it would be too high or too wide.

    Args:
        narrow, wide, high: points. A picture is at most `narrow`, or `wide` where its text would get too small.
        smallest: the least part of its size to which `narrow` may shrink a picture.
    """
    width, height = map(float, re.search(SIDES, svg).groups())
    most = narrow if narrow >= smallest * scale * width else wide
    scale = min(scale, most / width, high / height)
    return re.sub(SIDES, f'width="{width * scale:.6g}" height="{height * scale:.6g}"', svg, count=1)


@lru_cache(maxsize=1)
def to_svg(picture: str) -> str:
    """The SVG that the other formats are made from; the last is kept, for one picture in several formats.

    Vega counts gradients through all pictures of a process; they are counted anew, so that the same picture is the same
    file.
    """
    import vl_convert

    svg = vl_convert.vegalite_to_svg(picture, allowed_base_urls=[])
    # allowed_base_urls keeps data from being fetched, but not images.
    if re.search(r'<image\b[^<]*?href="(?!data:)', svg):
        raise Refused("The picture holds an image from another place; only images within the data are drawn.")
    names = [*dict.fromkeys(re.findall(r'<linearGradient id="gradient_(\d+)"', svg))]
    gradient = r'(<(?:linearGradient id="|[^<>]*="url\(#)gradient_)(\d+)'
    return re.sub(gradient, lambda match: f"{match[1]}{names.index(match[2])}", svg)


def reason(error: Exception) -> str:
    """The line of a library's message that says what is wrong."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or ["no reason was given"]
    return next((line for line in lines if "Error:" in line), lines[0])[:200].rstrip(".")


def main(fonts: str) -> None:
    answers = os.fdopen(os.dup(1), "w", encoding="ascii")
    os.dup2(2, 1)  # Nothing that a library prints may get among the answers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl+C is for the parent; this process ends with its stdin.
    alarm = getattr(signal, "alarm", lambda seconds: None)  # If the parent is gone, nobody else ends a long picture.
    if os.name == "posix":
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    import vl_convert

    vl_convert.register_font_directory(fonts)
    for line in sys.stdin.buffer:
        job = json.loads(line)
        alarm(job.pop("seconds"))
        try:
            answer = {"file": base64.b64encode(draw(**job)).decode()}
        except Refused as refused:
            answer = {"refused": str(refused)}
        except Exception as error:
            answer = {"refused": f"The picture could not be drawn: {reason(error)}."}
        alarm(0)
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    del sys.path[0]  # The folder of this file; its neighbors are not for this process.
    main(sys.argv[1])
