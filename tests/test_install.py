"""Packages that `make run`, `make test` and the container install: the pins, and the user's choice of torch."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import zipfile
from contextlib import closing
from http.client import HTTPConnection
from importlib.metadata import distributions
from pathlib import Path

import pip
import pytest
import yaml
from driver import free_port, launch_app, wait_for_app

ROOT = Path(__file__).parents[1]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
DEPLOY = ROOT / "deploy"
SPACE = (DEPLOY / "huggingface-space" / "Dockerfile").read_text()
PINS = dict(line.split("==") for line in (ROOT / "requirements.txt").read_text().splitlines() if "==" in line)
RUN, SPACE_RUN = (re.search(r"^RUN ((?:if|PIP).*?[^\\])$", file, re.M | re.S)[1] for file in (DOCKERFILE, SPACE))


def put_wheel(index: Path, name: str, version: str) -> None:
    """Write an empty package to a folder that pip reads as an index."""
    folder = index / name
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"{name.replace('-', '_')}-{version}"
    with zipfile.ZipFile(folder / f"{stem}-py3-none-any.whl", "w") as wheel:
        info = f"{stem}.dist-info"
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    links = [f'<a href="{file.name}">{file.name}</a>' for file in folder.glob("*.whl")]
    (folder / "index.html").write_text("".join(links))


@pytest.fixture(scope="module")
def ordinary(tmp_path_factory):
    """Index with every pinned package, and with newer versions."""
    index = tmp_path_factory.mktemp("ordinary")
    for name, version in PINS.items():
        put_wheel(index, name, version)
        put_wheel(index, name, "2.99.0" if name == "torch" else f"{int(version.split('.')[0]) + 1}.0")
    return index


@pytest.fixture(scope="module")
def cpu(tmp_path_factory):
    """An index that holds CPU builds of torch and nothing else."""
    index = tmp_path_factory.mktemp("cpu")
    put_wheel(index, "torch", f"{PINS['torch']}+cpu")
    return index


class Environment:
    """An empty environment with the tests' own pip, so that none has to be fetched."""

    def __init__(self, folder: Path, ordinary: Path):
        self.folder = folder
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
        (self.packages,) = folder.glob("lib/*/site-packages")
        (self.packages / "pip").symlink_to(Path(pip.__file__).parent)
        command = folder / "bin" / "pip"
        command.write_text(f'#!/bin/sh\nexec {folder}/bin/python -m pip "$@"\n')
        command.chmod(0o755)
        self.variables = {
            "PATH": f"{folder}/bin:{os.defpath}",
            "PIP_CONFIG_FILE": "/dev/null",
            "PIP_INDEX_URL": ordinary.as_uri(),
            "HOME": str(folder),
        }

    def run(self, *command: str, folder: Path = ROOT, **variables: str) -> None:
        ran = subprocess.run(command, cwd=folder, env=self.variables | variables, capture_output=True, text=True)
        assert ran.returncode == 0, ran.stdout + ran.stderr

    def make(self, target: str = "for-app", **variables: str) -> None:
        self.run("make", f"VENV={self.folder}", f"{self.folder}/{target}", **variables)

    def put_torch(self, version: str) -> None:
        own = self.folder / "own"
        put_wheel(own, "torch", version)
        self.run("pip", "install", f"torch=={version}", PIP_INDEX_URL=own.as_uri())

    def installed(self) -> dict[str, str]:
        return {found.name: found.version for found in distributions(path=[str(self.packages)])}


@pytest.fixture
def environment(tmp_path, ordinary):
    return Environment(tmp_path / "env", ordinary)


def test_what_is_pinned_is_installed(environment):
    """An empty environment gets exactly the set that the tests ran with."""
    environment.make()

    assert environment.installed() == PINS


def test_the_documentation_names_the_pinned_torch():
    assert f" torch=={PINS['torch']} " in (ROOT / "docs" / "start.md").read_text()


def test_a_torch_that_serves_is_kept(environment, cpu):
    """A person's own build is not replaced by gigabytes of another one, nor by one from an index of CPU builds."""
    environment.put_torch("2.9.1+cu128")
    environment.make(TORCH_INDEX=cpu.as_uri())

    assert environment.installed() == PINS | {"torch": "2.9.1+cu128"}


