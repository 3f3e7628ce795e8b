"""attnviz in the browser: `streamlit run app.py`."""

import streamlit as st

from attnviz.ui.server import lifespan, security

app = st.App("attnviz/ui/main.py", lifespan=lifespan, middleware=security)
