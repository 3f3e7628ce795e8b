"""A random walk over the pages: now and then the live page is compared with a fresh one at its own link."""

import random
import re
from collections.abc import Callable
from difflib import unified_diff
from itertools import zip_longest

import driver
import pytest
from playwright.sync_api import Error, Locator, Page

PAGES = ("", "overview", "masks", "steps", "compare", "learn")
MODELS = ("story", "translator", "induction", "constructed", "scratch", "shapes")
TEXTS = ("the cat sat", "The dog saw the girl because she was tired", "red sun cold milk then red sun", "one two three")
WALKS, ACTIONS, EVERY = 20, 50, 5
"""Walks of a sweep, actions of each, and actions between two comparisons: 1,000 actions in all."""

BUTTONS = "button:not([disabled]), [role=radio]:not([disabled]), label:has(input[type=checkbox]:not([disabled]))"
PLACES = (".stMain .stButton", ".stMain .stButtonGroup", ".stMain .stCheckbox")
MENU = ".stMain .stPopover button:not([disabled])"
MENU_BODY = "[data-testid=stPopoverBody]"
LISTS = "[role=combobox]:not([disabled]), [data-baseweb=select] input:not([disabled])"
FILES = "save|download|open-menu|export"
WORK = "cancel|measure|run-again|peeking|continue|again"
LEFT_OUT = re.compile(f"Undo|Redo|card|welcome|choices|answer|{FILES}|{WORK}")
"""Keys of controls outside the walk: history has an action of its own; a link holds neither files nor requests for work
that takes long, which each visitor makes."""
ASKED = 300
"""Milliseconds after which an action has reached the server."""
HIT = 3_000
"""Milliseconds a control gets to come into view and be hit."""

PICTURES = "[class*=st-key-picture] .marks"
TOLERANCE = 2
"""Pixels by which a picture may stand elsewhere."""

SNAPSHOT = """() => {
    const style = document.head.appendChild(document.createElement('style'));
    style.textContent = '.stMain details > :not(summary) {display: none !important}';
    const main = document.querySelector('[data-testid=stMain]');
    main.scrollTo(0, 0);
    const out = '.st-key-welcome, .st-key-Undo, .st-key-Redo, style, script, '
        + '[data-testid=stPopoverBody], .unseen[aria-live]';
    const every = (selector, inside = main) =>
        [...inside.querySelectorAll(selector)].filter(one => !one.closest(out) && one.checkVisibility());
    const key = one => one.closest('[class*=st-key-]')?.className.match(/st-key-[\\w-]+/)?.[0] ?? '';
    const text = one => one.textContent.trim().replace(/\\s+/g, ' ');
    const box = one => { const at = one.getBoundingClientRect(); return [at.x, at.y, at.height]; };
    const texts = every('p, li, h1, h2, h3, td, th, summary, pre, .words, .large, .quiet, .says, .note').map(text);
    const controls = every('input, textarea, [role=radio], [role=slider], .stButtonGroup button, .stButton button')
        .map(one => [key(one), one.value || one.getAttribute('aria-checked') || one.getAttribute('aria-pressed')
            || one.getAttribute('aria-valuetext') || '', one.checked ?? one.disabled ?? ''].join(' '));
    const look = one => ['fill', 'stroke', 'opacity', 'href'].map(name => (one.getAttribute(name) ?? '')
        .replace(/^url.*gradient.*/, 'gradient')).join(' ');
    const place = (one, from) => [one.x - from.x, one.y - from.y];
    const inside = svg => every('text, path, rect, image, line', svg)
        .filter(one => one.getAttribute('opacity') !== '0').map(one => [`${text(one)} ${look(one)}`,
            place(one.getBoundingClientRect(), svg.getBoundingClientRect())]);
    const marks = every('svg.marks').map(svg => [key(svg), inside(svg)]);
    const pictures = every('[class*=st-key-picture] .marks').map(one => [key(one), box(one)]);
    style.remove();
    return {texts: texts.filter(Boolean), controls, marks, pictures};
}"""
"""Texts, values of controls, what is seen in charts, and places of pictures, without the inside of folds."""
KEYS = "one => one.closest('[class*=st-key-]')?.className.match(/st-key-[\\w-]+/g)?.join(' ') ?? ''"
"""Keys of a control."""


def act(page: Page, choose: random.Random) -> str:
    """One action of a person, in words."""
    action = choose.choice([_page, _list, _press, _press, _press, _picture, _picture, _text, _undo, _menu, _slide])
    done = action(page, choose) or "nothing"
    page.wait_for_timeout(ASKED)
    driver.settled(page)
    if page.locator("[role=dialog]").count():
        page.keyboard.press("Escape")
        page.locator("[role=dialog]").first.wait_for(state="detached")
    return done


def _page(page: Page, choose: random.Random) -> str:
    return _clicked(page.locator("[data-testid=stTopNavLink]:not([aria-current])"), choose)


def _list(page: Page, choose: random.Random, place: str = ".stMain") -> str | None:
    """An option of a list."""
    return (name := _clicked(page.locator(place).locator(LISTS), choose)) and f"{name}: {_option(page, choose)}"


def _option(page: Page, choose: random.Random) -> str:
    options = page.locator("[role=listbox] [role=option]")
    try:
        options.first.wait_for(timeout=HIT)
    except Error:
        page.keyboard.press("Escape")
        return "no options"
    chosen = choose.choice(options.all())
    name = chosen.inner_text()
    chosen.click(timeout=HIT)
    return name


