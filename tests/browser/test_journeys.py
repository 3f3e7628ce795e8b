"""What a person does with the app, done in a real Chromium."""

import io
import re

import driver
import pytest
from driver import click_at, expect_link, link, picture
from PIL import Image
from playwright.sync_api import Page, expect

SENTENCE = "The old dog sleeps by the door"


def open_app(page: Page, server: str, path: str = "") -> None:
    """Open a page with random weights."""
    page.goto(f"{server}/{path}{'&' if '?' in path else '?'}model=scratch")
    driver.settled(page)


def type_sentence(page: Page, text: str) -> None:
    page.get_by_label("Sentence").first.fill(text)
    page.keyboard.press("Control+Enter")
    page.wait_for_function("text => new URLSearchParams(location.search).get('text') === text", arg=text)
    driver.settled(page)


def choose_mask(page: Page, name: str) -> None:
    """Choose a rule in the menu of masks, and close the menu."""
    page.get_by_role("button", name="Mask", exact=True).click()
    page.get_by_role("button", name=name, exact=True).click()
    expect(page.locator(".st-key-changes")).to_contain_text(name, ignore_case=True)
    page.keyboard.press("Escape")


def save(page: Page, name: str, label: str):
    """Take a picture away: the file's suggested name and its bytes."""
    page.locator(f".st-key-take-{name}").get_by_role("button").first.click()
    with page.expect_download() as waiting:
        page.get_by_role("button", name=label, exact=True).click()
    download = waiting.value
    return download.suggested_filename, download.path().read_bytes()


def test_a_typed_sentence_is_drawn(page, server):
    """Every token of a typed sentence labels a row and a column of the large picture."""
    open_app(page, server)
    type_sentence(page, SENTENCE)

    expect(picture(page, "head")).to_contain_text("door")
    labels = picture(page, "head").text_content()
    for token in SENTENCE.split():
        assert labels.count(token) >= 2


def test_a_click_on_a_thumbnail_shows_that_head_large(page, server):
    """The fourth of four thumbnails stands right and below."""
    open_app(page, server)
    click_at(page, "heads", 0.75, 0.65)

    expect_link(page, "show=3")
    expect(picture(page, "head")).to_contain_text("Head 3")


def test_a_click_pins_a_cell_and_a_second_click_or_escape_lets_it_go(page, server):
    """The pinned cell is said in words and stands in the link."""
    open_app(page, server)
    words = page.locator(".words")
    before = words.text_content()
    click_at(page, "head", 0.5, 0.45)

    expect(words).to_have_text(re.compile(r"'\w+' \(\d\) gives 0\.\d\d of its attention to '\w+' \(\d\)\."))
    expect_link(page, "cell=")

    click_at(page, "head", 0.5, 0.45)

    expect(words).to_have_text(before)
    expect(page).not_to_have_url(re.compile("[?&]cell="))
    driver.settled(page)

    click_at(page, "head", 0.5, 0.45)
    expect_link(page, "cell=")
    page.keyboard.press("Escape")

    expect(words).to_have_text(before)


def test_the_subsequent_mask_is_drawn_and_undone(page, server):
    """The mask blocks the future in words on the picture; its chip takes it back."""
    open_app(page, server)
    choose_mask(page, "Causal (hide the future)")

    expect(picture(page, "head")).to_contain_text("blocked by causal")

    page.get_by_role("button", name="Causal (hide the future)").click()

    expect(picture(page, "head")).not_to_contain_text("causal")


def test_a_head_switched_off_moves_the_output(page, server):
    """The picture of the change comes, and goes with the change."""
    open_app(page, server)
    page.get_by_role("button", name="Switch head 2 off").click()

    expect(picture(page, "change")).to_contain_text("%")
    expect(page.get_by_role("button", name="Switch head 2 on")).to_be_visible()
    expect_link(page, "off=e0.2")

    page.get_by_role("button", name="Reset all").click()

    expect(picture(page, "change")).to_have_count(0)