def test_the_container_installs_the_same(environment, cpu):
    """With and without an index of CPU builds."""
    environment.run("sh", "-c", RUN, TORCH_INDEX=cpu.as_uri())

    assert environment.installed() == PINS | {"torch": f"{PINS['torch']}+cpu"}

    environment.run("pip", "uninstall", "--yes", "torch")
    environment.run("sh", "-c", RUN, TORCH_INDEX="")

    assert environment.installed() == PINS


def test_the_app_starts_from_what_the_container_copies(tmp_path):
    """Without what .dockerignore keeps out, by the container's own command."""
    ignore = (ROOT / ".dockerignore").read_text().split()
    for source, target in re.findall(r"^COPY (\S+) (\S+)$", DOCKERFILE, re.MULTILINE):
        assert f"!{source}" in ignore
        (shutil.copytree if (ROOT / source).is_dir() else shutil.copy)(ROOT / source, tmp_path / target)
    for pattern in ignore:
        for left_out in [] if pattern == "*" else list(tmp_path.glob(pattern)):
            shutil.rmtree(left_out)
    command = json.loads(re.search(r"^CMD (.*)$", DOCKERFILE, re.MULTILINE)[1])
    port = free_port()
    environment = os.environ | {"STREAMLIT_SERVER_PORT": str(port), "PYTHONPATH": ""}
    with subprocess.Popen(
        [sys.executable, *command[1:]], cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        said = process.stdout.readline()
        process.terminate()

    assert said == f"attnviz is open at http://localhost:{port}/ (Ctrl+C stops it)\n"
    assert not (tmp_path / "attnviz" / "training").exists()


def test_the_space_installs_the_pins_and_the_wheel(environment, cpu, tmp_path):
    """With torch alone from the index of CPU builds."""
    shutil.copy(ROOT / "requirements.txt", tmp_path)
    put_wheel(tmp_path, "attnviz", "0.0.1")
    shutil.move(tmp_path / "attnviz" / "attnviz-0.0.1-py3-none-any.whl", tmp_path)
    environment.run("sh", "-c", SPACE_RUN, folder=tmp_path, TORCH_INDEX=cpu.as_uri())

    assert environment.installed() == PINS | {"torch": f"{PINS['torch']}+cpu", "attnviz": "0.0.1"}


def answered_names(process: subprocess.Popen, port: int) -> list[str]:
    """Return the host names that an app answers to, out of four, and stop it."""
    wait_for_app(process, port)
    names = ("x.hf.space", "my-app.streamlit.app", "attention.example.org", "evil.example")
    statuses = [_status(port, name) for name in names]
    process.terminate()
    process.communicate()
    assert {*statuses} == {200, 403}
    return [name for name, status in zip(names, statuses, strict=True) if status == 200]


def _status(port: int, name: str) -> int:
    with closing(HTTPConnection("127.0.0.1", port)) as connection:
        connection.request("GET", "/", headers={"Host": name})
        return connection.getresponse().status


def of_compose(name: str) -> dict[str, str]:
    """Return the environment that the compose file sets for a host name."""
    given = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]["attnviz"]["environment"]
    return {
        variable: re.sub(r"\$\{(\w+).*\}", lambda m: {"HOST_NAME": name}.get(m[1], ""), text)
        for variable, text in given.items()
    }


@pytest.mark.parametrize("name", ["x.hf.space", "attention.example.org"])
def test_the_image_answers_to_its_name_alone(installed, name):
    """From the wheel, by its own command, as a Space and behind the proxy of the compose file."""
    variables = dict(part.split("=") for part in re.search(r"^ENV (.*)$", SPACE, re.M)[1].split())
    if name == "attention.example.org":
        variables |= of_compose(name)
    command = json.loads(re.search(r"^CMD (.*)$", SPACE, re.M)[1])
    port = free_port()
    process = installed.start(*(str(port) if part == "7860" else part for part in command), **variables)

    assert answered_names(process, port) == [name]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere there is no second address of this machine")
def test_streamlit_cloud_runs_one_file_and_reaches_it_by_any_address():
    """Without an environment of ours."""
    port = free_port()
    file = DEPLOY / "streamlit-cloud" / "streamlit_app.py"
    process = launch_app(port, subprocess.DEVNULL, file)
    wait_for_app(process, port)
    with socket.create_connection(("127.0.0.2", port)):
        pass

    assert answered_names(process, port) == ["my-app.streamlit.app"]
