"""A page that holds its model: what it computes equals the core in float64, and what a person does there is shown."""

import random
import re

import driver
import hostile
import pytest
import rules
import tiny
import torch
from examples import examples, sweeps
from hypothesis import assume, given
from hypothesis import strategies as st
from playwright.sync_api import Page, expect

import attnviz
from attnviz import api
from attnviz.core.display import visible_text
from attnviz.core.edits import Edits, Site
from attnviz.core.errors import AttnvizError, MaskError
from attnviz.core.masks import mask_from_text
from attnviz.sources.trained import Trained

TEXTS, EDITS = (500, 20) if sweeps() else (14, 7)
EXACT = 1e-12
MASKS = (
    *("", "", "", "causal", "window(2)", "window(1, 1) & causal", "prefix(3)", "strided(2) | global(0)", "~window(0)"),
    *("blocked(0:0, 2-3:0-1)", "documents(2, 3)", "blocks(3)", "dilated(4, step=2)", "window(0) & prefix(0)"),
)
RUN = """cases => cases.map(({text, asked, targets}) => {
  const run = live.run(live.tokens(text), live.edits(asked), targets), {columns, rows} = run.logits;
  const listed = values => Array.from(values, value => value === -Infinity ? null : value);
  const weights = ({heads}) => heads.map(head => listed(head.weights.data));
  const sites = Object.entries(run.sites).map(([name, site]) => [name, weights(site)]);
  return {ids: run.sentence.map(token => token.id), written: run.written, text: run.text ?? null,
    logits: listed(run.logits.data.slice(columns * (rows - 1))), sites: Object.fromEntries(sites)};
})"""


@pytest.fixture(scope="module")
def pages(chromium, tmp_path_factory):
    """One page for each model, opened from disk without a network; the keys are names of models."""
    context, folder = chromium.new_context(offline=True), tmp_path_factory.mktemp("live")
    problems: list[str] = []
    opened = {}
    for name in api.LIVE:
        assert (folder / f"{name}.html").write_text(api.live(name), encoding="utf-8") < 2_000_000
        opened[name] = context.new_page()
        driver.watch(opened[name], problems)
        opened[name].goto((folder / f"{name}.html").as_uri())
        opened[name].wait_for_selector("html[data-painted]")
    yield opened
    context.close()
    assert problems == []


def asked_of(source: Trained, draw: random.Random) -> tuple[dict, Edits]:
    """Draw random changes; return them as the page takes them, and as edits."""
    places = [(site, head) for site in source.sites for head in range(source.num_heads)]
    off = draw.sample(places, draw.choice([0, 0, 1, 3]))
    mask, temperature, scaled, own, cross = (
        draw.choice(options)
        for options in (MASKS, (1, 1, 0.5, 3.7), (True, True, False), (True, True, False), (True, False))
    )
    names = [f"{site.kind[0]}{site.layer}.{head}" for site, head in off]
    asked = {"mask": mask, "off": names, "temperature": temperature, "scaled": scaled}
    edits = Edits(
        mask_from_text(mask) if mask else None,
        frozenset(off),
        own,
        cross,
        temperature=temperature,
        scale=None if scaled else 1.0,
    )
    return asked | {"ownMask": own, "maskCross": cross}, edits


