"""Bands beside a map say which rows and columns are of which role, on a page and in a file; texts and lines say it."""

import json
from dataclasses import replace

import pytest
from pictures import SITE, data, heatmap, record_of, strand_lines

from attnviz import figures
from attnviz.export import render

CHAT = ["system"] * 2 + ["user"] * 4 + ["assistant"] * 3
ANSWER = [""] * 4 + ["answer"] * 3


def spoken(roles, *, special=()):
    """A record whose tokens have these roles."""
    record = record_of([f"w{i}" for i in range(len(roles))], special=special)
    pairs = zip(record.sentences[0].tokens, roles, strict=True)
    tokens = tuple(replace(token, role=role) for token, role in pairs)
    return replace(record, sentences=(replace(record.sentences[0], tokens=tokens),))


def bounds(chart, side):
    """Role, begin and end of each band of a side, in squares, without the gaps between bands."""
    rows = [row for row in data(chart, "bands") if row["side"] == side]
    return [(row["role"], row["border"], 2 * row["middle"] - row["border"]) for row in rows]


@pytest.mark.parametrize(
    ("roles", "expected"),
    [
        (CHAT, [("system", 0, 2), ("user", 2, 6), ("assistant", 6, 9)]),
        (ANSWER, [("prompt", 0, 4), ("answer", 4, 7)]),
        (["user", "user", "", "user"], [("user", 0, 2), ("user", 3, 4)]),
    ],
)
def test_a_band_goes_along_each_turn_on_both_sides(roles, expected):
    """Of what has no role beside turns there is no band."""
    chart = heatmap(spoken(roles), SITE, 0)

    assert bounds(chart, "row") == bounds(chart, "column") == expected


def test_a_tile_may_hold_a_border():
    """Of 1,030 tokens a square has 3 x 3: a border after 100 of them stands within the 34th square."""
    chart = heatmap(spoken([""] * 100 + ["answer"] * 930), SITE, 0)

    ((_, begin, end), (_, border, last)) = bounds(chart, "row")
    assert (begin, end) == (0, pytest.approx(100 / 3))
    assert (border, last) == pytest.approx((100 / 3, 1030 / 3))


@pytest.mark.parametrize("count", [7, 60])
def test_files_and_pages_name_the_roles(count):
    """Also where the map is an image."""
    figure = figures.head(spoken([""] * (count // 2) + ["answer"] * (count - count // 2)), SITE, 0)
    svg, screen = render(figure, "svg").decode(), json.dumps(figure.screen[0], default=str)
    tables = figure.screen[1] or figure.screen[0]["datasets"]

    assert svg.count(">prompt<") == svg.count(">answer<") == 2
    assert "bands" in screen
    assert "answer" in json.dumps(tables, default=str)


def test_lines_have_a_border_where_the_role_changes():
    chart = strand_lines(spoken(ANSWER), SITE, [0])

    for side in ("queries", "keys"):
        assert [row["begin"] for row in data(chart, side) if row["breaks"]] == [4]
