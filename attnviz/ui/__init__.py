"""The app; no other part of the package uses Streamlit."""

import importlib.util

from attnviz.core.errors import InputError

if importlib.util.find_spec("streamlit") is None:
    raise InputError("The app needs Streamlit; install it with: pip install 'streamlit~=1.67.0'")
