"""Make the documentation's pictures, and every state of every page of the app on one sheet: `make screenshots`.

The pictures of how-to pages are those that the code of the page writes; `screenshots.py pages` makes these alone.
"""

import sys
from collections.abc import Iterator, Sequence
from contextlib import chdir
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import unquote_plus, urlencode

import driver
from PIL import Image, ImageDraw, ImageFont
from playwright.sync_api import BrowserContext, Page
from test_docs import blocks

import attnviz
from attnviz import Site

GALLERY = driver.ROOT / "docs" / "gallery"
TEXT = "The cat sat on the mat because it was tired."
FONT = driver.ROOT / "assets" / "fonts" / "DejaVuSansMono.ttf"
Screen = tuple[int, int, str]
"""Width, height and colors."""
PICTURES = {
    "heads": ("", {}, "light"),
    "overview": ("overview", {"model": "story", "text": TEXT, "layer": "d1", "head": "0"}, "light"),
    "masks": ("masks", {"model": "scratch", "mask": "causal"}, "light"),
    "steps": ("steps", {"model": "translator", "layer": "c1", "head": "3", "stage": "softmax"}, "dark"),
}
LIVE = "#text=the+girl+near+the+dogs+was+happy+because&layer=d1&head=1&heads_off=d1.0&mask=blocked(8:0-1)&cell=8.2"
"""State of the live page in its picture."""

LONG = "+".join(["word"] * 30)
STATES = (
    *("", "?model=translator", "?model=induction", "?model=shapes", "?model=story&heads_off=d1.0&mask=window(2)"),
    *("?model=scratch&form=lines&also=1-2&pins=q1", f"?model=scratch&text={LONG}", "?model=translator&form=text"),
    *("overview?model=story", "overview?model=translator&form=table", "overview?model=translator&part=Rollout"),
    *(f"overview?model=story&part={part}" for part in ("Contributions", "Logit+lens", "Gradients", "Corpus")),
    *(f"overview?model=story&part={part}" for part in ("Circuits", "Model+card")),
    *(f"masks?model=story&lab={lab}" for lab in ("compose&mask=causal+%26+window(2)", "check", "model")),
    *("steps?model=story&cell=7.2", "compare?model=story", "compare?model=story&b=model%3Dtranslator"),
    *(f"learn?chapter={chapter}" for chapter in range(1, 13)),
)
"""Links to each page, as it opens and with much content."""
PRESSED = (
    ("", "Hide the future"),
    ("", "Switch off a head"),
    ("?model=story", "Export"),
    (f"?model=story&text={'cat+' * 500}", ""),
)
"""States without a link: an address and the button to press; and a message in place of a page."""

SCREENS = ((1440, 900, "light"), (1440, 900, "dark"), (390, 844, "light"), (390, 844, "dark"))
SHRUNK = 0.3
"""Size of a screen on the sheet."""
GAP, ACROSS = 16, 2
"""Pixels between screens; states beside each other."""


def main() -> None:
    GALLERY.mkdir(parents=True, exist_ok=True)
    for page in sorted((driver.ROOT / "docs" / "how-to").glob("*.md")):
        if f"../gallery/{page.stem}.png" in page.read_text(encoding="utf-8"):
            written(page).save(GALLERY / f"{page.stem}.png", optimize=True)
            print(f"docs/gallery/{page.stem}.png")
    if sys.argv[1:] == ["pages"]:
        return
    (GALLERY / "long.png").write_bytes(long_map())
    with driver.running_app() as address, driver.chromium() as browser:
        context = browser.new_context()
        for name, (page_name, state, scheme) in PICTURES.items():
            with driver.windows(context) as window:
                link, screen = f"{address}/{page_name}?{urlencode(state, doseq=True)}", (1440, 1040, scheme)
                (GALLERY / f"{name}.png").write_bytes(shots(window(), link, [screen])[screen])
            print(f"docs/gallery/{name}.png")
        with driver.windows(context) as window:
            page = window()
            page.goto(f"{(driver.ROOT / 'docs' / 'live' / 'story.html').as_uri()}{LIVE}")
            page.wait_for_selector("html[data-painted]")
            page.screenshot(path=GALLERY / "live.png")
        rows = list(_rows(context, address))
    sheet(rows).save(GALLERY / "sheet.webp", quality=80)
    print(f"docs/gallery/sheet.webp: {len(rows)} states")


