"""The script that Streamlit runs. It is alone in its folder, because Streamlit adds that folder to `sys.path`."""

from attnviz.ui import main, server

server.keep_main()
main.app()
