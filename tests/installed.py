"""The built wheel in an environment outside the repository, as after `pip install`."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from filelock import FileLock

ROOT = Path(__file__).parents[1]


class Installed:
    """attnviz installed from its wheel; its dependencies come from the environment of the tests.

    The first process of a test run that asks for it builds it, for all.

    Attributes:
        wheel: the wheel, built from the source distribution.
        folder: where attnviz lies.
        elsewhere: an empty folder, in which commands run.
    """

    def __init__(self, folder: Path):
        with FileLock(f"{folder}.lock"):
            if not (folder / "elsewhere").is_dir():
                _install(folder)
        (self.wheel,) = folder.glob("*.whl")
        (self.folder,) = folder.glob("env/lib/*/site-packages/attnviz")
        self.elsewhere = folder / "elsewhere"
        self._bin = folder / "env" / "bin"

    def start(self, *command: object, **variables: str) -> subprocess.Popen:
        """Start a command of the environment, such as `attnviz`, in its own process group."""
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "STREAMLIT"))}
        return subprocess.Popen(
            [self._bin / command[0], *map(str, command[1:])],
            cwd=self.elsewhere,
            env=clean | variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, *command: object, **variables: str) -> tuple[int, str, str]:
        """Run a command to its end; return status, stdout and stderr."""
        process = self.start(*command, **variables)
        out, err = process.communicate(timeout=600)
        return process.returncode, out, err


def _install(folder: Path) -> None:
    """Build the wheel from the source distribution, and install it."""
    _build("sdist", ROOT, folder)
    (source,) = folder.glob("*.tar.gz")
    shutil.unpack_archive(source, folder, filter="data")
    _build("wheel", folder / source.name.removesuffix(".tar.gz"), folder)
    (wheel,) = folder.glob("*.whl")
    python = folder / "env" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "env"], check=True)
    pip = [sys.executable, "-m", "pip", "--python", python]
    subprocess.run([*pip, "install", "--quiet", "--no-deps", "--no-index", "--no-compile", wheel], check=True)
    (packages,) = folder.glob("env/lib/*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    (folder / "elsewhere").mkdir()


def _build(what: str, source: Path, folder: Path) -> None:
    hatch = [sys.executable, "-m", "hatchling", "build", "--target", what, "--directory", folder]
    subprocess.run(hatch, cwd=source, check=True, capture_output=True)
