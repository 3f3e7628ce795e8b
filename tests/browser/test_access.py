"""Accessibility: axe finds nothing on any page, nothing is cut off, and a phone shows the picture at once."""

import driver
import pytest
from examples import sweeps
from playwright.sync_api import expect

PAGES = {
    "heads": "?model=story&layer=d1&head=0",
    "changed": "?model=story&heads_off=d1.0&mask=causal+%26+window%282%29&form=lines",
    "patches": "?model=shapes",
    "overview": "overview?model=story",
    "masks": "masks?model=story&mask=causal+%26+window%282%29",
    "array": "masks?model=story&lab=check",
    "model": "masks?model=story&lab=model",
    "steps": "steps?model=story&cell=7.2",
    "compare": "compare?model=story",
    "learn": "learn?chapter=3",
}
PARTS = {
    "table": "overview?model=translator&form=table",
    "contributions": "overview?model=story&part=Contributions",
    "lens": "overview?model=story&part=Logit+lens",
    "rollout": "overview?model=translator&part=Rollout",
    "gradients": "overview?model=story&part=Gradients",
    "corpus": "overview?model=story&part=Corpus",
    "circuits": "overview?model=story&part=Circuits",
    "card": "overview?model=story&part=Model+card",
    "text": "?model=translator&form=text",
    "answer": "?model=story&answer=5-6-7&cell=3.1",
    "refused": "?model=story&text=blorp",
    "too long": f"?model=story&text={'+'.join(['cat'] * 90)}",
    "several": "?model=story&text=the+cat+sat%0Athe+dog+ran+away",
    "painting": "masks?model=scratch&text=a+b+c+d&mask=causal+%26+not+painted%283%2C+1%29",
}
SCREENS = ((1440, "light"), (390, "dark"), (1440, "dark"), (390, "light"))
TOP = "all => Math.min(...all.filter(one => one.checkVisibility()).map(one => one.getBoundingClientRect().top))"
SEEN_FIRST = ".st-key-first .marks, [class*=st-key-picture] .marks, .verdict, table"
"""Selector of the main content of a page: its picture, the numbers of a chapter, or the answer of a check."""


@pytest.mark.parametrize("states", [PAGES, pytest.param(PARTS, marks=pytest.mark.sweep)], ids=["pages", "parts"])
def test_axe_finds_nothing_nothing_is_too_wide_and_a_phone_shows_the_picture_at_once(window, app, states):
    """At a desk and on a phone, light and dark: every other page on the first two screens, the rest on the last two."""
    page, wrong = window(), {}
    for number, (name, path) in enumerate(states.items()):
        driver.open_page(page, f"{app}/{path}")
        for width, scheme in SCREENS if sweeps() else SCREENS[number % 2 * 2 :][:2]:
            driver.resize(page, width, 844, scheme)
            driver.settled(page)
            faults = [] if driver.is_as_wide_as(page, width) else ["too wide"]
            if width == 390 and states is PAGES and page.locator(SEEN_FIRST).evaluate_all(TOP) > 844 - 60:
                faults.append("the picture is below the first screen")
            if faults := faults + driver.violations(page):
                wrong[name, width, scheme] = faults

    assert wrong == {}


def test_on_a_phone_axe_finds_nothing_in_the_mistakes_that_are_unfolded(window, app):
    """Their repairs are code: its lines wrap, so that no part of it has to be scrolled by a finger."""
    page = window(390, 844)
    page.goto(f"{app}/learn?chapter=12")
    folds = page.locator("[class*=st-key-mistake] summary")
    expect(folds.nth(11)).to_be_visible()
    driver.settled(page)
    for i in range(folds.count()):
        folds.nth(i).click()
        expect(page.locator("[class*=st-key-mistake] code").nth(i)).to_be_visible()
    driver.settled(page)

    assert driver.violations(page) == []
