"""Make the notebooks of the course again: `make course`."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import nbclient
import nbformat

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "course"


def executed(made: dict[str, Any]) -> dict[str, Any]:
    """A notebook with what its cells give; a cell that fails ends it."""
    os.environ["PYTHONPATH"] = str(ROOT)
    book = nbformat.from_dict(made)
    nbclient.NotebookClient(book, timeout=120, record_timing=False).execute()
    book.metadata.pop("language_info", None)
    return book


def main() -> None:
    from attnviz import lessons
    from attnviz.ui.learn import notebook

    FOLDER.mkdir(parents=True, exist_ok=True)
    course = lessons.course()
    for number in range(1, len(course.steps) + 1):
        file = FOLDER / notebook.file_name(course, number)
        text = json.dumps(executed(notebook.notebook(course, number)), ensure_ascii=False, indent=1, sort_keys=True)
        file.write_text(f"{text}\n", encoding="utf-8")
        print(f"{file.relative_to(ROOT)}: {len(text) / 1e3:.0f} kB", file=sys.stderr)


if __name__ == "__main__":
    main()
