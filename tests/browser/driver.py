"""Start the app and drive it in a real Chromium, for tests, screenshots and benchmarks."""

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
"""Command line of Chromium.

No host but this machine can be reached, not even by its IP address; x.hf.space also names this machine, for the public
app. Animations are off, and so are the pages that Chromium loads for its own address bar.
"""

LOADING = 120_000
"""Milliseconds that loading a model may take on a busy machine, the import of transformers included."""

OURS = ("http://127.0.0.1", "ws://127.0.0.1", "data:", "blob:", "about:", "file:")
"""Prefixes of the addresses that a page may request."""


def free_port() -> int:
    """Return a port of this machine that no server uses."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start_app(port: int, log, script: Path | str = "app.py") -> subprocess.Popen:
    """Start the app as `make run` does and wait until it answers requests."""
    return wait_for_app(launch_app(port, log, script), port)


def wait_for_app(process: subprocess.Popen, port: int) -> subprocess.Popen:
    """Wait until a started app answers requests, for at most two minutes."""
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
    """Start the app as `make run` does without waiting."""
    options = ["--server.port", str(port), "--server.headless", "true"]
    command = [sys.executable, "-m", "streamlit", "run", str(script), *options]
    return subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT)


@contextmanager
def running_app(script: Path | str = "app.py") -> Iterator[str]:
    """Start an app, yield its address, and stop it at the end."""
    port = free_port()
    process = start_app(port, subprocess.DEVNULL, script)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(timeout=20)


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start the Chromium that tests/run found, else the system's, else Playwright's own."""
    executable = os.environ.get("ATTNVIZ_CHROMIUM") or shutil.which("chromium") or None
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=FLAGS)
        yield browser
        browser.close()


@contextmanager
def windows(context: BrowserContext) -> Iterator[Callable[..., Page]]:
    """Yield a function that opens a page of a given size and color scheme; fail at the end if a page had an error.

    The pages of earlier tests are used again, so that Chromium starts one process and compiles the app's code once.
    Each address that a page loads is a new session of Streamlit.
    """
    problems: list[str] = []
    pages: list[Page] = []

    def window(width: int = 1440, height: int = 900, scheme: str = "light") -> Page:
        page = next((page for page in context.pages if page not in pages), None) or context.new_page()
        page.bring_to_front()  # Chromium paints a tab in the background only once a second
        page.mouse.move(0, 0)
        resize(page, width, height, scheme)
        watch(page, problems)
        pages.append(page)
        return page

    yield window
    for page in pages:
        try:
            if page.locator("[data-testid=stException]").count():
                problems.append(f"the app raised an exception at {page.url[:200]}")
            page.goto("about:blank")
        except Error:  # the page hangs or has crashed
            page.close()
        for event, listener in LISTENERS.pop(page):
            page.remove_listener(event, listener)
    assert problems == [], problems


def resize(page: Page, width: int, height: int, scheme: str) -> None:
    """Change the size of the window and its color scheme; `settled` then waits for the new layout."""
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": height})
    page.evaluate("window.changed = performance.now()")


LISTENERS: dict[Page, list[tuple[str, Callable]]] = {}
"""Event listeners of each watched page, with the names of their events."""


def watch(page: Page, problems: list[str] | None = None) -> list[str]:
    """Collect the errors of a page, including each request to another host, in a list that grows as they occur."""
    problems = [] if problems is None else problems

    def report(problem: str):
        problems.append(f"{problem} (at {page.url[:200]})")

    def check_request(request):
        if not request.url.startswith(OURS):
            report(f"request to another host: {request.url[:200]}")

    def check_message(message):
        if message.type == "error":
            report(f"console: {message.text[:500]} ({message.location['url'][:200]})")

    def report_error(error):
        report(f"page error: {str(error)[:500]}")

    LISTENERS[page] = [("request", check_request), ("console", check_message), ("pageerror", report_error)]
    for event, listener in LISTENERS[page]:
        page.on(event, listener)
    return problems


