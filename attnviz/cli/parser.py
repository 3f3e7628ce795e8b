"""The commands and options of the shell."""

import argparse
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from attnviz import __version__
from attnviz.cli.terminal import columns
from attnviz.core.errors import InputError, did_you_mean, quoted

ABOUT = """See what every attention head does with a sentence, in trained models, and what changes when you change it.
'attnviz' alone, or 'attnviz app', opens the app in a browser."""
EXAMPLES = """examples:
  attnviz predict "the black cat sleeps on the red chair ."
  attnviz predict "the cat sat down . the cat" --model induction --show contributions
  attnviz export "the black cat sleeps" --head 1 -o head.png -o head.csv
  attnviz export "the black cat sleeps" --form heads --layer e0 --off 3,e1.2 -o heads.svg
  attnviz export "?model=story&layer=d1&head=0&form=lines&least=0.2" -o lines.svg
  attnviz export "the black cat sleeps" --compare step=0 -o difference.png
  attnviz export "the cat sat down" --form mask --model scratch:seed=3 --mask "window(1)" -o mask.pdf
  attnviz generate "the cat sat on" --model story --max-new-tokens 8
  attnviz explore "the black cat sleeps" --off c1.3 -o case.html
  attnviz check "the cat sat down" --model story -o leaks.png
  attnviz save "the black cat sleeps" -o case.attn
  attnviz open case.attn --verify
  attnviz atlas build story texts.txt -o atlas/
  attnviz atlas query atlas/ "previous_token > 0.9"
"""

COMMANDS = {
    "app": "Open the app in a browser; Ctrl+C stops it.",
    "export": "Draw a text, or the picture of a link that the app copied, to a file.",
    "explore": "Write every head on one HTML page, which any browser opens without Python.",
    "predict": "Print what the model predicts, before and after a change, and what that comes from.",
    "generate": "Let a model continue a text or answer in a chat; -o draws a head over prompt and answer.",
    "check": "Find what is wrong with a mask, weights or scores, a batch or a model. "
    "The exit status is 0 if nothing is wrong, 1 for an error, 3 for an open question.",
    "models": "List the models, or print the card of one.",
    "save": "Save a run to a file with what makes it again; 'attnviz open' shows it anywhere.",
    "open": "Open a saved run, a file of weights or a model of your own in the app; "
    "--verify runs it again instead and exits with 1 if a number differs.",
    "atlas": "Measure every head over a corpus with 'atlas build'; find heads with 'atlas query'.",
}
ACTIONS = {  # of atlas, the last command
    "build": "Measure every text of a corpus; the same command continues a build that ended early.",
    "query": "Print the heads for which a condition holds.",
}

GONE = {
    "batch": "a loop in Python with attnviz.analyze and attnviz.render, as on the page 'Run attnviz on many texts'",
    "change": "attnviz export TEXT --form change",
    "compare": "attnviz export TEXT --compare WITH",
    "contributions": "attnviz predict TEXT --show contributions",
    "head": "attnviz export TEXT",
    "heads": "attnviz export TEXT --form heads",
    "leaks": "attnviz check",
    "lesson": "attnviz app learn",
    "mask": "attnviz export TEXT --form mask",
    "masks": "attnviz check --help, which lists the masks",
    "says": "attnviz predict",
    "tokens": "attnviz predict TEXT --show tokens",
    "verify": "attnviz open FILE --verify",
}
"""Former commands and what to type instead."""