def _press(page: Page, choose: random.Random) -> str | None:
    return _clicked(page.locator(", ".join(f"{place} :is({BUTTONS})" for place in PLACES)), choose)


def _picture(page: Page, choose: random.Random) -> str | None:
    """A click somewhere on a picture."""

    def place(box: dict) -> dict:
        return {"x": choose.random() * box["width"], "y": choose.random() * box["height"]}

    return _clicked(page.locator(PICTURES), choose, place)


def _text(page: Page, choose: random.Random) -> str | None:
    boxes = _visible(page.locator(".stMain").get_by_role("textbox", name="Text"))
    if not boxes:
        return None
    boxes[0].fill(text := choose.choice(TEXTS))
    page.keyboard.press("Control+Enter")
    return f"text {text}"


def _undo(page: Page, choose: random.Random) -> str | None:
    return _clicked(page.locator(".st-key-Undo button:not([disabled])"), choose, keys=False)


def _slide(page: Page, choose: random.Random) -> str | None:
    """A step of a slider by its keys."""
    sliders = _visible(page.locator(".stMain [role=slider]:not([disabled])"))
    if not sliders:
        return None
    choose.choice(sliders).focus()
    page.keyboard.press(key := choose.choice(("ArrowLeft", "ArrowRight")))
    return f"slider {key}"


def _menu(page: Page, choose: random.Random) -> str | None:
    """A menu, opened for one action and closed again."""
    name = _clicked(page.locator(MENU), choose)
    if name is None:
        return None
    driver.settled(page)
    chosen = _clicked(page.locator(MENU_BODY).locator(f":is({BUTTONS})"), choose) or _list(page, choose, MENU_BODY)
    page.wait_for_timeout(ASKED)
    driver.settled(page)
    if page.locator(MENU_BODY).count():
        page.keyboard.press("Escape")
    return f"{name} > {chosen}"


def _clicked(
    controls: Locator, choose: random.Random, place: Callable[[dict], dict] | None = None, *, keys: bool = True
) -> str | None:
    """The name of a control that was clicked, by chance; None where there is none."""
    visible = _visible(controls)
    choose.shuffle(visible)
    for control in visible:
        key = control.evaluate(KEYS)
        if keys and LEFT_OUT.search(key):
            continue
        title = control.text_content() or control.get_attribute("aria-label") or ""
        name = " ".join((key, *title.split()))[:80]
        try:
            control.scroll_into_view_if_needed(timeout=HIT)
            control.click(timeout=HIT, position=place and place(control.bounding_box()))
        except Error:
            return f"missed {name}"
        return name
    return None


def _visible(controls: Locator) -> list[Locator]:
    return [one for one in controls.all() if one.is_visible()]


def differences(live: dict, fresh: dict) -> list[str]:
    """Each difference between two snapshots, as a line."""
    lines = []
    for name in ("texts", "controls"):
        changed = unified_diff(fresh[name], live[name], "fresh", "live", n=0, lineterm="")
        lines += [f"{name}: {line:.300}" for line in changed if not line.startswith(("---", "+++", "@@"))]
    for (name, here), (_, there) in zip(live["marks"], fresh["marks"], strict=False):
        for what, ones, others in (("live", here, there), ("fresh", there, here)):
            lines += [f"{name}: {what} alone {mark}" for mark in ones if not any(_is_same(mark, one) for one in others)]
    for here, there in zip_longest(live["pictures"], fresh["pictures"]):
        if not (here and there and _is_same(here, there)):
            lines.append(f"picture: live {here}, fresh {there}")
    return lines


def _is_same(here: tuple[str, list[float]], there: tuple[str, list[float]]) -> bool:
    """Whether two things are called alike and stand at about the same place."""
    places = zip(here[1], there[1], strict=True)
    return here[0] == there[0] and all(abs(one - other) <= TOLERANCE for one, other in places)


def compared(live: Page, fresh: Page) -> list[str]:
    """How a page differs from a fresh one at its own link."""
    live.mouse.move(0, 0)
    fresh.goto("about:blank")
    fresh.goto(live.url)
    fresh.locator(driver.SHOWN).filter(visible=True).first.wait_for(timeout=driver.LOADING)
    for page in (live, fresh):
        page.wait_for_timeout(driver.QUIET)
        driver.settled(page)
    return differences(live.evaluate(SNAPSHOT), fresh.evaluate(SNAPSHOT))


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(WALKS))
def test_a_page_that_was_used_is_the_page_of_its_link(window, elsewhere, app, server_log, seed):
    """Texts, values of controls, charts and their places are those of a fresh page, and the server logs no error."""
    choose = random.Random(seed)
    live, fresh = window(), elsewhere()
    driver.open_page(live, f"{app}/{choose.choice(PAGES)}?model={choose.choice(MODELS)}")
    done = []
    for number in range(1, ACTIONS + 1):
        done.append(act(live, choose))
        if number % EVERY == 0:
            found = compared(live, fresh)

            assert not found, "\n".join((f"{live.url} after {done[-EVERY:]} ({number} actions)", *found))
            assert "Traceback" not in (log := server_log.read_text()), f"{log}\n{live.url} after {done[-EVERY:]}"
