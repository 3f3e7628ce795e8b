"""The explorer beside BertViz and CircuitsVis, on the same record: `make bench-peers`. It prints a table.

12 layers of 12 heads. Painted: from the opening of the file until nothing on the page changes any more. Another head:
from the click on its thumbnail until then. Their scripts come from a folder of this machine, as a fast network
would bring them; what the pages hold themselves counts as their size.
"""

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median

import torch
from bertviz import model_view
from circuitsvis.attention import attention_heads
from explore import record_of
from measure import machine, table
from playwright.sync_api import Browser, Error, Page

from app import VIEWPORT, driver
from attnviz.core.record import Record
from attnviz.export.explore import explore

LENGTHS = (16, 64, 128)
LAYERS = HEADS = 12
MOST_SECONDS = 300
"""Seconds after which a measurement is given up."""

QUIET = 1500
"""Milliseconds without a change after which a page is painted."""

SCRIPTS = {"d3.min": "d3.min.js", "jquery.min": "jquery.min.js", "require.min": "require.js"}
"""Files of the folder, by what stands in the addresses from which BertViz asks for them."""

WATCH = """
window.changed = window.painted = 0;
const note = () => {
    changed = performance.now();
    requestAnimationFrame(() => setTimeout(() => painted = performance.now()));
};
new MutationObserver(note).observe(document, {subtree: true, childList: true, attributes: true, characterData: true});
for (const name of ['fillRect', 'fill', 'stroke', 'putImageData', 'drawImage', 'fillText']) {
    const draw = CanvasRenderingContext2D.prototype[name];
    CanvasRenderingContext2D.prototype[name] = function (...given) {
        if (performance.now() - changed > 4) note();
        return draw.apply(this, given);
    };
}
"""
"""Script that records each change of the page or of a canvas, and when it is painted."""

RESTS = "quiet => painted && performance.now() - Math.max(changed, painted) > quiet"


def weights_of(record: Record) -> torch.Tensor:
    """(layers, heads, queries, keys)."""
    return torch.stack([torch.stack([step.weights(head) for head in range(HEADS)]) for step in record.steps])


def ours(record: Record) -> str:
    return explore(record)


def bertviz(record: Record) -> str:
    attention = [one.unsqueeze(0) for one in weights_of(record)]
    body = model_view(attention, [*record.sentences[0].labels], html_action="return").data
    return f"<!DOCTYPE html><title>BertViz</title>{body}"


def circuitsvis(record: Record) -> str:
    names = [f"L{layer}H{head}" for layer in range(LAYERS) for head in range(HEADS)]
    html = attention_heads(weights_of(record).flatten(0, 1), [*record.sentences[0].labels], names).local_src
    return f"<!DOCTYPE html><meta charset=utf-8><title>CircuitsVis</title>{html}"


MOSAIC = (
    "document.getElementById('mosaic').dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowRight', bubbles: true}))"
)
RECTS = "document.querySelectorAll('#vis rect[style*=\"opacity: 0\"]')"
PEERS: dict[str, tuple[Callable[[Record], str], str]] = {
    "attnviz": (ours, MOSAIC),
    "BertViz": (bertviz, f"{RECTS}[14].dispatchEvent(new MouseEvent('click', {{bubbles: true}}))"),
    "CircuitsVis": (circuitsvis, "document.querySelectorAll('h4')[14].parentElement.click()"),
}
"""Tools that make a page, with the action that chooses another head on it."""


def opened(browser: Browser, scripts: Path, file: Path, click: str) -> tuple[float, float]:
    """Milliseconds until the page is painted, and until another head is."""
    page = browser.new_page(viewport=VIEWPORT)
    try:
        page.set_default_timeout(MOST_SECONDS * 1000)
        page.add_init_script(WATCH)
        page.route("**/*", lambda route: answer(route, scripts))
        page.goto(file.as_uri(), wait_until="commit")
        page.wait_for_function(RESTS, arg=QUIET, polling=100)
        first = page.evaluate("painted")
        return first, switched(page, click)
    finally:
        page.close()


def answer(route, scripts: Path) -> None:
    """A script of a peer from the folder; of other hosts nothing."""
    url = route.request.url
    if url.startswith("file:"):
        return route.continue_()
    name = next((file for part, file in SCRIPTS.items() if part in url), None)
    return route.fulfill(path=scripts / name) if name else route.abort()


def switched(page: Page, click: str) -> float:
    start = page.evaluate(f"(() => {{ painted = 0; const start = performance.now(); {click}; return start; }})()")
    page.wait_for_function(RESTS, arg=QUIET, polling=100)
    return page.evaluate("painted") - start


def measured(browser: Browser, folder: Path, scripts: Path, name: str, n: int) -> list[str]:
    make, click = PEERS[name]
    file = folder / f"{name}-{n}.html"
    file.write_text(make(record_of(LAYERS, HEADS, n)), encoding="utf-8")
    size, times = f"{file.stat().st_size / 1e6:.1f} MB", []
    try:
        while len(times) < 3 and sum(first for first, _ in times) < 30_000:
            times.append(opened(browser, scripts, file, click))
    except Error as error:
        why = f"over {MOST_SECONDS} s" if "Timeout" in str(error) else "the page crashed"
        return [f"{n}", name, size, why, "–"]
    return [f"{n}", name, size, *(f"{median(each) / 1000:.2f} s" for each in zip(*times, strict=True))]


def main(scripts: Path, lengths: tuple[int, ...]) -> None:
    print(f"{LAYERS * HEADS} heads on one page, medians. {machine()}")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for n in lengths:
            for name in PEERS:
                with driver.chromium() as browser:
                    rows.append(measured(browser, Path(folder), scripts, name, n))
                print(*rows[-1], flush=True)
    table("explorers", ["tokens", "page", "size", "painted", "another head"], rows)


if __name__ == "__main__":
    main(Path(sys.argv[1]), tuple(map(int, sys.argv[2:])) or LENGTHS)
