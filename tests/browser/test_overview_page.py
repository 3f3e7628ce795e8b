"""The page Overview: heads that open, parts and their links, undo, a wrong word."""

import re

import driver
import pytest
from playwright.sync_api import expect


def test_a_click_on_a_map_opens_the_head_on_heads(page, app):
    driver.open_page(page, f"{app}/overview?model=story&layer=d1&head=0")
    driver.picture(page, "every").locator("image, .mark-image").last.click(force=True)
    page.wait_for_url("**/?model=story&layer=d1&head=1", wait_until="commit")

    expect(driver.picture(page, "head-map")).to_contain_text("Head 1 of decoder layer 1")


@pytest.mark.parametrize("part", ["Contributions", "Logit lens", "Rollout", "Gradients", "Corpus", "Circuits"])
def test_a_part_is_one_click_away_and_its_link_opens_it(page, app, part):
    """The part draws its picture without an error, by a click and from its link."""
    driver.open_page(page, f"{app}/overview?model=story&layer=d1&head=0")
    page.get_by_text(part, exact=True).click()
    driver.expect_link(page, f"part={part.replace(' ', '+')}")
    title = page.locator("[class*=st-key-picture]").first.locator("svg text").first
    expect(title).to_be_visible()
    text = title.text_content()

    page.reload()

    expect(title).to_have_text(text)
    driver.settled(page)
    expect(page.locator(".note")).to_have_count(0)


def test_a_typed_word_is_explained_undone_and_refused_in_one_sentence(page, app):
    """The logit of another word; undo brings the predicted one back; a word that is not there names one that is."""
    driver.open_page(page, f"{app}/overview?model=story&layer=d1&head=0&part=Contributions")
    expect(page.locator(".large").first).to_contain_text("adds most to “it”")
    word = page.get_by_label("Word", exact=True)
    word.fill("they")
    word.press("Enter")
    driver.expect_link(page, "word=they")
    expect(page.locator(".large").first).to_contain_text("“they”")
    page.get_by_role("button", name="Undo").click()
    driver.expect_no_link(page, "word=")
    expect(page.locator(".large").first).to_contain_text("adds most to “it”")

    word.fill("qwxz")
    word.press("Enter")

    expect(page.locator(".note")).to_have_count(1)
    expect(page.locator(".note")).to_contain_text("qwxz")


def test_heads_are_ordered_by_what_switching_them_off_changes(page, app):
    """The order is in the link; the head that matters most is named, first, and opens."""
    driver.open_page(page, f"{app}/overview?model=story&sort=divergence")
    names = driver.picture(page, "every").locator("tspan").filter(has_text=re.compile(r"^decoder \d\.\d$"))

    expect(page.locator(".large").first).to_contain_text("Head 0 of decoder layer 1 matters most here")
    expect(names).to_have_count(4)
    expect(names.first).to_have_text("decoder 1.0")


def test_a_role_narrows_the_heads_and_one_that_no_head_has_is_a_sentence(page, app):
    driver.open_page(page, f"{app}/overview?model=translator&role=cross")
    names = driver.picture(page, "every").locator("text").filter(has_text=re.compile(r"^cross \d\.\d$"))

    expect(names).to_have_count(8)

    page.goto(f"{app}/overview?model=translator&role=induction")

    expect(page.locator(".note")).to_have_text(
        "No head has the role “induction” on this text. Choose another role, or all."
    )


def test_a_text_of_the_corpus_opens_on_heads_with_its_cell(page, app):
    driver.open_page(page, f"{app}/overview?model=story&layer=d1&head=0&part=Corpus")
    page.locator(".st-key-atlas-texts button").first.click()
    page.wait_for_url(re.compile(r"/\?model=story&text=.*cell="), wait_until="commit")

    expect(page.locator(".words").first).to_contain_text(" gives ")
