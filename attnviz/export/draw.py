"""Vega-Lite of a figure, worker processes in which `png_svg_pdf.py` draws it, and fonts embedded in SVG."""

import base64
import hashlib
import html
import json
import math
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from contextlib import nullcontext, suppress
from functools import cache, lru_cache
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import altair as alt

from attnviz.charts import theme
from attnviz.core import assets
from attnviz.core.errors import AttnvizError


class ExportError(AttnvizError):
    """A picture could not be exported; the message has the reason."""


DRAWABLE = {code: 0x2400 + code for code in range(0x20) if chr(code) not in "\t\n\r"}
DRAWABLE |= dict.fromkeys([*range(0xD800, 0xE000), 0xFFFE, 0xFFFF], 0xFFFD)
"""Replacements for characters that XML 1.0 forbids; vl-convert aborts its process on them."""


def vega_lite(figure: Any) -> dict:
    """Build the Vega-Lite of a figure with its data, and with a description for people who cannot see the picture.

    Altair's validation would take two thirds of the time, so only the tests do it. Altair's limit of rows is switched
    off for Altair charts only, because the limit is global, and other threads use it, too.
    """
    is_altair_chart = isinstance(figure, SimpleNamespace)  # see `formats.figure_of`
    with alt.data_transformers.enable("default", max_rows=None) if is_altair_chart else nullcontext():
        picture = clean(figure.chart.to_dict(validate=False))
    config = picture.pop("config", {})
    default_size = {"continuousWidth": 300, "continuousHeight": 300}  # as in Altair's theme "default"
    config["view"] = default_size | config.get("view", {})
    picture.setdefault("description", clean(figure.description or figure.title))
    return picture | {"config": dict(sorted(config.items()))}


