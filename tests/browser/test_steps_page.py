"""The page Steps: stages are turned, rows and cells chosen, a change compared with before."""

import driver
import pytest
from playwright.sync_api import expect


@pytest.fixture
def opened(page, app):
    def opened(link: str = ""):
        driver.open_page(page, f"{app}/steps?model=story&layer=d1&head=0&{link}")
        return page

    return opened


def test_stages_are_turned_by_the_rail_by_next_and_by_the_link(opened):
    page = opened()
    box = driver.place_of(driver.picture(page, "rail"))
    page.mouse.click(box["x"] + 180, box["y"] + 20)
    driver.expect_link(page, "stage=embedding")
    page.get_by_role("button", name="Next: 2 · Position").press("Enter")
    driver.expect_link(page, "stage=position")

    expect(page.locator(".katex-html")).to_contain_text("+P")

    page.reload()
    expect(page.get_by_role("button", name="Next: 3 · Input of this layer")).to_be_visible()
    page.get_by_role("button", name="Back").click()
    driver.expect_link(page, "stage=embedding")


def test_a_cell_of_a_table_is_selected_and_another_row_shows_its_strongest_key(opened):
    page = opened("stage=softmax&cell=7.2")
    expect(page.locator(".large").first).to_contain_text("“because” (7) gives 0.84 of its attention to “cat” (2)")
    expect(page.locator(".words")).to_contain_text("→ 0.8401")
    page.get_by_role("combobox", name="Row").click()
    page.get_by_role("option", name="Row it (8)").click()
    driver.expect_link(page, "cell=8.3")

    driver.click_at(page, "stage", 0.5, 0.5)
    driver.expect_no_link(page, "cell=8.3")


def test_what_is_changed_is_compared_with_the_original(opened):
    """The entropy before and after; the original run can be looked at."""
    page = opened("stage=softmax&cell=7.7&mask=window(1)")
    expect(page.locator(".quiet").filter(has_text="Entropy (nats)")).to_contain_text("→")
    words = page.locator(".words")
    changed = words.inner_text()
    page.get_by_role("radio", name="Original model").click()

    expect(words).not_to_have_text(changed, use_inner_text=True)


def test_the_product_stands_element_by_element(opened):
    page = opened("cell=7.2")
    page.get_by_text("q · k, element by element").click()

    expect(driver.picture(page, "neurons")).to_contain_text("q ∘ k")
