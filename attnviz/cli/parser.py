"""The commands and options of the shell."""

import argparse
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from attnviz import __version__, tokenizers
from attnviz.cli import atlas, comparing, forms, generating, typed
from attnviz.core.errors import InputError, did_you_mean, quoted

ABOUT = """See what every attention head does with a sentence, in models that are trained, and what changes.
'attnviz' alone, or 'attnviz app', opens the app in a browser."""
EXAMPLES = """examples:
  attnviz predict "the black cat sleeps on the red chair ."
  attnviz export "the black cat sleeps" --head 1 -o head.png -o head.csv
  attnviz export "the black cat sleeps" --form lines --beside 0,1 -o lines.svg
  attnviz export "the black cat sleeps" --form heads --kind encoder --layer 0 --off 3,e1.2 -o heads.svg
  attnviz export "?model=story&layer=d1&head=0&form=lines" -o lines.svg
  attnviz predict "the black cat sleeps on the red chair ." --off c1.2,c1.3
  attnviz export "the black cat sleeps" --form change --off c1.3 -o change.png
  attnviz contributions "the cat sat down . the cat" --model induction --switch-off
  attnviz compare "the black cat sleeps" --with-step 0 -o difference.png
  attnviz generate "the cat sat on" --model story --max-new-tokens 8
  attnviz explore "the black cat sleeps" --off c1.3 -o case.html
  attnviz batch texts.txt --model story --as numbers --of overview -o folder/
  attnviz atlas build story texts.txt -o atlas/
  attnviz atlas query atlas/ "previous_token > 0.9"
  attnviz check "the cat sat down" --model story -o leaks.png
  attnviz export "the cat sat down" --form mask --model scratch --mask "window(1)" -o mask.pdf
  echo "unbelievable tokenization" | attnviz tokens - --model scratch --tokenizer bpe --json
"""
MASKS = "causal, 'window(2, 1)', 'prefix(3)', 'documents(3, 4)' or another of 'attnviz masks'"

COMMANDS = {
    "app": "the app, open in a browser until Ctrl+C",
    "export": "a picture of a text, or of a link that the app copied: a head in any form, heads, a mask or a change",
    "explore": "every head on one page that any browser opens, without Python: an HTML file",
    "compare": "two maps and their difference: another text, head, model or training step, or the original model",
    "predict": "what the model predicts: a text, words, labels or vectors, before and after a change; -o draws it",
    "contributions": "what each head and every other part adds to the logit of a word; -o draws the heads",
    "generate": "how a model continues a text, or answers in a chat; -o draws a head over prompt and answer",
    "tokens": "the tokens of a text, their ids and places",
    "models": "the models that there are, or what was measured of one",
    "masks": "the mask rules that there are and how they are written, and the kinds of masks that check knows",
    "batch": "a picture, a page, a case or the numbers of each of many texts, in a folder; begun again, it goes on",
    "atlas": "what every head does over a whole corpus: 'atlas build' measures it, 'atlas query' finds heads",
    "save": "a run as a file that 'attnviz open' shows anywhere, with what makes it again",
    "verify": "whether a saved run comes out the same here, and what explains it if not; 1 as exit status then",
    "check": "what is wrong with a mask, weights or scores, a batch or a model; exit status 1 for an error, 3 to ask",
}

VERBS = {"batch": "Write", "save": "Save", "export": "Write"}
"""Verbs of commands that do not show something."""

ALIASES = {"says": "predict", "open": "app"}
"""Other names of commands."""

REPLACED = {
    "head": "export",
    "heads": "export --form heads",
    "mask": "export --form mask",
    "change": "export --form change",
    "leaks": "check",
}
"""Commands of 0.1, which go with the next release, and what does the same."""

LINK = re.compile(r"(https?://\S+|/?\w*\?\w+=.*)", re.DOTALL)
"""A link in the place of a text."""

