"""The script that Streamlit runs, alone in its folder: Streamlit puts that folder on the path of imports."""

from attnviz.ui import main, server

server.keep_main()
main.app()
