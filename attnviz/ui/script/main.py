"""The script that Streamlit runs, alone in its folder: Streamlit puts that folder on the path of imports."""

from attnviz.ui import frame, server

server.keep_main()
frame.app()
