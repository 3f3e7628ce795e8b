"""Commands and options of the command line."""

import argparse
import math
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
  attnviz export "?model=story&layer=d1&head=0&form=lines&least=0.2" -o lines.svg
  attnviz generate "the cat sat on" --model story --max-new-tokens 8
  attnviz explore "the black cat sleeps" --off c1.3 -o case.html
  attnviz check "the cat sat down" --model story
  attnviz save "the black cat sleeps" -o case.attn
  attnviz atlas build story texts.txt -o atlas/
  attnviz atlas query atlas/ "previous_token > 0.9"
"""

COMMANDS = {
    "app": "Open the app in a browser; Ctrl+C stops it.",
    "export": "Draw a text, or the picture of a link that the app copied, to a file.",
    "explore": "Write every head to one HTML page, which any browser opens without Python.",
    "predict": "Print the predictions of a model, before and after a change, and explain them.",
    "generate": "Let a model continue a text or answer in a chat; -o draws a head over prompt and answer.",
    "check": "Find errors in a mask, weights, a batch or a model. Exit status: 1 for errors, 3 for an open question.",
    "models": "List the models, or print the card of one model.",
    "save": "Save a run to a file, with its settings; 'attnviz open' shows it on any computer.",
    "open": "Open a saved run, weights or your own model in the app; with --verify, exit status 1 if a number differs.",
    "atlas": "Measure every head over a corpus with 'atlas build'; find heads with 'atlas query'.",
}
ACTIONS = {  # of the command atlas
    "build": "Measure every text of a corpus; the same command continues a build that ended early.",
    "query": "Print the heads for which a condition holds.",
}

OTHER_FORMS = ("heads", "overview", "mask", "change", "lens", "pushed", "contributions", "gradients", "patching")
"""Forms of pictures besides the forms of a head, which are in `attnviz.figures.FORMS`."""
GONE = {name: f"attnviz export TEXT --form {name}" for name in OTHER_FORMS} | {
    "batch": "a loop in Python with attnviz.analyze and attnviz.render, as on the page 'Run attnviz on many texts'",
    "compare": "attnviz export TEXT --compare WITH",
    "lesson": "attnviz app learn",
    "masks": "attnviz check --help, which lists the masks",
    "tokens": "attnviz predict TEXT --show tokens",
    "verify": "attnviz open FILE --verify",
    "--before": "nothing: the map of a changed model shows the change by itself",
    "--causal": "--intent causal",
    "--empty-rows": "--set empty=nan",
    "--no-causal": "--intent two-way",
    "--no-sos": "--model scratch:sos=true to begin a text with <sos>; without it there is none",
    "--row-sums": "attnviz check FILE.npz, which finds rows that do not sum to 1",
    "--score-scale": "--set scaled=false for scores without 1/√d_k; in Python Edits(scale=F) takes any factor",
    "--sentences": "--set view=sentences",
}
"""Removed commands and options, and their replacements."""

LINK = re.compile(r"(https?://\S+|/?\w*\?\w+=.*)", re.DOTALL)
"""Pattern of a link instead of a text."""
FILE = re.compile(r"(.+\.py):(\w+)")
"""Pattern of FILE.py:FUNCTION, a function in a user's file that returns a model."""
RUNS = ("packed", "left", "right", "cached", "chunked", "batched", "written")
"""Ways to run a model, as in `attnviz.same_run`."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> Any:
        raise InputError(f"{message[:1].upper()}{message[1:]}. See {self.prog} --help.")


def _value(make: Callable[[str], Any], what: str, default: Any = None) -> dict[str, Any]:
    """Return `type` and `default` for `add_argument`: `make` converts a text; on ValueError, it "is not {what}"."""

    def read_value(text: str) -> Any:
        try:
            return make(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{quoted(text)} is not {what}") from None

    return {"type": read_value, "default": default}


def _integer(text: str) -> int:
    """Read a number without sign, of at most 9 digits, which fits into 32 bits."""
    if not re.fullmatch(r"\d{1,9}", text, re.ASCII):
        raise ValueError
    return int(text)


def _amount(text: str) -> float:
    """Read a number, 0 or more; "GB" after it is ignored."""
    value = float(text.removesuffix("GB"))
    if not 0 <= value < math.inf:
        raise ValueError
    return value


def _shape(text: str) -> tuple[int, ...]:
    return tuple(map(_integer, text.split(",")))


def _pad(text: str) -> int | str:
    """Read the id of padding, or "none"."""
    return text if text == "none" else _integer(text)


def _file(text: str) -> Path:
    """Read the path of an output file, whose folder must exist."""
    folder = Path(text).parent
    if not folder.is_dir():
        raise argparse.ArgumentTypeError(f"there is no folder {quoted(str(folder), 200)}; make it first")
    return Path(text)


WHOLE, AMOUNT = _value(_integer, "a whole number"), _value(_amount, "an amount; give a number, 0 or more")
MANY = {"action": "append", "default": []}
FILES = {"dest": "output", "type": _file, **MANY}
OPTIONAL = {"nargs": "?", "default": ""}
"""Arguments of `add_argument` for several options: `MANY` may be repeated, `FILES` are output files."""
_TEXTS = "export explore predict generate save"
_MODELS = f"{_TEXTS} check"
_FIGURES = "export predict generate check"
_SERVERS = "app open"
_TEXT = "a text; - for stdin; a link of the app, or its end '?model=story'; a saved run; a picture or a sound"
_OPENED = "a link, a saved run, weights (.npz .npy .csv .safetensors), a folder or FILE.py:FUNCTION"
OPTIONS: dict[str, tuple[tuple[Any, ...], ...]] = {
    "arguments": (
        ("TEXT", "export predict generate save", _TEXT),
        ("TEXT", "explore", _TEXT, OPTIONAL),
        ("LINK", "app", _OPENED, OPTIONAL),
        ("LINK", "open", _OPENED),
        ("FILE", "check", "a file of numbers, - for stdin, or FILE.py:FUNCTION; with --model a text", OPTIONAL),
        ("TEXT", "check", "text for a model (its own example)", OPTIONAL),
        ("NAME", "models", "model whose card is printed", OPTIONAL),
        ("MODEL", "build", "a model, as for --model of other commands"),
        ("CORPUS", "build", "a file with one text per line, .jsonl or .parquet, or a folder of such files"),
        ("FOLDER", "query", "folder of an atlas"),
        ("CONDITION", "query", "condition in SQL, such as 'previous_token > 0.9' (all heads)", OPTIONAL),
    ),
    "model and text": (
        ("--model NAME", f"{_MODELS} open", "a name of 'attnviz models' (translator), also with settings: "
         "scratch:seed=3; a name or folder of Hugging Face; a saved run; or FILE.py:FUNCTION, which runs that code"),
        ("--step N", f"{_TEXTS} build", "training step of the model (the last)", WHOLE),
        ("--target TEXT", "export explore predict save", "text that the decoder reads, instead of its own output"),
        ("--lines", _TEXTS, "each line is a text of its own"),
        ("--sentence N", _TEXTS, "number of the line to draw, from 1 (1)"),
        ("--picture FILE", _TEXTS, "picture to read with the text; may be repeated", MANY),
        ("--chat", _TEXTS, "put the text into the chat template of the model, as a message of the user"),
        ("--system TEXT", _TEXTS, "system prompt of the chat"),
    ),
    "changes to the attention": (
        ("--mask MASK", _MODELS, "mask: causal, 'window(2, 1)', 'a & ~b' or others of 'attnviz check --help'", MANY),
        ("--off HEADS", _MODELS, "heads to switch off: 2,3 in the layer shown; 0.2 or c0.2 in another layer", MANY),
        ("--take PART-WHERE-TEXT", _MODELS, "patch from another text: output-d0.1-The dog sat. for a head; pattern- or "
         "values-d0- for a layer; stream-d0- for its input; d0@3 at position 3, d0@3.5 from position 5 there", MANY),
        ("--temperature T", _MODELS, "divides the scores (1)"),
    ),
    "what is shown": (
        ("--layer N", _MODELS, "layer: 1, or with its kind e1, d1, c1: encoder, decoder, cross (the model's usual)"),
        ("--head N", _TEXTS, "number of a head, or mean, max or min of all heads (the model's usual)"),
        ("--form FORM", "export", f"a form of a head, such as lines; {', '.join(OTHER_FORMS)}, prediction (map)"),
        ("--show FORM", "predict", "tokens, or the numbers of a form of export, such as contributions"),
        ("--compare WITH", "export predict", "original, 'text=Another text', 'layer=c1&head=2', step=0 or model=story"),
        ("--word WORD", "export predict", "word whose logit is explained (the most probable one)"),
        ("--minus WORD", "export predict", "second word, to explain the difference of both logits"),
        ("--position N", "export predict", "position after which the word is predicted; negative from the end (-1)",
         _value(int, "a whole number", -1)),
        ("--switch-off", "export predict", "with contributions: measure how much the logit falls with each head off"),
        ("--set NAME=VALUE", _MODELS, "any other name of a link: cell=7.2, view=words.hide, zoom=0.40.0.40, pins=q2, "
         "also=1-2, least=0.2, own_mask=false, empty=nan; may be repeated", MANY),
        ("--circuits WHAT", "models", "print circuits of the weights: heads, eigenvalues or composition (heads)",
         {"nargs": "?", "const": "heads", "choices": ("heads", "eigenvalues", "composition")}),
        ("--json", "predict generate check query", "JSON instead of text"),
    ),
    "text generation": (
        ("--max-new-tokens N", "generate", "largest number of tokens (64)", _value(_integer, "a whole number", 64)),
        ("--sampling-temperature T", "generate", "divides logits; 0: no sampling (0)", _value(float, "a number", 0.0)),
        ("--top-p P", "generate", "sample from the top words with this share (1)", _value(float, "a number", 1.0)),
        ("--seed N", "generate", "seed of sampling (0)", _value(int, "a whole number", 0)),
    ),
    "check": (
        ("--intent MASK", "check", "mask that is meant: causal, two-way, 'causal | prefix(3)' or others below"),
        ("--pad ID", "check", "token id of padding, or none", _value(_pad, "an id; give a whole number, or none")),
        ("--runs WAYS", "check", f"other ways to run a model: all, or some of {', '.join(RUNS)}", {"default": ""}),
        ("--array NAME", "check", "array to check, if the file has several (those named mask, weights, scores)"),
        ("--kind KIND", "check", "kind of the array: mask, weights or scores (guessed)"),
        ("--convention HOW", "check", "convention of a mask: may-attend, true-is-masked, zero-is-masked or additive"),
        ("--shape B,H,Q,K", "check", "shape of the scores; masks broadcast to it", _value(_shape, "a shape: B,H,Q,K")),
        ("--strict", "check", "exit status 1 for warnings, too"),
    ),
    "measurement": (
        ("--shard N", "build", "largest number of texts in a shard (1000)", WHOLE | {"default": 1000}),
        ("--keep N", "build", "strongest texts to store for each metric of a head (10)", WHOLE | {"default": 10}),
        ("--pairs N", "build", "strongest pairs of tokens to store per head and shard (200)", WHOLE | {"default": 200}),
        ("--ablate N", "build", "texts per shard on which each head is switched off (0)", WHOLE | {"default": 0}),
        ("--workers N", "build", "number of worker processes (one per core); 0: no workers", WHOLE),
        ("--scheduler ADDRESS", "build", "a Dask scheduler whose workers can open both folders", {"default": ""}),
    ),
    "limits of a run": (
        ("--seconds N", _SERVERS, "longest estimated time of a run in seconds (120)", AMOUNT),
        ("--memory GB", f"{_SERVERS} build", "largest memory of a run (2), or of a worker (its share)", AMOUNT),
    ),
    "server": (
        ("--port N", _SERVERS, "port (8501)"),
        ("--address ADDRESS", _SERVERS, "0.0.0.0 for other machines; set STREAMLIT_SERVER_ALLOWED_HOSTS (127.0.0.1)"),
        ("--public", _SERVERS, "limit what visitors may do; only models that ship or that ATTNVIZ_MODELS lists"),
        ("--host-name NAME", _SERVERS, "host name of a public app; may be repeated", MANY),
        ("--framed-by ORIGIN", _SERVERS, "site that may show a public app in a frame; may be repeated", MANY),
        ("--no-browser", _SERVERS, "only print the address"),
    ),
    "files": (
        ("--live MODEL", "explore", "write a page that runs the model: story, translator, induction, or a folder"),
        ("--verify", "open", "run the saved run again and compare every number"),
        ("--precision HOW", "save", "float32, or float16 for half the size (float32)", {"default": "float32"}),
        ("--dark", _FIGURES, "light colors on a dark background"),
        ("--preset USE", _FIGURES, "size for paper (one column, 8 pt, no title), slide or web"),
        ("--ppi N", _FIGURES, "pixels per inch of a PNG, 300 for print", WHOLE),
        ("-o FILE", _FIGURES, "file ending in .png .svg .pdf .html .json .csv .npz or .zip; may be repeated", FILES),
        ("-o FILE", "explore save", "file of the page (.html) or of the run (.attn)", FILES),
        ("-o FOLDER", "build", "folder of the atlas", {"dest": "output", "required": True}),
    ),
}  # fmt: skip
"""All arguments by their title in the help: syntax, commands that have it, help text, arguments of `add_argument`."""


def read(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the arguments of the command line; without arguments, the command is `app`."""
    command, *rest = arguments or ["app"]
    if command in GONE:
        raise InputError(f"The command {command} was removed. Instead: {GONE[command]}.")
    if command not in (*COMMANDS, "-h", "--help", "--version"):
        near = did_you_mean(command, COMMANDS)
        raise InputError(f"There is no command {quoted(command)}.{near} Available commands: {', '.join(COMMANDS)}.")
    masks = ""
    if command == "check" and ("-h" in rest or "--help" in rest):
        from attnviz.check.mask_mistakes import MEANT  # imports torch
        from attnviz.core.masks import Full, composable
        from attnviz.core.masks.text import form

        rules = columns([(form(rule), rule.meaning) for rule in (Full, *composable())])
        masks = "\n".join(["masks:", *rules, "", "kinds of masks, for --intent:", *columns([*MEANT.items()])])
    options, unknown = build(masks).parse_known_args([command, *rest])
    if not unknown:
        return options
    flag = unknown[0].partition("=")[0]
    if not flag.startswith("-"):
        hint = " Put a text of several words in quotes." if "text" in options else ""
        raise InputError(f"Unrecognized arguments: {' '.join(unknown)}.{hint} See attnviz {command} --help.")
    if flag in GONE:
        raise InputError(f"The option {flag} was removed. Instead: {GONE[flag]}.")
    from attnviz.link import NAMES  # imports torch

    if "set" in options and (name := flag.strip("-").replace("-", "_")) in NAMES:
        raise InputError(f"{flag} is not an option, but a setting of a link. Type: --set {name}=VALUE.")
    name = options.action if command == "atlas" else command
    rows = [row for group in OPTIONS.values() for row in group]
    near = did_you_mean(flag, [syntax.split()[0] for syntax, commands, *_ in rows if name in commands.split()])
    raise InputError(f"attnviz {command} has no option {quoted(flag)}.{near} See attnviz {command} --help.")


