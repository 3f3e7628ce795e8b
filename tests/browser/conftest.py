"""A running app and a real Chromium. A test fails on any error in the console, and on any request to another host."""

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect, sync_playwright

ROOT = Path(__file__).parents[2]
FLAGS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
).split()
OURS = ("http://127.0.0.1", "ws://127.0.0.1", "data:", "blob:", "about:", "file:")

expect.set_options(timeout=20_000)


def pytest_collection_modifyitems(items):
    for item in items:
        if "browser" in Path(item.fspath).parts:
            item.add_marker(pytest.mark.browser)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start_app(port: int, log) -> subprocess.Popen:
    """Start the app as `make run` does, and wait until it answers."""
    command = [sys.executable, "-m", "streamlit", "run", "app.py", "--server.port", str(port), "--server.headless", "true"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT)
    for _ in range(300):
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/_stcore/health", timeout=1)
        except OSError:
            time.sleep(0.1)
        else:
            return process
    process.terminate()
    raise RuntimeError("The app did not answer within 30 seconds.")


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """The address of a running app; at the end it must still be alive."""
    port = free_port()
    with (tmp_path_factory.mktemp("server") / "log.txt").open("w+") as log:
        process = start_app(port, log)
        yield f"http://127.0.0.1:{port}"
        alive = process.poll() is None
        process.terminate()
        process.wait(timeout=20)
        log.seek(0)
        assert alive, log.read()


@pytest.fixture(scope="session")
def chromium():
    executable = os.environ.get("ATTNVIZ_CHROMIUM") or shutil.which("chromium") or None
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=FLAGS)
        yield browser
        browser.close()


def watch(page: Page) -> list[str]:
    """What goes wrong on a page, as it happens; every request to another host fails."""
    problems: list[str] = []

    def look(request):
        if not request.url.startswith(OURS):
            problems.append(f"asked another host: {request.url[:200]}")

    page.route("**/*", lambda route: route.continue_() if route.request.url.startswith(OURS) else route.abort())
    page.on("request", look)
    page.on("console", lambda m: problems.append(f"console: {m.text[:500]}") if m.type == "error" else None)
    page.on("pageerror", lambda error: problems.append(f"page error: {str(error)[:500]}"))
    return problems


@pytest.fixture
def page(chromium):
    """A fresh browser at 1440 x 900."""
    context = chromium.new_context(viewport={"width": 1440, "height": 900}, accept_downloads=True)
    page = context.new_page()
    problems = watch(page)
    yield page
    context.close()
    assert problems == []


def settled(page: Page) -> None:
    """Wait until the app has run and every chart is painted."""
    page.wait_for_selector("[data-testid=stApp]", timeout=30_000)
    page.wait_for_function(
        """() => !document.querySelector('[data-testid=stStatusWidget]')
            && document.querySelector('[data-testid=stApp]').dataset.testScriptState === 'notRunning'
            && !document.querySelector('[data-testid=stSkeleton]')
            && !document.querySelector('[data-stale=true]')""",
        timeout=30_000,
    )
    page.wait_for_timeout(250)
