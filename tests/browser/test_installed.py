"""The app of an installed wheel, started in another directory."""

import os
import re
import signal

import driver
import pytest


@pytest.fixture(scope="module")
def server(installed):
    process = installed.start("attnviz", "app", "--port", driver.free_port(), "--no-browser")
    yield re.search(r"http://\S+/", process.stdout.readline())[0]
    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=60)


def test_an_installed_app_draws_its_first_picture(page, server):
    """In the colors of the project's own settings; the first link to a new server may be to any page.

    Streamlit would take a folder "pages" beside the script for pages, until the script has named its own.
    """
    page.goto(f"{server}masks?model=scratch&text=fine")
    page.wait_for_selector(".st-key-picture-mask .marks")
    driver.settled(page)

    ground = page.evaluate("getComputedStyle(document.querySelector('[data-testid=stApp]')).backgroundColor")
    font = page.evaluate("getComputedStyle(document.querySelector('[data-testid=stApp]')).fontFamily")
    assert ground == "rgb(255, 255, 255)"
    assert font.startswith("system-ui")
