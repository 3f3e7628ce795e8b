"""attnviz on Streamlit Community Cloud, which runs this file out of the repository and sets no environment."""

import os
import sys
from pathlib import Path

import streamlit as st

sys.path.insert(0, str(Path(__file__).parents[2]))
os.environ |= {"ATTNVIZ_PUBLIC": "1", "ATTNVIZ_HOST_NAMES": "*.streamlit.app"}

from attnviz.ui import server

app = st.App(server.PAGE, lifespan=server.lifespan, middleware=server.middleware, routes=server.routes)
