"""Open the page Heads on a text of so many tokens, with so many bytes of memory to spare; a script for tests.

The text is opened in each of some ways, one after another: links, written as a page's address has them.
"""

import re
import resource
import sys
from pathlib import Path
from urllib.parse import parse_qsl

sys.path[:0] = [str(Path(__file__).parents[up]) for up in range(3)]

from streamlit.testing.v1 import AppTest  # noqa: E402
from test_app import html, page_of  # noqa: E402 (found by the paths above)

from attnviz.ui import runs  # noqa: E402


def shown(text: str, link: str) -> str:
    """What the page says, once it is there."""
    app = AppTest.from_function(page_of, args=("Heads",), default_timeout=600)
    for name, value in [("model", "constructed"), ("text", text), *parse_qsl(link)]:
        app.query_params[name] = value
    app.run()
    while app.get("progress"):
        for job in runs.JOBS.running:
            job.settled.wait()
        app.run()
    assert not app.exception, app.exception
    assert app.get("vega_lite_chart"), html(app)
    return html(app)


if __name__ == "__main__":
    tokens, spare, *links = sys.argv[1:]
    for link in links:  # what is imported and kept for all is there before memory is measured
        shown("the cat sat on the mat " * 60, link)
    pages = int(re.search(r"VmSize:\s+(\d+) kB", Path("/proc/self/status").read_text())[1])
    resource.setrlimit(resource.RLIMIT_AS, (1024 * pages + int(spare),) * 2)
    for link in links:
        shown(" ".join(f"w{i % 700}" for i in range(int(tokens))), link)
    print("shown")
