"""Ten things that people come for, each at most two clicks away from the page that opens."""

import driver
import pytest
from playwright.sync_api import Page, expect

START = "?model=story&layer=d1&head=0"


class Person:
    """A page and the number of clicks on it; a test expects what each click brings."""

    def __init__(self, page: Page):
        self.page = page
        self.clicks = 0

    def click(self, selector: str) -> None:
        self.clicks += 1
        self.page.locator(selector).first.click()

    def press(self, name: str) -> None:
        self.clicks += 1
        self.page.get_by_role("button", name=name).first.click()

    def open(self, title: str) -> None:
        self.clicks += 1
        self.page.get_by_role("link", name=title, exact=True).first.click()
        self.page.wait_for_url(f"**/{title.lower()}**", wait_until="commit")


@pytest.fixture
def person(page, app):
    driver.open_page(page, f"{app}/{START}")
    person = Person(page)
    yield person
    assert 1 <= person.clicks <= 2


def test_switch_a_head_off(person):
    person.click(".st-key-heads_off button")
    driver.expect_link(person.page, "heads_off=d1.0")

    expect(person.page.locator(".large").last).to_contain_text("most changed")


def test_compare_with_the_original_model(person, app):
    driver.open_page(person.page, f"{app}/{START}&heads_off=d0.0")
    person.open("Compare")

    expect(person.page.get_by_label("Compare with")).to_have_value("B: the model without changes")
    expect(person.page.locator(".st-key-predictions .says")).to_have_count(2)


def test_see_which_head_matters_most(person):
    person.open("Overview")
    person.press("Which matters most?")

    expect(person.page.locator(".large").first).to_contain_text("matters most here")


def test_explain_a_predicted_word(person):
    person.open("Overview")
    person.page.get_by_role("radio", name="Contributions").click()
    person.clicks += 1

    expect(person.page.locator(".large").first).to_contain_text("adds most to “it”")


def test_paste_a_tensor_and_read_what_is_wrong(person):
    person.press("Check a mask or a model")
    box = person.page.get_by_label("Paste a printed tensor")
    box.fill("tensor([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.2, 0.3, 0.6]])")
    box.press("Control+Enter")

    expect(person.page.locator(".verdict")).to_contain_text("sum")


def test_open_the_computation_of_a_cell(person):
    person.clicks += 1
    driver.click_at(person.page, "head-map", 0.4, 0.5)
    driver.expect_link(person.page, "cell=")
    sentence = person.page.locator(".words").first.inner_text()
    person.press("Step by step")

    query = sentence.partition(" gives ")[0].rpartition("“")[2].partition("”")[0]
    expect(person.page.locator(".large").first).to_contain_text(f"How “{query}”")


def test_save_a_picture(person):
    person.click(".st-key-export button")
    with person.page.expect_download() as download:
        person.press("PNG")

    assert download.value.suggested_filename.endswith(".png")
    assert download.value.path().read_bytes().startswith(b"\x89PNG")


def test_undo(person, app):
    person.page.keyboard.press("1")
    driver.expect_link(person.page, "head=1")
    person.press("Undo")
    driver.expect_link(person.page, "head=0")


def test_open_a_chapter(person):
    person.open("Learn")

    expect(person.page.locator("h1, h2, h3").first).to_contain_text("A word looks at other words")


def test_write_on_and_ask_about_a_word(person, app):
    """The words of the answer can be clicked: each says what else could stand there."""
    driver.open_page(person.page, f"{app}/{START}&text=the+girl+near+the+dogs+was+happy+because")
    person.press("Continue")
    driver.expect_link(person.page, "answer=")
    person.click(".st-key-answer button")
    driver.expect_link(person.page, "cell=")

    expect(person.page.get_by_text("Write this instead")).to_be_visible()
