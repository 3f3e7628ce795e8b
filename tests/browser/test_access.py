"""The new app for everyone: axe finds nothing on any page, nothing is cut off, a phone shows the picture at once."""

import driver
import pytest

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
SEEN_FIRST = ".st-key-first .marks, [class*=st-key-picture] .marks, .verdict, table"
"""What a person came for: the picture, the numbers of a chapter, or the answer of a check."""


@pytest.mark.parametrize("states", [PAGES, pytest.param(PARTS, marks=pytest.mark.sweep)], ids=["pages", "parts"])
def test_axe_finds_nothing_and_nothing_is_wider_than_the_page(window, app, states):
    """At a desk and on a phone, light and dark."""
    page, wrong = window(), {}
    for name, path in states.items():
        driver.open_page(page, f"{app}/{path}")
        for width, scheme in SCREENS:
            driver.resize(page, width, 900, scheme)
            driver.settled(page)
            violations = driver.violations(page) + ([] if driver.is_as_wide_as(page, width) else ["too wide"])
            wrong |= {(name, width, scheme): violations} if violations else {}

    assert wrong == {}


@pytest.mark.parametrize("name", PAGES)
def test_a_phone_shows_the_picture_or_the_answer_in_its_first_screen(window, app, name):
    page = window(390, 844)
    driver.open_page(page, f"{app}/{PAGES[name]}")

    tops = [each.bounding_box()["y"] for each in page.locator(SEEN_FIRST).filter(visible=True).all()]
    assert min(tops) < 844 - 60


def test_on_a_phone_axe_finds_nothing_in_the_mistakes_that_are_unfolded(window, app):
    """Their repairs are code: its lines wrap, so that no part of it has to be scrolled by a finger."""
    page = window(390, 844)
    page.goto(f"{app}/learn?chapter=12")
    page.get_by_role("button", name="Reset this chapter").wait_for()
    for fold in page.locator("summary").all():
        fold.click()
    driver.settled(page)

    assert page.locator("code").count() >= 12
    assert driver.violations(page) == []
