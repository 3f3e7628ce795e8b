"""Take the documentation's pictures from the app, and every state of every page on one sheet: `make screenshots`."""

from io import BytesIO
from urllib.parse import unquote_plus, urlencode

import driver
from PIL import Image, ImageDraw, ImageFont
from playwright.sync_api import Browser
from test_access import MORE, STATES

GALLERY = driver.ROOT / "docs" / "gallery"
VIEWPORT = {"width": 1440, "height": 1040}
TEXT = "The cat sat on the mat because it was tired."
FONT = driver.ROOT / "assets" / "fonts" / "DejaVuSansMono.ttf"
PICTURES = {
    "heads": ("", {}, "light"),
    "overview": (
        "overview",
        {"model": "huggingface", "hf": "all-MiniLM-L6-v2", "text": TEXT, "site": "e5", "show": "11"},
        "light",
    ),
    "masks": ("masks", {"model": "scratch", "mask": "subsequent"}, "light"),
    "steps": ("steps", {"site": "c1", "show": "3"}, "dark"),
}


PRESSED = (
    ("", "Hide the future"),
    ("", "Switch off a head"),
    ("?model=story", "Export"),
    (f"?model=story&text={'cat+' * 500}", ""),
)
"""States that no link holds: what is opened, and the button that is pressed then; and a message in place of a page."""

SCREENS = ((1440, 900), (390, 844))
SCHEMES = ("light", "dark")
SHRUNK = 0.3
"""Size of a screen on the sheet."""
GAP, ACROSS = 16, 2
"""Pixels between screens; states beside each other."""


def main() -> None:
    GALLERY.mkdir(parents=True, exist_ok=True)
    with driver.running_app() as address, driver.chromium() as browser:
        for name, (page_name, state, scheme) in PICTURES.items():
            link = f"{address}/{page_name}?{urlencode(state, doseq=True)}"
            (GALLERY / f"{name}.png").write_bytes(shot(browser, link, VIEWPORT, scheme))
            print(f"docs/gallery/{name}.png")
        rows = [_row(browser, address, *one) for one in (*((state, "") for state in STATES + MORE), *PRESSED)]
    sheet(rows).save(GALLERY / "sheet.webp", quality=80)
    print(f"docs/gallery/sheet.webp: {len(rows)} states")


def shot(browser: Browser, link: str, size: dict[str, int], scheme: str, press: str = "") -> bytes:
    """What a window shows of a link, once a button is pressed if one is named."""
    page = browser.new_page(viewport=size, color_scheme=scheme)
    problems = driver.watch(page)
    page.goto(link)
    page.wait_for_selector(f"{driver.SHOWN}, .note.error", timeout=driver.LOADING)
    driver.settled(page)
    if press:
        page.get_by_role("button", name=press, exact=True).first.click()
        page.wait_for_timeout(500)
        driver.settled(page)
    made = page.screenshot(animations="disabled")
    page.close()
    if problems:
        raise SystemExit(f"{link}: {problems[0]}")
    return made


def _row(browser: Browser, address: str, state: str, press: str) -> Image.Image:
    """A state on each screen in each scheme, side by side under its link."""
    link, screens = f"{address}/{state}", []
    for width, height in SCREENS:
        for scheme in SCHEMES:
            made = Image.open(BytesIO(shot(browser, link, {"width": width, "height": height}, scheme, press)))
            screens.append(made.convert("RGB").resize((round(width * SHRUNK), round(height * SHRUNK))))
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
