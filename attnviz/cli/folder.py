"""A folder of files made of many texts, with a manifest: a run that ended in the middle goes on where it was.

The manifest, `manifest.jsonl`, is one JSON object a line. The first line holds the settings of all files. Each other
line is of one text, written when its file is whole: its number, the text, where it came from, and the name and the
checksum of its file; or the error, if none could be made. Of two lines with one number the later one holds.
"""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnviz.core import whole
from attnviz.core.errors import InputError, quoted

MANIFEST = "manifest.jsonl"


@dataclass(frozen=True)
class ManifestEntry:
    """A line of the manifest."""

    number: int
    text: str
    origin: str
    file: str = ""
    checksum: str = ""
    error: str = ""


class Folder:
    """Output folder. Each file is written under another name and then renamed: a file with its name is whole."""

    def __init__(self, path: Path, settings: dict[str, Any]):
        """Raises: InputError: if there are files of other settings, or of something else."""
        self.path, self._manifest = path, path / MANIFEST
        path.mkdir(parents=True, exist_ok=True)
        for left in path.glob(whole.UNFINISHED):
            left.unlink(missing_ok=True)
        head = {"attnviz batch": 1, "settings": settings}
        if not self._manifest.exists():
            if any(not file.name.startswith(".") for file in path.iterdir()):
                raise InputError(f"{quoted(str(path), 200)} holds other files and no {MANIFEST}: give an empty folder.")
            whole.write(self._manifest, _line(head))
        first, *lines = self._manifest.read_bytes().splitlines(keepends=True) or [b""]
        self._check(_object(first), settings)
        if lines and not lines[-1].endswith(b"\n"):  # it was cut by what ended the run
            lines.pop()
            whole.write(self._manifest, b"".join([first, *lines]))
        self._entries = {entry.number: entry for entry in map(_entry, lines) if entry}

    def holds(self, number: int, text: str) -> bool:
        """Whether the file of a text is there and whole.

        Raises:
            InputError: if the file with that number is of another text.
        """
        entry = self._entries.get(number)
        if entry is None or entry.error:
            return False
        if entry.text != text:
            raise InputError(
                f"Text {number} of {quoted(str(self.path), 200)} is {quoted(entry.text)}, not {quoted(text)}: "
                "give another folder, or add texts at the end only."
            )
        try:
            return _checksum((self.path / entry.file).read_bytes()) == entry.checksum
        except OSError:
            return False

    def put(self, number: int, text: str, origin: str, file: str, content: bytes) -> None:
        """Write the file of a text."""
        whole.write(self.path / file, content)
        self._add(ManifestEntry(number, text, origin, file, _checksum(content)))

    def fail(self, number: int, text: str, origin: str, error: str) -> None:
        """Keep why there is no file of a text."""
        self._add(ManifestEntry(number, text, origin, error=error))

    def _add(self, entry: ManifestEntry) -> None:
        self._entries[entry.number] = entry
        with self._manifest.open("ab") as file:
            file.write(_line({name: value for name, value in vars(entry).items() if value != ""}))

    def _check(self, head: dict[str, Any], settings: dict[str, Any]) -> None:
        path, there = quoted(str(self.path), 200), head.get("settings")
        if head.get("attnviz batch") != 1 or not isinstance(there, dict):
            raise InputError(f"The {MANIFEST} in {path} is not of attnviz batch: give another folder.")
        if other := [name for name in sorted({*there, *settings}) if there.get(name) != settings.get(name)]:
            name = other[0]
            stored, current = (json.dumps(of.get(name))[:60] for of in (there, settings))
            raise InputError(
                f"{path} has other settings ({name}: {stored} there, {current} here): give another folder."
            )


def _checksum(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def _line(value: dict[str, Any]) -> bytes:
    return (json.dumps(value) + "\n").encode()


def _object(line: bytes) -> dict[str, Any]:
    """The object of a line; empty if it is none."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _entry(line: bytes) -> ManifestEntry | None:
    """Entry of a line; None for a line that somebody changed, so that the file is made again."""
    value = _object(line)
    try:
        entry = ManifestEntry(**value)
    except TypeError:
        return None
    kinds = {"number": int} | dict.fromkeys(("text", "origin", "file", "checksum", "error"), str)
    plain = Path(entry.file).name == entry.file if isinstance(entry.file, str) else False
    return entry if plain and all(type(getattr(entry, name)) is kind for name, kind in kinds.items()) else None
