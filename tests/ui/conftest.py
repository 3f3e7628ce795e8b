"""Fixtures for the tests of pages."""

import gc
from functools import cache

import pytest
from streamlit.components.v2 import manifest_scanner
from streamlit.testing.v1 import local_script_runner

manifest_scanner.scan_component_manifests = cache(manifest_scanner.scan_component_manifests)
"""Streamlit scans all installed packages whenever a test runs a page, which takes five times as long as the page."""

_ended = local_script_runner.require_widgets_deltas


def ended(runner, timeout: float) -> None:
    """Wait for the end of a page's run; Streamlit polls it a thousand times a second, which slows the run down."""
    runner._script_thread.join(timeout)
    _ended(runner, timeout)


local_script_runner.require_widgets_deltas = ended


@pytest.fixture(scope="module", autouse=True)
def frozen():
    """Exempt torch and Altair from the garbage collection that Streamlit does after every run, as the app does."""
    gc.collect()
    gc.freeze()
