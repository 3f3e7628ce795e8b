"""The app; no other part of the package uses Streamlit."""
