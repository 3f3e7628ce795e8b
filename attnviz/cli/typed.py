"""Parsers of option values."""

import argparse
import json
import re
from pathlib import Path

from attnviz.core.errors import quoted

FLAGS = {
    "tokenizer": "--tokenizer",
    "sos": "--sos",
    "d_model": "--d-model",
    "num_heads": "--num-heads",
    "num_layers": "--num-layers",
    "seed": "--seed",
    "positions": "--no-positions",
    "bias": "--no-bias",
}
"""The settings of random weights. None has a default here, so that it is known which were given."""

FILE = re.compile(r"(.+\.py):(\w+)")
"""How a source is named that a function of a person's file builds."""

RUNS = ("packed", "left", "right", "cached", "chunked", "batched", "written")
"""Ways to run a model, as `attnviz.same_run` has them."""

NONE = "none"
"""The word that says that no token is padding."""

SAVED = (".attn", ".npz", ".npy", ".csv", ".safetensors", ".json", ".txt")
"""Endings of files of attention."""

_KINDS = {"e": "encoder", "d": "decoder", "c": "cross"}


def cell(text: str) -> tuple[int, int]:
    """Query and key of "7.2"."""
    ends = text.split(".")
    if len(ends) != 2 or not all(end.isascii() and end.isdecimal() for end in ends):
        raise argparse.ArgumentTypeError(f"'{text[:40]}' is no cell; give 7.2")
    return int(ends[0]), int(ends[1])


def head(text: str) -> int | str:
    """A head by its number, or how all are combined."""
    return int(text) if text.lstrip("-").isdecimal() else text


def pad(text: str) -> int | str:
    """An id of padding, or `NONE`."""
    if text != NONE and not text.isdecimal():
        raise argparse.ArgumentTypeError(f"'{text[:40]}' is no id; give a whole number, or {NONE}")
    return NONE if text == NONE else int(text)


def runs(text: str) -> tuple[str, ...]:
    """Ways to run a model, with commas between; "all" for every one."""
    return RUNS if text == "all" else tuple(part.strip() for part in text.split(",") if part.strip())


def setting(text: str) -> tuple[str, object]:
    """ "heads=3": a name, and a number, true or false, or a text."""
    name, sign, value = text.partition("=")
    if not (sign and name.isidentifier()):
        raise argparse.ArgumentTypeError(f"{quoted(text)} is no setting; give NAME=VALUE")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def file(text: str) -> Path:
    """A file to write, in a folder that there is: nothing is computed for a place where nothing can be kept."""
    folder = Path(text).parent
    if not folder.is_dir():
        raise argparse.ArgumentTypeError(f"there is no folder {quoted(str(folder), 200)}; make it first")
    return Path(text)


def amount(text: str) -> float:
    """A number of 0 or more."""
    if not re.fullmatch(r"(\d+\.?\d*|\.\d+)(e-?\d+)?", text, re.ASCII):
        raise argparse.ArgumentTypeError(f"{quoted(text)} is no amount; give a number, 0 or more")
    return float(text)


def gigabytes(text: str) -> float:
    """A number of GB, with or without the unit: "1", "1GB"."""
    return amount(re.sub(r"\s*GB$", "", text))


def count(text: str) -> int:
    """A whole number of 1 or more."""
    if not re.fullmatch(r"0*[1-9]\d{0,8}", text, re.ASCII):
        raise argparse.ArgumentTypeError(f"{quoted(text)} is no count; give a whole number, 1 or more")
    return int(text)


def ids(text: str) -> tuple[int, ...]:
    """Ids of tokens, of "12-5-7"."""
    if not re.fullmatch(r"\d{1,9}(-\d{1,9})*", text, re.ASCII):
        raise argparse.ArgumentTypeError(f"{quoted(text)} are no ids of tokens; give 12-5-7")
    return tuple(map(int, text.split("-")))


def port(text: str) -> int:
    """A number from 1 to 65535."""
    if not (re.fullmatch(r"\d{1,5}", text, re.ASCII) and 0 < int(text) < 2**16):
        raise argparse.ArgumentTypeError(f"{quoted(text)} is no port; give a number from 1 to 65535")
    return int(text)


def shape(text: str) -> tuple[int, ...]:
    """B, H, Q and K of "2,4,7,7"."""
    sizes = [part.strip() for part in text.split(",")]
    if len(sizes) != 4 or not all(re.fullmatch(r"\d{1,9}", size, re.ASCII) for size in sizes):
        raise argparse.ArgumentTypeError(f"{quoted(text)} is no shape; give four whole numbers: B,H,Q,K")
    return tuple(map(int, sizes))


def places(text: str) -> list[tuple[str | None, int | None, int]]:
    """Heads of --off: "2,3", "0.2,1.3" or "c1.2", as (kind or None, layer or None, head)."""
    matches = [re.fullmatch(r"\s*(?:([a-z]*)(\d{1,9})\.)?(\d{1,9})\s*", part, re.ASCII) for part in text.split(",")]
    kinds = {"": None, **_KINDS, **{kind: kind for kind in _KINDS.values()}}
    if not all(match and (match[1] or "") in kinds for match in matches):
        how = "give 2,3 or LAYER.HEAD, such as 0.2 or, in a decoder, d0.2"
        raise argparse.ArgumentTypeError(f"{quoted(text)} are no heads; {how}")
    return [(kinds[match[1] or ""], match[2] and int(match[2]), int(match[3])) for match in matches if match]


def place(text: str) -> tuple[str | None, int | None, int]:
    """One head, such as "5.3", or "c1.2" where there are several kinds."""
    heads = places(text)
    if len(heads) != 1 or heads[0][1] is None:
        raise argparse.ArgumentTypeError(f"'{text[:40]}' is no head; give LAYER.HEAD, such as 5.3, c1.2 or encoder0.3")
    return heads[0]
