"""The app: the only Streamlit in the package."""

import importlib.util

from attnviz.core.errors import InputError

if importlib.util.find_spec("streamlit") is None:
    raise InputError("The app needs Streamlit; install it with: pip install 'streamlit~=1.67.0'")
