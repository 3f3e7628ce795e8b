"""The app: the only Streamlit in the package."""

import importlib.util

from attnviz.core.errors import InputError
from attnviz.ui import words

if importlib.util.find_spec("streamlit") is None:
    raise InputError(words.NO_STREAMLIT)
