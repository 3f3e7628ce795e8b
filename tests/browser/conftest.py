"""A running app and a real Chromium. A test fails on any error in the console, and on any request to another host."""

from pathlib import Path

import driver
import pytest
from playwright.sync_api import expect

expect.set_options(timeout=60_000)


def pytest_collection_modifyitems(items):
    for item in items:
        if "browser" in Path(item.fspath).parts:
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """The address of a running app; at the end it must still be alive."""
    port = driver.free_port()
    with (tmp_path_factory.mktemp("server") / "log.txt").open("w+") as log:
        process = driver.start_app(port, log)
        yield f"http://127.0.0.1:{port}"
        alive = process.poll() is None
        process.terminate()
        process.wait(timeout=20)
        log.seek(0)
        assert alive, log.read()


@pytest.fixture(scope="session")
def context(chromium):
    """What the windows of all tests share: the app's code, as Chromium has compiled it."""
    context = chromium.new_context(accept_downloads=True)
    context.set_default_timeout(60_000)
    yield context
    context.close()


@pytest.fixture
def window(context):
    """Opens a page: `window(390, scheme="dark")`. What goes wrong on any of them fails the test."""
    with driver.windows(context) as window:
        yield window


@pytest.fixture
def page(window):
    """A page of 1440 x 900, in light."""
    return window()


@pytest.fixture
def elsewhere(chromium):
    """Opens a page in another browser, which knows nothing of the first."""
    context = chromium.new_context()
    with driver.windows(context) as window:
        yield window
    context.close()