def json_text(value: Any) -> str:
    """Serialize a value as compact JSON, always in the same way."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def clean(value: Any) -> Any:
    """Replace, at any depth, what JSON or XML forbids: control characters, surrogates, NaN and ±inf (by None)."""
    match value:
        case str():
            return value.translate(DRAWABLE)
        case dict():
            return {clean(key): clean(part) for key, part in value.items()}
        case list() | tuple():
            return [clean(part) for part in value]
        case float() if not math.isfinite(value):
            return None
    return value


MOST_WORKERS = 4
"""Maximum number of pictures drawn at the same time: with several, a slow picture does not block others."""

MOST_IDLE = 2
"""Maximum number of idle workers that are kept, 160 MB each; a new worker starts in half a second."""

CRASHES = ("SIGABRT", "SIGSEGV", "SIGBUS", "SIGILL", "SIGFPE", "SIGTRAP")
"""Signals of a crash; any other signal was sent by another process."""


class Killed(Exception):
    """A worker was killed from outside during a job; the message is the name of the signal."""


class Workers:
    """Pool of worker processes that draw pictures, for any number of threads; a process does one job at a time."""

    def __init__(self, most: int = MOST_WORKERS):
        self._idle: list[Worker] = []
        self._free = threading.BoundedSemaphore(most)

    def ask(self, job: dict, limit: float, begun: float | None = None) -> bytes:
        """Give a job (see `png_svg_pdf.py`) to a worker, and return the content of the file.

        The job must be done `limit` seconds after `begun`, a `time.monotonic()`, or after now if that is None.

        Raises:
            ExportError: if the job fails or is not done in time, also because no worker was free.
        """
        until = (time.monotonic() if begun is None else begun) + limit
        late = f"The picture was not drawn within {limit:.3g} s:"
        if not self._free.acquire(timeout=max(0.0, until - time.monotonic())):
            raise ExportError(f"{late} other pictures were drawn first. Try again.")
        left = until - time.monotonic()
        try:
            worker = self._idle.pop()  # the worker that was used last is warm
        except IndexError:
            worker = Worker()
        try:
            if left <= 0:
                raise TimeoutError
            job["seconds"] = math.ceil(left) + 1
            try:
                answer = worker.do(job, until)
            except Killed:  # perhaps not because of the job
                answer = worker.do(job, until)
        except TimeoutError:
            advice = "choose a smaller scale, fewer tokens, or SVG."
            if left < limit / 2:
                advice = "other pictures were drawn first. Try again."
            raise ExportError(f"{late} {advice}") from None
        except Killed as killed:
            raise ExportError(
                f"The picture was not drawn: the program that draws was killed twice ({killed}), probably because "
                "the system ran out of memory. Choose a smaller scale, SVG or PDF, or try again later."
            ) from None
        finally:
            if len(self._idle) < MOST_IDLE:
                self._idle.append(worker)
            else:
                worker.stop()
            self._free.release()
        if "refused" in answer:
            raise ExportError(answer["refused"])
        return base64.b64decode(answer["file"])


class Worker:
    """A process that runs `png_svg_pdf.py`, for one thread at a time; it starts with the first job."""

    def __init__(self) -> None:
        self._process: subprocess.Popen | None = None
        self._owner = 0  # ID of the Python process that started `_process`

    @property
    def pid(self) -> int | None:
        """Process ID while the process runs, else None."""
        return self._process.pid if self._process and self._process.poll() is None else None

    def do(self, job: dict, until: float) -> dict[str, str]:
        """Send a job and return the answer of the process, which is killed when `time.monotonic()` is `until`.

        Raises:
            TimeoutError: if there is no answer in time.
            Killed: if the process was killed from outside.
            ExportError: if the process crashed.
        """
        process, answer = self._running_process(), None
        timer = threading.Timer(until - time.monotonic(), process.kill)
        timer.daemon = True
        timer.start()
        try:
            process.stdin.write(json.dumps(job).encode() + b"\n")
            process.stdin.flush()
            answer = json.loads(process.stdout.readline())
            return answer
        except (OSError, ValueError):  # a closed pipe, or half an answer
            with suppress(subprocess.TimeoutExpired):
                process.wait(5)  # it has closed its pipe, so it is about to end
            code = process.poll() or 0  # negative: the number of a signal
            end = signal.Signals(-code).name if code < 0 else f"status {code}"
            if time.monotonic() >= until or end == "SIGALRM":
                raise TimeoutError from None
            if code < 0 and end not in CRASHES:
                raise Killed(end) from None
            raise ExportError(
                f"The picture could not be drawn: vl-convert, which draws it, crashed ({end}). A character that it "
                "cannot draw is the usual reason; HTML, JSON, CSV and NPZ do without it."
            ) from None
        finally:
            timer.cancel()
            if answer is None:  # also after an interrupt, which may leave half a job in the pipe
                self.stop()

    def stop(self) -> None:
        """Kill the process, unless this is a fork of the Python process that started it."""
        process, self._process = self._process, None
        if process and os and self._owner == os.getpid():  # `os` may be None when Python exits
            process.kill()
            process.wait()

    def __del__(self) -> None:
        self.stop()

    def _running_process(self) -> subprocess.Popen:
        """Return the running process, or start one: the first time, after a crash, and in a fork of this program."""
        if self.pid is None or self._owner != os.getpid():
            self._process = subprocess.Popen(
                [sys.executable, str(Path(__file__).with_name("png_svg_pdf.py")), str(assets.path("fonts"))],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
            )
            self._owner = os.getpid()
        return self._process


WORKERS = Workers()


def draw(kind: str, picture: dict, *, limit: float = 30.0, begun: float | None = None, **options: Any) -> bytes:
    """Draw Vega-Lite as "png", "svg" or "pdf" in a worker process, with the bundled fonts.

    For `limit` and `begun` see `Workers.ask`; `options` are further arguments of `png_svg_pdf.draw`.
    """
    text = json_text(picture | {"config": {"font": theme.FONT} | picture.get("config", {})})
    for families, bundled in ((theme.FONT, SANS), (theme.MONO, MONO)):  # in all of font, labelFont, titleFont, ...
        text = text.replace(f'ont":"{families}"', f'ont":"\'{bundled}\', {families}"')
    return WORKERS.ask({"kind": kind, "picture": text, "replacement": (JOINED, SIGN), **options}, limit, begun)


@cache
def javascript() -> str:
    """Return Vega, Vega-Lite and Vega-Embed as one script."""
    return WORKERS.ask({"kind": "javascript"}, limit=60.0).decode()


def warm() -> None:
    """Start a worker in a background thread, so that the first export takes a tenth of a second, not half a second."""

    def draw_one() -> None:
        with suppress(ExportError):  # the next export will report the error
            draw("png", {"data": {"values": [{}]}, "mark": {"type": "text", "text": "warm"}})
            javascript()

    threading.Thread(target=draw_one, name="attnviz-export-warm", daemon=True).start()


SANS, MONO = "attnviz Sans", "DejaVu Sans Mono"
FILES = {
    SANS: {"normal": "attnvizSans-Regular.ttf", "bold": "attnvizSans-Bold.ttf"},
    MONO: {"normal": "DejaVuSansMono.ttf"},
}
"""Files of each bundled font, by weight."""

SIGN = "□"
"""Replacement in PNG and PDF for flags, keycaps and joined emoji, because vl-convert computes their width wrongly."""

_FIRST, _NEXT, _SKIN = "[❤⛹⛓\U0001f000-\U0001faff]", "[\u2600-\u27bf\U0001f000-\U0001faff]", "[\U0001f3fb-\U0001f3ff]"
JOINED = (
    f"[\U0001f1e6-\U0001f1ff]{{2}}|[0-9#*]\ufe0f?\u20e3|\U0001f3f4[\U000e0020-\U000e007f·]+"
    f"|{_FIRST}(?:\ufe0f?{_SKIN}|{_SKIN}?\ufe0f?[\u200d·]{_NEXT})+\ufe0f?|{_NEXT}\ufe0f?{_SKIN}"
)
"""Pattern of several characters that form one emoji; in pictures, a middle dot may replace the joiner."""


def finish_svg(svg: bytes, title: str, description: str) -> bytes:
    """Add title and description for screen readers to an SVG, and embed its fonts, reduced to the characters in it.

    With its fonts, it looks the same in every viewer. Characters missing in a font are drawn in fonts of the viewer;
    programs that ignore embedded fonts, such as Inkscape, look for installed fonts of the same name.
    """
    picture = svg.decode()
    used: dict[tuple[str, str], set[str]] = defaultdict(set)  # characters, by font and weight
    texts = r"""(?s)<text\b[^>]*?font-family="'([^']+)'([^>]*)(?<!/)>(.*?)</text>"""
    for name, attributes, text in re.findall(texts, picture):
        is_bold = "bold" in FILES.get(name, ()) and re.search('font-weight="(bold|[6-9]00)"', attributes)
        used[name, "bold" if is_bold else "normal"].update(html.unescape(re.sub("<[^>]*>", "", text)))
    rules = ""
    for name, files in FILES.items():
        fonts = {}
        for weight, file in files.items():
            if characters := "".join(sorted(used[name, weight])):
                fonts[weight] = _subset(file, characters)
        family = f"attnviz-{hashlib.sha256(''.join(fonts.values()).encode()).hexdigest()[:8]}"  # unique on any page
        picture = picture.replace(f"font-family=\"'{name}'", f"font-family=\"'{family}', '{name}'")
        for weight, font in fonts.items():
            source = f"src:url(data:font/woff;base64,{font}) format('woff')"
            rules += f"@font-face{{font-family:'{family}';font-weight:{weight};{source}}}"
    label, words = html.escape(clean(title)), html.escape(clean(description), quote=False)
    svg_tag, content = picture.split(">", 1)
    return f'{svg_tag} role="img" aria-label="{label}"><desc>{words}</desc><style>{rules}</style>{content}'.encode()