def build(masks: str = "") -> argparse.ArgumentParser:
    """Build the parser of all commands, with the list `masks` below the help of `check`."""
    style = {"formatter_class": argparse.RawDescriptionHelpFormatter, "allow_abbrev": False}
    parser = _Parser(prog="attnviz", description=ABOUT, epilog=EXAMPLES, **style)
    parser.add_argument("--version", action="version", version=f"attnviz {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND", dest="command")
    for name, about in COMMANDS.items():
        epilog = masks if name == "check" else None
        command = commands.add_parser(name, help=about, description=about, epilog=epilog, **style)
        _add_arguments(command, name)
    atlas = commands.choices["atlas"]
    actions = atlas.add_subparsers(title="what to do", required=True, metavar="ACTION", dest="action")
    for name, about in ACTIONS.items():
        _add_arguments(actions.add_parser(name, help=about, description=about, **style), name)
    return parser


def _add_arguments(parser: argparse.ArgumentParser, command: str) -> None:
    """Add the `OPTIONS` of a command to its parser, in one group per title."""
    for title, rows in OPTIONS.items():
        group = parser.add_argument_group(title)  # without arguments, the help leaves it out
        for syntax, commands, help, *settings in rows:
            if command not in commands.split():
                continue
            flag, _, metavar = syntax.partition(" ")
            keywords = {"metavar": metavar} if metavar else {"action": "store_true"}
            if not flag.startswith("-"):  # a positional argument, such as TEXT
                flag, keywords = flag.lower(), {"metavar": flag}
            group.add_argument(flag, help=help, **keywords, **(settings[0] if settings else {}))
