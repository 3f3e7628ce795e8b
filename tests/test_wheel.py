"""Contents of an installed wheel: the package, its files and the app, without the tools of its developers."""

import os
import re
import signal
import socket
import sys
import time
import zipfile
from pathlib import Path

import pytest
from driver import free_port
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

ROOT = Path(__file__).parents[1]
CHECKPOINT = re.compile(r"\d{5}\.safetensors$")


def files(folder: str) -> dict[str, Path]:
    """The files of a folder of the repository, by their path in it."""
    paths = [path for path in (ROOT / folder).rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    return {path.relative_to(ROOT).as_posix(): path for path in paths}


def test_a_wheel_holds_what_runs_and_nothing_else(installed):
    """Not how the models were trained, no tests, no documentation, and not every checkpoint: at most 10 MB."""
    package = {name: path for name, path in files("attnviz").items() if not name.startswith("attnviz/training/")}
    assets = {f"attnviz/{name}": path for name, path in files("assets").items() if not CHECKPOINT.search(name)}
    app = {f"attnviz/app/{name}": ROOT / name for name in ("app.py", ".streamlit/config.toml")}

    with zipfile.ZipFile(installed.wheel) as wheel:
        content = {name: wheel.read(name) for name in wheel.namelist() if ".dist-info/" not in name}

    kept = {name for name in content if CHECKPOINT.search(name)}
    assert content == {name: path.read_bytes() for name, path in (package | assets | app).items()} | {
        name: (ROOT / name.removeprefix("attnviz/")).read_bytes() for name in kept
    }
    assert installed.wheel.stat().st_size <= 10_000_000


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["xyz"], "There is no command 'xyz'. Available commands: app, export, explore, predict,"),
        (["app", "--port", "abc"], "'abc' is not a port; give 1 to 65535."),
        (["app", "--port", "65536"], "'65536' is not a port; give 1 to 65535."),
        (["app", "--address", "nowhere.invalid"], "'nowhere.invalid' is not an address of this machine; 127.0.0.1"),
        (["app", "--address", "a..b"], "'a..b' is not an address of this machine; 127.0.0.1 always is."),
        (["app", "hats"], "'hats' is neither a page nor a file. Available pages: compare, heads, learn, masks,"),
        (["app", "http://["], "'http://[' is not a link; copy one from the app."),
    ],
)
def test_what_cannot_be_opened_is_said_in_one_sentence(run, arguments, sentence):
    """On stderr, as of any command, and the exit status is 2."""
    status, out, err = run(*arguments)

    assert (status, out) == (2, "")
    assert err.startswith(f"attnviz: {sentence}")
    assert err.count("\n") == 1


def test_a_port_in_use_is_said_in_one_sentence(installed):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]

        told = f"attnviz: Port {port} is in use; choose another one with --port.\n"
        assert installed.run("attnviz", "app", "--port", port) == (2, "", told)
        for command in (["app"], []):  # alone, attnviz opens the app
            assert installed.run("attnviz", *command, STREAMLIT_SERVER_PORT=str(port)) == (2, "", told)


def test_an_installed_model_has_its_untrained_half_trained_and_final_weights(installed):
    """*Training step* offers these three."""
    code = "import attnviz; print([attnviz.load(name).steps for name in ('story', 'translator')])"
    missing = "import attnviz; attnviz.load('story', step=100)"

    assert installed.run("python", "-c", code) == (0, "[(0, 300, 3000), (0, 500, 4500)]\n", "")
    assert "step 100. Available steps: 0, 300, 3000" in installed.run("python", "-c", missing)[2]


def test_what_needs_an_extra_names_it(installed):
    """A condition on the heads of an atlas needs DuckDB."""
    code = """import sys; sys.modules["duckdb"] = None
import attnviz; from attnviz.core import assets
attnviz.atlas.open(assets.path("atlas/story")).heads("previous_token > 0.9")"""

    assert "An atlas needs duckdb: pip install 'attnviz[atlas]'." in installed.run("python", "-c", code)[2]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere there is no second address of this machine")
def test_the_address_that_was_asked_for_may_be_opened(installed):
    """Streamlit refuses pages that come by a name which it was not told, against DNS rebinding."""
    port = free_port()
    process = installed.start("attnviz", "app", "--address", "127.0.0.2", "--port", port, "--no-browser")
    said = process.stdout.readline()
    with connect(f"ws://127.0.0.2:{port}/_stcore/stream") as answer:
        opened = answer.response.status_code
    with pytest.raises(InvalidStatus, match="403"):
        connect("ws://attention.example.org/_stcore/stream", sock=socket.create_connection(("127.0.0.2", port)))
    process.kill()
    process.communicate()

    assert said == f"attnviz is open at http://127.0.0.2:{port}/ (Ctrl+C stops it)\n"
    assert opened == 101


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a browser is opened by other means")
def test_the_app_opens_a_browser_and_ends_with_ctrl_c(installed, tmp_path):
    """At the page that was asked for; the end is no error."""
    opened = tmp_path / "opened"
    script = f'#!/bin/sh\nprintf %s "$1" > {opened}.part && mv {opened}.part {opened}\n'
    (tmp_path / "xdg-open").write_text(script)
    (tmp_path / "xdg-open").chmod(0o755)
    port = free_port()
    link = "http://localhost:1234/masks?mask=subsequent&text=the cat"
    screen = {"DISPLAY": ":0", "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    process = installed.start("attnviz", "app", link, "--port", port, **screen)
    address = f"http://127.0.0.1:{port}/masks?mask=subsequent&text=the%20cat"
    said = process.stdout.readline()
    while not opened.exists() and process.poll() is None:
        time.sleep(0.1)
    seen = opened.read_text()
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)

    assert said == f"attnviz is open at {address} (Ctrl+C stops it)\n"
    assert seen == address
    assert (process.returncode, out, err.strip()) == (0, "", "")
