"""What the tests of pages share."""

import gc

import pytest


@pytest.fixture(scope="module", autouse=True)
def frozen():
    """Streamlit collects garbage after every run; as in the app, it does not go through torch and Altair each time."""
    gc.collect()
    gc.freeze()
