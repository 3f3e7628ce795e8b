"""Files are whole or not there: what cannot be written to its end leaves what was there, and nothing beside it."""

import resource
from contextlib import contextmanager
from pathlib import Path

import pytest
from safetensors import SafetensorError

import attnviz
from attnviz import files
from attnviz.cli import main
from attnviz.core import storage
from attnviz.models import trained

TEXT, SCRATCH = "The cat sat on the mat", ("--model", "scratch")


def by_shell(*arguments: str) -> None:
    if main(arguments):
        raise OSError("refused")


WRITERS = {
    "whole": lambda path: storage.write(path, bytes(2000)),
    "a saved run": lambda path: files.save(attnviz.analyze(TEXT, "scratch"), path),
    "weights": lambda path: trained.write(trained.load("story"), path),
    "a figure": lambda path: by_shell("export", TEXT, *SCRATCH, "-o", f"{path}.svg"),
    "a page": lambda path: by_shell("explore", TEXT, *SCRATCH, "-o", f"{path}.html"),
}


@contextmanager
def full_disk():
    """Limit files to 1,000 bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_a_write_that_fails_leaves_what_was_there(write, tmp_path):
    """On a full disk, by every writer: the file of before is as it was, and no part of another is left."""
    write(tmp_path / "a")
    (there,) = tmp_path.iterdir()
    there.write_bytes(b"of before")

    with full_disk(), pytest.raises((OSError, attnviz.AttnvizError, SafetensorError)):
        write(tmp_path / "a")

    assert [*tmp_path.iterdir()] == [there]
    assert there.read_bytes() == b"of before"


def test_a_link_to_a_file_stays_a_link_and_a_device_is_written_to(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "file")
    storage.write(tmp_path / "link", b"content")
    storage.write(Path("/dev/null"), b"content")

    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_bytes() == b"content"
    assert Path("/dev/null").is_char_device()
    with pytest.raises(OSError, match=f"No such file or directory: '{tmp_path}/none/a'"):
        storage.write(tmp_path / "none" / "a", b"content")
