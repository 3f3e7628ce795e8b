"""Every head of a model at once, in a real Chromium: the one that matters most, and heads by the keyboard."""

import re

import driver
from driver import LOADING, expect_link, picture
from playwright.sync_api import Page, expect


def panel(page: Page):
    return page.locator(".st-key-beside")


def frame(page: Page, head: str) -> None:
    """Wait until a head is framed and all is painted."""
    expect(panel(page)).to_contain_text(head)
    driver.settled(page)


def test_the_head_that_matters_most_is_two_clicks_away(page, server):
    """All heads of MiniLM tried, head 11 of encoder layer 5 is first; clicked, it has a rank and numbers, and opens."""
    driver.open_page(page, f"{server}/overview?model=huggingface&hf=all-MiniLM-L6-v2")
    panel(page).get_by_role("button", name="Switch-off test").click()
    named = picture(page, "every").locator("tspan").filter(has_text=re.compile(r"^encoder 5\.11$"))
    start = page.get_by_role("button", name="Switch each head off in turn")
    expect(named.or_(start)).to_be_visible(timeout=LOADING)
    if start.count():  # a machine that is busy takes longer than nobody notices
        start.click()
    expect(named).to_be_visible(timeout=LOADING)
    driver.settled(page)
    names = picture(page, "every").locator("tspan").filter(has_text=re.compile(r"^encoder \d+\.\d+$"))

    assert names.count() == 72
    assert names.first.text_content() == "encoder 5.11"

    picture(page, "every").locator("image").first.click(force=True)
    expect(page).to_have_url(re.compile(r"[?&]layer=e5&head=11(&|$)"), timeout=LOADING)
    frame(page, "Head 11 of encoder layer 5 matters most here")

    expect(panel(page)).to_contain_text("Output change when off")

    expect(panel(page).get_by_role("row").filter(has_text="First token (sink)")).to_contain_text("no use for")

    page.get_by_role("button", name="Open this head").click()

    expect(picture(page, "head")).to_contain_text("Head 11 of encoder layer 5", timeout=LOADING)
    expect(page).to_have_url(re.compile(r"[?&]model=huggingface(&|$)"))
    expect(page).to_have_url(re.compile(r"[?&]layer=e5&head=11(&|$)"))


def test_of_very_many_heads_each_can_be_clicked_and_the_chosen_one_is_in_sight(page, server):
    """Their maps are made smaller, so that the chosen head stands beside them on one screen."""
    page.set_viewport_size({"width": 1440, "height": 900})
    driver.open_page(page, f"{server}/overview?model=scratch&num_layers=12&num_heads=32&d_model=256")
    maps, beside = picture(page, "every").bounding_box(), panel(page).bounding_box()

    assert maps["x"] + maps["width"] <= beside["x"]
    assert beside["x"] + beside["width"] <= 1440
    assert beside["y"] < 300

    picture(page, "every").locator("image").nth(32 * 3 + 20).click(force=True)

    expect_link(page, "layer=e3&head=20")
    frame(page, "Head 20 of encoder layer 3")


def test_a_head_opens_with_its_model_and_heads_are_framed_with_the_keyboard(page, server):
    """The link holds the model. In a table: by arrow keys; to reach it frames none."""
    driver.open_page(page, f"{server}/overview?model=story")
    page.get_by_role("button", name="Open this head").click()

    expect(picture(page, "head")).to_contain_text("Head 0 of decoder layer 1 · story")
    expect(page).to_have_url(re.compile(r"/\?model=story&layer=d1&head=0$"))

    driver.open_page(page, f"{server}/overview?model=translator&form=Table")
    driver.settled(page)
    page.get_by_test_id("stDataFrame").first.locator("canvas").first.focus()
    page.wait_for_timeout(800)

    assert "head=" not in page.url

    for _ in range(2):
        page.keyboard.press("ArrowDown")

    expect_link(page, "layer=e0&head=2")
    page.get_by_role("radio", name="Maps").click()

    frame(page, "Head 2 of encoder layer 0")


def test_the_head_behind_a_word_is_two_clicks_away(page, server):
    """Of a model that repeats: which head adds the word, and whether others replace it; a click on a dot chooses it."""
    driver.open_page(page, f"{server}/?model=induction")
    page.get_by_role("link", name="Overview").click()
    driver.settled(page)
    page.get_by_text("Contributions", exact=True).click()
    answer = page.locator(".st-key-matters")

    expect(answer).to_contain_text("Head 0 of decoder layer 1 adds most to “the”")
    expect(answer).to_contain_text("other parts make up for 96% of what the head adds")
    driver.settled(page)
    picture(page, "replaced").locator(".mark-symbol path").first.click(force=True)
    expect_link(page, "head=")
    page.locator(".st-key-word input").fill("mat")
    page.locator(".st-key-word input").press("Enter")
    expect_link(page, "word=mat")
    expect(answer).to_contain_text("“mat”")
