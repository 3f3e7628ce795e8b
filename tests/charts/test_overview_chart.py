"""Every head of a model, and heads by their numbers."""

from itertools import pairwise

import pandas as pd
import pytest
from examples import some
from pictures import data, draw, overview, without_data

from attnviz import api
from attnviz.charts.style import Style
from attnviz.core.edits import Edits, Site
from attnviz.figures import scatter
from attnviz.figures.overview import FULL, LARGEST, SMALLEST, WIDTH, drawing_of, is_flat
from attnviz.metrics.heads import head_metrics

TITLES = {"entropy": "Entropy (nats)", "previous": "Previous token"}


@pytest.fixture(scope="module")
def record():
    return api.analyze("the cat sleeps", "translator", Edits().with_heads_off(Site("cross", 1), {3}))


def marks(record, x, y=None, table=None, **options):
    table = head_metrics(record) if table is None else table
    return scatter(record, table, x, y, titles=TITLES, **options).chart


def test_every_head_of_every_site_has_its_place(record):
    """No two at the same; the sites in the order of the record, each with all its heads in one row."""
    rows = data(overview(record), "heads")

    heads = [(row["kind"], row["layer"], row["head"]) for row in rows]
    kinds = ["encoder", "decoder", "cross"]
    assert sorted(heads) == sorted((s.site.kind, s.site.layer, h) for s in record.steps for h in range(s.num_heads))
    assert [kind for kind, _, _ in heads] == sorted((kind for kind, _, _ in heads), key=kinds.index)
    assert len({(row["x"], row["y"]) for row in rows}) == len(rows)
    for site in record.sites:
        assert len({row["y"] for row in rows if (row["kind"], row["layer"]) == (site.kind, site.layer)}) == 1


@pytest.mark.parametrize(("heads", "layers"), [(1, 1), (8, 3), (32, 2)])
def test_thumbnails_are_never_too_small_to_see(heads, layers):
    """And they fill no more than the width, unless there are very many."""
    record = api.analyze("the cat", "scratch", d_model=64, num_heads=heads, num_layers=layers)
    rows = data(overview(record), "heads")

    xs = sorted({row["x"] for row in rows})
    step = min((b - a for a, b in pairwise(xs)), default=LARGEST)
    assert step >= SMALLEST
    assert xs[-1] <= WIDTH or step <= SMALLEST + 10


def test_kinds_that_fit_a_screen_stand_beside_each_other_across_it(record):
    """In a file, which is narrower, they do not; nor do more layers than leave room under them."""
    large, file = (drawing_of(record, None, (), 0, style).tables["heads"] for style in (Style(on_screen=True), Style()))

    assert [len({*one["y"]}) for one in (large, file)] == [2, 4]
    assert WIDTH < max(large["x"]) < FULL
    assert is_flat(record)
    assert not is_flat(api.analyze("the cat", "scratch", d_model=64, num_heads=8, num_layers=6))


def test_an_order_and_what_is_said_of_each_head_are_kept(record):
    """Heads that are not in it are not drawn."""
    order = [(Site("cross", 1), 3), (Site("encoder", 0), 2), (Site("decoder", 1), 0)]
    chart = overview(record, order=order, captions=["0.9", "0.8", "–"], by="entropy (nats)")

    rows = data(chart, "heads")
    assert [(Site(row["kind"], row["layer"]), row["head"]) for row in rows] == order
    assert "number: entropy (nats)" in {word["text"] for word in data(chart, "words")}
    assert {"cross 1.3", "0.9", "encoder 0.2", "0.8", "decoder 1.0", "–"} <= {w["text"] for w in data(chart, "words")}


def test_a_head_that_is_off_says_so(record):
    """One of all, and it is struck through; the other sign is what the legend says of blocked cells."""
    rows = data(overview(record), "heads")

    off = [row["name"] for row in rows if row["state"].startswith("off")]
    assert off == ["head 3 of cross layer 1"]
    assert len(data(overview(record), "signs")) == 2
    assert "blocked" in {one["text"] for one in data(overview(record), "words")}


def test_the_largest_weight_under_the_pointer_is_the_records(record):
    """As four digits."""
    row = data(overview(record), "heads")[5]

    step = record.step(Site(row["kind"], row["layer"]))
    assert row["largest"] == f"{float(step.weights(row['head']).max()):.4f}"


def test_another_sentence_leaves_the_specification(record):
    """What is drawn is data alone, so the browser replaces it in place."""
    other = api.analyze("the dog sleeps", "translator")

    assert without_data(overview(record)) == without_data(overview(other, focused=(Site("cross", 0), 1), rev=3))


def test_a_head_stands_where_its_numbers_are(record):
    """Left to right by the first, from below to above by the second."""
    table = head_metrics(record)
    rows = data(marks(record, "entropy", "previous"), "heads")

    known = table.dropna(subset=["entropy", "previous"])
    assert len(rows) == len(known) < len(table)  # of cross-attention there is no previous token
    assert [row["at"] for row in rows] == known["entropy"].tolist()
    assert [row["up"] for row in rows] == known["previous"].tolist()


