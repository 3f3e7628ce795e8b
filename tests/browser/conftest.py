"""Fixtures for the app in a real Chromium. A test fails on an error in the console or a request to another host."""

import os
import time
from pathlib import Path

import driver
import psutil
import pytest
from filelock import FileLock
from playwright.sync_api import expect

expect.set_options(timeout=60_000)


def pytest_collection_modifyitems(items):
    for item in items:
        if "browser" in Path(item.fspath).parts:
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def app(tmp_path_factory, worker_id):
    """Address of a running app that all test processes share; at the end it must still be alive.

    The first process starts the app, and stops it once no other process uses it.
    """
    folder = _folder(tmp_path_factory, worker_id)
    folder.mkdir(exist_ok=True)
    lock, address, here = FileLock(folder / "lock"), folder / "address", folder / f"{os.getpid()}.user"
    with lock, (folder / "log.txt").open("a") as log:
        here.touch()
        if starts := not address.exists():
            process = driver.start_app(port := driver.free_port(), log)
            address.write_text(f"http://127.0.0.1:{port}")
    yield address.read_text()
    with lock:
        here.unlink()
    while starts and address.exists():
        with lock:
            if not any(psutil.pid_exists(int(user.stem)) for user in folder.glob("*.user")):
                address.unlink()
                alive = process.poll() is None
                process.terminate()
                process.wait(timeout=20)
                assert alive, (folder / "log.txt").read_text()
        time.sleep(0.1)


def _folder(tmp_path_factory, worker_id) -> Path:
    of_run = tmp_path_factory.getbasetemp()
    return (of_run if worker_id == "master" else of_run.parent) / "server"


@pytest.fixture(scope="session")
def context(chromium):
    """Browser context of all tests, so that Chromium compiles the app's code once."""
    context = chromium.new_context(accept_downloads=True)
    context.set_default_timeout(60_000)
    yield context
    context.close()


@pytest.fixture
def window(context):
    """Function that opens a page: `window(390, scheme="dark")`. An error on any page fails the test."""
    with driver.windows(context) as window:
        yield window


@pytest.fixture
def page(window):
    """A page of 1440 x 900 pixels in light colors."""
    return window()


@pytest.fixture
def elsewhere(chromium):
    """Function that opens a page in another browser context, without cookies or storage of the first."""
    context = chromium.new_context()
    with driver.windows(context) as window:
        yield window
    context.close()
