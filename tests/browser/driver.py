"""A running app and a real Chromium, for tests, screenshots and benchmarks alike."""

import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode

from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Browser, BrowserContext, Error, Locator, Page, expect, sync_playwright

ROOT = Path(__file__).parents[2]
FLAGS = [
    *"--no-sandbox --disable-gpu --disable-software-rasterizer --disable-quic --no-first-run".split(),
    *"--disable-background-networking --disable-component-update --disable-sync".split(),
    "--force-prefers-reduced-motion",
    "--disable-features=WebUIOmniboxPopup,WebUIOmniboxAimPopup,PaintHolding,MediaRouter",
    "--host-resolver-rules=MAP x.hf.space 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
]
"""No other host is found, not even by its number, but one name for this machine, under which a public app is opened.

The address bar, which nobody sees, loads no pages of its own.

Nothing moves on its way, as a person may ask of a browser: no frames are painted that no test looks at.
"""

LOADING = 120_000
"""Milliseconds in which a model comes, on a busy machine, to a server that has not loaded transformers yet."""

OURS = ("http://127.0.0.1", "ws://127.0.0.1", "data:", "blob:", "about:", "file:")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start_app(port: int, log, script: Path | str = "app.py") -> subprocess.Popen:
    """Start the app as `make run` does, and wait until it answers."""
    return wait_for_app(launch_app(port, log, script), port)


def wait_for_app(process: subprocess.Popen, port: int) -> subprocess.Popen:
    """Wait until an app answers that was started."""
    for _ in range(1200):
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/_stcore/health", timeout=1)
        except OSError:
            time.sleep(0.1)
        else:
            return process
    process.terminate()
    raise RuntimeError("The app did not answer within 2 minutes.")


def launch_app(port: int, log, script: Path | str = "app.py") -> subprocess.Popen:
    """Start the app as `make run` does, and do not wait."""
    options = ["--server.port", str(port), "--server.headless", "true"]
    command = [sys.executable, "-m", "streamlit", "run", str(script), *options]
    return subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT)


@contextmanager
def running_app(script: Path | str = "app.py") -> Iterator[str]:
    """The address of an app that is stopped at the end."""
    port = free_port()
    process = start_app(port, subprocess.DEVNULL, script)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(timeout=20)


@contextmanager
def chromium() -> Iterator[Browser]:
    """The Chromium that tests/run found, else the system's, else Playwright's own."""
    executable = os.environ.get("ATTNVIZ_CHROMIUM") or shutil.which("chromium") or None
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=FLAGS)
        yield browser
        browser.close()


@contextmanager
def windows(context: BrowserContext) -> Iterator[Callable[..., Page]]:
    """Opens pages of a size, in light or dark; at the end nothing may have gone wrong on any of them.

    They share a context, and what another test has left open, so that Chromium starts a process and compiles the app's
    code once. To Streamlit each address that is opened is another session.
    """
    problems: list[str] = []
    pages: list[Page] = []

    def window(width: int = 1440, height: int = 900, scheme: str = "light") -> Page:
        page = next((page for page in context.pages if page not in pages), None) or context.new_page()
        page.bring_to_front()  # a tab behind another one is painted once a second
        page.mouse.move(0, 0)
        resize(page, width, height, scheme)
        watch(page, problems)
        pages.append(page)
        return page

    yield window
    for page in pages:
        try:
            if page.locator("[data-testid=stException]").count():
                problems.append(f"an error of the app's own code stands on {page.url[:200]}")
            page.goto("about:blank")
        except Error:  # it hangs or has crashed
            page.close()
        for event, listener in LISTENERS.pop(page):
            page.remove_listener(event, listener)
    assert problems == [], problems


def resize(page: Page, width: int, height: int, scheme: str) -> None:
    """Another screen for what a page shows; it settles once it has had the time to follow."""
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": height})
    page.evaluate("window.changed = performance.now()")


LISTENERS: dict[Page, list[tuple[str, Callable]]] = {}
"""Who listens to the pages that are watched."""


def watch(page: Page, problems: list[str] | None = None) -> list[str]:
    """What goes wrong on a page, as it happens; every request to another host is a mistake."""
    problems = [] if problems is None else problems

    def tell(problem: str):
        problems.append(f"{problem} (at {page.url[:200]})")

    def look(request):
        if not request.url.startswith(OURS):
            tell(f"asked another host: {request.url[:200]}")

    def hear(message):
        if message.type == "error":
            tell(f"console: {message.text[:500]} ({message.location['url'][:200]})")

    def catch(error):
        tell(f"page error: {str(error)[:500]}")

    LISTENERS[page] = [("request", look), ("console", hear), ("pageerror", catch)]
    for event, listener in LISTENERS[page]:
        page.on(event, listener)
    return problems


