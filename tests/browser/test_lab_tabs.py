"""A mask made wrong on purpose, found, tested and mended in a real Chromium; and a file that is checked."""

import re
from urllib.parse import urlencode

import driver
from playwright.sync_api import expect


def open_tab(page, server, tab: str, **link) -> None:
    driver.open_page(page, f"{server}/masks?{urlencode({'tab': tab} | link)}")


def test_a_causal_mask_inverted_by_mistake_is_named_turns_the_leak_test_red_and_is_mended(page, server):
    """From the opening state: the mistake has a name, leaks, is taken back, and the right call can be copied."""
    open_tab(page, server, "Compose", model="scratch")
    page.get_by_role("radio", name="Conventions").click()
    page.get_by_text("Use the mask with the wrong convention").click()

    expect(page.locator(".note")).to_contain_text("a causal mask with open and blocked swapped")

    driver.settled(page)
    page.get_by_role("button", name="Use this mistaken mask").click()

    expect(page.locator(".st-key-picture-leaks")).to_contain_text("saw what it must not")
    expect(page).to_have_url(re.compile("mask=%7Ecausal|mask=~causal"))

    page.get_by_role("button", name="Undo the mistake").click()

    expect(page.get_by_text("No leak: no output moves")).to_be_visible()

    page.get_by_role("radio", name="Conventions").click()
    page.get_by_role("radio", name="nn.MultiheadAttention").click()

    expect(page.locator("[data-testid=stCode]").first).to_contain_text("triu(1)")
    expect(page.locator(".st-key-picture-convention")).to_contain_text("True: blocked")


def test_a_file_is_checked_and_so_is_what_is_pasted_and_one_that_is_none_gets_one_sentence(page, server):
    """A pickle is refused; numbers after it are read, with the rule that they break and its cells, in a picture."""
    open_tab(page, server, "Check", checked="a file")
    files = page.locator(".st-key-tab ~ * input[type=file]")
    files.set_input_files({"name": "a.npy", "mimeType": "application/octet-stream", "buffer": b"\x80\x04."})

    expect(page.get_by_role("alert")).to_contain_text("is damaged or no NumPy array")

    files.set_input_files({"name": "mask.csv", "mimeType": "text/csv", "buffer": b"0,1,1\n0,0,1\n0,0,0\n"})

    expect(page.get_by_text("Nothing wrong was found. Assumed: a causal decoder.")).to_be_visible()

    page.get_by_text("Report, shell command and rules").click()

    expect(page.get_by_text("attnviz check mask.csv")).to_be_visible()

    page.get_by_role("radio", name="pasted numbers").click()
    page.locator(".st-key-pasted textarea").fill("1 0 1\n1 1 0\n1 1 1")
    page.get_by_role("button", name="Check", exact=True).click()

    expect(page.locator("[class*=st-key-finding]").first).to_contain_text("query 0 sees key 2")
    expect(page.locator("[class*=st-key-picture-evidence], [class*=st-key-evidence]").first).to_be_visible()
