"""The files of the project and their code, each read and parsed once for all tests of the house."""

import ast
import subprocess
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@cache
def tracked() -> tuple[Path, ...]:
    """List the files that git tracks or would add with the next commit; skip the test outside a git checkout."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("this is not a git checkout")
    return tuple(ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file())


@cache
def texts() -> dict[str, str]:
    """Read every tracked text file; the keys are paths from the root."""
    contents = {}
    for path in tracked():
        try:
            contents[str(path.relative_to(ROOT))] = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
    return contents


@cache
def nodes(folder: str = "attnviz") -> dict[str, tuple[ast.AST, ...]]:
    """Parse the code of a folder, without the training of models, and list the nodes of each file, its module first."""
    paths = [path for path in (ROOT / folder).rglob("*.py") if "training" not in path.parts or folder == "tests"]
    return {str(path.relative_to(ROOT)): tuple(ast.walk(ast.parse(path.read_text("utf-8")))) for path in paths}
