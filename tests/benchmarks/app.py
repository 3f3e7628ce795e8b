"""The app in a real Chromium, and the exports: `make bench`. It prints times, and asserts nothing.

Clicks are measured in turns with the bare page (bare.py): the least that Streamlit does for a click that changes one
small chart. Goals: a head or mask, each time a state that was never seen, in 1.2 times the bare page's time at 16 and
64 tokens, 1.5 at 256, 2 at 512; from the start of the server to the frame in 1.2 times the bare page's start to its
chart, to the pictures as files in 1.5, to those that answer in 2.2.
"""

import compileall
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from urllib.parse import urlencode

from clicks import COLUMNS, WIRE, Click, click, row
from measure import machine, table
from playwright.sync_api import Browser, Page

sys.path.insert(0, str(Path(__file__).parents[1] / "browser"))
import driver

LENGTHS = (16, 64, 256, 512)
VIEWPORT = {"width": 1440, "height": 900}

BARE = Path(__file__).with_name("bare.py")
PICTURE = '[class*="st-key-picture-head"] .marks'
EYE = ".st-key-heads_off button"
THUMBNAIL = ".st-key-picture-every .marks image"
MASK = ".st-key-mask-rules button"
SEED = ".st-key-bare button"
LINK = "header a[href]"
FIRST_SEEN = """(wanted => {
  window.firstSeen = wanted.map(() => Infinity);
  new MutationObserver(() => wanted.forEach((one, i) => {
    if (document.querySelector(one)) window.firstSeen[i] = Math.min(window.firstSeen[i], Date.now());
  })).observe(document, {childList: true, subtree: true});
})(%s)"""
"""Times at which each selector first matched: an element may be gone before it is queried."""


