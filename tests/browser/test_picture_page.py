"""A person gives a vision model a picture, sees where a patch looks, and takes the overlay away."""

import re
from urllib.parse import urlencode

import driver
import pytest
from driver import expect_link
from playwright.sync_api import expect

from attnviz.core import assets

STILL_LIFE = assets.path("pictures/still-life.jpg")


@pytest.fixture
def chosen(page, server):
    """The page of the shipped model, with a picture that was chosen from a file."""
    driver.open_page(page, f"{server}/?{urlencode({'model': 'shapes'})}")
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Choose a picture").click()
    chooser.value.set_files(STILL_LIFE)
    expect(page.locator(".st-key-photo").get_by_text(STILL_LIFE.name)).to_be_visible()
    driver.settled(page)
    return page


def test_where_a_patch_looks_takes_three_clicks(chosen):
    """A picture, a patch, a head; at every width, light and dark, nothing is out of reach of a screen reader."""
    driver.click_at(chosen, "picture", 0.25, 0.5)
    expect_link(chosen, "pins=q")
    expect(chosen.get_by_text("looks most at").first).to_be_visible()
    assert "picture=" not in driver.link(chosen)

    for width, scheme in ((1440, "light"), (390, "dark")):
        driver.resize(chosen, width, 900, scheme)
        driver.settled(chosen)

        assert driver.serious(chosen) == []
        assert driver.is_as_wide_as(chosen, width)


def test_a_patch_is_taken_out_of_the_attention_and_of_the_picture(chosen):
    """Each by a switch; what the whole picture is said to be stands beside it; one button puts all back."""
    driver.click_at(chosen, "picture", 0.25, 0.5)
    expect_link(chosen, "pins=q")
    chosen.get_by_text("blank in the attention").click()
    expect_link(chosen, "mask=blank")
    chosen.get_by_text("gray in the picture").click()
    expect_link(chosen, "gray=")
    expect(chosen.get_by_text("Of the whole picture it says")).to_be_visible()

    chosen.get_by_role("button", name="Blank none").click()
    expect(chosen.get_by_text("Of the whole picture it says")).to_have_count(0)
    driver.settled(chosen)
    assert not re.search("gray=|mask=blank", driver.link(chosen))


def test_a_picture_is_dropped_on_the_page_of_a_model_of_texts(page, server):
    """It waits there for a model that reads it, and what was typed stays."""
    driver.open_page(page, f"{server}/?{urlencode({'model': 'story', 'text': 'the cat sat'})}")
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="More").click()
        page.get_by_role("button", name="Open file").click()
    chooser.value.set_files(STILL_LIFE)

    expect(page.get_by_text("choose a model for it, such as shapes")).to_be_visible()
    assert page.get_by_label("Sentence").first.input_value() == "the cat sat"
