"""Words in, files out: ``attnviz export "The cat sat on the mat" --head 1 --mask causal -o head.png``."""

import errno
import os
import sys
from argparse import Namespace
from collections.abc import Sequence
from functools import partial
from typing import TextIO
from urllib.parse import quote, urlencode

from attnviz.cli import parser, typed
from attnviz.core.errors import AttnvizError, InputError, quoted


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; gives the exit status: 0, or 2 with one line on stderr that says what is wrong.

    `check` gives 1 if it found errors and 3 if a question is open, `verify` 1 if something differs, `batch` if a text
    failed, `atlas` if a shard did.
    """
    try:
        given, today = parser.renamed(sys.argv[1:] if arguments is None else arguments)
        if today:
            _note(f"this command is now 'attnviz {today}', and its old name goes with the next release.")
        options = parser.read(given)
        if options.command == "app":
            return _open(options)
        if options.command == "export" and parser.LINK.fullmatch(options.text):
            from attnviz.cli import linked  # what a link means is known to the app, and so to Streamlit

            more = [argument for argument in given[1:] if argument not in (options.text, "--")]
            from attnviz.cli import commands

            for line in commands.draw(*linked.read(options.text, more, _note)):
                _say(line, sys.stdout)
            return 0
        return _run(options)
    except BrokenPipeError:  # whoever reads, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        return 130
    except (AttnvizError, OSError, MemoryError) as error:
        _say(f"attnviz: {_reason(error)}", sys.stderr)
        return 2
    return 0


def _run(options: Namespace) -> int:
    """Run a command that prints; gives its exit status. torch and Altair come now: not for --help."""
    out, note = partial(_say, file=sys.stdout), _note
    if options.command == "check":
        if options.model or typed.FILE.fullmatch(options.file):
            from attnviz.cli import modeling as checking
        else:
            from attnviz.cli import checking
        return checking.run(options, out)
    if options.command == "verify":
        from attnviz import cases
        from attnviz.cli import values

        verified = cases.verify(options.file, options.model and values.load(options.model), load=values.fetch)
        out(str(verified))
        return 0 if verified.same else 1
    if options.command == "generate":
        from attnviz.cli import generating

        return generating.run(options, out, note)
    if options.command == "atlas":
        from attnviz.cli import atlas

        return atlas.run(options, out, note)
    from attnviz.cli import batch, commands

    if options.command == "batch":
        return batch.run(options, out, note)
    for line in commands.run(options, note):
        out(line)
    return 0


def _open(options: Namespace) -> int:
    link = _link(options.link)
    from attnviz.ui import launch  # Streamlit: for this alone

    variables = {
        "ATTNVIZ_SECONDS": options.seconds,
        "ATTNVIZ_GB": options.memory,
        "ATTNVIZ_PUBLIC": 1 if options.public else None,
        "ATTNVIZ_HOST_NAMES": options.host_name and " ".join(options.host_name),
        "ATTNVIZ_FRAMED_BY": options.framed_by and " ".join(options.framed_by),
    }
    os.environ.update({name: str(value) for name, value in variables.items() if value is not None})
    launch.launch(options.address, options.port, options.browser, link)
    return 0


def _link(file: str) -> str:
    """The link that was given, or that of a saved run, a folder of a model, or, on its check, a model of one's own."""
    if os.path.isfile(os.path.join(file, "config.json")):
        return f"?{urlencode({'model': os.path.abspath(file)}, quote_via=quote)}"
    if not (typed.FILE.fullmatch(file) or file.lower().endswith(typed.SAVED) or os.path.isfile(file)):
        return file
    from attnviz import api, cases
    from attnviz.cli import values  # torch
    from attnviz.link import read, write
    from attnviz.sources.saved import Saved

    source = values.load(file)
    choices, _ = read(cases.state_of(source) if isinstance(source, Saved) else {})
    choices = choices.without("edits").put(model=api.offer(source))
    if typed.FILE.fullmatch(file) and not source.one_run:
        return f"masks?{urlencode(write(choices.put(lab='model')), quote_via=quote)}"
    return f"?{urlencode(write(choices), quote_via=quote)}"


def _note(line: str) -> None:
    """Tell on stderr what is no mistake."""
    _say(f"attnviz: {line}", sys.stderr)


def _say(line: str, file: TextIO) -> None:
    """Write a line; what the terminal cannot write is escaped."""
    encoding = file.encoding or "utf-8"
    file.write(line.encode(encoding, "backslashreplace").decode(encoding) + "\n")


def _reason(error: Exception) -> str:
    if isinstance(error, OSError):
        place = "The output" if error.filename is None else quoted(str(error.filename), 200)
        full = " Free some space." if error.errno in (errno.ENOSPC, errno.EDQUOT) else ""
        return f"{place} cannot be written: {error.strerror}.{full}"
    if isinstance(error, MemoryError):
        return "The text is too long for the memory there is; shorten it."
    return " ".join(str(error).split())
