"""The notebooks of the course: they say what the lessons say, and were run without an error."""

import json
import re
from itertools import pairwise

import nbformat
import notebooks
import pytest

from attnviz import lessons
from attnviz.ui.learn import notebook

COURSE = lessons.course()
CHAPTERS = pytest.mark.parametrize("number", range(1, len(COURSE.steps) + 1))
MOST_BYTES = 300_000


def kept(number: int) -> nbformat.NotebookNode:
    file = notebooks.FOLDER / notebook.file_name(COURSE, number)
    assert file.stat().st_size < MOST_BYTES
    return nbformat.read(file, as_version=4)


@CHAPTERS
def test_a_notebook_says_what_its_chapter_says(number):
    """Texts and code are those that `make course` writes now; each picture and each print is there, and no error."""
    made, book = nbformat.from_dict(notebook.notebook(COURSE, number)), kept(number)
    nbformat.validate(book)

    assert [(cell.cell_type, cell.source) for cell in book.cells] == [
        (cell.cell_type, cell.source) for cell in made.cells
    ]
    for cell in (one for one in book.cells if one.cell_type == "code" and not one.source.startswith("import")):
        kinds = [output.output_type for output in cell.outputs]
        assert ("execute_result" in kinds) == cell.source.splitlines()[-1].startswith("attnviz.figures")
        assert ("stream" in kinds) == ("print(" in cell.source)
        assert "error" not in kinds


@pytest.mark.parametrize("number", [2, *(pytest.param(n, marks=pytest.mark.sweep) for n in range(1, 13) if n != 2)])
def test_a_notebook_runs(number):
    """Each cell gives what is kept of it, but for the last digits: the same words, and as many pictures."""
    ran = notebooks.executed(notebook.notebook(COURSE, number))

    def prints(book: nbformat.NotebookNode) -> list:
        outputs = [output for cell in book.cells for output in cell.get("outputs", ())]
        return [re.sub(r"-?\d+", "0", one.text) if "text" in one else sorted(one.data) for one in outputs]

    assert prints(ran) == prints(kept(number))


def test_the_notebooks_are_those_of_the_course():
    """None is left of a chapter that has another name now, and each leads to the next one."""
    names = [notebook.file_name(COURSE, number) for number in range(1, len(COURSE.steps) + 1)]

    assert sorted(path.name for path in notebooks.FOLDER.glob("*.ipynb")) == names
    for name, following in pairwise(names):
        assert f"]({following})" in json.loads((notebooks.FOLDER / name).read_text())["cells"][-1]["source"]
    index = (notebooks.FOLDER / "index.md").read_text(encoding="utf-8")
    listed = [f"{i}. [{step.title}]({name})" for i, (step, name) in enumerate(zip(COURSE.steps, names, strict=True), 1)]
    assert "\n".join(listed) in index
