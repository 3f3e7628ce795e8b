"""A foreign page frames the public app, in a real Chromium: it works there as it does alone, and nowhere else."""

import re
import subprocess
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import driver
import pytest
from playwright.sync_api import expect

import attnviz
from attnviz import files

HOST = "x.hf.space"
"""Host name that Chromium resolves to this machine, by the flags of `driver`."""
REFUSED = "chrome-error://chromewebdata/"
"""Address of a frame that Chromium refuses to load."""


class Foreign(BaseHTTPRequestHandler):
    """Server of a page with one frame, whose address is the path of the page."""

    def do_GET(self):
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.end_headers()
        frame = self.path.partition("#")[0].removeprefix("/")
        if frame.startswith("http"):
            self.wfile.write(f'<iframe src="{frame}" width="1400" height="850"></iframe>'.encode())

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def foreign():
    """Addresses of two pages on other ports."""
    servers = [ThreadingHTTPServer(("127.0.0.1", 0), Foreign) for _ in range(2)]
    for server in servers:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    yield [f"http://127.0.0.1:{server.server_port}" for server in servers]
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture(scope="module")
def public(foreign):
    """Address of a public app that only the first foreign page may frame."""
    port = driver.free_port()
    flags = ["--public", "--host-name", HOST, "--framed-by", foreign[0], "--port", str(port), "--no-browser"]
    command = [sys.executable, "-m", "attnviz", "app", *flags]
    process = subprocess.Popen(command, cwd=driver.ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT)
    driver.wait_for_app(process, port)
    yield f"http://{HOST}:{port}"
    process.terminate()
    process.wait(timeout=20)


@contextmanager
def framed(chromium, page: str, app: str):
    """Open a foreign page and yield its frame, which holds the app or was refused."""
    context = chromium.new_context()
    window = context.new_page()
    window.goto(f"{page}/{app}")
    yield window.frames[1]
    context.close()


def test_a_page_that_was_named_frames_the_public_app(chromium, foreign, public, tmp_path):
    """It draws, a click is answered, and a file is opened, though a frame of another site keeps no cookies."""
    (tmp_path / "case.attn").write_bytes(files.saved(attnviz.analyze("The cat sat", "story")))

    with framed(chromium, foreign[0], f"{public}/?model=story&text=a%20dog%20ran") as frame:
        expect(frame.locator(".st-key-picture-head-map .marks")).to_be_visible()
        frame.locator(".st-key-heads_off button").nth(1).click()
        frame.wait_for_url(re.compile("heads_off="), wait_until="commit")
        frame.locator(".st-key-open-menu button").first.click()
        frame.locator("[data-testid=stFileUploader] input").first.set_input_files(tmp_path / "case.attn")
        expect(frame.get_by_label("Text", exact=True).first).to_have_value("The cat sat")


def test_no_other_page_frames_the_app(chromium, foreign, public, app):
    """Neither one that was not named, nor any where the app is not public."""
    for page, refused in ((foreign[1], public), (foreign[0], app)):
        with framed(chromium, page, refused) as frame:
            frame.wait_for_url(REFUSED, wait_until="commit")