def texts_of(source: Trained, draw: random.Random) -> list[str]:
    """Return texts of known words from the shortest to the longest length, and hostile texts."""
    words, longest = source._input_words.words, source.longest - 1
    lengths = [1, longest, *(draw.randint(2, 12) for _ in range(TEXTS // 2))]
    known = [" ".join(draw.choices(words, k=length)) for length in lengths]
    others = [case.text for case in hostile.TEXTS if case.text.strip()]
    draw.shuffle(others)
    count = TEXTS if sweeps() or not source.writes else TEXTS // 2
    return [*known, *others, *(f"{a} {b[:40]}" for a, b in zip(known * 9, others * 9, strict=False))][:count]


@pytest.mark.parametrize("name", api.LIVE)
def test_the_page_computes_what_the_core_computes_in_float64(pages, name):
    source, draw = Trained(name), random.Random(name)
    for text in texts_of(source, draw):
        changes = [asked_of(source, draw) for _ in range(EDITS)]
        try:
            sentences = source.tokenize([text])
        except AttnvizError:
            assert pages[name].evaluate(
                "text => live.tokens(text).cut || live.tokens(text).sentence.length === 1", text
            )
            continue
        cases = [{"text": text, "asked": asked} for asked, _ in changes]
        for found, (_, edits) in zip(pages[name].evaluate(RUN, cases), changes, strict=True):
            with tiny.in_float64():
                record = source.run(sentences, edits)

            assert found["ids"] == [token.id for token in sentences[0].tokens]
            if record.targets:
                assert found["written"] == [token.id for token in record.targets[0].tokens]
                assert found["text"] == record.prediction.written[0]
            for site in record.sites:
                of_heads = torch.tensor(found["sites"][f"{site.kind[0]}{site.layer}"], dtype=torch.float64)
                weights = torch.stack([record.step(site).weights(head) for head in range(source.num_heads)])
                assert (of_heads.reshape(weights.shape) - weights).abs().max() <= EXACT
            logits = torch.tensor([-torch.inf if one is None else one for one in found["logits"]], dtype=torch.float64)
            probabilities = record.prediction.logits[0, -1].softmax(-1)
            assert (logits.softmax(-1) - probabilities).abs().max() <= EXACT


ASSIGNED = st.characters(exclude_categories=("Cs", "Cn"))
"""Characters that Python's version of Unicode knows; a browser may have a newer version."""


@given(text=st.text(ASSIGNED) | st.sampled_from([case.text for case in hostile.TEXTS]))
@examples(400)
def test_words_are_cut_and_drawn_as_the_app_does(pages, text):
    source = Trained("story")
    found = pages["story"].evaluate(
        "text => live.reads.tokens(text).map(token => [token.text, token.id])",
        text := text.encode("utf-8", "replace").decode(),
    )

    assert found == [[token.text, token.id] for token in source._input_words.encode(text)]
    assert pages["story"].evaluate("text => live.visible(text)", text) == visible_text(text)


@st.composite
def masks(draw):
    """Draw a mask of one to three rules as text."""
    drawn = [draw(rules.rules(batch=1)) for _ in range(draw(st.integers(1, 3)))]
    drawn = [~mask if draw(st.booleans()) else mask for mask in drawn]
    mask = drawn[0]
    for other in drawn[1:]:
        mask = mask & other if draw(st.booleans()) else mask | other
    try:
        return mask_from_text(mask.text).text
    except MaskError:
        assume(False)


@given(text=masks())
@examples(200)
def test_a_mask_opens_the_cells_that_it_opens_in_the_app(pages, text):
    """Its predicates are printed from those of the rules; those that are in the app alone are refused by their name."""
    draws = """text => {
      try {
        const open = live.edits({...live.asked, mask: text}).mask;
        return [...Array(63).keys()].map(i => !!open(Math.floor(i / 9), i % 9));
      } catch (error) {
        return error.message;
      }
    }"""
    found = pages["story"].evaluate(draws, text)

    if alone := re.search(r"padding|random|media", text):
        assert f"the rule “{alone[0]}” is in the app alone" in found
    else:
        assert found == mask_from_text(text).grid(7, 9).flatten().tolist()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "causl",
            "Character 1 of the mask “causl”: there is no rule “causl”. Available rules: blank, block_diffusion, ",
        ),
        ("window", "Character 1 of the mask “window”: “before” is missing; write window(before, after=0)."),
        ("window(x)", "“before” is “x”; it must be a whole number from 0 to 100,000."),
        ("(causal", "the parenthesis that opens at character 1 is not closed."),
        ("causal window(2)", "“window” cannot stand here. Rules are joined by & and |."),
        ("causal &", "a rule is missing; write one, such as causal or window(2)."),
        ("blocked(3)", "cells are written query:key, such as 3:0 or, for several, 4-6:0-2."),
        ("window(1, 2, 3)", "the rule does not take this; write window(before, after=0)."),
    ],
)
def test_a_mask_that_cannot_be_read_is_said_and_the_last_picture_stays(pages, text, sentence):
    page = pages["story"]
    before = page.evaluate("live.says()")
    page.locator("#rule").fill(text)

    expect(page.locator("#wrong")).to_contain_text(sentence)
    assert page.evaluate("live.says()") == before
    page.locator("#rule").fill("")
    expect(page.locator("#wrong")).to_be_hidden()


