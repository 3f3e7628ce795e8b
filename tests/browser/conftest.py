"""A running app and a real Chromium. A test fails on any error in the console, and on any request to another host."""

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
    """The address of a running app, one for all processes of a run; at the end it must still be alive.

    Who comes first starts it, and ends it once nobody uses it any more.
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