SETTLED = """quiet => {
    const app = document.querySelector('[data-testid=stApp]');
    if (!app) return false;
    if (!window.watched) {
        window.watched = true;
        const note = () => window.changed = performance.now();
        new MutationObserver(note).observe(document.body,
            {subtree: true, childList: true, attributes: true, characterData: true});
        const {send} = WebSocket.prototype;
        WebSocket.prototype.send = function (data) {
            if (!this.heard) this.addEventListener('message', () => { window.asked = false; note(); });
            this.heard = window.asked = true;
            return send.call(this, data);
        };
        note();
    }
    if (app.dataset.testConnectionState !== 'CONNECTED') return false;
    if (window.asked || app.dataset.testScriptState !== 'notRunning') return false;
    const broken = app.querySelector('[data-testid=stException]');
    if (broken) throw new Error(broken.textContent);
    if (app.querySelector('[data-testid=stStatusWidget], [data-testid=stSkeleton], [data-stale=true]')) return false;
    return performance.now() - window.changed >= quiet;
}"""
"""Whether the server has answered the page's last message and ended its script, and the page no longer changes."""
QUIET = 150
"""Milliseconds without a change of the page after which its charts are painted."""


def settled(page: Page) -> None:
    """Wait until the app has run and the page no longer changes.

    The browser reports a click on a picture to the server only after a delay: first expect what the click brings.
    """
    page.wait_for_function(SETTLED, arg=QUIET, polling=50, timeout=60_000)


SHOWN = "[class*=st-key-picture] .marks, .facts, .words, .verdict, [data-testid=stCode], [role=alert], "
SHOWN += "[class*=st-key-mistake]"
"""Selector of elements of which every page shows at least one once it is drawn."""


FOLLOW = """address => {
    history.pushState({}, '', address);
    window.dispatchEvent(new PopStateEvent('popstate'));
}"""
"""Open another address of the app in the same session, as links within the app do: three times as fast as loading."""


def open_page(page: Page, address: str) -> None:
    """Open an address and wait until its pictures are painted, which may include loading a model.

    A window that shows the app already keeps its session; any other window loads the app.
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
    """Locate the drawing of a picture, given the picture's name; not a stale one that a run is about to replace."""
    return page.locator(f".st-key-picture-{name} .stElementContainer:not([data-stale=true], [data-retained]) .marks")


def click_at(page: Page, name: str, x: float, y: float) -> None:
    """Click at a place of a picture, given as shares of its width and height; then expect what the click brings."""
    box = place_of(picture(page, name))
    page.mouse.click(box["x"] + x * box["width"], box["y"] + y * box["height"])


def place_of(element: Locator) -> dict[str, float]:
    """Wait until an element is drawn and the page is at rest; return its x, y, width and height in pixels."""
    expect(element.first).to_be_visible()
    settled(element.page)
    while not (place := element.bounding_box()):  # a run of the page has just replaced it
        expect(element.first).to_be_visible()
    return place


def expect_link(page: Page, *parts: str) -> None:
    """Wait until the link has settings that begin with these texts, such as "head=1", and the page is at rest.

    The app writes the link at the end of a run. `expect(page).to_have_url` is slower: it reads the accessibility tree
    of the whole page each time that the address differs.
    """
    for part in parts:
        page.wait_for_url(re.compile(rf"[?&]{re.escape(part)}"), wait_until="commit")
    settled(page)


def expect_no_link(page: Page, part: str) -> None:
    """Wait until the link no longer holds a text, such as "cell=", and the page is at rest."""
    page.wait_for_url(lambda url: part not in url, wait_until="commit")
    settled(page)


def expect_mask(page: Page, text: str) -> None:
    """Wait until the mask in the link begins with this text."""
    expect_link(page, urlencode({"mask": text}))


def violations(page: Page, *impacts: str) -> list[tuple[str, str, list[str]]]:
    """Run axe-core; return each broken rule with its impact and elements, for the given impacts or for all."""
    if not page.evaluate("() => 'axe' in window"):
        page.evaluate(AXE_SCRIPT)
    run = "() => axe.run({resultTypes: ['violations']}).then(({violations}) => violations)"
    rules = [rule for rule in page.evaluate(run) if not impacts or rule["impact"] in impacts]
    return [(rule["id"], rule["impact"], [node["html"][:160] for node in rule["nodes"][:3]]) for rule in rules]


def serious(page: Page) -> list[tuple[str, str, list[str]]]:
    """Return the violations of a page that axe-core calls serious or critical."""
    return violations(page, "critical", "serious")


def is_as_wide_as(page: Page, width: int) -> bool:
    """Whether neither the page nor its main column is wider than `width` pixels."""
    return page.evaluate(
        """width => document.documentElement.scrollWidth <= width
            && document.querySelector('[data-testid=stMain]').scrollWidth <= width""",
        width,
    )
