"""Take the README's pictures from the running app: `make screenshots`."""

from urllib.parse import urlencode

import driver

GALLERY = driver.ROOT / "assets" / "gallery"
VIEWPORT = {"width": 1440, "height": 1040}
TEXT = "The cat sat on the mat because it was tired."
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


def main() -> None:
    GALLERY.mkdir(parents=True, exist_ok=True)
    with driver.running_app() as address, driver.chromium() as browser:
        for name, (page_name, state, scheme) in PICTURES.items():
            page = browser.new_page(viewport=VIEWPORT, color_scheme=scheme)
            problems = driver.watch(page)
            page.goto(f"{address}/{page_name}?{urlencode(state, doseq=True)}")
            page.wait_for_selector('[class*="st-key-picture"] canvas, [class*="st-key-picture"] svg')
            driver.settled(page)
            page.screenshot(path=GALLERY / f"{name}.png", animations="disabled")
            page.close()
            if problems:
                raise SystemExit(f"{name}: {problems[0]}")
            print(f"assets/gallery/{name}.png")


if __name__ == "__main__":
    main()
