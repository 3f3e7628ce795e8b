"""Hostile texts on the page, in the link and in the files that the page gives, in a real Chromium.

Each is drawn as typed or refused with one sentence; it stays in the box as it was typed, changes nothing else of the
page, and nothing complains in the console.
"""

import json
import re
from urllib.parse import quote

import driver
import hostile
import pytest
from examples import some
from playwright.sync_api import Error, Page, expect

from attnviz import figures
from attnviz.charts.axes import short
from attnviz.core.edits import Site
from attnviz.core.errors import AttnvizError
from attnviz.core.request import Request
from attnviz.sources.scratch import Scratch
from attnviz.ui import cache
from attnviz.ui.text import SCRIPTS

SITE = Site("encoder", 0)
ARRIVED = """({box, picture, labels, description, refused, linked}) => {
    const app = document.querySelector('[data-testid=stApp]');
    const typed = document.querySelector('textarea');
    if (!typed || typed.value !== box || document.querySelector('[data-stale=true]')) return false;
    if (app.dataset.testScriptState !== 'notRunning') return false;
    if (linked !== null && new URLSearchParams(location.search).get('text') !== linked) return false;
    const errors = [...document.querySelectorAll('.note.error')].map(note => note.textContent);
    const place = document.querySelector(`.st-key-picture-${picture}`);
    const said = [...document.querySelectorAll('.note')].filter(note => note.textContent === refused);
    if (refused) return errors.every(error => error === refused) && said.length === 1 && !place;
    if (errors.length || !place || place.querySelector('.unseen')?.textContent !== description) return false;
    const height = text => { const box = text.getBoundingClientRect(); return box.y + box.height / 2; };
    const texts = [...place.querySelectorAll('.marks text')].sort((a, b) => height(a) - height(b));
    const drawn = texts.map(text => text.textContent);
    let at = 0;
    return labels.every(label => (at = drawn.indexOf(label, at) + 1));
}"""
"""Whether the page shows what it should for a text and is at rest."""

FOREIGN = """() => ({
    hacked: typeof hacked,
    title: document.title,
    exceptions: document.querySelectorAll('[data-testid=stException]').length,
    elements: [...document.querySelectorAll('[data-testid=stMain] *')]
        .filter(e => e.matches('script,iframe,object,img,a,b,strong,em,s,del,code,pre,h1,h2,table,.katex,#hacked'))
        .filter(e => !e.closest('header'))
        .filter(e => !e.matches('script') || !OURS.includes(e.textContent))
        .map(e => e.outerHTML.slice(0, 100)),
})""".replace("OURS", json.dumps(SCRIPTS))
"""State of the page that changes if a text is run or read as markup."""

CLEAN = {"hacked": "undefined", "title": "attnviz", "exceptions": 0, "elements": []}


def held(text: str) -> str:
    """Return a text as a text box holds it: without carriage returns and lone surrogates."""
    return re.sub("[\ud800-\udfff]", "\ufffd", re.sub("\r\n?", "\n", text))


def expected(text: str, tokenizer: str = "words") -> dict:
    """Return what the page must show for a text: labels and description of a picture, or an error sentence."""
    box = held(text)
    there = {"box": box, "picture": "head-map", "labels": [], "description": "", "refused": ""}
    there["linked"] = box if len(quote(box)) < 8_000 else None
    source = Scratch(tokenizer)
    try:
        lines = cache.texts(box, by_line="\n" in box.strip("\r\n"))
        cache.sentences(source, Request(lines))
    except AttnvizError as error:
        return there | {"refused": str(error)}
    record = source.analyze(Request(lines))
    figure = figures.head(record, SITE, 0)
    labels = [short(label) for label in record.sentences[0].labels]
    return there | {"labels": labels if len(labels) <= 32 else [], "description": figure.description}


def type_text(page: Page, text: str) -> None:
    page.get_by_label("Text").first.fill(text)
    page.keyboard.press("Control+Enter")


def problem(page: Page, name: str, there: dict) -> str:
    """Wait until the page shows what it should; return a message if it does not."""
    try:
        page.wait_for_function(ARRIVED, arg=there, polling=100, timeout=60_000)
    except Error:
        box, notes = page.get_by_label("Text").first.input_value(), page.locator(".note").all_text_contents()
        return f"{name}: not {str(there)[:300]}, but the box holds {box[:80]!r} and the page says {notes}"
    found = page.evaluate(FOREIGN)
    return "" if found == CLEAN else f"{name}: {found}"


