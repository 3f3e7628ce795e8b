"""The toolbar, the text box and the first visit in a real Chromium."""

import driver
import pytest
from driver import expect_link, link, picture
from examples import some
from playwright.sync_api import Page, expect

PAGES = ("", "overview", "masks", "steps", "compare")
CONTROLS = ("model", "icon-about", "text", "analyze", "example", "layer", "head", "mask-menu", "icon-undo", "changes")
"""What stands on every page, by its key."""

LOWEST = {"compare": 250}
"""Where the picture begins at most, in pixels, on a page that begins with a control of its own."""

PLACES = """keys => Object.fromEntries(keys.map(key => {
    const box = document.querySelector(`.st-key-${key}`).getBoundingClientRect();
    return [key, [Math.round(box.x), Math.round(box.y)]];
}))"""
TITLE = """() => Math.min(...[...document.querySelectorAll('[class*=st-key-picture] .marks')]
    .map(marks => marks.getBoundingClientRect().top))"""


def box(page: Page):
    return page.get_by_label("Sentence").first


@pytest.mark.parametrize("link", some(["?model=story&mask=window-2&heads_off=d0.1", "?model=translator"], 1))
def test_every_page_has_the_same_controls_at_the_same_places_which_stay_in_view(page, server, link):
    """At 1440 x 900; the picture begins above y = 240, also with something changed, and nobody is shut out.

    Far down a page both rows stand under the header, one under the other, also with a text of several lines. They cut
    no message that stands in the place of a page.
    """
    places, tops = {}, {}
    for name in PAGES:
        driver.open_page(page, f"{server}/{name}{link}")
        assert driver.serious(page) == [], name
        assert driver.is_as_wide_as(page, 1440), name
        places[name] = page.evaluate(PLACES, list(CONTROLS))
        tops[name] = page.evaluate(TITLE)

    assert all(found.items() <= places[""].items() for found in places.values()), places
    assert all(top < LOWEST.get(name, 240) for name, top in tops.items()), tops

    page.set_viewport_size({"width": 1440, "height": 500})
    driver.open_page(page, f"{server}/?model=translator&text=the+cat+sleeps%0Athe+dog+sleeps%0Athe+bird+sings")
    page.evaluate("() => document.querySelector('[data-testid=stMain]').scrollBy(0, 300)")
    driver.settled(page)
    places = page.evaluate(PLACES, ["model", "layer"])
    written = box(page).bounding_box()

    assert 50 <= places["model"][1] <= 64
    assert 100 < written["y"] + written["height"] < places["layer"][1] <= 160

    page.set_viewport_size({"width": 1440, "height": 900})
    for link in some(["?model=story&text=+", f"?model=story&text={'cat+' * 500}", "?model=file:a.attn"], 1):
        driver.open_page(page, f"{server}/{link}")
        note, toolbar = page.locator(".note").first.bounding_box(), page.locator(".st-key-row-one").bounding_box()

        assert toolbar["y"] + toolbar["height"] < note["y"]


def test_enter_analyzes_and_shift_enter_makes_a_line(page, server):
    """While characters are composed Enter is theirs; what the button does, Enter does. A long text shows its start."""
    driver.open_page(page, f"{server}/?model=scratch&text=one+two")
    box(page).fill("three four")
    box(page).press("Enter")
    expect_link(page, "text=three+four")
    box(page).press("Shift+Enter")
    page.keyboard.type("five")

    expect(box(page)).to_have_value("three four\nfive")
    assert "five" not in link(page)

    composing = (
        "box => box.dispatchEvent(new KeyboardEvent('keydown', {key: 'Enter', isComposing: true, bubbles: true}))"
    )
    box(page).evaluate(composing)
    driver.settled(page)

    assert "five" not in link(page)

    page.get_by_role("button", name="Analyze").click()
    expect_link(page, "text=three+four%0Afive")

    box(page).press("Control+End")
    page.keyboard.insert_text("\nsix" * 20)

    assert box(page).evaluate("box => box.scrollTop") > 0

    page.keyboard.press("Enter")
    expect_link(page, "text=three+four%0Afive%0Asix")

    assert box(page).evaluate("box => box.scrollTop") == 0