def long_map() -> bytes:
    """Map of 32,768 tokens of code and documentation, for the head that attends to earlier copies of a token."""
    files = [*sorted(driver.ROOT.glob("attnviz/models/*.py")), *sorted(driver.ROOT.glob("docs/**/*.md"))]
    text = " ".join(path.read_text(encoding="utf-8").replace("\n", " ") for path in files)
    source = attnviz.load("constructed")
    text = text[: source.tokenize([text])[0].tokens[32_767].end]
    return attnviz.render(attnviz.figures.head(attnviz.analyze(text, source), Site("decoder", 0), 2), "png")


def written(page: Path) -> Image.Image:
    """Run the Python of a how-to page until it writes pictures, and put these side by side."""
    with TemporaryDirectory() as folder, chdir(folder):
        notebook: dict = {}
        for language, title, code, _ in blocks(f"docs/how-to/{page.name}"):
            if language == "python" and not title and not [*Path().glob("*.png")]:
                exec(code, notebook)
        images = [Image.open(file).convert("RGB") for file in sorted(Path().glob("*.png"))]
    joined = Image.new("RGB", (sum(image.width for image in images), max(image.height for image in images)), "white")
    for number, image in enumerate(images):
        joined.paste(image, (sum(earlier.width for earlier in images[:number]), 0))
    return joined


def shots(page: Page, link: str, screens: Sequence[Screen], press: str = "") -> dict[Screen, bytes]:
    """Screenshots of a link on each screen, after the button `press`, if it is given.

    Each screen opens the link anew: pictures are drawn in the colors with which a page was opened.
    """
    pictures = {}
    for screen in screens:
        driver.resize(page, *screen)
        page.goto("about:blank")
        driver.open_page(page, link)
        if press:
            page.get_by_role("button", name=press, exact=True).first.click()
            page.wait_for_timeout(500)
        driver.settled(page)
        pictures[screen] = page.screenshot(animations="disabled")
    return pictures


def _rows(context: BrowserContext, address: str) -> Iterator[Image.Image]:
    """Yield each state on each screen; the window follows the links and starts anew after the first visit."""
    screens = SCREENS
    with driver.windows(context) as window:
        page = window()
        for state, press in (*((state, "") for state in STATES), *PRESSED):
            pictures = shots(page, f"{address}/{state}", screens, press)
            yield _row(state, press, [pictures[screen] for screen in SCREENS])
            screens = screens[::-1]
            if not state:
                page.goto("about:blank")


def _row(state: str, press: str, pictures: Sequence[bytes]) -> Image.Image:
    """A state on each screen in each scheme, side by side under its link."""
    screens = [Image.open(BytesIO(picture)).convert("RGB") for picture in pictures]
    screens = [one.resize((round(one.width * SHRUNK), round(one.height * SHRUNK))) for one in screens]
    row = Image.new("RGB", (sum(one.width + GAP for one in screens), 24 + max(one.height for one in screens)), "#888")
    said = " · ".join(filter(None, (unquote_plus(state) or "first visit", press)))
    ImageDraw.Draw(row).text((0, 2), said[:110], "white", ImageFont.truetype(FONT, 14))
    left = 0
    for one in screens:
        row.paste(one, (left, 24))
        left += one.width + GAP
    return row


def sheet(rows: list[Image.Image]) -> Image.Image:
    """All states on one picture that can be looked through in a minute."""
    width, height = rows[0].width, rows[0].height + GAP
    lines = -(-len(rows) // ACROSS)
    made = Image.new("RGB", (ACROSS * width + GAP, lines * height + GAP), "#888")
    for number, row in enumerate(rows):
        made.paste(row, (GAP + number % ACROSS * width, GAP + number // ACROSS * height))
    return made


if __name__ == "__main__":
    main()
