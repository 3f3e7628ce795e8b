"""What goes wrong in code that a person wrote, in one sentence with the line."""

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

import attnviz
from attnviz.core.errors import AttnvizError, InputError

_OTHERS = (*(str(Path(one.__file__).parent) for one in (torch, attnviz)), "<frozen ")
"""Where the frames are that are not the person's."""


@contextmanager
def errors_said() -> Iterator[None]:
    """What a person's code raises becomes one sentence.

    Raises:
        InputError: with the line of the innermost frame that is the person's; what attnviz raises is left as it is.
    """
    try:
        yield
    except AttnvizError:
        raise
    except (Exception, SystemExit) as error:
        lines = [(one.filename, one.lineno) for one in traceback.extract_tb(error.__traceback__)]
        lines = [(file, line) for file, line in lines if not file.startswith(_OTHERS)]
        what = " ".join(str(error).split())
        if isinstance(error, SyntaxError):
            lines, what = [(error.filename, error.lineno)], error.msg
        at = f"Line {lines[-1][1]} of {Path(str(lines[-1][0])).name}" if lines else "Code outside of attnviz"
        raise InputError(f"{at} raised {type(error).__name__}: {what[:300]}") from error
