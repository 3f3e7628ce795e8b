"""Whatever a person does, the text, the model, the edits and the picture stay, on every page and in the link."""

import time
from itertools import pairwise

import driver
import pytest
from examples import some
from playwright.sync_api import Page

PAGES = ("Heads", "Overview", "Masks", "Steps", "Compare")

OPENED = {
    "text": "the old man gave her the book",
    "model": "story",
    "layer": "d1",
    "head": "1",
    "mask": "window(4)",
    "heads_off": "d0.1",
    "as": "lines",
}
"""A link that chooses a text, a model, a layer, a head, two edits and a picture."""


def trail(start: str) -> list[str]:
    """Every page once, beginning with one, or with the first of them for "": all trails together go from every page to
    every other one, if with "" their number is even."""
    places = (*PAGES, "")
    first, count = places.index(start), len(places)
    zigzag = [(i + 1) // 2 if i % 2 else -(i // 2) for i in range(count)]
    return [name for step in zigzag if (name := places[(first + step) % count])]


def open_page(page: Page, server: str, name: str, link: dict[str, str]) -> None:
    path = "" if name == "Heads" else name.lower()
    query = "&".join(f"{key}={value.replace(' ', '+')}" for key, value in link.items())
    page.goto(f"{server}/{path}?{query}")
    driver.settled(page)


def follow(page: Page, name: str, pressed: int = 80) -> None:
    """Click the link to a page, with the button pressed for some milliseconds, and wait until it is there."""
    page.get_by_role("link", name=name, exact=True).click(delay=pressed)
    arrived(page, name)


MARKED = "name => document.querySelector('.st-key-pages [aria-current=page]')?.textContent === name"
"""Whether the link to a page is marked: the server, too, is there."""


def arrived(page: Page, name: str) -> None:
    path = "/" if name == "Heads" else f"/{name.lower()}"
    page.wait_for_function("path => location.pathname === path", arg=path, polling=50)
    page.wait_for_function(MARKED, arg=name, polling=50)
    driver.settled(page)


SHOWN = """() => ({
    link: Object.fromEntries(new URLSearchParams(location.search)),
    text: [...document.querySelectorAll('textarea[aria-label=Sentence]')].map(box => box.value).slice(0, 1),
    model: [...document.querySelectorAll('input[aria-label=Model]')].map(box => box.value),
    changes: document.querySelector('.st-key-changes')?.innerText ?? '',
})"""
PATIENCE = 60
"""Seconds until a state must be there, on a busy machine."""


def expect_state(page: Page, name: str, chosen: dict[str, str]) -> None:
    """The link, the box, the model and the changes come to be those that were chosen."""
    changes = ["head 1 of decoder layer 0 off", "window"]
    end = time.monotonic() + PATIENCE
    while True:
        driver.settled(page)
        shown = page.evaluate(SHOWN)
        said = shown.pop("changes")
        missing = [change for change in changes if change not in said]
        if shown == {"link": chosen, "text": [chosen["text"]], "model": [chosen["model"]]} and not missing:
            return
        assert time.monotonic() < end, f"{name}: {chosen} was chosen, {shown} is shown, {missing} is missing"


def box(page: Page):
    return page.get_by_label("Sentence").first


def test_the_trails_go_from_every_page_to_every_other_one():
    """Twenty steps."""
    steps = {step for start in (*PAGES, "") for step in pairwise(trail(start))}

    assert len(steps) == 20


@pytest.mark.sweep
@pytest.mark.parametrize("start", [*PAGES, ""])
def test_a_link_that_is_followed_to_another_page_keeps_all(page, server, start):
    """Text, model, edits, layer, head and picture go along from page to page, and a reload gives them again."""
    open_page(page, server, trail(start)[0], OPENED)
    for name in trail(start)[1:]:
        follow(page, name)
        expect_state(page, name, OPENED)
    page.reload()
    driver.settled(page)

    expect_state(page, trail(start)[-1], OPENED)


@pytest.mark.parametrize("start", some(PAGES[::-1], 1))
def test_what_is_typed_and_not_applied_goes_along(page, server, start):
    """A page is left with another text in the box: the next one computes with that text, and nothing else changed.

    A reload gives all of it again.
    """
    open_page(page, server, start, OPENED)
    words, text = some(("boy", "girl", "dog", "king", "child"), 3), OPENED["text"]
    for (_, name), word in zip(pairwise(trail(start)), words, strict=False):
        text = f"the {word} gave her the book"
        box(page).click()
        page.keyboard.press("Control+A")
        page.keyboard.type(text)
        follow(page, name)
        expect_state(page, name, OPENED | {"text": text})
    page.reload()
    driver.settled(page)

    expect_state(page, name, OPENED | {"text": text})


def test_a_tap_loses_nothing_that_is_typed(page, server):
    """A tap ends the typing and asks for another page at once, in either order: both come, and nothing else."""
    open_page(page, server, "Heads", OPENED)
    for word, name in zip(("boy", "girl", "dog"), ("Overview", "Steps", "Masks"), strict=True):
        text = f"the {word} gave her the book"
        box(page).click()
        page.keyboard.press("Control+A")
        page.keyboard.type(text)
        page.get_by_role("link", name=name, exact=True).click()
        arrived(page, name)
        expect_state(page, name, OPENED | {"text": text})


@pytest.mark.parametrize("start", some(["Steps", "Heads"], 1))
def test_back_and_forward_restore_what_was_there(page, server, start):
    """Each step back gives the page before, as it was; each step forward the page after: through all pages."""
    open_page(page, server, start, OPENED)
    seen = [(start, OPENED)]
    for name, word in zip(trail(start)[1:3], some(("boy", "girl"), 1), strict=False):
        follow(page, name)
        seen.append((name, seen[-1][1]))
        box(page).fill(f"the {word} gave her the book")
        page.keyboard.press("Control+Enter")
        seen.append((name, OPENED | {"text": f"the {word} gave her the book"}))
        expect_state(page, *seen[-1])
    for name, chosen in seen[-2::-1]:
        page.go_back()
        arrived(page, name)
        expect_state(page, name, chosen)
    for name, chosen in seen[1:]:
        page.go_forward()
        arrived(page, name)
        expect_state(page, name, chosen)