LINK = re.compile(r"(https?://\S+|/?\w*\?\w+=.*)", re.DOTALL)
"""A link in the place of a text."""
FILE = re.compile(r"(.+\.py):(\w+)")
"""FILE.py:FUNCTION, a function of a person's file that gives a model."""
RUNS = ("packed", "left", "right", "cached", "chunked", "batched", "written")
"""Ways to run a model, as `attnviz.same_run` has them."""
SHOW = ("tokens", "contributions", "gradients", "lens", "patching")
"""What `predict --show` prints."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> Any:
        raise InputError(f"{message[:1].upper()}{message[1:]}. See {self.prog} --help.")


def _reader(pattern: str, make: Callable[[str], Any], wrong: str) -> Callable[[str], Any]:
    """Reader of values that a pattern matches; any other value is refused with a sentence."""

    def read_value(text: str) -> Any:
        if not re.fullmatch(pattern, text, re.ASCII):
            raise argparse.ArgumentTypeError(f"{quoted(text)} is no {wrong}")
        return make(text)

    return read_value


def file(text: str) -> Path:
    """Read the name of a file to write; its folder must exist before anything is computed."""
    folder = Path(text).parent
    if not folder.is_dir():
        raise argparse.ArgumentTypeError(f"there is no folder {quoted(str(folder), 200)}; make it first")
    return Path(text)


def _pad(text: str) -> int | str:
    return text if text == "none" else int(text)


def _runs(text: str) -> tuple[str, ...]:
    return RUNS if text == "all" else tuple(part.strip() for part in text.split(",") if part.strip())


def _amount(text: str) -> float:
    return float(text.removesuffix("GB"))


def _shape(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(",")))


_whole = _reader(r"\d{1,9}", int, "whole number")
_count = _reader(r"0*[1-9]\d{0,8}", int, "count; give a whole number, 1 or more")
_size = _reader(r"(\d+\.?\d*|\.\d+)(e-?\d+)?\s*(GB)?", _amount, "amount; give a number, 0 or more")
port = _reader(
    r"0*([1-9]\d{0,3}|[1-5]\d{4}|6[0-4]\d{3}|65[0-4]\d\d|655[0-2]\d|6553[0-5])", int, "port; give 1 to 65535"
)
"""Reader of a port."""

_TEXTS = "export explore predict generate save"
_MODELS = f"{_TEXTS} check"
_FIGURES = "export predict generate check"
_SERVERS = "app open"
OPTIONS: dict[str, tuple[tuple[str, str, str], ...]] = {
    "model and text": (
        ("--model NAME", f"{_MODELS} open", "of 'attnviz models' (translator), with settings: scratch:seed=3; of "
         "Hugging Face, by name or folder; a saved run; or FILE.py:FUNCTION, which runs that code"),
        ("--step N", f"{_TEXTS} build", "the model after this step of its training (the last)"),
        ("--target TEXT", "export explore predict save", "text that the decoder reads, in place of its own"),
        ("--lines", _TEXTS, "each line is a text of its own"),
        ("--sentence N", _TEXTS, "the line that is drawn, counted from 1 (1)"),
        ("--picture FILE", _TEXTS, "picture that is read with the text; may be repeated"),
        ("--chat", _TEXTS, "the text is what a user says, in the chat template of the model"),
        ("--system TEXT", _TEXTS, "system prompt of the chat"),
    ),
    "changes to the attention": (
        ("--mask MASK", _MODELS, "causal, 'window(2, 1)', 'a & ~b' or another of 'attnviz check --help'; repeatable"),
        ("--off HEADS", _MODELS, "heads to switch off: 2,3 of the layer shown; 0.2 of another; c0.2 of another kind"),
        ("--take PART-WHERE-TEXT", _MODELS, "take from another text: output-d0.1-The dog sat. for a head; pattern- or "
         "values-d0- for a layer; stream-d0- for its input; d0@3 at position 3, d0@3.5 from position 5 there"),
        ("--temperature T", _MODELS, "divides the scores (1)"),
    ),
    "what is shown": (
        ("--layer N", _MODELS, "1, or with its kind e1, d1 or c1: encoder, decoder, cross (where the model opens)"),
        ("--head N", _TEXTS, "a number, or mean, max or min of all (where the model opens)"),
        ("--form FORM", "export", "map, lines, text, picture or distance of a head; heads, overview, mask, change, "
         "lens, pushed, contributions, patching or prediction (map)"),
        ("--compare WITH", "export predict", "the difference to: original, 'text=Another text', 'layer=c1&head=2', "
         "step=0 or model=story; 'attnviz predict --show patching' takes a text"),
        ("--set NAME=VALUE", _MODELS, "any other name of a link: cell=7.2, view=words.hide, zoom=0.40.0.40, pins=q2, "
         "also=1-2, least=0.2, own_mask=false; may be repeated"),
    ),
    "what is printed": (
        ("--show WHAT", "predict", f"print instead: {', '.join(SHOW)}"),
        ("--word WORD", "export predict", "word whose logit is explained (the most probable one)"),
        ("--minus WORD", "export predict", "second word: the difference of both logits is explained"),
        ("--position N", "export predict", "token after which the word is predicted; from the end if negative (-1)"),
        ("--switch-off", "export predict", "with contributions: how much the logit falls with each head off"),
        ("--circuits WHAT", "models", "circuits of the weights: heads, eigenvalues or composition (heads)"),
        ("--json", "predict generate check models query", "JSON instead of text"),
    ),
    "how it writes": (
        ("--max-new-tokens N", "generate", "tokens, at most (64)"),
        ("--sampling-temperature T", "generate", "draw from logits divided by this; 0 takes the most probable (0)"),
        ("--top-p P", "generate", "draw from the most probable tokens with this share together (1)"),
        ("--seed N", "generate", "seed of the drawing (0)"),
    ),
    "what it should be": (
        ("--intent MASK", "check", "the intended mask: causal, two-way, another kind from below, or a mask such as "
         "'causal | prefix(3)'; the mistakes that give the mask are named"),
        ("--pad ID", "check", "the id of padding, or none"),
        ("--runs WAYS", "check", f"whether a model answers the same {', '.join(RUNS)}: some by commas, or all"),
        ("--array NAME", "check", "which array of several (those named mask, weights, scores)"),
        ("--kind KIND", "check", "mask, weights or scores (guessed)"),
        ("--convention HOW", "check", "of a mask: may-attend, true-is-masked, zero-is-masked or additive"),
        ("--shape B,H,Q,K", "check", "shape of the scores: how the array broadcasts"),
        ("--strict", "check", "exit with 1 for warnings, too"),
    ),
    "how it is measured": (
        ("--shard N", "build", "texts of a shard, at most (1000)"),
        ("--keep N", "build", "strongest texts that are kept for each metric of a head (10)"),
        ("--pairs N", "build", "strongest pairs of tokens of each head in a shard (200)"),
        ("--ablate N", "build", "texts of each shard on which each head is switched off in turn (0)"),
        ("--workers N", "build", "processes of this machine (one per core); 0 for this one alone"),
        ("--scheduler ADDRESS", "build", "a Dask cluster that runs already, whose workers see both folders"),
    ),
    "what a run may cost": (
        ("--seconds N", f"{_TEXTS} {_SERVERS}", "seconds, by an estimate (any; in the app 120)"),
        ("--memory GB", f"{_TEXTS} {_SERVERS} build", "memory of a run, or of a worker (any; in the app 2)"),
    ),
    "server": (
        ("--port N", _SERVERS, "port (8501)"),
        ("--address ADDRESS", _SERVERS, "127.0.0.1 for this machine alone; 0.0.0.0 for all, by a name in "
         "STREAMLIT_SERVER_ALLOWED_HOSTS"),
        ("--public", _SERVERS, "for others: bounds on visitors; models that ship or that ATTNVIZ_MODELS lists"),
        ("--host-name NAME", _SERVERS, "name that a public app answers to; may be repeated"),
        ("--framed-by ORIGIN", _SERVERS, "page that may frame a public app; may be repeated"),
        ("--no-browser", _SERVERS, "print the address only"),
    ),
    "files": (
        ("--live MODEL", "explore", "a page that runs the model itself: story, translator, induction, or your folder"),
        ("--verify", "open", "run it again and compare every number"),
        ("--precision HOW", "save", "float32, or float16: half as large (float32)"),
        ("--dark", _FIGURES, "light on dark"),
        ("--preset USE", _FIGURES, "paper (one column, 8 pt, no title), slide or web"),
        ("--ppi N", _FIGURES, "pixels per inch, 300 for print (PNG)"),
        ("-o FILE", _FIGURES, "its ending is the format: .png .svg .pdf .html .json .csv .npz .zip; may be repeated"),
        ("-o FILE", "explore save models", "the page, the run (.attn), or the circuits (.csv)"),
        ("-o FOLDER", "build", "the folder of the atlas"),
    ),
}  # fmt: skip
"""Every option under its title in the help: how it is written, the commands that take it, and its help."""
READERS = dict.fromkeys(("step", "shard", "keep", "pairs", "ablate", "workers"), _whole) | {
    "position": int, "ppi": int, "seed": int, "max-new-tokens": _count, "top-p": float,
    "sampling-temperature": float, "seconds": _size, "memory": _size, "port": port, "runs": _runs,
    "pad": _reader(r"none|\d+", _pad, "id; give a whole number, or none"),
    "shape": _reader(r"\s*\d{1,9}\s*(,\s*\d{1,9}\s*){3}", _shape, "shape; give four whole numbers: B,H,Q,K"),
}  # fmt: skip
"""Readers of values that are not text."""
DEFAULTS = {"position": -1, "max-new-tokens": 64, "sampling-temperature": 0.0, "top-p": 1.0, "seed": 0, "runs": ()}
DEFAULTS |= {"shard": 1000, "keep": 10, "pairs": 200, "ablate": 0, "scheduler": ""}
DEFAULTS |= {"precision": "float32"}
CIRCUITS = ("heads", "eigenvalues", "composition")
REPEATED = ("picture", "mask", "off", "take", "set", "host-name", "framed-by")

_TEXT = "a text; - for stdin; a link of the app, or its end '?model=story'; a saved run; or a picture or sound"
_OPENED = (
    "a link of the app, a saved run (.attn), weights (.npz, .npy, .csv, .safetensors), a folder or FILE.py:FUNCTION"
)
_WHAT = "numbers (.npz .npy .csv .safetensors .json .txt, - for stdin), FILE.py:FUNCTION; with --model a text"
_CORPUS = "texts, one a line, .jsonl or .parquet, or a folder of such files"
POSITIONS: dict[str, dict[str, tuple[bool, str]]] = {
    "app": {"link": (False, _OPENED)},
    "open": {"link": (True, _OPENED)},
    **{name: {"text": (name != "explore", _TEXT)} for name in _TEXTS.split()},
    "check": {"file": (False, _WHAT), "text": (False, "text for a model (its own example)")},
    "models": {"name": (False, "print the card of this one")},
    "build": {"model": (True, "a model, as --model takes it elsewhere"), "corpus": (True, _CORPUS)},
    "query": {"folder": (True, "folder of an atlas"), "condition": (False, "in SQL: 'previous_token > 0.9'; else all")},
}
"""Arguments without a flag of each command: whether they must be given, and their help."""


def read(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse arguments; none at all mean the app."""
    command, *rest = arguments or ["app"]
    if command in GONE:
        raise InputError(f"The command {command} is gone. Type: {GONE[command]}.")
    if command not in (*COMMANDS, "-h", "--help", "--version"):
        near = did_you_mean(command, COMMANDS)
        raise InputError(f"There is no command {quoted(command)}.{near} There are: {', '.join(COMMANDS)}.")
    parser = build(_masks() if command == "check" and {"-h", "--help"} & {*rest} else "")
    options, left = parser.parse_known_args([command, *rest])
    if not left:
        return options
    flag = left[0].partition("=")[0]
    if flag.startswith("-"):
        from attnviz.link import NAMES

        if "set" in options and (name := flag.strip("-").replace("-", "_")) in NAMES:
            raise InputError(f"A link has the name {name}. Type: --set {name}=VALUE.")
        near = did_you_mean(flag, [written.split()[0] for group in OPTIONS.values() for written, *_ in group])
        raise InputError(f"attnviz {command} has no option {quoted(flag)}.{near} See attnviz {command} --help.")
    words = " A text of several words stands in quotes." if "text" in options else ""
    raise InputError(f"Unrecognized arguments: {' '.join(left)}.{words} See attnviz {command} --help.")


