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
"""Endings of files that `attnviz open` reads; a copy of the list in attnviz.files, whose import takes seconds."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return the exit status: 0, or 2 after an error, which is printed as one line on stderr.

    `check` also returns 1 if it finds errors, and 3 if it asks a question; `open --verify` returns 1 if a number
    differs, and `atlas` returns 1 if a shard failed.
    """
    try:
        return _run(parser.read(sys.argv[1:] if arguments is None else arguments))
    except BrokenPipeError:  # the reading process, such as `head`, has ended
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        file = "The output" if error.filename is None else quoted(str(error.filename), 200)
        advice = " Free some space." if error.errno in (errno.ENOSPC, errno.EDQUOT) else ""
        terminal.note(f"{file} cannot be written: {error.strerror}.{advice}")
    except MemoryError:
        terminal.note("There is not enough memory for this text; shorten it.")
    except AttnvizError as error:
        terminal.note(" ".join(str(error).split()))
    return 2


def _run(options: Namespace) -> int:
    """Run a command and return its exit status. Each command imports only the modules that it needs, to start fast."""
    command = options.command
    if command == "open" and options.verify:
        from attnviz import cases
        from attnviz.cli import request

        source = request.load(options.model) if options.model else None
        verified = cases.verify(options.link, source, load=request.fetch)
        terminal.say(str(verified))
        return 0 if verified.same else 1
    if command in ("app", "open"):
        return _open(options)
    if command == "check":
        return import_module("attnviz.cli.checking").run(options)
    if command == "atlas":
        return import_module("attnviz.cli.atlas").run(options)
    from attnviz.cli import pictures, tables

    functions = {"models": tables.models, "predict": tables.predict, "generate": tables.generate}
    run = functions.get(command, pictures.run)  # for export, explore and save
    terminal.say(*run(options))
    return 0


def _open(options: Namespace) -> int:
    """Run `app` or `open`: serve the app until Ctrl+C."""
    link = _link(options.link)
    if options.command == "open" and options.model:
        raise InputError("--model names the model that runs a saved run again; add --verify.")
    from attnviz.ui import launch

    variables = {  # the pages of the app read these options from the environment
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


def _link(file: str) -> str:
    """Return the link that opens a file, a model folder or FILE.py:FUNCTION; any other text is already a link."""
    if os.path.isfile(os.path.join(file, "config.json")):
        return f"?{urlencode({'model': os.path.abspath(file)}, quote_via=quote)}"
    if not (parser.FILE.fullmatch(file) or file.lower().endswith(SAVED) or os.path.isfile(file)):
        return file
    from attnviz import api, cases
    from attnviz.cli import request
    from attnviz.link import read, write
    from attnviz.sources.saved import Saved

    source = request.load(file)
    name = api.offer(source)  # the app runs in this process, and finds the source by this name
    settings = cases.state_of(source) if isinstance(source, Saved) else {}
    choices, _ = read(settings)
    choices, page = choices.without("edits").put(model=name), ""  # a saved run cannot be edited; "" is the first page
    if parser.FILE.fullmatch(file) and not source.one_run:
        choices, page = choices.put(lab="model"), "masks"  # check the user's model
    return f"{page}?{urlencode(write(choices), quote_via=quote)}"
