"""Fixtures for the tests of pictures."""

import pytest
from pictures import record_of


@pytest.fixture
def cat():
    return record_of(["The", "cat", "sat", "<pad>"], special={3})