def sentence(n: int) -> str:
    """A text of n tokens, with no period in it."""
    words = "the cat sat on a mat and saw two birds by some old tree near our house when rain came down".split()
    return " ".join(words[(i * i + i // 7) % len(words)] for i in range(n))


def opened(browser: Browser, address: str) -> Page:
    """A page whose first picture is painted."""
    page = browser.new_page(viewport=VIEWPORT)
    page.add_init_script(WIRE)
    page.goto(address)
    page.wait_for_selector("[class*=st-key-picture] .marks", timeout=120_000)
    driver.settled(page)
    return page


def turns(page: Page, floor: str, press: Callable[[int], Click], rounds: int) -> list[str]:
    """Clicks on a page and on the bare one, in turns; the first two of each are not counted."""
    bare, ours, least = opened(page.context.browser, floor), [], []
    for i in range(rounds + 2):
        page.bring_to_front()
        ours.append(press(i))
        bare.bring_to_front()
        least.append(click(bare, SEED, i + 1))
    page.close()
    bare.close()
    return row(ours[2:], least[2:])


def gray(i: int, switches: int) -> int:
    """Return the switch to flip in step i, so that no state occurs twice (Gray code)."""
    return min(((i + 1) & -(i + 1)).bit_length(), switches) - 1


def toggles(browser: Browser, address: str, floor: str, n: int, rounds: int = 15) -> Iterator[list[str]]:
    """Switch a head, then a mask, in the page of n tokens, each time to a new state."""
    for what in ("head", "mask"):
        link = {"model": "scratch:num_heads=8", "text": f"{what} {sentence(n - 1)}"}
        page = opened(browser, f"{address}/?{urlencode(link)}")

        def head(i: int, page: Page = page) -> Click:
            return click(page, EYE, gray(i, 8))

        def mask(i: int, page: Page = page, head=head) -> Click:
            head(i)
            if not page.locator(MASK).count():
                page.locator(".st-key-mask-menu button").click()
            driver.settled(page)
            return click(page, MASK)

        yield [f"{n}", what, *turns(page, floor, head if what == "head" else mask, rounds)]


def another(browser: Browser, address: str, floor: str, n: int, rounds: int = 8) -> list[str]:
    """Another head in focus, by a click on its thumbnail: the server draws it."""
    page = opened(browser, f"{address}/?{urlencode({'model': 'scratch:num_heads=8', 'text': sentence(n)})}")
    return [f"{n}", "another head", *turns(page, floor, lambda i: click(page, THUMBNAIL, (i + 1) % 8), rounds)]


def start(browser: Browser, rounds: int = 5) -> list[list[str]]:
    """From the start of a server to a page in a browser that is already open: ours and the bare page's, in turns."""
    compileall.compile_dir(driver.ROOT / "attnviz", quiet=1)  # as it is once installed
    ours, least = [], []
    for _ in range(rounds):
        ours.append(_started(browser, "app.py", LINK))
        least.append(_started(browser, BARE, SEED))
    names = ("server start to the frame of the page", "to the first picture that answers", "second visitor, to it")
    rows = []
    for name, times, bare in zip(names, zip(*ours, strict=True), zip(*least, strict=True), strict=True):
        floor = median(bare) if name == names[2] else median(chart for *_, chart, _ in least)
        rows.append([name, f"{median(times):.2f} s", f"{floor:.2f} s", f"{median(times) / floor:.2f}"])
    return rows


def _started(browser: Browser, script: Path | str, frame: str) -> tuple[float, float, float]:
    """Seconds from the start of a server to its frame and to a picture that answers; and to that again."""
    port, begin = driver.free_port(), time.time()
    process = driver.launch_app(port, subprocess.DEVNULL, script)
    try:
        page = browser.new_page(viewport=VIEWPORT)
        page.add_init_script(FIRST_SEEN % [frame, PICTURE])
        _open(page, port)
        page.wait_for_selector(PICTURE, timeout=60_000)
        framed, first = (moment / 1e3 - begin for moment in page.evaluate("window.firstSeen"))
        page.close()
        page, begin = browser.new_page(viewport=VIEWPORT), time.perf_counter()
        _open(page, port)
        page.wait_for_selector(PICTURE, timeout=60_000)
        return framed, first, time.perf_counter() - begin
    finally:
        page.close()
        process.terminate()
        process.wait(timeout=20)


def _open(page: Page, port: int) -> None:
    """Open the page once the server answers: a browser that retries takes half a core."""
    while True:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.005)
    page.goto(f"http://127.0.0.1:{port}", wait_until="commit")


def exports(n: int, rounds: int = 5) -> list[str]:
    """The focused head of n tokens as a file of every format, from the second time on."""
    from attnviz import export, figures
    from attnviz.core.edits import Edits
    from attnviz.sources.scratch import Scratch

    source = Scratch()
    record = source.run(source.tokenize([sentence(n)]), Edits())
    figure = figures.head(record, source.sites[0], 0)
    cells = [f"{n}"]
    for name in export.NAMES:
        export.render(figure, name)
        cells.append(f"{median(_timed(export.render, figure, name) for _ in range(rounds)) * 1e3:.0f} ms")
    return cells


def _timed(call, *args) -> float:
    begin = time.perf_counter()
    call(*args)
    return time.perf_counter() - begin


def main(lengths: tuple[int, ...]) -> None:
    from attnviz import export

    print(f"App: Chromium at {VIEWPORT['width']} x {VIEWPORT['height']}, medians. {machine()}")
    with driver.chromium() as browser:
        table("From the start", ["what", "time", "bare page's chart", "ratio"], start(browser))
        with driver.running_app() as address, driver.running_app(BARE) as floor:
            rows = [row for n in lengths for row in toggles(browser, address, floor, n)]
            rows += [another(browser, address, floor, n) for n in lengths]
        table("Toggle to painted", ["tokens", "toggled", *COLUMNS], rows)
    table("Export of one head", ["tokens", *export.NAMES], [exports(n) for n in lengths])


if __name__ == "__main__":
    main(tuple(map(int, sys.argv[1:])) or LENGTHS)
