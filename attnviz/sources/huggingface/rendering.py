"""Render chat templates in a separate process, which reads jobs from stdin and writes answers, as lines of JSON.

The file is run by its path, and imports nothing of attnviz. A template is code of a model's authors, and may never end.
"""

import json
import signal
import sys
from contextlib import suppress
from typing import IO

MOST_MEMORY = 2**30
"""Limit for the memory of this process, in bytes."""
LAST_SECONDS = 10
"""Seconds for a job after which this process ends itself, in case its parent process has ended."""


def main(out: IO[str]) -> None:
    from transformers.utils.chat_template_utils import render_jinja_template

    with suppress(ImportError, ValueError, OSError):  # not every system has this limit
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (MOST_MEMORY, MOST_MEMORY))
    print(json.dumps({}), file=out, flush=True)
    for line in sys.stdin:
        job = json.loads(line)
        most = job.pop("most_characters")
        if hasattr(signal, "alarm"):
            signal.alarm(LAST_SECONDS)
        try:
            (text,), _ = render_jinja_template(**job)
            answer = {"text": text} if len(text) <= most else {"error": f"it writes {len(text):,} characters"}
        except MemoryError:  # memory may stay full, so a new process does the next job
            answer = {"error": f"it needs more than {MOST_MEMORY / 1e9:.1f} GB of memory", "last": True}
        except Exception as error:  # a template can raise any error
            answer = {"error": " ".join(str(error).split())[:200] or type(error).__name__}
        print(json.dumps(answer), file=out, flush=True)
        if "last" in answer:
            return
        if hasattr(signal, "alarm"):
            signal.alarm(0)


if __name__ == "__main__":
    out, sys.stdout = sys.stdout, sys.stderr
    main(out)