@pytest.mark.parametrize(
    ("tokenizer", "texts"),
    [("words", hostile.TEXTS[::3]), *some([("bpe", hostile.TEXTS[5::6]), ("characters", hostile.TEXTS[2::6])], 1)],
)
def test_a_typed_text_is_drawn_or_refused_and_stays_as_typed(page, app, tokenizer, texts):
    """One after the other in one session: none leaves anything behind for the next.

    Each text once; tests/ui opens every page with texts, without a browser.
    """
    driver.open_page(page, f"{app}/?model=scratch:tokenizer={tokenizer}")
    wrong = []
    for text in some([text for text in texts if text.refused != hostile.NO_TEXT], 4):
        there = expected(text.text, tokenizer)
        if tokenizer == "words":
            assert bool(there["refused"]) == bool(text.refused)
            assert text.refused in there["refused"]
            assert not there["labels"] or set(text.seen) <= set(there["labels"])
        type_text(page, text.text)
        wrong.append(problem(page, text.name, there))

    assert [what for what in wrong if what] == []


def test_half_a_character_stops_nothing_and_the_numbers_show_tokens_as_they_are(page, app):
    """No keyboard makes one, but a script can: the server refuses the message, stays, and draws the next text.

    A table of a page reads no markup, formula or address in a cell.
    """
    driver.open_page(page, f"{app}/?model=scratch")
    page.evaluate("""() => {
        const box = document.querySelector('textarea');
        Object.getOwnPropertyDescriptor(HTMLTextAreaElement.prototype, 'value').set.call(box, 'a \\ud800 b');
        box.dispatchEvent(new Event('input', {bubbles: true}));
    }""")
    with page.expect_console_message(lambda message: "WebSocket onclose" in message.text):
        page.get_by_label("Text").first.press("Control+Enter")
    expect(page.locator("[data-test-connection-state=CONNECTED]")).to_be_attached()
    type_text(page, text := "=1+1 <b> $x$ *i*")

    assert problem(page, "the next text", expected(text)) == ""

    page.locator("[data-testid=stExpander] summary").filter(has_text="Numbers").first.click()
    cells = page.locator("[data-testid=stDataFrame] canvas [role=gridcell]")
    expect(cells.first).to_be_attached()
    driver.settled(page)

    assert set(expected(text)["labels"][:8]) <= set(cells.all_text_contents())


LABELS = """
import streamlit as st
from hostile import MARKDOWN
from attnviz.ui.text import literal, label

for text in MARKDOWN:
    with st.container(key=f"text {MARKDOWN.index(text)}"):
        label(text)
        st.button(literal(text), key=f"button {text}")
        st.pills(literal(text), [text], format_func=literal, key=f"pills {text}")
        st.checkbox(literal(text), key=f"box {text}")
        st.progress(0.5, text=literal(text))
        st.markdown(literal(text))
        st.selectbox(literal(text), [text], key=f"list {text}")
"""

READ = """rows => rows.map(row => [
    [...row.querySelectorAll('p, [role=combobox]')]
        .map(part => (part.value ?? part.textContent).replaceAll('\u2060', '')),
    row.querySelectorAll('img, a, em, strong, del, code, pre, hr, li, h1, h2, blockquote, table, .katex').length])"""


def test_a_label_shows_a_text_as_it_is(chromium, tmp_path):
    """Labels of buttons, pills, boxes, captions and bars are Markdown; the options of a list are plain text."""
    script = tmp_path / "labels.py"
    script.write_text(f"import sys\nsys.path[:0] = {[str(driver.ROOT), str(driver.ROOT / 'tests')]}\n{LABELS}", "utf-8")
    with driver.running_app(script) as address:
        page = chromium.new_page()
        page.goto(address)
        rows = page.locator("[class*=st-key-text-]")
        expect(rows).to_have_count(len(hostile.MARKDOWN))
        driver.settled(page)
        shown = rows.evaluate_all(READ)
        page.close()

    expected = {text: [[text] * 9, 0] for text in hostile.MARKDOWN}
    assert dict(zip(hostile.MARKDOWN, shown, strict=True)) == expected
