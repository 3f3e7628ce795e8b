"""The app in a real Chromium, and the exports: `make bench`. It prints times, and asserts nothing.

Goals: a head or mask toggled to everything painted in 100 ms at 64 tokens, 150 ms at 256, 200 ms at 512; a knob of the
page Steps to everything painted in 200 ms at 16 tokens; from the start
of the server to the frame of the page in 2 s, to the first picture in 3 s.
"""

import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from urllib.parse import urlencode

from measure import machine, table
from playwright.sync_api import Browser, Error, Page

sys.path.insert(0, str(Path(__file__).parents[1] / "browser"))
import driver

LENGTHS = (16, 64, 256, 512)
VIEWPORT = {"width": 1440, "height": 900}

CAUSAL = "Causal (hide the future)"
RAIL = ".st-key-picture-rail .marks"
PICTURE = '[class*="st-key-picture-head"] .marks'
CLICK = """
async ([selector, text]) => {
    // Click, and note when each picture's marks change and are painted; over after half a second without a change.
    const start = performance.now(), redrawn = new Set();
    let first = null, last = null, busy = 0;
    const ofMarks = node => (node.closest ? node : node.parentElement)?.closest('.marks');
    const drawn = change => ofMarks(change.target)
        ?? [...change.addedNodes].map(n => n.querySelector?.('.marks') ?? ofMarks(n)).find(Boolean);
    const observer = new MutationObserver(changes => {
        const boxes = changes.map(drawn).filter(Boolean).map(marks => marks.closest('[class*="st-key-picture"]'));
        if (!boxes.length) return;
        boxes.forEach(box => redrawn.add(box?.className.match(/st-key-picture-(\\w+)/)[1] ?? '?'));
        busy += 1;
        requestAnimationFrame(() => setTimeout(() => {
            busy -= 1;
            last = performance.now() - start;
            first ??= last;
        }));
    });
    observer.observe(document.body, {subtree: true, childList: true, attributes: true, characterData: true});
    const controls = document.querySelectorAll(`${selector} button, ${selector} label`);
    const control = [...controls].find(control => text === null || control.innerText.trim() === text);
    (control.querySelector('input') ?? control).click();
    return await new Promise(resolve => {
        const wait = setInterval(() => {
            const now = performance.now() - start;
            if (busy || (now < 8000 && (last === null || now - last < 500))) return;
            clearInterval(wait);
            observer.disconnect();
            resolve([first, last, [...redrawn].sort().join(' ')]);
        }, 20);
    });
}
"""


def sentence(n: int) -> str:
    """A text of n tokens, with no period in it."""
    words = "the cat sat on a mat and saw two birds by some old tree near our house when rain came down".split()
    return " ".join(words[(i * i + i // 7) % len(words)] for i in range(n))


def toggles(browser: Browser, address: str, n: int, rounds: int = 7) -> list[list[str]]:
    """A head, then a mask, switched on and off in the page of n tokens."""
    page = browser.new_page(viewport=VIEWPORT)
    page.goto(f"{address}/?{urlencode({'model': 'scratch', 'text': sentence(n)})}")
    page.wait_for_selector(PICTURE)
    driver.settled(page)
    rows = []
    for what, selector, text in (("head", ".st-key-icon-eye-1", None), ("mask", ".st-key-mask-rules", CAUSAL)):
        if what == "mask":
            page.locator(".st-key-mask-menu button").click()
            driver.settled(page)
        seen = [page.evaluate(CLICK, [selector, text]) for _ in range(2 * rounds)][2:]
        seen = [times for times in seen if times[0] is not None]
        if not seen:
            rows.append([f"{n}", what, "nothing changed", "-", "-"])
            continue
        first, last = (median(times) for times in list(zip(*seen, strict=True))[:2])
        rows.append([f"{n}", what, f"{first:.0f} ms", f"{last:.0f} ms", seen[0][2]])
    page.close()
    return rows


def knobs(browser: Browser, address: str, n: int, rounds: int = 7) -> list[list[str]]:
    """Knobs of the page Steps, on and off, with a text of n tokens."""
    page = browser.new_page(viewport=VIEWPORT)
    link = {"text": sentence(n), "model": "scratch", "mask": "subsequent", "stage": "softmax"}
    page.goto(f"{address}/steps?{urlencode(link)}")
    page.wait_for_selector(RAIL)
    driver.settled(page)
    rows = []
    for what in ("Divide by √d_k (the model's own scale)", "Mask after the softmax (wrong)"):
        seen = [page.evaluate(CLICK, [".st-key-play", what]) for _ in range(2 * rounds)][2:]
        first, last = (median(times) for times in list(zip(*seen, strict=True))[:2])
        rows.append([f"{n}", what, f"{first:.0f} ms", f"{last:.0f} ms", seen[0][2]])
    page.close()
    return rows


def start(browser: Browser, rounds: int = 5) -> list[list[str]]:
    """From `streamlit run` to a page in a browser that is already open."""
    frames, pictures, seconds = [], [], []
    for _ in range(rounds):
        port = driver.free_port()
        page = browser.new_page(viewport=VIEWPORT)
        begin = time.perf_counter()
        process = driver.launch_app(port, subprocess.DEVNULL)
        try:
            _open(page, f"http://127.0.0.1:{port}")
            page.wait_for_selector("[data-testid=stTopNavLink], [data-testid=stToolbar]", state="attached")
            frames.append(time.perf_counter() - begin)
            page.wait_for_selector(PICTURE, timeout=60_000)
            pictures.append(time.perf_counter() - begin)
            page.close()
            page = browser.new_page(viewport=VIEWPORT)
            begin = time.perf_counter()
            _open(page, f"http://127.0.0.1:{port}")
            page.wait_for_selector(PICTURE, timeout=60_000)
            seconds.append(time.perf_counter() - begin)
        finally:
            page.close()
            process.terminate()
            process.wait(timeout=20)
    named = (
        ("server start to the frame of the page", frames),
        ("server start to the first picture", pictures),
        ("second visitor, to the first picture", seconds),
    )
    return [[name, f"{median(times):.2f} s"] for name, times in named]


def _open(page: Page, address: str) -> None:
    """Go there as soon as somebody answers."""
    for _ in range(600):
        try:
            page.goto(address, wait_until="commit")
        except Error:
            time.sleep(0.03)
        else:
            return


def exports(n: int, rounds: int = 5) -> list[str]:
    """The focused head of n tokens as a file of every format, from the second time on."""
    from attnviz import export, figures
    from attnviz.core.edits import Edits
    from attnviz.sources.scratch import Scratch

    source = Scratch()
    record = source.run(source.tokenize([sentence(n)]), Edits())
    figure = figures.head(record, source.sites[0], 0)
    cells = [f"{n}"]
    for name in export.FORMATS:
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
        table("From the start", ["what", "time"], start(browser))
        with driver.running_app() as address:
            rows = [row for n in lengths for row in toggles(browser, address, n)]
            steps = [row for n in (16, 64) for row in knobs(browser, address, n)]
        table("Knob of the page Steps to painted", ["tokens", "knob", "first change", "all painted", "redrawn"], steps)
        table("Toggle to painted", ["tokens", "toggled", "first change", "all painted", "redrawn"], rows)
    table("Export of one head", ["tokens", *export.FORMATS], [exports(n) for n in lengths])


if __name__ == "__main__":
    main(tuple(map(int, sys.argv[1:])) or LENGTHS)
