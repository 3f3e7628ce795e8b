"""Read arrays from files and pasted text. Pickles are never opened, and sizes are checked before unpacking."""

import io
import json
import re
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from torch import Tensor

from attnviz.check import MOST_CELLS
from attnviz.core.errors import InputError, check_no_picture, quoted

MOST_BYTES = 2**27
"""Maximum size of a file, and of an array in a file (128 MB)."""
MOST_TEXT = 2**24
"""Maximum length of a text of numbers, in characters."""
NO_PICKLE = "What torch.save writes is a pickle, which could run code; numpy.savez(file, *layers) writes what is read."
ENDINGS = (".npz", ".npy", ".csv", ".safetensors", ".json", ".txt")
NAMES = {
    "mask": ("mask", "attn_mask", "attention_mask", "key_padding_mask", "padding_mask", "causal_mask", "may_attend"),
    "weights": ("weights", "attn", "attention", "attentions", "attn_weights", "attention_weights", "pattern", "probs"),
    "scores": ("scores", "attn_scores", "attention_scores", "attn_logits"),
}
"""Names of arrays that imply their kind."""
LAST_NUMBER = re.compile(r"\d{1,9}(?=\D*$)")
"""Pattern of the layer number in the name of an array."""


@dataclass(frozen=True, eq=False)
class ArrayFile:
    """Arrays and texts from a file or a pasted text."""

    name: str  # name of the file
    arrays: dict[str, np.ndarray | Tensor]  # by name; a single array without a name has the name ""
    texts: dict[str, np.ndarray] = field(default_factory=dict)  # lists of texts by name, such as tokens

    def chosen(self, name: str | None = None) -> dict[str, np.ndarray | Tensor]:
        """Select the array `name`, or without a name the arrays whose names imply a kind, the only array, or numbered
        layers. Raise InputError if there is no such array, or the choice is not clear; the message lists the arrays."""
        listed = ", ".join(quoted(key) for key in list(self.arrays)[:20])
        if name is not None:
            if name not in self.arrays:
                hint = "Its only array has no name." if [*self.arrays] == [""] else f"Available arrays: {listed}."
                raise InputError(f"There is no array {quoted(name)} in {quoted(self.name)}. {hint}")
            return {name: self.arrays[name]}
        arrays = {key: array for key, array in self.arrays.items() if kind_by_name(key)}
        if not arrays and len(self.arrays) == 1:
            arrays = self.arrays
        elif not arrays:
            arrays = {key: array for key, array in self.arrays.items() if array.ndim > 1}
            if not are_layers(arrays):
                raise InputError(f"{quoted(self.name)} holds several arrays. Choose one of: {listed}.")
        numbers = {key: LAST_NUMBER.search(key) for key in arrays}
        layers = {key: int(number[0]) if number else 0 for key, number in numbers.items()}
        return {key: arrays[key] for key in sorted(arrays, key=layers.__getitem__)}  # layer 2 before layer 10


def are_layers(names: Collection[str]) -> bool:
    """Whether names differ in one number only, as from `numpy.savez(file, *layers)`: "arr_0", "arr_1"."""
    return len(names) > 1 and len({LAST_NUMBER.sub("#", name) for name in names}) == 1


def kind_by_name(name: str) -> str | None:
    """Guess the kind of an array from its name, which may end in a layer number ("attention_3"); None if unclear."""
    plain = re.sub(r"[\W_]*\d+\W*$", "", name.lower())
    return next((kind for kind, names in NAMES.items() if name.lower() in names or plain in names), None)


def read_file(name: str, content: bytes) -> ArrayFile:
    """Read the arrays in the content of a file, in the format of its name's ending; raise InputError if that fails."""
    ending = next((ending for ending in ENDINGS if name.lower().endswith(ending)), None)
    if ending is None:
        check_no_picture(name)
        message = f"{quoted(name)} is not a supported array file: its name must end in {', '.join(ENDINGS)}."
        raise InputError(f"{message} {NO_PICKLE}")
    if len(content) > MOST_BYTES:
        raise InputError(f"{quoted(name)} has {len(content):,} bytes; at most {MOST_BYTES:,} are read.")
    if not content:
        raise InputError(f"{quoted(name)} is empty.")
    if ending in (".csv", ".json", ".txt"):
        try:
            return read_text(content.decode("utf-8-sig"), name)
        except UnicodeDecodeError:
            raise InputError(f"{quoted(name)} is not a text in UTF-8.") from None
    # NumPy, zipfile and safetensors raise almost any error for a damaged file (TokenError, struct.error, a negative
    # seek), so every error is caught while they read, and only there.
    try:
        if ending == ".safetensors":
            import safetensors.torch

            contents = dict(safetensors.torch.load(content))
        else:
            contents = _read_numpy(name, content)
    except InputError:
        raise
    except Exception:
        kind = {".npz": "an npz file", ".npy": "a NumPy array"}.get(ending, "a safetensors file")
        raise InputError(f"{quoted(name)} is damaged, holds a pickle, or is not {kind}.") from None
    texts = {key: item for key, item in contents.items() if isinstance(item, np.ndarray) and item.dtype.kind in "US"}
    arrays = {key: item for key, item in contents.items() if key not in texts}
    if not arrays:
        raise InputError(f"{quoted(name)} holds no array of numbers.")
    return ArrayFile(name, arrays, texts=texts)


