"""What a person does with the trained models, done in a real Chromium."""

import re

import driver
import pytest
from driver import expect_link, link, picture
from playwright.sync_api import Page, expect

from attnviz.lessons import course
from attnviz.models import trained
from attnviz.sources import cards
from attnviz.ui.shared import models

CARD = cards.card("translator")
SITE, HEAD = CARD.opens
FIRST = CARD.examples[0]


def open_page(page: Page, server: str, path: str = "") -> None:
    if "model=" not in path:
        path += f"{'&' if '?' in path else '?'}model=translator"
    driver.open_page(page, f"{server}/{path}")


def choose(page: Page, model: str) -> None:
    """By its name, under which stands what it is: that belongs to the name, for those who hear it, too."""
    page.get_by_label("Model").first.click()
    page.get_by_role("option", name=f"{model} {models.line(model)}", exact=True).click()
    page.wait_for_function(
        "model => (new URLSearchParams(location.search).get('model') ?? 'translator') === model", arg=model
    )
    driver.settled(page)


def turn(page: Page, name: str) -> None:
    """Press the eye of a head, which is on."""
    page.get_by_role("button", name=f"Head {name}", exact=True).click()
    driver.settled(page)


def test_the_first_screen_has_it_all_and_a_typed_sentence_is_translated(page, server):
    """All of it at 1440 x 900 without scrolling: the alignment, the translation, what the head does, and the evidence.

    Step by step, the next word, or the output stand beside the picture. Another sentence of the grammar is written in
    French, and stays with another model.
    """
    open_page(page, server)

    expect(picture(page, "head")).to_contain_text(f"Head {HEAD} of {SITE} · translator")
    expect(page.locator(".says")).to_contain_text("Translation")
    expect(page.locator(".large")).to_contain_text("This head")
    expect(page.get_by_text("Evidence")).to_have_count(1)
    texts = "marks => Math.max(...[...marks.querySelectorAll('text')].map(t => t.getBoundingClientRect().bottom))"
    assert picture(page, "head").evaluate(texts) <= 900  # the legend below the map, too
    for place in (page.locator(".says"), page.locator(".large"), page.get_by_text("Evidence")):
        box = place.bounding_box()
        assert box["y"] >= 0
        assert box["y"] + box["height"] <= 900
        assert box["x"] + box["width"] <= 1440
    assert link(page) == "?model=translator"

    page.get_by_role("radio", name="next word").or_(page.get_by_role("button", name="next word")).first.click()

    expect(picture(page, "words")).to_contain_text("Next word after")
    expect_link(page, "effect=next")

    driver.settled(page)
    before = page.locator(".says").text_content()
    page.get_by_label("Sentence").first.fill(CARD.examples[2])
    page.keyboard.press("Control+Enter")

    expect(page.locator(".says")).not_to_have_text(before)
    driver.settled(page)

    page.get_by_label("Sentence").first.fill(CARD.examples[2] + " zzz")
    page.keyboard.press("Control+Enter")

    expect(page.locator(".note.notice").filter(has_text="does not know “zzz”")).to_have_count(1)
    driver.settled(page)
    choose(page, "scratch")

    expect(page.get_by_label("Sentence").first).to_have_value(CARD.examples[2] + " zzz")


def test_a_model_is_changed_and_asked(page, server):
    """Heads off: translations before and after stand side by side, what differs is marked; a reset takes it back.

    On the page Masks the mask of the decoder is drawn; turned off, nothing is blocked, and a chip takes it back. A
    finding in the panel about the model opens its head. A click on a cell asks for the word after its query.
    """
    cross = "-".join(f"c{layer}.{head}" for layer in range(2) for head in range(4) if (layer, head) != (0, 0))
    open_page(page, server, f"?layer=c0&heads_off={cross}")
    turn(page, "0")

    expect(page.locator(".says")).to_contain_text("before")
    expect(page.locator(".says u").first).to_have_css("font-weight", "700")
    expect(picture(page, "steps")).to_contain_text("hollow bar: before the change")

    page.get_by_role("button", name="Reset all").click()

    expect(page.locator(".says")).to_contain_text("Translation")

    open_page(page, server, "masks")

    expect(picture(page, "mask")).to_contain_text("blocked by causal mask")

    page.get_by_role("button", name="Mask", exact=True).click()
    page.get_by_text("Built-in mask of the decoder: causal", exact=True).click()

    expect(picture(page, "mask")).not_to_contain_text("blocked")

    page.get_by_role("button", name="built-in causal mask off").click()

    expect(picture(page, "mask")).to_contain_text("blocked by causal mask")

    found = CARD.behaviors[-1]
    open_page(page, server, "model?model=translator")  # a page of before
    page.get_by_role("button", name="About this model").click()
    about = page.get_by_role("dialog")
    expect(about.locator(".st-key-picture-curve .marks")).to_be_visible()
    about.get_by_role("button", name=found.site.head(found.heads[0]).capitalize()).click()

    expect(picture(page, "head")).to_contain_text(f"Head {found.heads[0]} of {found.site}")
    assert page.evaluate("location.pathname") in ("/", "/heads")

    open_page(page, server, "?model=induction")
    box = picture(page, "head").bounding_box()
    page.mouse.click(box["x"] + 0.2 * box["width"], box["y"] + 0.5 * box["height"])

    page.wait_for_url(re.compile(r"cell=\d+"))
    driver.settled(page)
    query = re.search(r"cell=(\d+)\.", link(page))[1]
    expect(picture(page, "words")).to_contain_text(f"({query})")


