"""What a person does with models of Hugging Face, in a real Chromium: the real all-MiniLM-L6-v2, and a download."""

import re
import sys
from pathlib import Path

import driver
import pytest
from driver import LOADING, picture
from playwright.sync_api import Page, expect

sys.path.insert(0, str(Path(__file__).parents[1] / "sources" / "huggingface"))

import fake_hub

NAME = "tiny/story"
BESIDE = """(marks, token) => {
    const middle = text => { const box = text.getBoundingClientRect(); return box.y + box.height / 2; };
    const texts = [...marks.querySelectorAll('text')];
    const label = texts.find(text => text.textContent === token);
    return texts.filter(text => text !== label && Math.abs(middle(text) - middle(label)) < 5).map(t => t.textContent);
}"""
"""What stands in the same row as a token."""


def open_minilm(page: Page, server: str, path: str = "?") -> None:
    driver.open_page(page, f"{server}/{path}&model=huggingface&hf=all-MiniLM-L6-v2")


def choose(page: Page, within: str, name: str) -> None:
    """Press one of several pills or segments, of which some are buttons and others radios."""
    place = page.locator(within)
    place.get_by_role("radio", name=name, exact=True).or_(place.get_by_role("button", name=name, exact=True)).click()


@pytest.fixture
def hub(tmp_path_factory, monkeypatch):
    """A hub with one model, and the address of an app that may ask it, with an empty cache."""
    folder = tmp_path_factory.mktemp("hub")
    for name in ("HF_TOKEN", "ATTNVIZ_MODELS", "ATTNVIZ_MAX_DOWNLOAD", "HF_HUB_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    monkeypatch.setenv("HF_HOME", str(folder / "cache"))
    with fake_hub.running() as (fake, address):
        fake.add(NAME, fake_hub.write(folder / "model"))
        monkeypatch.setenv("HF_ENDPOINT", address)
        with driver.running_app() as app:
            yield fake, app


def test_heads_sentences_pairs_and_words_of_minilm(page, server):
    """Layer 5 head 11 off, by clicks alone: the vector of "it" moves by 48.5% of its length; a chip takes it back.

    Which of three sentences are alike; what one text of a pair sees of the other, with special tokens hidden.
    """
    open_minilm(page, server)
    page.get_by_label("Layer", exact=True).click()
    page.get_by_role("option", name="encoder layer 5").click()

    expect(picture(page, "head")).to_contain_text("encoder layer 5")

    driver.settled(page)
    page.get_by_role("button", name="Head 11", exact=True).click()

    expect(picture(page, "change")).to_contain_text("Change of the output")
    expect(page).to_have_url(re.compile(r"[?&]heads_off=e5\.11(&|$)"))
    assert picture(page, "change").evaluate(BESIDE, "it") == ["48.5%"]
    expect(page.locator(".says")).to_contain_text("The vector of the sentence moved by 0.1445")

    page.get_by_role("button", name="head 11 of encoder layer 5 off").click()

    expect(picture(page, "change")).to_have_count(0)
    expect(page.locator(".says")).to_have_count(0)

    driver.settled(page)
    page.get_by_role("button", name="Examples").click()
    page.get_by_role("menuitem", name="three sentences").click()

    expect(page.locator(".says")).to_contain_text("Most alike of 3 sentences: 1 and 2 0.61")

    driver.settled(page)
    page.get_by_role("button", name="Examples").click()
    page.get_by_role("menuitem", name="a pair of texts").click()

    expect(picture(page, "head")).to_contain_text("It")
    expect(page.locator(".says")).to_have_count(0)

    driver.settled(page)
    page.get_by_role("button", name="More", exact=True).click()
    choose(page, ".st-key-view-pair", "A to B")
    expect(page).to_have_url(re.compile(r"[?&]view=ab(&|$)"))
    page.locator(".st-key-view-special label").first.click()
    expect(page).to_have_url(re.compile(r"[?&]view=hide\.ab(&|$)"))

    expect(picture(page, "head")).to_contain_text("special tokens are hidden")
    expect(picture(page, "head")).not_to_contain_text("[SEP]")


@pytest.mark.sweep
def test_a_download_is_asked_for_shown_canceled_and_made(page, hub):
    """Its size comes first; a bar says how far it is; canceled, it is asked for again, and then it comes to the end."""
    fake, app = hub
    fake.fault = "hang in a file"
    page.goto(f"{app}/?model=huggingface&hf={NAME}&text=the+cat+sat")
    button = page.get_by_role("button", name=re.compile(r"^(download )?Download \d"))

    expect(button).to_be_visible(timeout=LOADING)
    expect(page.get_by_text("is not on this machine")).to_be_visible()
    assert not [path for path in fake.paths("GET") if path.endswith(".safetensors")]

    button.click()

    expect(page.get_by_text(f"Downloading {NAME}")).to_be_visible()
    expect(page.get_by_text(re.compile(r"^[\d.]+ (bytes|kB) of [\d.]+ kB$"))).to_be_visible()
    expect(page.get_by_role("progressbar")).to_be_visible()

    page.get_by_role("button", name="Cancel").click()

    expect(button).to_be_visible()
    expect(page.get_by_role("progressbar")).to_have_count(0)

    fake.fault = None
    button.click()

    expect(picture(page, "head")).to_contain_text("Head 0 of decoder layer 0 · story", timeout=LOADING)
    expect(page.locator(".note")).to_have_count(0)