def _read_numpy(name: str, content: bytes) -> dict[str, np.ndarray]:
    """Read the array of an npy file, named "", or the arrays of an npz file, whose zip directory is checked first."""
    file = np.load(io.BytesIO(content), allow_pickle=False)
    if isinstance(file, np.ndarray):
        return {"": file}
    members = file.zip.infolist()
    total = sum(member.file_size for member in members)
    if total > MOST_BYTES or len(members) > 1000:
        size = f"{total:,} bytes in {len(members):,} arrays"
        raise InputError(f"{quoted(name)} unpacks to {size}; at most {MOST_BYTES:,} in 1,000 are read.")
    if other := next((member.filename for member in members if not member.filename.endswith(".npy")), None):
        raise InputError(f"{quoted(name)} holds {quoted(other)}, which is not a NumPy array.")
    arrays = {}
    for key in file.files:
        try:
            arrays[key] = file[key]
        except ValueError as error:
            if "allow_pickle" not in str(error):  # a pickled array is left out
                raise
    return arrays


def read_text(text: str, name: str = "") -> ArrayFile:
    """Read pasted numbers (CSV, rows with blanks, nested lists, a printed tensor); raise InputError if it fails."""
    called, name = quoted(name) if name else "The text", name or "the text"
    if len(text) > MOST_TEXT:
        raise InputError(f"{called} has {len(text):,} characters; at most {MOST_TEXT:,} are read.")
    text = text.removeprefix("\ufeff").replace("−", "-").strip()
    if not text:
        raise InputError(f"{called} is empty.")
    values = None
    with suppress(ValueError, RecursionError):
        values = json.loads(text) if text.startswith("{") else None
    if values:  # arrays and tokens by their names
        lists = {key: value for key, value in values.items() if isinstance(value, list) and value}
        texts = {key: value for key, value in lists.items() if all(isinstance(word, str) for word in value)}
        arrays = {key: _array(called, value) for key, value in lists.items() if key not in texts}
        if arrays:
            return ArrayFile(name, arrays, {key: np.array(value) for key, value in texts.items()})
    return ArrayFile(name, {"": _array(called, _lists(called, text))})


_PRINTED = re.compile(r"^(?:tensor|array)\((.*?)(?:,\s*(?:dtype|device|grad_fn|requires_grad)=.*)?\)$", re.DOTALL)
_WORDS = {"true": "true", "false": "false", "nan": "NaN", "inf": "Infinity", "infinity": "Infinity"}


def _lists(called: str, text: str) -> Any:
    """Parse nested lists, as JSON, Python, NumPy and PyTorch write them, or lines with one row of numbers each, which
    are separated by commas, semicolons, tabs or blanks and have a decimal point."""
    if "..." in text:
        remedy = "print all of them: torch.set_printoptions(threshold=10**6)."
        raise InputError(f"{called} leaves numbers out (...); {remedy}")
    if "[" not in text:
        lines = [line.strip().strip(",;") for line in text.replace('"', "").splitlines() if line.strip()]
        if any(re.search(r"\d,\d", line) and re.search("[;\t]", line) for line in lines):
            raise InputError(f"{called} has commas inside numbers, or two separators; write a point for a comma.")
        rows = (re.sub(r"\s*[,;\t]\s*|\s+", ",", line) for line in lines)
        text = re.sub(r"(?<![\w.])\+?0*(?=\d)", "", f"[[{'],['.join(rows)}]]")  # JSON has no +1 and no 007
    with suppress(ValueError, RecursionError):
        return json.loads(text)  # fast path for valid JSON, in a third of the time
    if printed := _PRINTED.match(text):
        text = printed[1]
    text = re.sub(r"[A-Za-z]+", lambda word: _WORDS.get(word[0].lower(), word[0]), text)
    text = re.sub(r"(?<=[\w.\]])\s+(?=[-\w.\[])", ",", text.strip())  # blanks between numbers or lists
    text = re.sub(r"(?<=\d)\.(?!\d)", ".0", re.sub(r"(?<![\d])\.(?=\d)", "0.", text))  # 1. and .5
    try:
        return json.loads(re.sub(r",\s*\]", "]", text))  # without a comma at the end of a list
    except (ValueError, RecursionError):
        expected = "rows or nested lists of numbers, such as [[0.5, 0.5], [0, 1]]"
        raise InputError(f"{called} cannot be read as {expected}; words must be true, false, nan or inf.") from None


def _array(called: str, rows: Any) -> np.ndarray:
    """Convert nested lists to an array of booleans, integers or floats."""
    try:
        array = np.array(rows)
    except ValueError:
        problem = "has rows of different lengths, or a list in place of a number; make all rows equally long"
        raise InputError(f"{called} {problem}.") from None
    content = f"{array.size:,} numbers"
    if array.dtype.kind not in "bif":  # not booleans, integers or floats
        no_integers = [cell for cell in array.flat if not isinstance(cell, int)]
        bad_cell = no_integers[0] if no_integers else max(array.flat, key=abs)
        content = f"{quoted(bad_cell)}, which is not a number, or is too large"
    elif 0 < array.size <= MOST_CELLS:
        return array
    raise InputError(f"{called} holds {content}; 1 to {MOST_CELLS:,} numbers are read.")
