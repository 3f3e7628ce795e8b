"""Files of Streamlit's page that a browser is told of before it asks: they come while the server still imports.

Streamlit has a file for each kind of element, and asks for it, and for what it needs in turn, as the first one arrives;
for a chart that is all of Vega. A kind that another Streamlit does not have is left out: these are hints.
"""

import json
from pathlib import Path

import streamlit

FRAME = ("Html.*.js", "purify.es.*.js")
"""What draws the frame of a page; before the end of each name stands a hash."""

PAGE = ("ArrowVegaLiteChart.*.js", "Selectbox.*.js", "FileUploader.*.js", "TextArea.*.js", "MenuButton.*.js")
PAGE += ("Checkbox.*.js", "ButtonGroup.*.js", "Button.*.js")
"""What draws the input bar and the page Heads."""

FOLDER = Path(streamlit.__file__).parent / "static" / "static" / "js"


def files(kinds: tuple[str, ...]) -> list[str]:
    """The names of their files."""
    return [file.name for kind in kinds for file in sorted(FOLDER.glob(kind))]


LINK = ", ".join(f"<./static/js/{name}>;rel=modulepreload" for name in files(FRAME))
"""A header of the page itself."""

SCRIPT = f"""for (const file of {json.dumps(files(PAGE))})
  import(new URL(file, document.querySelector('script[type="module"]').src)).catch(() => {{}});"""
"""What a browser does once it has the frame; of a file that does not come Streamlit says so when it needs it."""
