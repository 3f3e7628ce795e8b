"""The app: the only Streamlit in the package."""
