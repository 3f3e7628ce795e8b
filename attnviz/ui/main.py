"""The script that Streamlit runs."""

from attnviz.ui import frame

frame.app()
