"""The page of a whole record: `make bench`. It prints sizes and times, and asserts nothing.

Goals of 144 heads of 128 tokens: at most 5 MB, opened and painted within 1 s, another head within 30 ms. More open too.
"""

import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import torch
from measure import machine, table
from playwright.sync_api import Browser

from app import VIEWPORT, driver
from attnviz.core.edits import Edits, Site
from attnviz.core.masks import Subsequent
from attnviz.core.record import Record
from attnviz.core.tap import Tap
from attnviz.core.tokens import Sentence, Token
from attnviz.export.explore import Page, explore

CASES = ((12, 12, 128), (12, 12, 512), (32, 32, 128))
"""Layers, heads, tokens."""

SWITCHED = """
async () => {
    const mosaic = document.getElementById('mosaic'), times = [];
    for (let i = 0; i < 11; i++) {
        const key = i % 2 ? 'ArrowLeft' : 'ArrowRight', start = performance.now();
        mosaic.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true}));
        times.push(performance.now() - start);
        await new Promise(resolve => requestAnimationFrame(() => setTimeout(resolve)));
    }
    return times.sort((a, b) => a - b)[5];
}
"""
"""Milliseconds until another head is drawn, the median."""


def record_of(layers: int, heads: int, tokens: int) -> Record:
    """A causal model with sharp and with even heads; its weights are random."""
    tap, generator = Tap(Edits(Subsequent())), torch.Generator().manual_seed(0)
    for layer in range(layers):
        query, key, value = torch.randn(3, 1, heads, tokens, 16, generator=generator).unbind()
        sharp = torch.linspace(0.2, 3, heads).view(1, -1, 1, 1)
        output = tap.attend(query * sharp, key, value, site=Site("decoder", layer))
    words = tuple(Token(f"word{i}", i, 0, 0) for i in range(tokens))
    sentence = Sentence(" ".join(word.text for word in words), words, tokens)
    return Record((sentence,), "random", "random", tap.edits, tuple(tap.steps), output.transpose(1, 2).flatten(2))


def opened(browser: Browser, file: Path, rounds: int = 3) -> list[str]:
    """From the click on the file to the chosen head and to all heads painted; another head; medians."""
    first, last, switched = [], [], []
    for _ in range(rounds):
        page = browser.new_page(viewport=VIEWPORT)
        page.goto(file.as_uri())
        page.wait_for_selector("html[data-painted]", timeout=120_000)
        first.append(page.evaluate("+document.documentElement.dataset.opened"))
        last.append(page.evaluate("+document.documentElement.dataset.painted"))
        switched.append(page.evaluate(SWITCHED))
        page.close()
    return [f"{median(times):.0f} ms" for times in (first, last, switched)]


def measured(browser: Browser, file: Path, case: tuple[int, int, int]) -> list[str]:
    record, begin = record_of(*case), time.perf_counter()
    page: Page = explore(record)
    took = time.perf_counter() - begin
    file.write_text(page, encoding="utf-8")
    layers, heads, tokens = case
    size = [
        f"{layers * heads:,} x {tokens}",
        f"{file.stat().st_size / 1e6:.1f} MB",
        "8" if '"bits":8' in page else "16",
    ]
    return [*size, f"{took:.1f} s", *opened(browser, file)]


def main(most: int) -> None:
    torch.set_num_threads(1)  # as the app does
    print(f"A page of every head, medians. {machine()}")
    columns = ["heads x tokens", "size", "bits", "made", "one head painted", "all heads painted", "another head"]
    with tempfile.TemporaryDirectory() as folder, driver.chromium() as browser:
        table("explore", columns, [measured(browser, Path(folder) / "case.html", case) for case in CASES[:most]])


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else len(CASES))
