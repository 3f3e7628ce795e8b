"""Every head at once: `make bench`. It prints times, and asserts nothing.

Goals, of 144 heads: painted after a change in 250 ms at 128 tokens, in 1 s at 512.
"""

import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from urllib.parse import urlencode

import torch
import transformers
from measure import machine, table
from playwright.sync_api import Browser

from app import VIEWPORT, driver, sentence
from attnviz import api, figures
from attnviz.core.edits import Edits
from attnviz.studies import ablation

sys.path.insert(0, str(Path(__file__).parents[1] / "sources" / "huggingface"))
import fake_hub

LENGTHS = (128, 512)
SIZES = {
    "vocab_size": len(fake_hub.WORDS),
    "hidden_size": 48,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 16,
    "max_position_embeddings": 520,
}

MOSAIC = ".st-key-picture-every .marks"
MASKS = ("causal", "window", "causal", "prefix", "window")
"""To switch on or off, so that what is then on was never on before: nothing is kept, and another picture is seen."""
PAINTED = """
async text => {
    // Click, and wait until another image stands first in the mosaic and is painted.
    const first = () => document.querySelector('.st-key-picture-every .marks image')?.href.baseVal;
    const before = first(), start = performance.now();
    const pills = [...document.querySelectorAll('.st-key-mask-rules button')];
    pills.find(pill => pill.innerText.trim() === text).click();
    while (first() === before) {
        if (performance.now() - start > 20000) throw new Error(`${text} changed nothing`);
        await new Promise(resolve => requestAnimationFrame(resolve));
    }
    await new Promise(resolve => requestAnimationFrame(() => setTimeout(resolve)));
    return performance.now() - start;
}
"""


def model(folder: Path) -> str:
    """A BERT of 12 layers x 12 heads, otherwise small."""
    torch.manual_seed(0)
    config = transformers.BertConfig(**SIZES, pad_token_id=0, bos_token_id=2, eos_token_id=3)
    fake_hub.write(folder, transformers.BertModel(config))
    return str(folder)


def text(n: int) -> str:
    """A text of n tokens, with [CLS] and [SEP]."""
    return sentence(n - 2)


def drawn(name: str, n: int, rounds: int = 5) -> list[str]:
    """The run, and its picture of all heads as data, without a browser."""
    record, runs, pictures = None, [], []
    for _ in range(rounds):
        begin = time.perf_counter()
        record = api.analyze(text(n), name)
        runs.append(time.perf_counter() - begin)
        begin = time.perf_counter()
        figures.overview(record).screen  # noqa: B018
        pictures.append(time.perf_counter() - begin)
    return [f"{n}", *(f"{median(times) * 1e3:.0f} ms" for times in (runs, pictures))]


def painted(browser: Browser, address: str, name: str, n: int) -> list[str]:
    """Masks switched on and off, until the mosaic is painted."""
    page = browser.new_page(viewport=VIEWPORT)
    link = {"model": name, "text": text(n)}
    page.goto(f"{address}/overview?{urlencode(link)}")
    page.wait_for_selector(MOSAIC, timeout=120_000)
    driver.settled(page)
    page.locator(".st-key-mask-menu button").first.click()
    times = []
    for mask in MASKS:
        driver.settled(page)
        page.wait_for_timeout(1000)
        times.append(page.evaluate(PAINTED, mask))
    page.close()
    return [f"{n}", f"{median(times):.0f} ms", f"{min(times):.0f} ms"]


def swept() -> list[str]:
    """Each head of all-MiniLM-L6-v2 switched off in turn."""
    source = api.load("all-MiniLM-L6-v2")
    sentences = source.tokenize(["The cat sat on the mat because it was tired."])
    begin = time.perf_counter()
    found = ablation.sweep(source, sentences, Edits(), lambda done, of: None)
    return [f"{len(found.table)}", f"{time.perf_counter() - begin:.2f} s"]


def main(lengths: tuple[int, ...]) -> None:
    torch.set_num_threads(1)  # as the app does
    print(f"Overview of 144 heads, medians. {machine()}")
    with tempfile.TemporaryDirectory() as folder:
        name = model(Path(folder) / "bert")
        table("As data", ["tokens", "run", "picture"], [drawn(name, n) for n in lengths])
        with driver.chromium() as browser, driver.running_app() as address:
            rows = [painted(browser, address, name, n) for n in lengths]
        table("A mask toggled to all heads painted", ["tokens", "painted", "at best"], rows)
    table("All heads of MiniLM switched off in turn", ["heads", "time"], [swept()])


if __name__ == "__main__":
    main(tuple(map(int, sys.argv[1:])) or LENGTHS)
