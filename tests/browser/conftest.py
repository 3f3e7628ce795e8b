"""A running app and a real Chromium. A test fails on any error in the console, and on any request to another host."""

from pathlib import Path

import driver
import pytest
from playwright.sync_api import expect

expect.set_options(timeout=20_000)


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


@pytest.fixture
def page(chromium):
    """A fresh browser at 1440 x 900."""
    context = chromium.new_context(viewport={"width": 1440, "height": 900}, accept_downloads=True)
    page = context.new_page()
    problems = driver.watch(page)
    yield page
    context.close()
    assert problems == []
