"""The script that Streamlit runs, alone in its folder: Streamlit puts that folder on the path of imports."""

import os

from attnviz.ui import frame, main, server

server.keep_main()
(main if os.environ.get("ATTNVIZ_NEW") else frame).app()
