"""A random walk over the pages: now and then the live page is compared with a fresh one at its own link."""

import random
import re

import driver
import pytest
from playwright.sync_api import Locator, Page

PAGES = ("", "overview", "masks", "steps", "compare", "learn")
MODELS = ("story", "translator", "induction", "constructed", "scratch")
TEXTS = ("the cat sat", "The dog saw the girl because she was tired", "red sun cold milk then red sun", "one two three")
WALKS, ACTIONS, EVERY = 20, 50, 5
"""Walks of a sweep, actions of each, and after how many of them the page is compared: 1,000 actions in all."""

CONTROLS = (
    ".stMain .stButton button:not([disabled])",
    ".stMain [role=radio]",
    ".stMain .stButtonGroup button:not([disabled])",
    ".stMain input[type=checkbox]",
)
"""What a walk presses: no menus and no folds, as a link does not hold what is open."""
LEFT_OUT = re.compile(r"undo|redo|card|welcome|guide|download|save|cancel|about|run again|slide|laboratory|back", re.I)
"""Keys of controls that a walk leaves alone: history, files, jobs, and ways that leave the page by an own link."""

SNAPSHOT = """() => {
    const main = document.querySelector('[data-testid=stMain]').cloneNode(true);
    for (const one of main.querySelectorAll('.st-key-welcome, .st-key-icon-undo, .st-key-icon-redo, .learned, style, '
        + 'script, .unseen[aria-live], .st-key-open-files, .st-key-back')) one.remove();
    const texts = [...main.querySelectorAll('p, h2, h3, td, th, svg text, .words, .large, .quiet, .says, .note')]
        .map(one => one.textContent.trim()).filter(Boolean);
    const live = document.querySelector('[data-testid=stMain]');
    const values = [...live.querySelectorAll('input, textarea, [role=radio], .stButtonGroup button')].map(one =>
        [one.closest('[class*=st-key-]')?.className.match(/st-key-[\\w-]+/)?.[0] ?? '',
         one.value || one.getAttribute('aria-checked') || '', one.checked ?? '']);
    const marks = [...live.querySelectorAll('svg.marks')].map(svg => [...svg.querySelectorAll('path, rect, image')]
        .map(one => (one.getAttribute('fill') ?? '') + (one.getAttribute('href') ?? '').length).join(' '));
    return {texts, values, marks};
}"""
"""All that a person reads on a page, what its controls hold, and the colors of its charts."""


def pressed(page: Page, choose: random.Random) -> Locator | None:
    """A control of the page, by chance."""
    every = [one for selector in CONTROLS for one in page.locator(selector).all() if one.is_visible()]
    choose.shuffle(every)
    for one in every:
        key = one.evaluate("one => one.closest('[class*=st-key-]')?.className ?? ''")
        if not LEFT_OUT.search(key):
            return one
    return None


def act(page: Page, choose: random.Random) -> str:
    """One action of a person; gives what it was."""
    kind = choose.choice(["page", "list", "press", "press", "press", "picture", "picture", "text", "back"])
    if kind == "page":
        link = choose.choice(page.locator(".st-key-pages a").all())
        name = link.inner_text()
        link.click()
        return f"page {name}"
    if kind == "list" and (lists := page.locator(".stMain [role=combobox]:not([disabled])").all()):
        chosen = choose.choice(lists)
        chosen.click()
        options = page.locator("[role=listbox] [role=option]").all()
        if not options:
            page.keyboard.press("Escape")
            return "list without options"
        name = (one := choose.choice(options)).inner_text()
        if "huggingface" in name:
            page.keyboard.press("Escape")
            return "no huggingface"
        one.click()
        return f"list {name}"
    if kind == "press" and (button := pressed(page, choose)) is not None:
        name = button.inner_text() or button.get_attribute("aria-label") or "?"
        button.click(force=True)
        return f"press {name}"
    if kind == "picture" and (charts := page.locator("[class*=st-key-picture] svg.marks").all()):
        box = choose.choice(charts).bounding_box()
        if box and box["y"] > 0:
            page.mouse.click(box["x"] + choose.random() * box["width"], box["y"] + choose.random() * box["height"])
            return "picture"
    if kind == "text" and page.get_by_label("Sentence").count():
        text = choose.choice(TEXTS)
        page.get_by_label("Sentence").first.fill(text)
        page.keyboard.press("Enter")
        return f"text {text}"
    if kind == "back":
        page.evaluate("() => document.querySelector('.st-key-icon-undo button:not([disabled])')?.click()")
        return "undo"
    return "nothing"


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(WALKS))
def test_a_page_that_was_used_is_the_page_of_its_link(window, elsewhere, server, seed):
    """Texts, values of controls and charts are those of a fresh page: the link holds whatever was done before."""
    choose = random.Random(seed)
    live, fresh = window(), elsewhere()
    driver.open_page(live, f"{server}/{choose.choice(PAGES)}?model={choose.choice(MODELS)}")
    done = []
    for number in range(1, ACTIONS + 1):
        done.append(act(live, choose))
        live.wait_for_timeout(150)
        driver.settled(live)
        if number % EVERY:
            continue
        live.mouse.move(0, 0)
        fresh.goto("about:blank")
        fresh.goto(live.url)
        fresh.locator(driver.SHOWN).filter(visible=True).first.wait_for(timeout=driver.LOADING)
        driver.settled(fresh)
        was, found = fresh.evaluate(SNAPSHOT), live.evaluate(SNAPSHOT)

        assert found == was, f"{live.url} after {done[-EVERY:]} ({number} actions)"