@pytest.mark.sweep
def test_models_are_chosen_in_any_order(page, server):
    """Each draws its own first example, and nothing complains on the way."""
    open_page(page, server)
    for model in ("story", "scratch", "induction", "translator", "scratch", "story"):
        choose(page, model)

        expect(picture(page, "head")).to_contain_text(f" · {model}")
        expect(page.locator(".note")).to_have_count(0)


@pytest.mark.sweep
def test_the_slider_of_a_chapter_goes_back_to_the_untrained_head(page, server):
    """By keyboard: the map and the link say the step, and a chip of another page leads to the trained model."""
    steps = trained.checkpoints("induction")
    number = 1 + [step.title for step in course().steps].index("How a head is learned")
    open_page(page, server, f"learn?chapter={number}&model=induction")
    page.get_by_role("slider", name="Training step").focus()
    for key, step in (("ArrowRight", steps[1]), ("ArrowLeft", steps[0])):
        page.keyboard.press(key)
        expect_link(page, f"step={step}")

        expect(picture(page, "head")).to_contain_text(f"induction after step {step}")

    page.get_by_role("link", name="Heads", exact=True).click()
    page.get_by_role("button", name="Training step: 0 (untrained)").click()

    expect(picture(page, "head")).not_to_contain_text("after step")


def written(drawing) -> list[str]:
    """What stands on a picture. The labels of axes stand in the page in the order in which they were drawn last."""
    return sorted(drawing.locator("text").all_text_contents())


@pytest.mark.sweep
def test_a_link_opens_the_same_picture_of_a_model(page, server):
    """Model, site, head, step and edits, in a session that knows nothing else."""
    open_page(page, server, f"?model=induction&step={trained.checkpoints('induction')[-2]}")
    page.get_by_label("Layer", exact=True).click()
    page.get_by_role("option", name="decoder layer 0").click()
    expect_link(page, "layer=d0")
    turn(page, "1")
    expect_link(page, "heads_off=")
    expect(picture(page, "head")).to_contain_text("after step")

    def seen() -> list:
        pictures = [written(picture(page, name)) for name in ("head", "heads", "words")]
        words = [page.locator(place).all_text_contents() for place in (".says", ".large", ".words")]
        return [*pictures, *words, link(page)]

    before = seen()
    page.reload()
    expect(picture(page, "words")).to_be_visible()
    driver.settled(page)

    assert seen() == before


@pytest.mark.sweep
def test_settings_survive_the_panel_about_the_model_and_another_page(page, server):
    """A window's reach, colors and heads off are there again."""
    open_page(page, server, f"?mask=window%287%29&colors=logarithmic&heads_off={SITE.kind[0]}{SITE.layer}.1")
    parts = {*link(page)[1:].split("&")}
    page.get_by_role("button", name="About this model").click()
    expect(page.get_by_role("dialog")).to_be_visible()
    driver.settled(page)
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    driver.settled(page)

    assert {*link(page)[1:].split("&")} == parts

    page.get_by_role("link", name="Masks", exact=True).click()
    expect(picture(page, "mask")).to_be_visible()
    driver.settled(page)
    page.get_by_role("link", name="Heads", exact=True).click()
    expect(picture(page, "heads")).to_be_visible()
    driver.settled(page)

    assert {*link(page)[1:].split("&")} == parts
    page.get_by_role("button", name="Mask", exact=True).click()
    expect(page.get_by_label("keys before")).to_have_value("7")
