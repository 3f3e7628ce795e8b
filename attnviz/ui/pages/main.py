"""Page setup and navigation. It imports nothing heavy of its own, so that the frame of the page is there at once."""

import streamlit as st

from attnviz.core import assets
from attnviz.ui import style


def heads() -> None:
    from attnviz.ui.pages.heads import page

    page()


def overview() -> None:
    from attnviz.ui.pages.overview import page

    page(_open_heads)


def masks() -> None:
    from attnviz.ui.pages.masks import page

    page()


def steps() -> None:
    from attnviz.ui.pages.steps import page

    page()


def compare() -> None:
    from attnviz.ui.pages.compare import page

    page()


def model() -> None:
    from attnviz.ui.pages.model import page

    page(_open_heads)


def _open_heads() -> None:
    """With all that the link holds. Streamlit refuses to clear it where controls are bound to it, and forgets them."""
    held = {name: st.session_state[name] for name in st.query_params if name in st.session_state}
    st.session_state["carried"] = held
    st.switch_page(pages[0], query_params={})


st.set_page_config("attnviz", page_icon=str(assets.path("icon.png")), layout="wide", initial_sidebar_state="collapsed")
style.apply()
st.logo(str(assets.path("logo.svg")), size="large")
pages = [
    st.Page(heads, title="Heads", url_path="heads", default=True),
    st.Page(overview, title="Overview", url_path="overview"),
    st.Page(masks, title="Masks", url_path="masks"),
    st.Page(steps, title="Steps", url_path="steps"),
    st.Page(compare, title="Compare", url_path="compare"),
    st.Page(model, title="Model", url_path="model"),
]
page = st.navigation(pages, position="top")
with st.container(horizontal=True, key="phone"):  # the navigation at the top hides behind a button on narrow screens
    for other in pages:
        st.page_link(other)
for name, value in st.session_state.pop("carried", {}).items():
    st.session_state[name] = value
page.run()
