"""attnviz in the browser: `attnviz app`, or `streamlit run app.py`."""

import streamlit as st

from attnviz.ui import server

app = st.App(server.PAGE, lifespan=server.lifespan, middleware=server.middleware, routes=server.routes)
