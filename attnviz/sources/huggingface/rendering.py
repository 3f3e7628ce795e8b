"""Render chat templates in a process of its own: a job and an answer are each a line of JSON, until stdin ends.

Run by its path. It imports nothing of attnviz. A template is code of a model's authors, and may take any time.
"""

import json
import signal
import sys
from contextlib import suppress
from typing import IO

MOST_MEMORY = 2**30
"""Bytes of this process."""
LAST_SECONDS = 10
"""Seconds until the process ends itself, if the one that waits for it is gone."""


def main(out: IO[str]) -> None:
    from transformers.utils.chat_template_utils import render_jinja_template

    with suppress(ImportError, ValueError, OSError):  # not every system has this bound
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
        except MemoryError:  # what fills the memory may stay in it: another process does the next job
            answer = {"error": f"it needs more than {MOST_MEMORY / 1e9:.1f} GB of memory", "last": True}
        except Exception as error:  # a template raises what it likes
            answer = {"error": " ".join(str(error).split())[:200] or type(error).__name__}
        print(json.dumps(answer), file=out, flush=True)
        if "last" in answer:
            return
        if hasattr(signal, "alarm"):
            signal.alarm(0)


if __name__ == "__main__":
    out, sys.stdout = sys.stdout, sys.stderr
    main(out)