def test_the_list_of_words_leads_to_the_cards_from_any_page_and_a_card_frames_a_control(page, server):
    """The question stands in the place of the claim; the control that it is about has an outline; Undo leads back."""
    driver.open_page(page, f"{server}/masks")
    expect(page.locator(".guide")).to_have_count(0)
    page.keyboard.press("?")
    page.get_by_role("link", name="Show the guide again").click()
    expect(page.get_by_text("See where each attention head looks")).to_be_visible()
    page.get_by_role("button", name="Hide the future").click()
    expect_link(page, "mask=causal")

    assert page.evaluate("location.pathname") in ("/", "/heads")
    expect(page.locator(".guide")).to_contain_text("Which French words change?")
    outline = "() => getComputedStyle(document.querySelector('.st-key-mask-menu')).outlineStyle"
    assert page.evaluate(outline) == "solid"

    page.locator(".guide").get_by_role("button", name="Back to my text").click()

    expect_link(page, "model=story")


def test_the_phone_folds_the_controls(window, server, context):
    """Text, layer, head, link, undo, Export stand there; the rest behind one button; every button is 44 pixels high.

    What is changed is said at the foot of the screen, and moves nothing. Charts follow the colors of the system.

    On half a screen there is room for the text, and the map begins at the left.
    """
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = window(390, 844)
    driver.open_page(page, f"{server}/?model=translator")

    for one in (
        page.get_by_label("Layer", exact=True),
        page.get_by_role("button", name="Copy link"),
        page.get_by_role("button", name="Undo"),
        page.get_by_role("button", name="Export").first,
    ):
        expect(one).to_be_in_viewport()
    assert (top := page.evaluate(TITLE)) < 300
    for one in ("Mask", "Examples", "More"):
        expect(page.get_by_role("button", name=one, exact=True)).to_be_hidden()

    eye = page.get_by_role("button", name="Head 0", exact=True)
    eye.click()
    expect(page.get_by_role("button", name="head 0 of cross layer 1 off")).to_be_in_viewport()
    driver.settled(page)
    page.evaluate("() => document.querySelector('[data-testid=stMain]').scrollTo(0, 0)")

    assert page.evaluate(TITLE) == top

    page.get_by_role("button", name="Reset all").click()
    expect(page.get_by_role("button", name="Reset all")).to_have_count(0)

    page.get_by_role("button", name="Copy link").click()

    expect(page.get_by_text("opens on this computer alone")).to_be_in_viewport()

    page.get_by_text("Settings", exact=True).click()

    expect(page.get_by_text("opens on this computer alone")).to_have_count(0)

    for one in ("Mask", "Examples", "More"):
        expect(page.get_by_role("button", name=one, exact=True)).to_be_visible()
    small = """() => [...document.querySelectorAll('.stApp button, .stApp input[role=combobox], .stApp summary')]
        .filter(one => one.checkVisibility()).map(one => [one.innerText || one.ariaLabel, one.getBoundingClientRect()])
        .filter(([, box]) => box.height > 1 && box.height < 43.5).map(([name, box]) => [name, box.height])"""
    assert page.evaluate(small) == []
    assert driver.is_as_wide_as(page, 390)

    stale = "(one, stale) => one.closest('[data-stale]').dataset.stale = stale"
    chart, spoken = page.locator(".st-key-picture-head .stVegaLiteChart"), page.locator(".unseen[aria-live]")
    chart.evaluate(stale, "true")

    expect(spoken).to_have_text("Computing…")
    assert "Computing…" in chart.evaluate("one => getComputedStyle(one.closest('[data-stale]'), '::after').content")

    chart.evaluate(stale, "false")

    expect(spoken).to_have_text("")

    label = picture(page, "head").locator("text").first
    light = label.evaluate("one => getComputedStyle(one).fill")
    page.emulate_media(color_scheme="dark")
    expect(label).not_to_have_css("fill", light)
    driver.settled(page)
    page.emulate_media(color_scheme="light")
    expect(label).to_have_css("fill", light)
    driver.resize(page, 800, 900, "light")
    driver.settled(page)

    assert page.evaluate(TITLE) < 330
    assert box(page).bounding_box()["width"] > 600
    assert picture(page, "head").bounding_box()["x"] < 60
