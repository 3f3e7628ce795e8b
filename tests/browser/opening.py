"""The pictures of a first visit as files, seen until the app has drawn them: `make opening`."""

import re
from base64 import b64decode, b64encode
from typing import NamedTuple

import driver
from playwright.sync_api import Page

SIZES = {"wide": (1440, 900), "phone": (390, 844)}
SCHEMES = ("light", "dark")
FOLDER = driver.ROOT / "assets" / "opening"
SHOWN = """() => ['head', 'heads'].map(name => {
    const marks = document.querySelector(`.st-key-picture-${name} .marks`), {left, top} = marks.getBoundingClientRect();
    return [left, top, marks.outerHTML];
})"""
IMAGE = '<img alt="" style="left: {0.left:g}px; top: {0.top:g}px" src="data:image/svg+xml;base64,{1}">'
READ = re.compile(r'left: (\S+)px; top: (\S+)px" src="data:image/svg\+xml;base64,([^"]*)"')


class Picture(NamedTuple):
    """A picture, and where it stands."""

    left: float
    top: float
    svg: str

    def html(self) -> str:
        return IMAGE.format(self, b64encode(self.svg.encode()).decode())

    def form(self) -> str:
        """All but its colors, which differ by a shade where a CPU rounds otherwise."""
        return re.sub(r'"(#|data:)[^"]*"', "", self.svg)

    def colors(self) -> list[int]:
        return [int(part, 16) for color in re.findall(r'"#(\w{6})"', self.svg) for part in re.findall("..", color)]


def shown(page: Page) -> list[Picture]:
    """The pictures of a page, as they are drawn."""
    return [Picture(*one) for one in page.evaluate(SHOWN)]


def filed(scheme: str, size: str) -> list[Picture]:
    """The same as they are in the file."""
    part = (FOLDER / f"{scheme}.html").read_text(encoding="utf-8").split(f"opening-{size}")[1].split("</div>")[0]
    return [Picture(float(left), float(top), b64decode(svg).decode()) for left, top, svg in READ.findall(part)]


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    with driver.running_app() as address, driver.chromium() as browser:
        for scheme in SCHEMES:
            parts = []
            for name, (width, height) in SIZES.items():
                page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
                driver.open_page(page, address)
                parts.append(f'<div class="opening-{name}">{"".join(one.html() for one in shown(page))}</div>')
                page.close()
            html = f'<div class="opening" style="display: none">{"".join(parts)}</div>\n'
            (FOLDER / f"{scheme}.html").write_text(html, encoding="utf-8")
            print(f"assets/opening/{scheme}.html")


if __name__ == "__main__":
    main()
