"""What the tests of pictures share."""

import pytest
from pictures import record_of


@pytest.fixture
def cat():
    return record_of(["The", "cat", "sat", "<pad>"], special={3})
