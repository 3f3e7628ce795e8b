"""attnviz in the browser: `streamlit run app.py`."""

import streamlit as st

from attnviz.ui.server import lifespan, security

# Not beside the folder "pages": a new server would take the files in there for pages, and show them blank.
app = st.App("attnviz/ui/pages/main.py", lifespan=lifespan, middleware=security)
