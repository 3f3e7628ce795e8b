"""Hostile texts on the page, in the link and in the files that the page gives, in a real Chromium.

Each is drawn as typed or refused with one sentence; it stays in the box as it was typed, changes nothing else of the
page, and nothing complains in the console.
"""

import json
import re
import zipfile
from urllib.parse import quote, unquote_plus, urlencode

import driver
import files
import hostile
import pytest
from examples import some
from playwright.sync_api import Error, Page, expect

from attnviz import export, figures
from attnviz.charts.axes import short
from attnviz.core.display import visible_text
from attnviz.core.edits import Edits, Site
from attnviz.core.errors import AttnvizError
from attnviz.core.masks import Subsequent
from attnviz.core.request import Request
from attnviz.sources.scratch import Scratch
from attnviz.ui import cache
from attnviz.ui.text import SCRIPTS

SITE = Site("encoder", 0)
NAME = 24
"""Code points of a token that an axis shows, and a sentence."""

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
"""Whether the page shows what it should for a text, and has come to rest."""

FOREIGN = """() => ({
    hacked: typeof hacked,
    title: document.title,
    exceptions: document.querySelectorAll('[data-testid=stException]').length,
    elements: [...document.querySelectorAll('[data-testid=stMain] *')]
        .filter(e => e.matches('script,iframe,object,img,a,b,strong,em,s,del,code,pre,h1,h2,table,.katex,#hacked'))
        .filter(e => !e.closest('.st-key-pages'))
        .filter(e => !e.matches('script') || !OURS.includes(e.textContent))
        .filter(e => !e.matches('table.reach, table.costs, .st-key-list strong'))  // ours, with constant names
        .map(e => e.outerHTML.slice(0, 100)),
})""".replace("OURS", json.dumps(SCRIPTS))
"""What would be there if a text had been read as markup or run."""

CLEAN = {"hacked": "undefined", "title": "attnviz", "exceptions": 0, "elements": []}


def held(text: str) -> str:
    """What a text box holds of a text: it has neither carriage returns nor halves of characters."""
    return re.sub("[\ud800-\udfff]", "\ufffd", re.sub("\r\n?", "\n", text))


def expected(text: str, path: str = "", tokenizer: str = "words") -> dict:
    """What a page must show for a text: labels and description of a picture, or the sentence that refuses it."""
    box = held(text)
    there = {"box": box, "picture": "mask" if path else "head", "labels": [], "description": "", "refused": ""}
    there["linked"] = box if len(quote(box)) < 30_000 else None
    source = Scratch(tokenizer)
    try:
        lines = cache.texts(box.replace("\0", "␀"), by_line=True)
        cache.sentences(source, Request(lines))
    except AttnvizError as error:
        return there | {"refused": str(error)}
    if path:
        record = cache.record(Scratch(tokenizer, sos=True), Request(lines, edits=Edits(Subsequent())))
        figure = figures.mask(record.step(SITE).mask, record.sentences[0].tokens)
    else:
        record = cache.record(source, Request(lines, edits=Edits()))
        figure = figures.head(record, SITE, 0)
    labels = [short(label) for label in record.sentences[0].labels]
    first = visible_text(record.sentences[0].labels[0], NAME)
    return there | {"labels": labels if len(labels) <= 32 else [], "first": first, "description": figure.description}


def type_text(page: Page, text: str) -> None:
    page.get_by_label("Sentence").first.fill(text)
    page.keyboard.press("Control+Enter")


def problem(page: Page, name: str, there: dict) -> str:
    """What is wrong with the page, if it does not come to show what it should."""
    try:
        page.wait_for_function(ARRIVED, arg=there, polling=100, timeout=driver.LOADING)
    except Error:
        box, notes = page.get_by_label("Sentence").first.input_value(), page.locator(".note").all_text_contents()
        return f"{name}: not {str(there)[:300]}, but the box holds {box[:80]!r} and the page says {notes}"
    found = page.evaluate(FOREIGN)
    return "" if found == CLEAN else f"{name}: {found}"


@pytest.mark.parametrize(
    ("path", "tokenizer", "texts"),
    [
        ("", "words", hostile.TEXTS[::3]),
        ("masks", "bpe", hostile.TEXTS[5::6]),
        *some([("masks", "words", hostile.TEXTS[1::3]), ("", "characters", hostile.TEXTS[2::6])], 0),
    ],
)
def test_a_typed_text_is_drawn_or_refused_and_stays_as_typed(page, server, path, tokenizer, texts):
    """One after the other in one session: none leaves anything behind for the next.

    Each text once, on one of the pages; tests/ui opens every page with every text, without a browser.
    """
    driver.open_page(page, f"{server}/{path}?model=scratch&tokenizer={tokenizer}")
    wrong = []
    for text in some(texts, 4):
        there = expected(text.text, path, tokenizer)
        if tokenizer == "words":
            assert bool(there["refused"]) == bool(text.refused)
            assert text.refused in there["refused"]
            assert not there["labels"] or set(text.seen) <= set(there["labels"])
        type_text(page, text.text)
        wrong.append(problem(page, text.name, there))

    assert [what for what in wrong if what] == []


