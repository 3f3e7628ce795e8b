"""The commands and options of the shell."""

import argparse
from typing import Any

from attnviz import __version__, tokenizers
from attnviz.core.errors import InputError, quoted

EXAMPLES = """examples:
  attnviz head "The cat sat on the mat" --head 1 --mask subsequent -o head.png -o head.csv
  attnviz heads "The cat sat on the mat" --layer 1 --off 0.3 -o heads.svg
  attnviz mask "The cat sat down" -o mask.pdf
  attnviz change "The cat sat on the mat" --off 0.2,0.3 -o change.png
  echo "unbelievable tokenization" | attnviz tokens - --tokenizer bpe --json
"""
MASKS = "subsequent, window=BEFORE[,AFTER], prefix=LENGTH, documents=LENGTH,..., full, or the JSON of a mask"

COMMANDS = {
    "head": "the map of one head, or of all heads combined",
    "heads": "the maps of all heads of a layer",
    "mask": "a mask, with the token that each row reads and the one it predicts",
    "change": "how far each token's output moves by what is changed",
    "tokens": "the tokens of a text, their ids and places",
}


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> Any:
        raise InputError(f"{message[:1].upper()}{message[1:]}. See {self.prog} --help.")


def build() -> argparse.ArgumentParser:
    """The parser of all commands; what it cannot read, it raises as an `InputError`."""
    parser = _Parser(
        prog="attnviz",
        description="See what every attention head does with a sentence. The weights are random, from a seed.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"attnviz {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND", dest="command")
    for name, help in COMMANDS.items():
        command = commands.add_parser(name, help=help, description=f"Give {help}.", allow_abbrev=False)
        command.add_argument("text", metavar="TEXT", help="a sentence, one on each line if several; - reads stdin")
        _add_tokens(command, sos=name == "mask")
        if name == "tokens":
            command.add_argument("--json", action="store_true", help="JSON instead of a table")
            continue
        if name == "head":
            command.add_argument("--head", type=_head, default=0, help="a number, or mean, max or min of all (0)")
            command.add_argument("--row-sums", action="store_true", help="show the sum of each row")
        if name in ("head", "heads"):
            command.add_argument("--domain", default="fixed", help="colors from 0 to: fixed (1), shared (largest), log")
        command.set_defaults(default_masks=["subsequent"] if name == "mask" else [])
        _add_model(command)
        _add_edits(command)
        _add_picture(command)
    return parser


def _add_tokens(command: argparse.ArgumentParser, *, sos: bool) -> None:
    command.add_argument("--tokenizer", default="words", help=", ".join(tokenizers.NAMES))
    action = argparse.BooleanOptionalAction
    command.add_argument("--sos", action=action, default=sos, help="begin each sentence with <sos>")


def _add_model(command: argparse.ArgumentParser) -> None:
    model = command.add_argument_group("model")
    model.add_argument("--d-model", type=int, default=64, metavar="N", help="width of a token's vector (64)")
    model.add_argument("--num-heads", type=int, default=4, metavar="N", help="heads per layer (4)")
    model.add_argument("--num-layers", type=int, default=2, metavar="N", help="layers (2)")
    model.add_argument("--seed", type=int, default=0, metavar="N", help="where the random weights come from (0)")
    model.add_argument("--no-positions", dest="positions", action="store_false", help="leave the order of tokens out")
    model.add_argument("--no-bias", dest="bias", action="store_false", help="projections without biases")


def _add_edits(command: argparse.ArgumentParser) -> None:
    edits = command.add_argument_group("changes to the attention")
    edits.add_argument(
        "--mask",
        action="append",
        default=[],
        dest="masks",
        metavar="MASK",
        help=f"{MASKS}; several: all hold; a|b: either",
    )
    edits.add_argument(
        "--off",
        action="append",
        default=[],
        type=_places,
        metavar="HEADS",
        help="2,3: heads of --layer; 0.2: LAYER.HEAD",
    )
    edits.add_argument("--temperature", type=float, default=1.0, metavar="T", help="divides the scores (1)")
    edits.add_argument("--score-scale", type=float, metavar="F", help="replaces 1/sqrt(d_k)")
    edits.add_argument("--empty-rows", default="zero", metavar="HOW", help="zero, nan, uniform or error")


def _add_picture(command: argparse.ArgumentParser) -> None:
    files = command.add_argument_group("picture")
    files.add_argument("--layer", type=int, default=0, metavar="N", help="counted from 0 (0)")
    files.add_argument("--sentence", type=int, default=1, metavar="N", help="which line is drawn, counted from 1 (1)")
    files.add_argument("--dark", action="store_true", help="light on dark")
    files.add_argument(
        "-o",
        "--output",
        action="append",
        metavar="FILE",
        help="its ending says the format: .png .svg .pdf .html .json .csv .npz .zip; may be given several times",
    )
    files.add_argument("--scale", type=int, default=1, help="1, 2 or 4 times as many pixels (PNG)")
    files.add_argument("--ppi", type=int, metavar="N", help="pixels per inch, 300 for print (PNG)")


def _head(text: str) -> int | str:
    return int(text) if text.lstrip("-").isdecimal() else text


def _places(text: str) -> list[tuple[int | None, int]]:
    """Heads of --off: "2,3" or "0.2,1.3", as (layer or None, head)."""
    try:
        places = [part.partition(".") for part in text.split(",")]
        return [(int(first) if dot else None, int(last if dot else first)) for first, dot, last in places]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{quoted(text)} are no heads; give 2,3 or LAYER.HEAD, such as 0.2") from None
