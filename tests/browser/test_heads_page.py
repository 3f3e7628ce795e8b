"""The page Heads: choices, their link, Back, undo, and clicks on pictures."""

import driver
import pytest
from playwright.sync_api import expect

import attnviz
from attnviz.charts.theme import DARK, LIGHT


@pytest.fixture
def heads(page, app):
    driver.open_page(page, f"{app}/?model=story&layer=d1&head=0")
    return page


def test_each_choice_is_in_the_link_and_back_undo_and_redo_go_to_it(heads):
    """A head off, then on; Back is the browser's, undo the page's own."""
    pill = heads.locator(".st-key-heads_off button")
    opened = heads.url

    pill.nth(1).click()
    driver.expect_link(heads, "heads_off=d1.1")
    expect(heads.get_by_role("button", name="head 1 of decoder layer 1 off")).to_be_visible()
    pill.nth(1).click()
    driver.expect_no_link(heads, "heads_off")
    assert heads.url == opened
    heads.go_back()
    driver.expect_link(heads, "heads_off=d1.1")
    expect(pill.nth(1)).to_have_attribute("aria-pressed", "false")
    expect(pill.nth(0)).to_have_attribute("aria-pressed", "true")

    heads.get_by_role("button", name="Undo").click()
    driver.expect_no_link(heads, "heads_off")
    assert heads.url == opened
    expect(heads.get_by_role("button", name="head 1 of decoder layer 1 off")).to_have_count(0)
    heads.get_by_role("button", name="Redo").click()
    driver.expect_link(heads, "heads_off=d1.1")


def test_a_click_selects_a_cell_and_the_same_click_lets_it_go(heads):
    driver.click_at(heads, "head-map", 0.4, 0.5)
    driver.expect_link(heads, "cell=")
    expect(heads.locator(".words").first).to_contain_text(" gives ")

    driver.click_at(heads, "head-map", 0.4, 0.5)
    driver.expect_no_link(heads, "cell=")


def test_a_saved_run_is_a_model_of_the_session_and_a_text_file_the_text(heads, tmp_path):
    """One that is no run is named, and all stays as it is."""
    attnviz.save(attnviz.analyze("the cat sat", "story"), tmp_path / "run.attn")
    (tmp_path / "mine.txt").write_bytes("the dog\nran".encode("utf-16"))
    (tmp_path / "bad.attn").write_bytes(b"no run")
    box = heads.get_by_label("Text").first

    def bring(name: str) -> None:
        heads.locator(".st-key-open-menu button").first.click()
        heads.locator("input[type=file]").set_input_files(tmp_path / name)

    bring("run.attn")
    driver.expect_link(heads, "model=file%3Arun.attn")
    expect(box).to_have_value("the cat sat")
    expect(box).to_be_disabled()
    heads.keyboard.press("Escape")
    heads.get_by_role("button", name="Undo").click()
    driver.expect_link(heads, "model=story")
    bring("mine.txt")
    driver.expect_link(heads, "text=the+dog+ran")
    expect(heads.locator(".note.notice")).to_contain_text("The 2 lines of mine.txt were joined to one text.")
    heads.locator("input[type=file]").set_input_files(tmp_path / "bad.attn")

    expect(heads.locator(".note.error")).to_contain_text("bad.attn")
    assert "text=the+dog+ran" in heads.url


def test_keys_walk_over_a_picture_choose_a_head_and_undo_but_not_while_one_types(heads):
    """Arrows say each cell, Enter selects it, Escape lets it go; in the box of the text Enter applies it."""
    heads.keyboard.press("1")
    driver.expect_link(heads, "head=1")
    heads.locator("[class*=st-key-picture-head]").focus()
    for key in ("ArrowDown", "ArrowLeft"):
        heads.keyboard.press(key)
    expect(heads.locator("body > .unseen")).to_contain_text("Query (from) was (9) ▸ near, Key (to) The (1), weight")
    heads.keyboard.press("Enter")
    driver.expect_link(heads, "cell=9.1")
    heads.keyboard.press("Escape")
    driver.expect_no_link(heads, "cell=")
    heads.keyboard.press("Control+z")
    driver.expect_link(heads, "cell=9.1")
    heads.keyboard.press("Control+Shift+z")
    driver.expect_no_link(heads, "cell=")

    box = heads.get_by_label("Text").first
    box.fill("the dog ran 0")
    heads.keyboard.press("Control+z")
    heads.keyboard.press("0")
    box.fill("the dog ran")
    heads.keyboard.press("Enter")
    driver.expect_link(heads, "text=the+dog+ran", "head=1")


def test_pictures_follow_the_colors_of_the_system_and_a_text_that_is_being_typed_stays(heads):
    """No click is needed; the link and the browser's history stay."""
    word = driver.picture(heads, "head-map").locator("text").first
    opened, entries = heads.url, heads.evaluate("history.length")
    typed = heads.get_by_label("Text").first
    typed.fill("The dog")

    for colors in (DARK, LIGHT):
        heads.emulate_media(color_scheme="dark" if colors is DARK else "light")
        expect(word).to_have_attribute("fill", colors.quiet)
    driver.settled(heads)

    assert typed.input_value() == "The dog"
    assert (heads.url, heads.evaluate("history.length")) == (opened, entries)


def test_an_answer_is_copied_as_text(page, app):
    generated = attnviz.generate("the cat sat on", "story", 4)
    answer = "-".join(map(str, generated.ids))
    driver.open_page(page, f"{app}/?model=story&text=the+cat+sat+on&answer={answer}")
    page.evaluate("() => { navigator.clipboard.writeText = text => { window.copied = text; }; }")
    page.get_by_role("button", name="Copy", exact=True).click()

    page.wait_for_function("window.copied")
    assert page.evaluate("window.copied") == generated.answer.strip()


def test_the_cards_of_a_first_visit_open_their_model_and_text(page, app):
    cards = {"Hide the future": ("translator", "The+mouse"), "Switch off a head": ("story", "Anna")}
    for name, (model, text) in cards.items():
        page.goto("about:blank")
        driver.open_page(page, f"{app}/")
        page.get_by_role("button", name=name, exact=True).click()

        driver.expect_link(page, f"model={model}", f"text={text}")
        expect(page.locator(".note")).to_have_count(0)
