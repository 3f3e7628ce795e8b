"""A running app and a real Chromium, for tests, screenshots and benchmarks alike."""

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

ROOT = Path(__file__).parents[2]
FLAGS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
).split()
ASKED_AT_EACH_LEVEL = ("/_stcore/health", "/_stcore/host-config")
"""Where Streamlit looks for its server: below the page first, which is not found, then above."""

OURS = ("http://127.0.0.1", "ws://127.0.0.1", "data:", "blob:", "about:", "file:")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start_app(port: int, log) -> subprocess.Popen:
    """Start the app as `make run` does, and wait until it answers."""
    process = launch_app(port, log)
    for _ in range(300):
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/_stcore/health", timeout=1)
        except OSError:
            time.sleep(0.1)
        else:
            return process
    process.terminate()
    raise RuntimeError("The app did not answer within 30 seconds.")


def launch_app(port: int, log) -> subprocess.Popen:
    """Start the app as `make run` does, and do not wait."""
    options = ["--server.port", str(port), "--server.headless", "true"]
    command = [sys.executable, "-m", "streamlit", "run", "app.py", *options]
    return subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT)


@contextmanager
def running_app() -> Iterator[str]:
    """The address of an app that is stopped at the end."""
    port = free_port()
    process = start_app(port, subprocess.DEVNULL)
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


def watch(page: Page) -> list[str]:
    """What goes wrong on a page, as it happens; every request to another host fails."""
    problems: list[str] = []

    def look(request):
        if not request.url.startswith(OURS):
            problems.append(f"asked another host: {request.url[:200]}")

    def hear(message):
        if message.type == "error" and not message.location["url"].endswith(ASKED_AT_EACH_LEVEL):
            problems.append(f"console: {message.text[:500]} ({message.location['url'][:200]})")

    page.route("**/*", lambda route: route.continue_() if route.request.url.startswith(OURS) else route.abort())
    page.on("request", look)
    page.on("console", hear)
    page.on("pageerror", lambda error: problems.append(f"page error: {str(error)[:500]}"))
    return problems


def settled(page: Page) -> None:
    """Wait until the app has run and every chart is painted.

    A click that has just been made may not have reached the server yet: expect what it brings, and then settle.
    """
    page.wait_for_selector("[data-testid=stApp]", timeout=30_000)
    page.wait_for_function(
        """() => !document.querySelector('[data-testid=stStatusWidget]')
            && document.querySelector('[data-testid=stApp]').dataset.testScriptState === 'notRunning'
            && !document.querySelector('[data-testid=stSkeleton]')
            && !document.querySelector('[data-stale=true]')""",
        timeout=30_000,
    )
    page.wait_for_timeout(250)