def test_a_downloaded_png_is_the_picture(page, server):
    """The file is named after what it shows, and drawn in many colors."""
    open_app(page, server, "?mask=subsequent&show=2")
    name, content = save(page, "head", "PNG")

    assert name.startswith("scratch-encoder-layer-0-head-2-The-cat-sat-on-the-mat")
    assert name.endswith(".png")
    image = Image.open(io.BytesIO(content)).convert("RGB")
    assert image.width > 600
    assert len(image.getcolors(maxcolors=image.width * image.height)) > 50


def test_a_downloaded_svg_holds_the_tokens(page, server):
    """Every token stands in the file as text."""
    open_app(page, server, "masks")
    name, content = save(page, "mask", "SVG")

    assert name.endswith(".svg")
    for token in ("The", "cat", "sat", "on", "the", "mat"):
        assert f">{token}</text>" in content.decode()


def test_a_link_opens_the_same_picture(page, server, elsewhere):
    """What stands in the address after some clicks gives the same words and marks in another browser."""
    open_app(page, server)
    type_sentence(page, SENTENCE)
    choose_mask(page, "Causal (hide the future)")
    expect_link(page, "mask=subsequent")
    page.get_by_role("button", name="Switch head 1 off").click()
    expect_link(page, "off=e0.1")
    click_at(page, "heads", 0.75, 0.65)
    expect_link(page, "show=3")
    click_at(page, "head", 0.4, 0.5)
    expect_link(page, "cell=")
    other = elsewhere()
    other.goto(page.evaluate("location.href"))
    expect(picture(other, "change")).to_be_visible()
    driver.settled(other)

    for name in ("head", "heads", "change"):
        assert picture(other, name).text_content() == picture(page, name).text_content()
    assert other.locator(".words").text_content() == page.locator(".words").text_content()
    assert link(other) == link(page)


def test_what_was_changed_is_kept_from_page_to_page(page, server):
    """Text, mask and heads go along to the other page and back, and stay in the link."""
    open_app(page, server)
    type_sentence(page, "one two three")
    choose_mask(page, "Window")
    expect_link(page, "mask=window")
    page.get_by_role("button", name="Switch head 0 off").click()
    expect_link(page, "off=e0.0")
    page.get_by_role("link", name="Masks").click()
    expect(picture(page, "mask")).to_contain_text("blocked by window")
    driver.settled(page)

    expect_link(page, "text=one+two+three", "off=e0.0")

    page.get_by_role("link", name="Heads").click()
    expect(page.get_by_role("button", name="Switch head 0 on")).to_be_visible()
    driver.settled(page)

    expect_link(page, "off=e0.0", "mask=window")


def test_the_masks_page_opens_on_the_subsequent_grid(page, server):
    """Shift-right labels: the row of <sos> predicts the first word."""
    open_app(page, server, "masks")

    expect(picture(page, "mask")).to_contain_text("blocked by causal")
    expect(picture(page, "mask")).to_contain_text("<sos>")
    expect(picture(page, "mask")).to_contain_text("<eos>")
    expect(picture(page, "mask")).to_contain_text("may attend")


@pytest.mark.parametrize("n", [64, 256, 512])
def test_long_sentences_stay_usable(page, server, n):
    """A sentence of n tokens is drawn, can be pointed at, and a cell of it pinned."""
    words = "+".join(f"w{i % 89}" for i in range(n))
    open_app(page, server, f"?text={words}")
    click_at(page, "head", 0.5, 0.5)

    expect(page.locator(".words")).to_contain_text("of its attention to")
    expect_link(page, "cell=")


def test_the_keyboard_reaches_every_control(page, server):
    """Tab alone leads to the sentence, the masks, the eye of a head, and the button that saves the picture."""
    open_app(page, server)
    reached = set()
    for _ in range(45):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.ariaLabel || document.activeElement.innerText || ''"))

    text = " | ".join(reached)
    for label in ("Sentence", "Analyze", "Mask", "Display", "invert", "Switch head 3 off", "Export", "Numbers"):
        assert label in text
