"""The little that Streamlit's theme cannot say."""

import streamlit as st

CSS = """
.block-container {max-width: 1480px; padding: 4.25rem 2.5rem 4rem;}
.note {padding: .6rem .9rem; border-left: 3px solid; border-radius: 2px; margin: .25rem 0; overflow-wrap: anywhere;}
.note.error {border-color: #b3261e; background: rgba(179, 38, 30, .08);}
.note.notice {border-color: #8a6d00; background: rgba(138, 109, 0, .10);}
.unseen {position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap;}
[data-testid="stCaptionContainer"] {color: inherit; opacity: .8;}
.st-key-edits {min-height: 2.75rem;}
.st-key-changes {min-height: 2.75rem; overflow-x: auto;}
.st-key-changes > * {flex-shrink: 0;}
.st-key-phone, *:has(> .st-key-phone) {display: none;}
.words {font-size: 1.125rem; line-height: 1.5; min-height: 1.7rem; overflow-wrap: anywhere;
        font-variant-numeric: tabular-nums;}
.quiet {font-size: .875rem; opacity: .78; overflow-wrap: anywhere; font-variant-numeric: tabular-nums;}
@media (max-width: 640px) {
  .block-container {padding-left: 1rem; padding-right: 1rem;}
  .st-key-phone, *:has(> .st-key-phone) {display: flex;}
  .st-key-overview, *:has(> .st-key-overview) {order: 2;}
}
[class*="st-key-picture"] {overflow-x: auto;}
"""


def apply() -> None:
    st.html(f"<style>{CSS}</style>")