def _masks() -> str:
    """The masks and the kinds of masks for the help of check; torch is imported for them."""
    from attnviz.check.intent import MEANT
    from attnviz.core.masks import Full, composable
    from attnviz.core.masks.text import form

    rules = columns([(form(rule), rule.meaning) for rule in (Full, *composable())])
    return "\n".join(["masks:", *rules, "", "kinds of masks, for --intent:", *columns([*MEANT.items()])])


def build(masks: str = "") -> argparse.ArgumentParser:
    """The parser of all commands, with a text under the help of check; wrong arguments raise an `InputError`."""
    page = {"formatter_class": argparse.RawDescriptionHelpFormatter, "allow_abbrev": False}
    parser = _Parser(prog="attnviz", description=ABOUT, epilog=EXAMPLES, **page)
    parser.add_argument("--version", action="version", version=f"attnviz {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND", dest="command")
    for name, about in COMMANDS.items():
        epilog = masks if name == "check" else None
        command = commands.add_parser(name, help=about, description=about, epilog=epilog, **page)
        _fill(command, name)
    actions = command.add_subparsers(title="what to do", required=True, metavar="ACTION", dest="action")
    for name, about in ACTIONS.items():
        _fill(actions.add_parser(name, help=about, description=about, **page), name)
    return parser


