"""Tabs of the page Masks in a real Chromium: code for each library, and a file that is checked."""

from urllib.parse import urlencode

import driver
from playwright.sync_api import expect


def open_tab(page, server, tab: str, **link) -> None:
    driver.open_page(page, f"{server}/masks?{urlencode({'tab': tab} | link)}")


def test_the_mask_is_code_to_copy_for_each_library(page, server):
    """One click on a library gives its code; the table under it says what each of them writes."""
    open_tab(page, server, "Conventions", model="scratch")

    expect(page.get_by_role("code").first).to_contain_text(".tril()")

    page.get_by_role("radio", name="nn.MultiheadAttention").click()

    expect(page.get_by_role("code").first).to_contain_text("triu(1)")
    expect(page.get_by_role("row", name="FlexAttention")).to_contain_text("True = may attend")


def test_a_file_is_checked_and_so_is_what_is_pasted_and_one_that_is_none_gets_one_sentence(page, server):
    """A pickle is refused; numbers after it are read, with the rule that they break and its cells, in a picture."""
    open_tab(page, server, "Check", checked="a file")
    files = page.locator(".st-key-tab ~ * input[type=file]")
    files.set_input_files({"name": "a.npy", "mimeType": "application/octet-stream", "buffer": b"\x80\x04."})

    expect(page.get_by_role("alert")).to_contain_text("is damaged or no NumPy array")

    files.set_input_files({"name": "mask.csv", "mimeType": "text/csv", "buffer": b"0,1,1\n0,0,1\n0,0,0\n"})

    expect(page.get_by_text("Nothing wrong was found. Assumed: a causal decoder.")).to_be_visible()

    driver.settled(page)
    page.get_by_text("Report, shell command and rules").click()

    expect(page.get_by_text("attnviz check mask.csv")).to_be_visible()

    page.get_by_role("radio", name="pasted numbers").click()
    page.locator(".st-key-pasted textarea").fill("1 0 0 0 0\n.4 .5 0 .1 0\n.4 .3 .3 0 0\n.1 .2 .3 .4 0\n.1 .2 .2 .3 .2")
    page.get_by_role("button", name="Check", exact=True).click()

    expect(page.locator("[class*=st-key-finding]").first).to_contain_text("position 1 saw position 3")
    expect(page.locator("[class*=st-key-picture-evidence], [class*=st-key-evidence]").first).to_be_visible()
