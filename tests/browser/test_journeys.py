"""What a person does with the app, done in a real Chromium."""

import io
import re

import driver
import pytest
from driver import click_at, expect_link, link, picture
from examples import some
from PIL import Image
from playwright.sync_api import Page, expect

SENTENCE = "The old dog sleeps by the door"


def open_app(page: Page, server: str, path: str = "") -> None:
    """Open a page with random weights."""
    driver.open_page(page, f"{server}/{path}{'&' if '?' in path else '?'}model=scratch")


def type_sentence(page: Page, text: str) -> None:
    page.get_by_label("Sentence").first.fill(text)
    page.keyboard.press("Control+Enter")
    page.wait_for_function("text => new URLSearchParams(location.search).get('text') === text", arg=text, polling=50)
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


def test_the_keyboard_reaches_every_control_and_a_click_pins_a_cell(page, server):
    """Tab alone leads to the sentence, the masks, the eyes of heads, and the button that saves the picture.

    Arrow keys lead from eye to eye, and Space switches a head off; the focus stays. A pinned cell is said in words and
    stands in the link; a second click or Escape lets it go.
    """
    open_app(page, server)
    reached = set()
    for _ in range(45):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.ariaLabel || document.activeElement.innerText || ''"))

    text = " | ".join(reached)
    for label in ("Sentence", "Analyze", "Mask", "More", "invert", "Head 0", "Export", "Numbers"):
        assert label in text

    page.get_by_role("button", name="Head 0", exact=True).focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Space")

    expect_link(page, "heads_off=e0.1")
    expect(page.get_by_role("button", name="Head 1", exact=True, pressed=False)).to_be_focused()

    words = page.locator(".words")
    before = words.text_content()
    click_at(page, "head", 0.5, 0.45)

    expect(words).to_have_text(re.compile(r"“\w+” \(\d\) gives 0\.\d\d of its attention to “\w+” \(\d\)[.,]"))
    expect_link(page, "cell=")

    click_at(page, "head", 0.5, 0.45)

    expect(words).to_have_text(before)
    expect(page).not_to_have_url(re.compile("[?&]cell="))
    driver.settled(page)

    click_at(page, "head", 0.5, 0.45)
    expect_link(page, "cell=")
    page.keyboard.press("Escape")

    expect(words).to_have_text(before)


@pytest.mark.sweep
def test_a_downloaded_png_is_the_picture(page, server):
    """The file is named after what it shows, and drawn in many colors."""
    open_app(page, server, "?mask=subsequent&head=2")
    name, content = save(page, "head", "PNG")

    assert name.startswith("scratch-encoder-layer-0-head-2-The-cat-sat-on-the-mat")
    assert name.endswith(".png")
    image = Image.open(io.BytesIO(content)).convert("RGB")
    assert image.width > 600
    assert len(image.getcolors(maxcolors=image.width * image.height)) > 50


def test_a_link_opens_the_same_picture(page, server, elsewhere):
    """A sentence, a mask, a head off, another head, a cell: each is drawn, said, linked, and can be taken back.

    What stands in the address then gives the same words and marks in another browser.
    """
    open_app(page, server)
    type_sentence(page, SENTENCE)
    labels = picture(page, "head").text_content()
    assert all(labels.count(token) >= 2 for token in SENTENCE.split())
    choose_mask(page, "Causal (hide the future)")
    expect_link(page, "mask=causal")
    expect(picture(page, "head")).to_contain_text("blocked by you: causal")
    page.get_by_role("button", name="Head 1", exact=True).click()
    expect_link(page, "heads_off=e0.1")
    expect(picture(page, "change")).to_contain_text("%")
    expect(page.get_by_role("button", name="Head 1", exact=True, pressed=False)).to_be_visible()
    click_at(page, "heads", 0.75, 0.65)  # the fourth of four thumbnails stands right and below
    expect_link(page, "head=3")
    expect(picture(page, "head")).to_contain_text("Head 3")
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

    page.get_by_role("button", name="Causal (hide the future)").click()

    expect(picture(page, "head")).not_to_contain_text("causal")

    page.get_by_role("button", name="Reset all").click()

    expect(picture(page, "change")).to_have_count(0)


@pytest.mark.parametrize("n", some([512, 64, 256], 1))
def test_long_sentences_stay_usable(page, server, n):
    """A sentence of n tokens is drawn, can be pointed at, and a cell of it pinned."""
    words = "+".join(f"w{i % 89}" for i in range(n))
    open_app(page, server, f"?text={words}")
    click_at(page, "head", 0.5, 0.5)

    expect(page.locator(".words")).to_contain_text("of its attention to")
    expect_link(page, "cell=")
