"""The page Steps in a real Chromium: steps are turned, cells chosen, the scale is switched off."""

import re

import driver
from driver import click_at, expect_link, picture
from playwright.sync_api import Page, expect

UNSEEN = """() => {
    window.unseen = 0;
    const look = () => { window.unseen += document.querySelectorAll('.marks image:not([*|href^="data:"])').length; };
    new MutationObserver(look).observe(document.body, {subtree: true, childList: true, attributes: true});
}"""
"""Counts images that a picture is drawn without, from now on."""


def open_steps(page: Page, server: str, link: str = "") -> None:
    driver.open_page(page, f"{server}/steps?model=scratch&{link}")


def test_steps_are_turned_cells_chosen_and_the_scale_switched_off(page, server):
    """In the rail a click makes a step large, by keyboard Next goes on, the link keeps it.

    The link holds the cell that is clicked, the row in full is that of its query; a click on it again lets the key go.
    Without the scale the row is sharper: before and after stand side by side, and a chip undoes it. Pictures are drawn
    with their images at once, not again when Vega has loaded them.
    """
    open_steps(page, server)
    box = picture(page, "rail").bounding_box()
    page.mouse.click(box["x"] + 180, box["y"] + 20)

    expect(page.get_by_label("Step", exact=False).first).to_be_visible()
    expect_link(page, "stage=embedding")

    page.get_by_role("button", name="Next").press("Enter")
    expect_link(page, "stage=position")

    page.reload()
    driver.settled(page)
    expect(page.locator(".st-key-one-cell .katex-html")).to_contain_text("+P")

    open_steps(page, server, "stage=softmax")
    click_at(page, "stage", 0.5, 0.5)
    expect_link(page, "cell=")
    query, key = page.evaluate("new URLSearchParams(location.search).get('cell')").split(".")

    expect(page.locator(".facts.steps tr.marked")).to_contain_text(f"({key})")
    expect(picture(page, "stage")).to_contain_text(re.compile(rf"\({query}\) looks at \S+ \({key}\): 0\.\d+"))

    click_at(page, "stage", 0.5, 0.5)
    expect(page).not_to_have_url(re.compile("[?&]cell="))

    open_steps(page, server)
    page.get_by_text("Temperature and scale").click()
    page.evaluate(UNSEEN)
    page.get_by_text("Divide by √dₖ", exact=False).click()
    expect_link(page, "scores=unscaled")
    driver.settled(page)
    assert page.locator(".marks image").count()
    assert page.evaluate("window.unseen") == 0

    cells = page.locator(".st-key-one-cell table").first.locator("td.number").all_inner_texts()
    before, after = map(float, cells[:2])
    assert after < before

    page.get_by_role("button", name="scores not scaled").click()
    expect(page).not_to_have_url(re.compile("[?&]scores="))