FOLLOW = """link => new Promise(done => {
  const before = location.hash;
  location.hash = link;
  if (location.hash === before) done();
  else addEventListener("hashchange", () => done(), {once: true});
})"""
"""Open a link in the page; the page's own listener runs first."""


def fresh(page: Page, link: str = "") -> Page:
    """Return the page once it shows a link."""
    page.evaluate(FOLLOW, link or "text=the girl near the dogs was happy because")
    expect(page.locator("#wrong")).to_be_hidden()
    return page


def percent(page: Page, row: int = 0) -> dict[str, str]:
    """Return the next words of a row of answers with their probabilities."""
    buttons = page.locator("#answers p").nth(row).locator("button").all_text_contents()
    return dict(text.rsplit(" ", 1) for text in buttons)


def test_typing_switching_a_head_off_and_painting_change_what_is_predicted(pages):
    """The numbers are those of Python; what was predicted before stands beside them; the link keeps all of it."""
    page, text = fresh(pages["story"]), "the boy near the cats was happy because"
    page.locator("#typed").fill(text)
    assert page.evaluate("live.runs.before") is None
    original = percent(page)
    page.get_by_role("button", name="Head 0 of decoder layer 1").click()
    edits = Edits().with_heads_off(Site("decoder", 1), {0})
    word, probability = attnviz.analyze(text, "story", edits).prediction.most_probable(8, 1)[0]

    assert percent(page)[word] == f"{probability:.1%}"
    assert percent(page, 1) == original
    expect(page.locator("#original")).to_be_visible()

    page.get_by_role("button", name="Paint cells").click()
    box = page.evaluate("(({left, top, cell}) => [left, top, cell])(live.page.drawn.map)")
    place = page.locator("#picture").bounding_box()
    page.mouse.move(place["x"] + box[0] + 1.5 * box[2], place["y"] + box[1] + 4.5 * box[2])
    page.mouse.down()
    page.mouse.move(place["x"] + box[0] + 1.5 * box[2], place["y"] + box[1] + 5.5 * box[2])
    page.mouse.up()
    expect(page.locator("#rule")).to_have_value("blocked(4:1, 5:1)")
    page.locator("#picture").press("ArrowUp")
    page.locator("#picture").press(" ")
    expect(page.locator("#rule")).to_have_value("blocked(5:1)")
    page.locator("#picture").press("ArrowRight")
    for _ in range(5):
        page.locator("#picture").press("ArrowRight")
    page.locator("#picture").press("Enter")
    expect(page.locator("#wrong")).to_contain_text("the built-in mask blocks this cell; switch it off first")
    page.get_by_label("Built-in mask").uncheck()
    edits = Edits(mask_from_text("blocked(5:1)"), edits.heads_off, own_mask=False)
    word, probability = attnviz.analyze(text, "story", edits).prediction.most_probable(8, 1)[0]
    assert percent(page)[word] == f"{probability:.1%}"
    said, shown = page.evaluate("live.page.link()"), percent(page)
    page.get_by_role("button", name="Reset").click()
    assert percent(page) == original
    fresh(page, said)
    assert percent(page) == shown
    page.get_by_role("button", name="Paint cells").click()


def test_a_language_model_writes_on_and_a_translator_shows_what_it_writes(pages):
    page = fresh(pages["story"], "text=the cat sat on")
    words = []
    for _ in range(3):
        words.append(page.locator("#answers button").first.text_content().rsplit(" ", 1)[0])
        page.locator("#answers button").first.click()
    answer = attnviz.generate("the cat sat on", "story", 3)

    assert page.locator("#typed").input_value() == f"the cat sat on{answer.answer}"
    page.locator("#answers button").nth(2).click()
    assert page.locator("#typed").input_value() != f"the cat sat on{answer.answer}"

    page = fresh(pages["translator"], "text=the black cat sleeps .&layer=c1&heads_off=e0.0-c1.2")
    after = attnviz.analyze(
        "the black cat sleeps .", edits=Edits(heads_off={(Site("encoder", 0), 0), (Site("cross", 1), 2)})
    )
    before = attnviz.analyze("the black cat sleeps .")
    expect(page.locator("#answers strong")).to_have_text([after.prediction.written[0], before.prediction.written[0]])
    expect(page.locator("#name")).to_have_text("Head 0 of cross layer 1")


