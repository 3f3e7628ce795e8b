"""What the tests of pages share."""

import gc
from functools import cache

import pytest
from streamlit.components.v2 import manifest_scanner

manifest_scanner.scan_component_manifests = cache(manifest_scanner.scan_component_manifests)
"""Streamlit looks through all installed packages whenever a test runs a page: five times as long as the page takes."""


@pytest.fixture(scope="module", autouse=True)
def frozen():
    """Streamlit collects garbage after every run; as in the app, it does not go through torch and Altair each time."""
    gc.collect()
    gc.freeze()