LINKS = [
    *[(text.name, quote(text.text, errors="surrogatepass")) for text in hostile.CONTROL[::3] + hostile.MARKUP[::4]],
    *[(text.name, quote(text.text)) for text in hostile.SCRIPTS[::8] + hostile.CODE[::8] + hostile.SIZES[7:8]],
    ("bytes that are no UTF-8", "%FF%FE %C0%80 %F0%9F%98"),
    ("a percent sign alone", "%zz 100% %"),
    ("plus signs", "a+b%2Bc"),
    ("nothing", ""),
]


def test_a_link_with_any_text_is_drawn_with_its_cell_in_words(page, server):
    """The text is in the box, on the picture and still in the link; the selected token stands in the words as text."""
    wrong = []
    for number, (name, encoded) in enumerate(some(LINKS, 5)):
        path = ("", "masks")[number % 2]
        text = unquote_plus(encoded, errors="replace")
        there = expected(text, path)
        driver.open_page(page, f"{server}/{path}?model=scratch&text={encoded}&cell=0.0")
        wrong.append(problem(page, name, there))
        if there["labels"]:
            words = page.locator(".words").text_content()
            if not words.startswith(f"“{there['first']}” (0) gives "):
                wrong.append(f"{name}: says {words}")

    assert [what for what in wrong if what] == []


@pytest.mark.parametrize("path", some(["", "masks"], 1))
def test_hostile_settings_are_said_as_typed_and_change_nothing(page, server, path):
    """Every setting of the link at once, each with markup, code and the end of an attribute in it."""
    value = "</div>\"'><b>:red[x]$x$**b**{{7*7}}\x1b\ufffe"
    names = [
        "off",
        "cell",
        "mask",
        "tokenizer",
        "site",
        "show",
        "seed",
        "d_model",
        "colors",
        "sums",
        "sentence",
        value,
    ]
    driver.open_page(page, f"{server}/{path}?model=scratch&{urlencode(dict.fromkeys(names, value))}")

    notes = page.locator(".note").all_text_contents()
    assert len(notes) == 1
    assert f"'{value[:40]}' cannot be read" in notes[0]
    expect(page.locator(f".st-key-picture-{'mask' if path else 'head'} .marks")).to_contain_text("mat")
    assert page.evaluate(FOREIGN) == CLEAN


ALL_AT_ONCE = "constructor </b>:red[x] $x$ =1+1 שלום 👩🏽‍💻 \x1b\ufffe e\u0301\u0301\u0301\u0301\u0301\u0301 {{x}}"


NAMED = {"heads": "all heads", "head": "this head", "change": "output vectors", "mask": "mask"}
"""What pictures are called in the menu of their page."""


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("path", "names"),
    [("masks?model=scratch&", ("mask",)), ("?model=scratch&mask=subsequent&", ("heads", "head", "change"))],
)
def test_every_button_gives_a_file_that_opens(page, server, tmp_path, path, names):
    """Each of the files of a hostile text, from every picture; its HTML page runs nothing and asks for nothing."""
    there = expected(ALL_AT_ONCE)
    driver.open_page(page, f"{server}/{path}text={quote(ALL_AT_ONCE)}")
    page.locator(".st-key-take-head").get_by_role("button").first.click()
    for name in names:
        page.get_by_role("radio", name=NAMED[name], exact=True).click()
        driver.settled(page)  # a run that goes on gives a button another file
        for folded in page.locator("details:not([open]) > summary", has_text="More").filter(visible=True).all():
            folded.click()
        for format in (*export.formats_for("first"), *export.formats_for("more")):
            with page.expect_download() as waiting:
                page.get_by_role("button", name=format.upper(), exact=True).click()
            content = waiting.value.path().read_bytes()
            found = files.opened(format, content)
            assert waiting.value.suggested_filename.endswith(f".{format}")
            if name != "heads":
                assert format != "svg" or set(there["labels"]) <= set(found)
                assert format in ("png", "pdf") or any("constructor" in text for text in found)
            if format == "html":
                (tmp_path / f"{name}.html").write_bytes(content)
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Download everything").click()
    with zipfile.ZipFile(waiting.value.path()) as archive:
        assert archive.testzip() is None
        (tmp_path / "every-head.html").write_bytes(archive.read("every-head.html"))
    for name in names:
        page.goto((tmp_path / f"{name}.html").as_uri())
        page.wait_for_selector("#picture svg")
        assert page.evaluate("typeof hacked") == "undefined"
    page.goto((tmp_path / "every-head.html").as_uri())
    assert page.evaluate("typeof hacked") == "undefined"


def test_half_a_character_stops_nothing_and_the_numbers_show_tokens_as_they_are(page, server):
    """No keyboard makes one, but a script can: the server refuses the message, stays, and draws the next text.

    A table of a page reads no markup, formula or address in a cell.
    """
    driver.open_page(page, f"{server}/?model=scratch")
    page.evaluate("""() => {
        const box = document.querySelector('textarea');
        Object.getOwnPropertyDescriptor(HTMLTextAreaElement.prototype, 'value').set.call(box, 'a \\ud800 b');
        box.dispatchEvent(new Event('input', {bubbles: true}));
    }""")
    page.get_by_label("Sentence").first.press("Control+Enter")
    driver.settled(page)
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
    """Of a button, of pills, of a box, a caption, a bar: each is Markdown, and the option of a list is none."""
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
