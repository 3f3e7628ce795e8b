"""Worker process that draws PNG, SVG and PDF: it reads jobs from stdin and answers on stdout, until stdin ends.

vl-convert aborts its process on some texts, and some pictures never finish; in a separate process neither harms the
app. `Worker` in draw.py runs this file by its path, so that only vl-convert is loaded.

A job is a line of JSON: the arguments of `draw`, and "seconds", the time after which the process ends itself. An answer
is a line of JSON: {"file": base64} or {"refused": sentence}.
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
    """Raised if a picture cannot be drawn; the message is a sentence with the reason."""


def draw(kind: str, picture: str = "", ppi: float = 72, fits: Sequence = (), replacement: Sequence = ()) -> bytes:
    """Draw Vega-Lite without any network request, and return the content of the file.

    Args:
        kind: "png", "svg", "pdf", or "javascript" for Vega as a script.
        picture: Vega-Lite as JSON.
        ppi: pixels per inch of a PNG.
        fits: arguments of `resize` after the SVG; () for the original size.
        replacement: pattern, and the character that replaces its matches in PNG and PDF; () to replace nothing.
    """
    import vl_convert

    if kind == "javascript":
        return vl_convert.javascript_bundle().encode()
    svg = resize(to_svg(picture), *fits) if fits else to_svg(picture)
    if kind == "svg":
        return (re.sub(SIDES, r'width="\1pt" height="\2pt"', svg, count=1) if fits else svg).encode()
    if replacement:
        svg = re.sub(*replacement, svg)
    if kind == "pdf":
        return vl_convert.svg_to_pdf(svg)
    width, height = (float(side) * ppi / POINTS_PER_INCH for side in re.search(SIDES, svg).groups())
    if width * height > MOST_PIXELS:
        raise Refused(
            f"The picture would be {width:,.0f} x {height:,.0f} pixels, more than {MOST_PIXELS:,}: "
            "choose a smaller scale, SVG or PDF."
        )
    return vl_convert.svg_to_png(svg, ppi=ppi)


def resize(svg: str, scale: float, narrow: float, wide: float, high: float, smallest: float) -> str:
    """Scale an SVG by `scale`, or by less if it would be too high or too wide.

    Args:
        narrow, wide: maximum width in points, such as one column and two; `wide` is used if text would become too small
            with `narrow`.
        high: maximum height in points.
        smallest: factor, at most 1, by which `narrow` may shrink the scaled picture before text is too small.
    """
    width, height = map(float, re.search(SIDES, svg).groups())
    limit = narrow if narrow >= smallest * scale * width else wide  # or text would be too small
    scale = min(scale, limit / width, high / height)
    return re.sub(SIDES, f'width="{width * scale:.6g}" height="{height * scale:.6g}"', svg, count=1)


@lru_cache(maxsize=1)
def to_svg(picture: str) -> str:
    """Draw Vega-Lite as SVG, from which PNG and PDF are made; the last SVG is cached for other formats of the picture.

    Vega numbers gradients across all pictures of a process; they are renumbered from 0, so that the same picture always
    gives the same file.
    """
    import vl_convert

    svg = vl_convert.vegalite_to_svg(picture, allowed_base_urls=[])
    # allowed_base_urls prevents requests for data, but not for images.
    if re.search(r'<image\b[^<]*?href="(?!data:)', svg):
        raise Refused("The picture refers to an image by its address; only images within the data are drawn.")
    old_numbers = [*dict.fromkeys(re.findall(r'<linearGradient id="gradient_(\d+)"', svg))]
    gradient = r'(<(?:linearGradient id="|[^<>]*="url\(#)gradient_)(\d+)'  # its definition, or a reference to it
    return re.sub(gradient, lambda match: f"{match[1]}{old_numbers.index(match[2])}", svg)


def main(fonts: str) -> None:
    """Answer jobs until stdin ends; `fonts` is the folder of the bundled fonts."""
    answers = os.fdopen(os.dup(1), "w", encoding="ascii")
    os.dup2(2, 1)  # output of libraries must not be mixed with the answers
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl+C is for the parent; this process ends when stdin closes.
    alarm = getattr(signal, "alarm", lambda seconds: None)  # ends this process if a picture takes too long
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
            lines = [line.strip() for line in str(error).splitlines() if line.strip()] or ["no reason was given"]
            reason = next((line for line in lines if "Error:" in line), lines[0])[:200].rstrip(".")
            answer = {"refused": f"The picture could not be drawn: {reason}."}
        alarm(0)
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    del sys.path[0]  # the folder of this file, whose modules must not be imported here
    main(sys.argv[1])