def test_the_arithmetic_of_a_cell_is_that_of_the_record(pages):
    page = fresh(pages["story"], "text=the cat sat&layer=d0&head=1&cell=3.2&scores=temperature-2")
    page.get_by_text("How this weight is computed").click()
    record = attnviz.analyze("the cat sat", "story", Edits(temperature=2))
    step = record.step(Site("decoder", 0))
    product = float(step.query[0, 1, 3] @ step.key[0, 1, 2])
    lines = page.locator("#arithmetic li")

    expect(lines.first).to_have_text(f"q · k = {product:.4f}, the sum of 64 products".replace("-", "−"))
    expect(lines.last).to_contain_text(f"= {step.weights(1)[3, 2]:.4f}")
    expect(lines.nth(1)).to_contain_text("÷ √64 ÷ 2 =")
    page.get_by_text("How this weight is computed").click()


def test_words_that_the_model_does_not_know_and_texts_that_are_too_long_are_said(pages):
    page = fresh(pages["story"])
    page.locator("#typed").fill("the zebra sat")
    expect(page.locator("#notes")).to_have_text("The model does not know “zebra” and reads it as <unk>.")
    page.locator("#typed").fill("the cat " * 60)
    expect(page.locator("#notes")).to_contain_text("The text is cut after 63 words, the most that this model reads.")
    page.locator("#typed").fill("  ")
    expect(page.locator("#wrong")).to_have_text("There is no word to look at; type one.")
    page.locator("#temperature").fill("0")
    expect(page.locator("#wrong")).to_have_text("The temperature is 0; it must be a number above 0, up to 100.")
    fresh(page)


def test_files_hold_the_picture_and_the_exact_weights(pages, tmp_path):
    page = fresh(pages["story"], "text=the cat sat&layer=d1&head=1&mask=window(1)")
    files = {}
    for name in ("PNG", "CSV"):
        with page.expect_download() as download:
            page.get_by_role("button", name=name).click()
        files[name] = tmp_path / download.value.suggested_filename
        download.value.save_as(files[name])
    record = attnviz.analyze("the cat sat", "story", Edits(mask_from_text("window(1)")))
    rows = [line.rsplit(",", 1) for line in files["CSV"].read_text().splitlines()[1:]]

    assert files["CSV"].name == "story-head-1-of-decoder-layer-1.csv"
    assert [float(weight) for _, weight in rows] == pytest.approx(
        record.step(Site("decoder", 1)).weights(1).flatten().tolist(), abs=1e-5
    )
    assert rows[5][0] == '1,"the",1,"the"'
    assert files["PNG"].read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(("width", "colors"), [(1440, "dark"), (390, "light")])
def test_anyone_can_read_and_use_the_page(chromium, tmp_path, width, colors):
    """Axe finds nothing serious, nothing is wider than the screen, keys reach every control, no storage is needed."""
    (tmp_path / "page.html").write_text(api.live("translator"), encoding="utf-8")
    context = chromium.new_context(offline=True, viewport={"width": width, "height": 844}, color_scheme=colors)
    context.add_init_script(
        "for (const name of ['localStorage', 'sessionStorage', 'indexedDB']) delete globalThis[name];"
    )
    page, problems = context.new_page(), []
    driver.watch(page, problems)
    page.goto((tmp_path / "page.html").as_uri() + "#layer=c1&heads_off=c1.2&mask=window(1)")
    page.wait_for_selector("html[data-painted]")
    page.get_by_text("How this weight is computed").click()
    expect(page.locator("#arithmetic li").first).to_be_visible()

    assert driver.serious(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    reached = set()
    page.locator("#typed").focus()
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.id || document.activeElement.dataset.head"))
    assert {*"rule paint own cross scaled temperature reset e0.0 c1.3 mosaic picture copy".split()} <= reached
    context.close()
    assert problems == []


def test_a_browser_without_what_a_model_needs_names_those_that_have_it(chromium, tmp_path):
    (tmp_path / "page.html").write_text(api.live("induction"), encoding="utf-8")
    context = chromium.new_context(offline=True)
    context.add_init_script("delete Intl.Segmenter;")
    page = context.new_page()
    page.goto((tmp_path / "page.html").as_uri())

    expect(page.get_by_role("alert").filter(has_text="browser")).to_have_text(
        "This browser cannot open the page. Chrome 112, Firefox 125, Safari 17 or newer can."
    )
    context.close()