SETTLED = """quiet => {
    const app = document.querySelector('[data-testid=stApp]');
    if (!app || app.dataset.testScriptState !== 'notRunning') return false;
    const broken = app.querySelector('[data-testid=stException]');
    if (broken) throw new Error(broken.textContent);
    if (app.querySelector('[data-testid=stStatusWidget], [data-testid=stSkeleton], [data-stale=true]')) return false;
    if (!window.watched) {
        window.watched = true;
        const note = () => window.changed = performance.now();
        new MutationObserver(note).observe(document.body,
            {subtree: true, childList: true, attributes: true, characterData: true});
        note();
    }
    return performance.now() - window.changed >= quiet;
}"""
QUIET = 150
"""Milliseconds without a change of the page after which its charts are painted."""


def settled(page: Page) -> None:
    """Wait until the app has run and nothing on the page changes any more.

    A click that has just been made may not have reached the server yet: expect what it brings, and then settle.
    """
    page.wait_for_function(SETTLED, arg=QUIET, polling=50, timeout=60_000)


SHOWN = "[class*=st-key-picture] .marks, .facts, .words, .verdict, [data-testid=stCode], [role=alert], "
SHOWN += "[class*=st-key-mistake]"
"""Elements of which one is visible once a page is drawn."""


FOLLOW = """address => {
    window.changed = performance.now() + 300;
    history.pushState({}, '', address);
    window.dispatchEvent(new PopStateEvent('popstate'));
}"""
"""Opens another address of the app in the session that is there, as the app's own links do, three times as fast.

For 300 ms, in which the run that it asks for begins, the page does not count as settled.
"""


def open_page(page: Page, address: str) -> None:
    """Open an address and wait until its pictures are painted; a model may be loaded for it.

    A window that shows the app already follows a link, which keeps its session; another one loads the app.
    """
    if "?" in address and page.url != address and page.url.startswith("/".join(address.split("/")[:3])):
        settled(page)
        page.evaluate(FOLLOW, address)
        settled(page)
    else:
        page.goto(address)
    page.locator(SHOWN).filter(visible=True).first.wait_for(timeout=LOADING)
    settled(page)


def picture(page: Page, name: str) -> Locator:
    """What is painted of a picture."""
    return page.locator(f".st-key-picture-{name} .marks")


def click_at(page: Page, name: str, x: float, y: float) -> None:
    """Click at a place of a picture, given as shares of its width and height; expect what it brings."""
    box = place_of(picture(page, name))
    page.mouse.click(box["x"] + x * box["width"], box["y"] + y * box["height"])


def place_of(element: Locator) -> dict[str, float]:
    """Return an element's x, y, width and height in pixels once it is drawn and the page has come to rest."""
    expect(element).to_be_visible()
    settled(element.page)
    while not (place := element.bounding_box()):  # a run of the page has just replaced it
        expect(element).to_be_visible()
    return place


def link(page: Page) -> str:
    return page.evaluate("location.search")


def expect_link(page: Page, *parts: str) -> None:
    """The link comes to hold each of these, and the app to rest: a link is written at the end of a run.

    Playwright's own expectation of an address reads the whole page aloud to itself each time that it is not there yet.
    """
    for part in parts:
        page.wait_for_url(re.compile(rf"[?&]{re.escape(part)}"), wait_until="commit")
    settled(page)


def expect_mask(page: Page, text: str) -> None:
    """The link comes to begin a mask with this text."""
    expect_link(page, urlencode({"mask": text}))


def serious(page: Page) -> list[tuple[str, list[str]]]:
    """What axe-core finds on a page that is serious or critical: the rule, and where it is broken."""
    if not page.evaluate("() => 'axe' in window"):
        page.evaluate(AXE_SCRIPT)
    found = page.evaluate("() => axe.run({resultTypes: ['violations']}).then(({violations}) => violations)")
    return [
        (one["id"], [node["html"][:160] for node in one["nodes"][:3]])
        for one in found
        if one["impact"] in ("critical", "serious")
    ]


def violations(page: Page) -> list[tuple[str, str, list[str]]]:
    """All that axe-core finds on a page: the rule, how bad it is, and where it is broken."""
    if not page.evaluate("() => 'axe' in window"):
        page.evaluate(AXE_SCRIPT)
    run = "() => axe.run({resultTypes: ['violations']}).then(({violations}) => violations)"
    return [(one["id"], one["impact"], [node["html"][:160] for node in one["nodes"][:3]]) for one in page.evaluate(run)]


def is_as_wide_as(page: Page, width: int) -> bool:
    """Whether neither the page nor its main column is wider than that."""
    return page.evaluate(
        """width => document.documentElement.scrollWidth <= width
            && document.querySelector('[data-testid=stMain]').scrollWidth <= width""",
        width,
    )
