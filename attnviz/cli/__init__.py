"""The command line: reads a text or a link, and writes files and lines.

attnviz export "The cat sat on the mat" --head 1 --mask causal -o head.png
"""

import errno
import os
import sys
from argparse import Namespace
from collections.abc import Sequence
from importlib import import_module
from urllib.parse import quote, urlencode

from attnviz.cli import parser, terminal
from attnviz.core.errors import AttnvizError, InputError, quoted

SAVED = (".attn", ".npz", ".npy", ".csv", ".safetensors", ".json", ".txt")
"""Endings of files with attention, listed here so that torch is not imported."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return the exit status: 0, or 2 after an error, whose message is one line on stderr.

    `check` returns 1 for errors, and 3 if it needs an answer first; `open --verify` returns 1 if a number differs, and
    `atlas` returns 1 if a shard failed.
    """
    try:
        return _run(parser.read(sys.argv[1:] if arguments is None else arguments))
    except BrokenPipeError:  # the reading process, such as `head`, has ended
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        return 130
    except (AttnvizError, OSError, MemoryError) as error:
        terminal.note(_reason(error))
        return 2
    return 0


def _run(options: Namespace) -> int:
    """Run a command. torch and Altair are imported here, so that --help is fast, and Streamlit only for the app."""
    command = options.command
    if command in ("app", "open"):
        return _verify(options) if command == "open" and options.verify else _open(options)
    if command in ("check", "atlas"):
        return import_module(f"attnviz.cli.{'checking' if command == 'check' else 'atlas'}").run(options)
    from attnviz.cli import pictures, tables

    printing = {"models": tables.models, "predict": tables.predict, "generate": tables.write}
    for line in printing.get(command, pictures.run)(options):
        terminal.say(line)
    return 0


def _open(options: Namespace) -> int:
    """Run `app` or `open`: serve the app until Ctrl+C."""
    link = _link(options.link)
    if getattr(options, "model", None):
        raise InputError("--model names the model that runs a saved run again; add --verify.")
    from attnviz.ui import launch

    variables = {
        "ATTNVIZ_SECONDS": options.seconds,
        "ATTNVIZ_GB": options.memory,
        "ATTNVIZ_PUBLIC": 1 if options.public else None,
        "ATTNVIZ_HOST_NAMES": " ".join(options.host_name) or None,
        "ATTNVIZ_FRAMED_BY": " ".join(options.framed_by) or None,
    }
    os.environ.update({name: str(value) for name, value in variables.items() if value is not None})
    address = options.address or os.environ.get("STREAMLIT_SERVER_ADDRESS", "127.0.0.1")
    port = options.port or os.environ.get("STREAMLIT_SERVER_PORT", "8501")
    if not (port.isdecimal() and 0 < int(port) < 65536):
        raise InputError(f"{quoted(port)} is not a port; give 1 to 65535.")
    launch.launch(address, int(port), not options.no_browser, link)
    return 0


def _verify(options: Namespace) -> int:
    """Run `open --verify`: run a saved run again, and print what differs."""
    from attnviz import cases
    from attnviz.cli import request

    source = request.load(options.model) if options.model else None
    verified = cases.verify(options.link, source, load=request.fetch)
    terminal.say(str(verified))
    return 0 if verified.same else 1


def _link(file: str) -> str:
    """Return the link that opens a file, a model folder or a user's own model (on the page Masks); keep other links."""
    if os.path.isfile(os.path.join(file, "config.json")):
        return f"?{urlencode({'model': os.path.abspath(file)}, quote_via=quote)}"
    if not (parser.FILE.fullmatch(file) or file.lower().endswith(SAVED) or os.path.isfile(file)):
        return file
    from attnviz import api, cases
    from attnviz.cli import request
    from attnviz.link import read, write
    from attnviz.sources.saved import Saved

    source = request.load(file)
    choices, _ = read(cases.state_of(source) if isinstance(source, Saved) else {})
    choices = choices.without("edits").put(model=api.offer(source))
    is_own = parser.FILE.fullmatch(file) and not source.one_run
    state = write(choices.put(lab="model") if is_own else choices)
    return f"{'masks' if is_own else ''}?{urlencode(state, quote_via=quote)}"


def _reason(error: Exception) -> str:
    """Write an error as one sentence."""
    if isinstance(error, OSError):
        place = "The output" if error.filename is None else quoted(str(error.filename), 200)
        full = " Free some space." if error.errno in (errno.ENOSPC, errno.EDQUOT) else ""
        return f"{place} cannot be written: {error.strerror}.{full}"
    if isinstance(error, MemoryError):
        return "There is not enough memory for this text; shorten it."
    return " ".join(str(error).split())