def test_few_heads_are_named_and_no_name_covers_another(record):
    """Many are not: their names would hide the marks."""
    table = head_metrics(record)
    known = table.assign(entropy=0.5, previous=[i / 48 for i in range(len(table))])  # 6 pixels from mark to mark
    known.loc[0, ["entropy", "previous"]] = 1.0
    rows = [row for row in data(marks(record, "entropy", "previous", known), "heads") if row["label"]]
    many = pd.concat([table, table])

    assert {row["label"] for row in rows} <= {
        f"{kind} {layer}.{head}" for kind in ("enc", "dec", "cross") for layer in (0, 1) for head in range(4)
    }
    assert len({row["label"] for row in rows}) == len(rows)
    assert len(rows) > 8

    def pixel(value, numbers):
        return 20 + (value - numbers.min()) / (numbers.max() - numbers.min()) * 350

    across = [pixel(row["at"], known["entropy"]) + row["right"] for row in rows]
    down = [390 - pixel(row["up"], known["previous"]) + row["down"] for row in rows]
    places = list(zip(across, down, strict=True))
    assert all(abs(a[0] - b[0]) > 35 or abs(a[1] - b[1]) > 12 for i, a in enumerate(places) for b in places[:i])
    assert not any(row["label"] for row in data(marks(record, "entropy", "previous", table=many), "heads"))
    one = marks(record, "entropy", "previous", table=many[3:], focused=(Site("encoder", 0), 2))
    assert [row["label"] for row in data(one, "heads") if row["label"]] == ["enc 0.2"]


def test_heads_with_the_same_number_stand_on_each_other(record):
    """None hides another."""
    table = head_metrics(record).assign(entropy=0.5)
    rows = data(marks(record, "entropy", table=table), "heads")

    assert len({row["at"] for row in rows}) == 1
    assert {row["x"] for row in rows} == {0.5}
    assert len({row["up"] for row in rows}) == len(rows) == len(table)


def test_the_chosen_head_is_above_all_others(record):
    """What is drawn last is not hidden, and it has its name where others have no room for theirs."""
    close = head_metrics(record).assign(entropy=0.5, previous=[i / 500 for i in range(len(head_metrics(record)))])
    close.loc[len(close) - 1, "previous"] = 1.0
    focused = {"focused": (Site("encoder", 0), 0)}
    rows = data(marks(record, "entropy", "previous", table=close, **focused), "heads")

    assert rows[-1]["label"] == "enc 0.0"
    assert not all(row["label"] for row in rows)

    rows = data(marks(record, "entropy", "previous", **focused), "heads")

    assert (rows[-1]["kind"], rows[-1]["layer"], rows[-1]["head"]) == ("encoder", 0, 0)


def test_a_bar_is_as_long_as_the_spread_and_the_line_where_both_are_equal(record):
    """Both axes go from the same to the same number: the least and the largest of marks and bars."""
    table = head_metrics(record).dropna(subset=["entropy", "previous"]).assign(far=0.25)
    chart = scatter(record, table, "entropy", "previous", titles=TITLES, spread=("far", 2)).chart
    rows = data(chart, "heads")

    assert [(row["low"], row["high"]) for row in rows] == [(row["up"] - 0.5, row["up"] + 0.5) for row in rows]
    ends = [number for row in rows for number in (row["at"], row["low"], row["high"])]
    assert [row["end"] for row in data(chart, "line")] == [min(ends), max(ends)]
    assert all(part in str(chart.to_dict()) for part in ("bar: mean ± 2 std. dev.", "this text is unusual"))
    assert draw(chart.to_dict())


def test_without_a_number_there_is_no_mark(record):
    """An empty picture draws, too."""
    table = head_metrics(record).assign(entropy=pd.NA)
    chart = marks(record, "entropy", table=table)

    assert data(chart, "heads") == []
    assert draw(chart.to_dict())


def test_heads_without_a_number_are_counted(record):
    """The picture says how many are not there: two texts have no distance between them."""
    table = head_metrics(record)
    chart = scatter(record, table, "distance", None, titles=TITLES | {"distance": "Mean distance"}).chart
    cross = sum(step.num_heads for step in record.steps if step.site.kind == "cross")

    assert len(data(chart, "heads")) == len(table) - cross
    assert f"{cross} heads have no such number" in str(chart.to_dict())


@pytest.mark.parametrize("dark", some([True, False], 1))
def test_pictures_of_all_heads_are_drawn(record, dark):
    """As files."""
    focused = (Site("cross", 1), 3)

    assert draw(overview(record, dark=dark, focused=focused).to_dict())
    assert draw(marks(record, "entropy", "previous", dark=dark, focused=focused).to_dict())
    assert draw(marks(record, "entropy", dark=dark).to_dict())


def test_axes_go_from_the_least_number_to_the_largest(record):
    """No room is lost to a 0 far away; heads with one number stand at that number."""
    table = head_metrics(record)
    encoding = str(marks(record, "entropy", "previous").to_dict())

    assert "unionWith" not in encoding
    assert "'zero': False" in encoding

    rows = data(marks(record, "entropy", table=table.assign(entropy=0.5)), "heads")
    assert {row["at"] for row in rows} == {0.5}
