"""What the page does without its server: copy the link, undo by keys, explain words."""

import driver
import pytest
from playwright.sync_api import expect

STORY = "?model=story&layer=d1&head=0"


@pytest.fixture
def story(page, server):
    driver.open_page(page, f"{server}/{STORY}")
    return page


def test_undo_takes_back_one_change_after_another_and_by_keys_in_a_box_its_text(story):
    """Also one made in a menu that is closed since, which would report what it last showed; and one by keys.

    Ctrl+Z in the box takes back what is typed; elsewhere the last step, and Ctrl+Shift+Z does it again.
    """
    undo = story.get_by_role("button", name="Undo")
    links = [story.url]
    for change in (
        lambda: story.get_by_role("button", name="Head 1", exact=True).click(),
        lambda: (story.locator(".st-key-mask-menu button").click(), story.get_by_text("Window", exact=True).click()),
    ):
        change()
        expect(story).not_to_have_url(links[-1])
        driver.settled(story)
        links.append(story.url)
    story.keyboard.press("Escape")
    for link in links[-2::-1]:
        undo.click()
        story.wait_for_url(link)
        driver.settled(story)
    expect(undo).to_be_disabled()
    story.locator(".st-key-layer [role=combobox]").click()
    story.get_by_role("option").first.click()
    expect(story).not_to_have_url(links[0])
    driver.settled(story)
    story.keyboard.press("Control+z")

    story.wait_for_url(links[0])

    driver.settled(story)
    first = story.url
    box = story.get_by_label("Sentence").first
    box.fill("The dog sat")
    story.keyboard.press("Control+Enter")
    story.wait_for_url("**text=The+dog+sat**")
    driver.settled(story)
    second = story.url
    box.click()
    story.keyboard.press("End")
    story.keyboard.type("!")
    story.keyboard.press("Control+z")

    assert box.input_value() == "The dog sat"
    assert story.url == second

    story.evaluate("() => document.activeElement.blur()")
    driver.settled(story)
    story.keyboard.press("Control+z")
    story.wait_for_url(first)
    driver.settled(story)
    story.keyboard.press("Control+Shift+z")
    story.wait_for_url(second)
    expect(box).to_have_value("The dog sat")


def test_words_are_explained_where_they_stand(story):
    """Also words of a picture; the person's own words are not. All of them are behind a key; Escape closes the list.

    Both can be read in dark.
    """
    driver.resize(story, 1440, 900, "dark")
    driver.settled(story)
    title = story.locator("svg.marks text", has_text="Key (").first
    expect(title).to_be_visible()
    where = title.bounding_box()
    story.mouse.move(where["x"] + 10, where["y"] + 5)

    expect(story.get_by_role("tooltip")).to_contain_text("one column of the map")
    expect(story.get_by_role("tooltip")).to_have_css("background-color", "rgb(27, 30, 36)")

    own = story.locator("svg.marks text", has_text="cat").first.bounding_box()
    story.mouse.move(own["x"] + 10, own["y"] + 5)
    story.wait_for_timeout(700)

    expect(story.get_by_role("tooltip")).to_have_count(0)

    start = story.locator("svg.marks text", has_text="<sos>").last.bounding_box()
    story.mouse.move(start["x"] + start["width"] / 2, start["y"] + start["height"] / 2)

    expect(story.get_by_role("tooltip")).to_contain_text("<sos> is the start")

    story.keyboard.press("?")

    expect(story.get_by_role("dialog")).to_contain_text("Blocked cells get weight 0")
    assert driver.serious(story) == []

    story.keyboard.press("Escape")

    expect(story.get_by_role("dialog")).to_have_count(0)

    story.keyboard.press("?")
    story.get_by_role("link", name="Show the guide again").click()

    expect(story.get_by_role("button", name="Read a map")).to_be_visible()
    expect(story.get_by_role("dialog")).to_have_count(0)
