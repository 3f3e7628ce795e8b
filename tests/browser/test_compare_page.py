"""The page Compare: B in the link, cells, heads that differ, and activation patching."""

import re
from urllib.parse import parse_qs, urlsplit

import driver
import pytest
from playwright.sync_api import expect

from attnviz import link

DOGS = "compare?model=story&layer=d1&head=0&b=" + "part%3Dtext%26text%3DThe+dogs+sat+on+the+mat+because+it+was+tired"


def b_of(url: str) -> link.Choices:
    """B as the link holds it."""
    choices, complaints = link.read(parse_qs(urlsplit(url).query))
    assert complaints == ()
    return choices["b"]


def test_the_text_of_b_begins_as_that_of_a_and_a_changed_word_moves_the_maps(page, app):
    """The link holds B; both predictions stand above the maps; undo goes back."""
    driver.open_page(page, f"{app}/compare?model=story&layer=d1&head=0")
    page.get_by_label("Compare with").click()
    page.get_by_role("option", name="another text").click()
    typed = page.get_by_label("Text of B")

    expect(typed).to_have_value("The cat sat on the mat because it was tired")

    typed.fill("The dogs sat on the mat because it was tired")
    typed.press("Enter")
    page.wait_for_url("**dogs**")
    driver.settled(page)

    assert b_of(page.url)["text"] == "The dogs sat on the mat because it was tired"
    expect(driver.picture(page, "difference")).to_contain_text("cat → dogs")
    both = page.locator(".st-key-predictions .says")
    expect(both).to_have_text([re.compile("^A: After “because”"), re.compile("^B: After “because”")])
    assert driver.place_of(both.last)["y"] < driver.place_of(driver.picture(page, "difference"))["y"] < 245

    page.get_by_role("button", name="Undo").click()
    page.wait_for_url(lambda url: "dogs" not in url)


def test_a_head_that_differs_is_compared_with_one_click_and_so_is_the_original_model(page, app):
    driver.open_page(page, f"{app}/compare?model=story&layer=d1&head=0")
    page.get_by_role("button", name=re.compile(r"^Head \d of decoder layer \d: 0\.\d\d$")).first.click()
    page.wait_for_url("**part%3Dhead**")
    driver.settled(page)

    expect(page.locator(".says").first).to_contain_text("A and B are the same run.")

    driver.open_page(page, f"{app}/compare?model=story&layer=d1&head=0&heads_off=d0.1")

    expect(page.get_by_label("Compare with")).to_have_value("B: the model without changes")
    expect(page.locator(".st-key-predictions .says")).to_have_count(2)


def test_a_part_of_b_is_taken_and_the_way_that_each_head_carries_is_a_map(page, app):
    """Activation patching: the take is a chip, its effect stands in the line of A."""
    driver.open_page(page, f"{app}/{DOGS}")
    expect(page.get_by_text("Activation patching: take from B")).to_be_visible()
    page.get_by_role("button", name="Take", exact=True).click()
    page.wait_for_url("**take=output-d1.0**")
    driver.settled(page)

    expect(page.locator(".st-key-predictions .says").first).to_contain_text("in place of")
    expect(page.get_by_role("button", name=re.compile("^output of head 0 of decoder layer 1 from"))).to_be_visible()

    page.get_by_text("How much of the way from A to B each head carries").click()
    expect(driver.picture(page, "carried")).to_be_visible()
    expect(page.locator(".words").last).to_contain_text("carries most of the way from A to B by its output alone")


@pytest.mark.parametrize(
    ("b", "sentence"),
    [
        ("part%3Dmodel%26model%3Dno%2Fsuch%2Fplace", "no/such/place"),
        ("part%3Dmodel%26model%3Dshapes", "reads a picture"),
        ("part%3Dhead%26layer%3Dd7%26head%3D1", "There is no head d7.1"),
        ("part%3Doriginal", "nothing is changed"),
        ("part%3Dtext%26text%3D", "B has no text yet: type one."),
    ],
)
def test_a_b_that_is_not_there_is_one_sentence(page, app, b, sentence):
    """The rest of the page stays."""
    driver.open_page(page, f"{app}/compare?model=story&layer=d1&head=0&b={b}")

    expect(page.locator(".note")).to_have_count(1)
    expect(page.locator(".note")).to_contain_text(sentence)
    expect(page.get_by_label("Compare with")).to_be_visible()