def lacking(text: str) -> list[str]:
    """Return the characters and joined emoji of a text that no bundled font can draw."""
    invisible = "\u200d\ufe0e\ufe0f\\s"  # joiner, variation selectors, white space
    signs = [match[0] for match in re.finditer(f"{JOINED}|[^{invisible}]", text)]
    drawable = _characters(FILES[MONO]["normal"]) | _characters(FILES[SANS]["normal"])
    return [*dict.fromkeys(sign for sign in signs if len(sign) > 1 or ord(sign) not in drawable)]


@lru_cache
def _characters(file: str) -> frozenset[int]:
    """Return the code points that a font can draw."""
    from fontTools.ttLib import TTFont

    with TTFont(assets.path(f"fonts/{file}"), lazy=True) as font:
        return frozenset(font.getBestCmap())


@lru_cache(maxsize=32)
def _subset(file: str, characters: str) -> str:
    """Reduce a font to the given characters; return it as WOFF in base64, with its copyright and license."""
    from fontTools import subset

    marks = ["mark", "mkmk", "ccmp"]
    options = subset.Options(layout_features=marks, hinting=False, notdef_outline=True, flavor="woff")
    options.name_IDs = [0, 13, 14]  # copyright, license, and its address
    options.drop_tables += ["FFTM"]  # only for font editors
    font, content = subset.load_font(assets.path(f"fonts/{file}"), options), BytesIO()
    subsetter = subset.Subsetter(options)
    subsetter.populate(text=characters)
    subsetter.subset(font)
    subset.save_font(font, content, options)
    return base64.b64encode(content.getvalue()).decode()
