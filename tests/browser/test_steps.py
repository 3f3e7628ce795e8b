"""The page Steps in a real Chromium: steps are turned, cells chosen, knobs moved, the handout taken away."""

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


def test_steps_are_turned_cells_chosen_and_knobs_moved(page, server):
    """In the rail a click makes a step large, by keyboard Next goes on, the link keeps it.

    The link holds the cell that is clicked, the row in full is that of its query; a click on it again lets the key go.
    Without the scale the row is sharper: before and after stand side by side, and a chip undoes it. Pictures are drawn
    with their images at once, not again when Vega has loaded them. The knob of positions sets what the model's own
    settings show, and the step says that it is not there.
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
    expect(page.locator(".equation mark")).to_have_text(" + P")

    open_steps(page, server, "stage=softmax")
    click_at(page, "stage", 0.5, 0.5)
    expect_link(page, "cell=")
    query, key = page.evaluate("new URLSearchParams(location.search).get('cell')").split(".")

    expect(page.get_by_text(f"The products of one cell: query {query}, key {key}")).to_be_visible()
    page.mouse.move(0, 0)
    expect(picture(page, "stage")).to_contain_text(re.compile(rf"\({query}\) looks at \S+ \({key}\): 0\.\d+"))

    click_at(page, "stage", 0.5, 0.5)
    expect(page).not_to_have_url(re.compile("[?&]cell="))

    open_steps(page, server)
    page.get_by_text("Try changes").click()
    page.evaluate(UNSEEN)
    page.get_by_text("Divide by √dₖ", exact=False).click()
    expect_link(page, "tuned=unscaled")
    driver.settled(page)
    assert page.locator(".marks image").count()
    assert page.evaluate("window.unseen") == 0

    cells = page.locator(".st-key-play table").first.locator("td.number").all_inner_texts()
    before, after = map(float, cells[:2])
    assert after < before

    page.get_by_role("button", name="scores not scaled").click()
    expect(page).not_to_have_url(re.compile("[?&]tuned="))

    open_steps(page, server, "stage=position")
    page.locator(".st-key-play").get_by_text("Positions", exact=True).click()
    expect_link(page, "positions=false")

    expect(page.get_by_text("No position is added", exact=False).first).to_be_visible()


def test_a_link_opens_at_its_part_until_the_reader_moves_the_page(page, server):
    """Its heading stands in sight under the toolbar on a wide screen and on a phone; a page scrolled by hand stays."""
    for width, above in (1440, ".st-key-row-two"), (390, "header"):
        page.set_viewport_size({"width": width, "height": 844})
        open_steps(page, server, "part=PyTorch+and+cost")
        expect(page.get_by_text("Check against PyTorch")).to_be_in_viewport()

        bar = page.locator(above).first.bounding_box()
        assert page.get_by_role("heading", name="Look closer").bounding_box()["y"] >= bar["y"] + bar["height"]

    page.mouse.move(200, 500)
    page.mouse.wheel(0, -9000)
    expect(page.get_by_text("Check against PyTorch")).not_to_be_in_viewport()
    page.set_viewport_size({"width": 400, "height": 844})
    page.wait_for_timeout(500)
    expect(page.get_by_text("Check against PyTorch")).not_to_be_in_viewport()


def test_the_handout_is_one_file_that_asks_for_nothing(page, server, tmp_path):
    open_steps(page, server, "text=a%20cat")
    with page.expect_download(timeout=90_000) as taken:
        page.locator(".st-key-export button").first.click()
        page.get_by_role("button", name="Handout").click()
    path = tmp_path / taken.value.suggested_filename
    taken.value.save_as(path)
    page.goto(path.as_uri())

    assert page.title() == "Attention, step by step"
    assert page.locator("img").count() >= 10
    assert page.evaluate("[...document.images].every(image => image.complete && image.naturalWidth > 0)")
    for paper in ("A4", "Letter"):
        assert len(re.findall(rb"/Type\s*/Page\b", page.pdf(format=paper))) <= 3
