"""The HTML file in a real Chromium without a network. Any error in the console and any request but its own fails."""

import re

import numpy as np
import pandas as pd
import pytest

from attnviz.export import render

pytestmark = pytest.mark.browser


@pytest.fixture
def opened(chromium, tmp_path):
    """Writes a figure, opens it, and gives the page once it is drawn."""
    problems = []

    def open_it(figure, **options):
        file = tmp_path / "figure.html"
        file.write_bytes(render(figure, "html"))
        page = chromium.new_context(offline=True, **options).new_page()
        page.on("console", lambda message: problems.append(message.text))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("request", lambda request: problems.append(request.url) if request.url != file.as_uri() else None)
        page.goto(file.as_uri())
        page.wait_for_selector("#picture svg, #picture canvas")
        return page

    yield open_it
    assert problems == []


def test_the_page_shows_the_picture_its_words_and_its_numbers(opened, figure):
    """The picture answers the pointer; the page may ask no host and run no other script."""
    page = opened(figure)

    assert page.title() == figure.title
    assert page.locator("html").get_attribute("lang") == "en"
    assert figure.description in page.locator("main").inner_text()
    drawn = page.locator("#picture svg text").all_text_contents()
    assert [text for text in drawn if text in ("The", "mat")] == ["The", "mat"] * 2

    page.get_by_text("Numbers (36 rows)").click()
    rows = [row.split("\t") for row in page.locator("tbody").inner_text().splitlines()]
    weights = figure.table.columns.get_loc("weight")
    assert np.array([row[weights] for row in rows], dtype=np.float32).tolist() == figure.table["weight"].tolist()
    page.locator("#picture .mark-rect path").nth(1).hover()
    page.wait_for_selector("#vg-tooltip-element.visible")
    assert f"{figure.table['weight'][1]:.4f}" in page.locator("#vg-tooltip-element").inner_text()

    policy = page.locator("meta[http-equiv=Content-Security-Policy]").get_attribute("content")
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert not re.search("https?:|unsafe-eval|script-src 'unsafe-inline'", policy)


def test_no_token_gets_out_of_the_data_and_a_long_table_says_what_it_leaves_out(opened, hostile):
    """Not into the page's scripts, its markup, or its title."""
    long = pd.concat([hostile.table] * 250, ignore_index=True)
    page = opened(type(hostile)(**vars(hostile) | {"table": long}))
    page.get_by_text("Numbers (6,250 rows)").click()

    assert page.locator("script").count() == 3
    assert page.title().startswith("␀␁")
    assert "0003 </script><script>document.title='x'</script>" in page.locator("#picture svg text").all_text_contents()
    assert "The first 5,000 of 6,250 rows" in page.locator("details").inner_text()
    assert page.locator("tbody tr").count() == 5_000


def test_the_libraries_bring_their_licenses(figure):
    text = render(figure, "html").decode()

    assert "University of Washington Interactive Data Lab" in text
    assert "Mike Bostock" in text
