"""A notebook is run as Jupyter runs it, and what its cells show is opened in a browser without a network."""

import urllib.request
from urllib.parse import quote

import driver
import nbformat
import pytest
from nbclient import NotebookClient
from playwright.sync_api import expect

CELLS = (
    "import attnviz; record = attnviz.analyze('a <b>dog</b> sleeps', 'scratch'); record",
    "figure = attnviz.figures.head(record, record.sites[0], 1); figure",
    "import altair; _ = altair.renderers.enable('html', template='inline'); figure.chart",
    "attnviz.explore(record, head=1)",
    "shown = attnviz.show(record); shown",
)


def outputs(cell) -> dict[str, str]:
    """Return the output of a cell, by MIME type."""
    (output,) = [one for one in cell.outputs if one.output_type == "execute_result"]
    return output.data


@pytest.fixture(scope="module")
def notebook():
    """The notebook after its run, and what the app that it opened answers while its process lives and after it."""
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    beside = {"metadata": {"path": str(driver.ROOT)}}
    client = NotebookClient(book, timeout=300, kernel_name="python3", resources=beside)
    with client.setup_kernel():
        for number, cell in enumerate(book.cells):
            client.execute_cell(cell, number)
        link = outputs(book.cells[-1])["text/html"].partition('href="')[2].partition("/?")[0]
        answered = urllib.request.urlopen(f"{link}/_stcore/health", timeout=60).read()
    return book, link, answered


def test_a_record_a_figure_and_a_chart_show_themselves(notebook, window, tmp_path):
    """As the last line of a cell: every head, a picture, a chart; offline, and with no error in the console."""
    page, (every, figure, chart, explored, _) = window(), map(outputs, notebook[0].cells)
    image = f'<img src="data:image/svg+xml,{quote(figure["image/svg+xml"])}" alt="">'
    shown = [every["text/html"], image, chart["text/html"], explored["text/html"]]
    (tmp_path / "notebook.html").write_text(f"<!DOCTYPE html><title>x</title>{''.join(shown)}", "utf-8")
    page.goto((tmp_path / "notebook.html").as_uri())

    for number, name in enumerate(("Head 0 of encoder layer 0", "Head 1 of encoder layer 0")):
        frame = page.frame_locator("iframe").nth(number)
        expect(frame.locator("#name")).to_have_text(name)
        frame.locator("html[data-painted]").wait_for(state="attached")
    page.wait_for_function("document.querySelector('img').naturalWidth > 100")
    expect(page.locator("canvas.marks, svg.marks").first).to_be_visible()
    assert page.locator("b").count() == 0
    assert ">sleeps<" in figure["image/svg+xml"]
    assert every["text/plain"] == ("<Record of scratch on 'a <b>dog</b> sleeps': 2 attention calls, nothing changed>")


def test_the_app_of_a_notebook_answers_until_its_process_ends(notebook):
    """At the link that the cell shows, on this machine alone."""
    _, link, answered = notebook

    assert link.startswith("http://127.0.0.1:")
    assert answered == b"ok"
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(f"{link}/_stcore/health", timeout=60)
