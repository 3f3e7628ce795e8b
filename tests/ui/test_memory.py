"""Nothing on the page Heads makes n x n of anything: it opens where that much memory is not to be had."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("memory_of_a_page.py")
LINKS = ("", "heads_off=d1.0", "form=text&pins=q100", "form=lines", "cell=5000.20", "zoom=100.611.20.531")


def opened(tokens: int, spare: int, *links: str) -> subprocess.CompletedProcess:
    environment = os.environ | {"MALLOC_ARENA_MAX": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(SCRIPT), str(tokens), str(spare), *links]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)


@pytest.mark.sweep
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the limit counts all memory on Linux alone")
@pytest.mark.parametrize(
    ("tokens", "spare", "links"),
    [
        pytest.param(8_192, 250_000_000, LINKS[:1], id="less than one float for each cell"),
        pytest.param(24_576, 600_000_000, LINKS, id="less than one byte for each cell"),
    ],
)
def test_a_long_text_opens_without_memory_for_all_its_cells(tokens, spare, links):
    """8,192 tokens have 67 million cells, which as float32 take 268 MB: as much as there is for the whole page."""
    assert spare < tokens**2 * (4 if tokens < 10_000 else 1)

    found = opened(tokens, spare, *links)

    assert found.stdout.endswith("shown\n"), found.stderr[-2000:]