def _fill(command: argparse.ArgumentParser, name: str) -> None:
    """Add the arguments and options of a command."""
    for position, (required, help) in POSITIONS.get(name, {}).items():
        nargs = None if required else "?"
        default = None if name == "explore" else ""
        command.add_argument(position, metavar=position.upper(), help=help, nargs=nargs, default=default)
    for title, options in OPTIONS.items():
        fitting = [(written, help) for written, commands, help in options if name in commands.split()]
        group = command.add_argument_group(title) if fitting else None
        for written, help in fitting:
            flag, _, metavar = written.partition(" ")
            group.add_argument(flag, help=help, **_settings(flag.lstrip("-"), metavar, name))


def _settings(flag: str, metavar: str, command: str) -> dict[str, Any]:
    """Settings of an option for argparse besides its help."""
    if flag == "o":
        many = {"required": True} if command == "build" else {"action": "append", "type": file, "default": []}
        return {"dest": "output", "metavar": metavar, **many}
    if flag == "no-browser":
        return {"dest": "browser", "action": "store_false"}
    if flag == "circuits":
        return {"metavar": metavar, "nargs": "?", "const": "heads", "choices": CIRCUITS}
    if flag in REPEATED:
        return {"metavar": metavar, "action": "append", "default": []}
    if not metavar:
        return {"action": "store_true"}
    choices = SHOW if flag == "show" else None
    return {"metavar": metavar, "default": DEFAULTS.get(flag), "type": READERS.get(flag), "choices": choices}