_ABSENT = argparse.SUPPRESS


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> Any:
        raise InputError(f"{message[:1].upper()}{message[1:]}. See {self.prog} --help.")


def renamed(arguments: Sequence[str]) -> tuple[list[str], str]:
    """Arguments of a command of 0.1 as those of today, and what replaces it, or ""."""
    command, *rest = arguments or ["app"]
    if command not in REPLACED:
        return [command, *rest], ""
    today = REPLACED[command]
    if command == "head":
        rest = [re.sub(r"^--as(=|$)", r"--form\1", argument) for argument in rest]
    if command == "heads" and "--all-layers" in rest:
        rest.remove("--all-layers")
        today = "export --form overview"
    if command == "leaks":
        rest = [re.sub(r"^--promised(=|$)", r"--intent\1", argument) for argument in rest]
        rest += (
            [] if any(argument.startswith("--model") for argument in rest) else ["--model", "translator"]
        )  # the one that the command took
    return [*today.split(), *rest], today


def read(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse arguments; none at all mean the app."""
    command = arguments[0] if arguments else "app"
    if command not in (*COMMANDS, *ALIASES, "-h", "--help", "--version"):
        near = did_you_mean(command, COMMANDS)
        raise InputError(f"There is no command {quoted(command)}.{near} There are: {', '.join(COMMANDS)}.")
    command = ALIASES.get(command, command)
    options, left = build().parse_known_args([command, *arguments[1:]])
    if left:
        is_word = not left[0].startswith("-") and "text" in options
        words = " A text of several words stands in quotes." if is_word else ""
        raise InputError(f"Unrecognized arguments: {' '.join(left)}.{words} See attnviz {command} --help.")
    return options


def build() -> argparse.ArgumentParser:
    """The parser of all commands; what it cannot read, it raises as an `InputError`."""
    parser = _Parser(
        prog="attnviz",
        description=ABOUT,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"attnviz {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND", dest="command")
    for name, help in COMMANDS.items():
        about = f"{VERBS.get(name, 'Show')} {help}."
        command = commands.add_parser(name, help=help, description=about, allow_abbrev=False)
        for add in _OPTIONS[name]:
            add(command)
    return parser


def _add_app(command: argparse.ArgumentParser) -> None:
    command.description = "Open the app in a browser; Ctrl+C stops it."
    link = "what to open: a link copied from the app, or its end, such as 'masks?mask=causal'; or FILE.py:FUNCTION, "
    link += "a function that gives a source (see attnviz.wrap): it runs the code of that file; "
    link += "or the folder of a model of Hugging Face; "
    link += "or FILE, a saved run (.attn) or weights (.npz, .npy, .csv, .safetensors)"
    command.add_argument("link", metavar="LINK", nargs="?", default="", help=link)
    _add_server(command)


def _add_server(command: argparse.ArgumentParser) -> None:
    port = os.environ.get("STREAMLIT_SERVER_PORT", "8501")
    command.add_argument("--port", type=typed.port, metavar="N", default=port, help="where it listens (8501)")
    address = os.environ.get("STREAMLIT_SERVER_ADDRESS", "127.0.0.1")
    whom = "who can reach it (127.0.0.1: this machine); 0.0.0.0: all, by a name in STREAMLIT_SERVER_ALLOWED_HOSTS"
    command.add_argument("--address", metavar="ADDRESS", default=address, help=whom)
    seconds = "seconds that a run of a long text may take, by an estimate (120)"
    command.add_argument("--seconds", type=typed.amount, metavar="N", help=seconds)
    memory = "memory that a run may take, and what is kept of all runs (2 GB); with --public, that of the server (1 GB)"
    command.add_argument("--memory", type=typed.gigabytes, metavar="GB", help=memory)
    public = "for others: bounds on visitors, models that ship or that ATTNVIZ_MODELS lists, and what --host-name and "
    public += "--framed-by name"
    command.add_argument("--public", action="store_true", help=public)
    host = "a name that a public app answers to, such as attention.example.org; may be given again"
    command.add_argument("--host-name", metavar="NAME", action="append", help=host)
    page = "a page that may frame a public app, such as https://portal.example.org; may be given again"
    command.add_argument("--framed-by", metavar="ORIGIN", action="append", help=page)
    command.add_argument("--no-browser", dest="browser", action="store_false", help="print the address only")


def _add_name(command: argparse.ArgumentParser) -> None:
    command.add_argument("name", metavar="NAME", nargs="?", help="print the card of this one")
    what = "circuits of its weights instead: heads, eigenvalues or composition (heads)"
    tables = ("heads", "eigenvalues", "composition")
    command.add_argument("--circuits", metavar="WHAT", nargs="?", const="heads", choices=tables, help=what)
    command.add_argument("--json", action="store_true", help="circuits as JSON instead of text")
    command.add_argument("-o", "--output", type=typed.file, metavar="FILE", help="circuits as a file: FILE.csv")


def _add_pictured(command: argparse.ArgumentParser) -> None:
    _add_text(
        command, "; or a link copied from the app, of Heads, Overview, Masks or Compare, or its end '?model=story'"
    )


def _add_text(command: argparse.ArgumentParser, more: str = "") -> None:
    what = f"a text, line breaks and all; - reads stdin; or a saved run (.attn){more}"
    command.add_argument("text", metavar="TEXT", help=what, nargs="?" if command.prog.endswith("explore") else None)
    command.add_argument("--lines", action="store_true", help="each line is a text of its own")
    picture = "a picture that is read with the text; may be given again. Without a text, FILE stands in its place"
    command.add_argument("--picture", action="append", default=[], metavar="FILE", help=picture)


def _add_target(command: argparse.ArgumentParser) -> None:
    what = (
        "of an encoder-decoder, a text that its decoder reads instead of what it writes; with --lines one on each line"
    )
    command.add_argument("--target", metavar="TEXT", help=what)


def _add_texts(command: argparse.ArgumentParser) -> None:
    texts = "texts, one on each line, or JSON lines (.jsonl): each a string or an object with a text; - reads stdin"
    command.add_argument("files", metavar="FILE", nargs="+", help=texts)
    command.add_argument("--whole", action="store_true", help="each file is one text")
    group = command.add_argument_group("what is made of each text")
    group.add_argument("--as", dest="form", default="picture", metavar="HOW", help="picture, page, case or numbers")
    pictured = "of pictures and numbers: head, heads (of a layer) or overview (every head) (head)"
    group.add_argument("--of", dest="pictured", default="head", metavar="WHAT", help=pictured)
    formats = "such as pdf (png), or of numbers npz (csv); an unknown one lists all"
    group.add_argument("--format", metavar="ENDING", help=formats)
    group.add_argument("--precision", default="float32", metavar="HOW", help="of cases: float32 or float16")


def _add_word(command: argparse.ArgumentParser) -> None:
    word = command.add_argument_group("whose logit")
    word.add_argument("--word", metavar="WORD", help="a token of the vocabulary (the most probable one)")
    word.add_argument("--minus", metavar="WORD", help="a second one: the difference of both logits")
    place = "the token after which it is predicted, counted from 0, or from the end by -1 (-1)"
    word.add_argument("--position", type=int, default=-1, metavar="N", help=place)
    off = "also how much the logit falls with each head off in turn"
    word.add_argument("--switch-off", action="store_true", help=off)


def _add_json(command: argparse.ArgumentParser) -> None:
    command.add_argument("--json", action="store_true", help="JSON instead of text")


def _add_gradients(command: argparse.ArgumentParser) -> None:
    what = "print what each token counts for the predicted word instead: attention relevance and integrated gradients"
    command.add_argument("--gradients", action="store_true", help=f"{what}; it takes about 150 runs")
    command.add_argument("--word", metavar="WORD", help="of another word than the most probable one, with --gradients")


def _add_one(command: argparse.ArgumentParser) -> None:
    what = "a number, or mean, max or min of all (the one that the model opens with)"
    command.add_argument("--head", type=typed.head, help=what)


def _add_cell(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--cell", type=typed.cell, metavar="QUERY.KEY", help="outline a cell of the map, counted from 0"
    )


def _add_head(command: argparse.ArgumentParser) -> None:
    _add_one(command)
    command.add_argument("--row-sums", action="store_true", help="show the sum of each row")


def _add_opening(command: argparse.ArgumentParser) -> None:
    what = (
        "the model itself in the page: type a text, paint a mask, switch heads off; story, translator, induction, or "
    )
    command.add_argument("--live", metavar="MODEL", help=f"{what}a folder with your own")
    command.add_argument("--head", type=int, metavar="N", help="the head on which it opens, counted from 0")


def _add_domain(command: argparse.ArgumentParser) -> None:
    what = "colors: adapts, fixed (0 to 1), shared (0 to the largest of all heads), log"
    command.add_argument("--domain", default="adapts", help=what)


def _add_save(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "-o", "--output", type=typed.file, metavar="FILE", help="the file (its texts' first words, .attn)"
    )
    command.add_argument("--precision", default="float32", metavar="HOW", help="float32, or float16: half as large")
    command.add_argument("--whole-prediction", action="store_true", help="keep the logits of every word")


def _add_file(command: argparse.ArgumentParser) -> None:
    command.add_argument("file", metavar="FILE", help="a file that 'attnviz save' wrote")
    command.add_argument("--model", metavar="NAME", help="what is run, such as FILE.py:FUNCTION (what the file names)")


def _add_check(command: argparse.ArgumentParser) -> None:
    files = ".npz, .npy, .csv, .safetensors, .json or .txt; - reads numbers from stdin"
    own = "FILE.py:FUNCTION, whose code is run: a model (see attnviz.wrap), or a batch, a dict with input_ids"
    command.add_argument("file", metavar="WHAT", nargs="?", default="", help=f"{files}; or {own}; with --model a text")
    command.add_argument("text", metavar="TEXT", nargs="?", default="", help="what a model reads (its own example)")
    command.add_argument("--model", metavar="NAME", help="a model by its name, see 'attnviz export'")
    intent = "what it is meant to be: causal, two-way, another kind of 'attnviz masks', or a mask such as "
    intent += "'causal | prefix(3)'; the mistakes that give the mask are named"
    command.add_argument("--intent", "--meant", metavar="MASK", help=intent)
    command.add_argument("--pad", type=typed.pad, metavar="ID", help="the id of padding, or none")
    ways = "all, or some of packed, left, right, cached, chunked, written and batched with commas between: whether a "
    ways += "model gives the same answer so; one of your own by what the call= of its attnviz.wrap takes"
    command.add_argument("--runs", type=typed.runs, default=(), metavar="WAYS", help=ways)
    command.add_argument("--strict", action="store_true", help="1 as exit status if there are warnings, too")
    _add_json(command)
    arrays = command.add_argument_group("of arrays")
    arrays.add_argument("--array", metavar="NAME", help="which one of several (those named mask, weights, scores)")
    arrays.add_argument("--kind", help="mask, weights or scores (guessed)")
    conventions = "may-attend, true-is-masked, zero-is-masked or additive"
    arrays.add_argument("--convention", metavar="HOW", help=f"of a mask: {conventions} (else two are tried)")
    causal = "the same as --intent causal, or as --intent two-way"
    arrays.add_argument("--causal", action=argparse.BooleanOptionalAction, default=None, help=causal)
    arrays.add_argument("--shape", type=typed.shape, metavar="B,H,Q,K", help="of the scores: how the array broadcasts")
    _add_edits(command)
    _add_files(command.add_argument_group("picture of a model's leak test"))


def _add_model(command: argparse.ArgumentParser) -> None:
    model = command.add_argument_group("model")
    model.add_argument(
        "--model",
        metavar="NAME",
        help="see 'attnviz models' (translator); or a name or folder of Hugging Face; or FILE.py:FUNCTION, a function "
        "that gives a source: it runs the code of that file",
    )
    model.add_argument("--step", type=int, metavar="N", help="as it was after this step of its training (the last)")
    more = "another setting of the model, such as cloned=true; may be given several times"
    model.add_argument("--set", action="append", type=typed.setting, default=[], metavar="NAME=VALUE", help=more)
    random = command.add_argument_group("settings of random weights, with --model scratch", argument_default=_ABSENT)
    random.add_argument("--tokenizer", help=f"{', '.join(tokenizers.NAMES)} (words)")
    sos = "begin each sentence with <sos> (for a mask only)"
    random.add_argument("--sos", action=argparse.BooleanOptionalAction, default=_ABSENT, help=sos)
    random.add_argument("--d-model", type=int, metavar="N", help="width of a token's vector (64)")
    random.add_argument("--num-heads", type=int, metavar="N", help="heads per layer (4)")
    random.add_argument("--num-layers", type=int, metavar="N", help="layers (2)")
    random.add_argument("--seed", type=int, metavar="N", help="where the random weights come from (0)")
    for flag, help in (("positions", "leave the order of tokens out"), ("bias", "projections without biases")):
        random.add_argument(f"--no-{flag}", dest=flag, action="store_false", default=_ABSENT, help=help)


def _add_budget(command: argparse.ArgumentParser) -> None:
    budget = command.add_argument_group("what a run may cost, by an estimate; more is refused with its numbers")
    budget.add_argument("--seconds", type=typed.amount, metavar="N", help="seconds (any)")
    budget.add_argument("--memory", type=typed.amount, metavar="GB", help="memory (any)")


def _add_site(command: argparse.ArgumentParser) -> None:
    site = command.add_argument_group("what is shown, where the model opens if it is not given")
    site.add_argument("--kind", help="encoder, decoder or cross")
    site.add_argument("--layer", type=int, metavar="N", help="counted from 0")


def _add_view(command: argparse.ArgumentParser) -> None:
    view = command.add_argument_group("how it is looked at, said on the picture")
    view.add_argument("--words", action="store_true", help="merge the pieces of each word")
    view.add_argument("--sentences", action="store_true", help="merge the tokens of each sentence")
    parts = "merge the tokens of each of N equal parts of the text"
    view.add_argument("--parts", type=int, default=0, metavar="N", help=parts)
    view.add_argument("--special", default="show", metavar="HOW", help="special tokens: show, hide or renormalize")
    view.add_argument("--pair", default="all", metavar="AB", help="of a pair A ||| B: AA, AB, BA or BB (all)")


def _add_edits(command: argparse.ArgumentParser) -> None:
    edits = command.add_argument_group("changes to the attention")
    edits.add_argument(
        "--mask",
        action="append",
        default=[],
        dest="masks",
        metavar="MASK",
        help=f"{MASKS}; several, or 'a & b': all hold; 'a | b': either; ~a: the opposite",
    )
    edits.add_argument(
        "--off",
        action="append",
        default=[],
        type=typed.places,
        metavar="HEADS",
        help="2,3: heads of what is shown; 0.2: LAYER.HEAD; c0.2 or cross0.2: of another kind (e, d, c)",
    )
    edits.add_argument(
        "--take",
        action="append",
        default=[],
        metavar="PART-WHERE-TEXT",
        help="from another text: output-d0.1-The dog sat. (of a head), pattern- or values-d0-... (of all heads), "
        "stream-d0-... (the input of the layer); d0@3 at position 3, d0@3.5 from position 5 of the other text",
    )
    edits.add_argument(
        "--no-own-mask",
        dest="own_mask",
        action="store_false",
        help="without the built-in mask: its padding, a decoder's future",
    )
    edits.add_argument(
        "--no-mask-cross", dest="mask_cross", action="store_false", help="--mask acts on self-attention alone"
    )
    edits.add_argument("--temperature", type=float, default=1.0, metavar="T", help="divides the scores (1)")
    edits.add_argument("--score-scale", type=float, metavar="F", help="replaces 1/sqrt(d_k)")
    edits.add_argument("--empty-rows", default="zero", metavar="HOW", help="zero, nan, uniform or error")


def _add_sentence(files: argparse._ActionsContainer) -> None:
    files.add_argument("--sentence", type=int, default=1, metavar="N", help="which line is drawn, counted from 1 (1)")


def _add_page(command: argparse.ArgumentParser) -> None:
    files = command.add_argument_group("page")
    _add_sentence(files)
    files.add_argument(
        "-o", "--output", type=typed.file, default=Path("explore.html"), metavar="FILE", help="explore.html"
    )


def _add_folder(command: argparse.ArgumentParser) -> None:
    files = command.add_argument_group("files")
    folder = "where the files are written; what is whole there, of the same settings, is kept"
    files.add_argument("-o", "--output", type=Path, required=True, metavar="FOLDER", help=folder)
    _add_size(files)
    command.set_defaults(sentence=1)


def _add_picture(command: argparse.ArgumentParser) -> None:
    files = command.add_argument_group("picture")
    _add_sentence(files)
    _add_files(files)


def _add_files(files: argparse._ActionsContainer) -> None:
    files.add_argument(
        "-o",
        "--output",
        action="append",
        type=typed.file,
        metavar="FILE",
        help="its ending says the format: .png .svg .pdf .html .json .csv .npz .zip; may be given several times",
    )
    _add_size(files)


def _add_size(files: argparse._ActionsContainer) -> None:
    files.add_argument("--dark", action="store_true", help="light on dark")
    files.add_argument("--preset", metavar="USE", help="paper (one column, 8 pt, no title), slide or web")
    files.add_argument("--scale", type=int, default=1, help="1, 2 or 4 times as many pixels (PNG)")
    files.add_argument("--ppi", type=int, metavar="N", help="pixels per inch, 300 for print (PNG)")


_FIGURE_OPTIONS = (_add_site, _add_edits, _add_budget, _add_picture)
_OPTIONS: dict[str, tuple[Callable[[argparse.ArgumentParser], None], ...]] = {
    "app": (_add_app,),
    "export": (
        _add_pictured,
        _add_target,
        forms.add,
        _add_head,
        _add_cell,
        _add_domain,
        _add_view,
        _add_model,
        generating.add_answer,
        *_FIGURE_OPTIONS,
    ),
    "explore": (_add_text, _add_target, _add_opening, _add_model, _add_site, _add_edits, _add_budget, _add_page),
    "compare": (_add_text, _add_one, _add_cell, comparing.add, _add_model, generating.add_answer, *_FIGURE_OPTIONS),
    "predict": (_add_text, _add_json, _add_gradients, _add_model, *_FIGURE_OPTIONS),
    "contributions": (_add_text, _add_target, _add_word, _add_json, _add_model, *_FIGURE_OPTIONS),
    "generate": (_add_text, generating.add, _add_one, _add_json, _add_model, *_FIGURE_OPTIONS),
    "tokens": (_add_text, _add_json, _add_model),
    "models": (_add_name,),
    "masks": (),
    "batch": (_add_texts, _add_head, _add_domain, _add_view, _add_model, _add_site, _add_edits, _add_folder),
    "atlas": (atlas.add,),
    "save": (_add_text, _add_target, _add_save, _add_model, _add_site, _add_edits, _add_budget),
    "verify": (_add_file,),
    "check": (_add_check,),
}
"""Options of each command, in the order of its help."""
