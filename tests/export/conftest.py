"""Figures to export: one as the app draws it, and one whose chart, table and arrays hold raw hostile text."""

from types import SimpleNamespace

import altair as alt
import numpy as np
import pandas as pd
import pytest

from attnviz import figures
from attnviz.core.edits import Edits, Site
from attnviz.sources.scratch import Scratch

HOSTILE = [
    *("\x00\x01\x1b[31m\x7f", "\ud800", "\ufffe\uffff", "</script><script>document.title='x'</script>", "<!--", "]]>"),
    *("constructor", "__proto__", "=1+1", "+1", "-1", "@SUM(A1)", "\tx", "\rx", 'a,"b"\nc', "\u2028\u2029", "👩🏽‍💻"),
    *("العربية", "עברית", "日本語", "e" + "\u0301" * 40, "\u202egnp.exe", "[x](javascript:alert(1))"),
    *("datum.x = alert(1)", "image"),
]


@pytest.fixture(scope="session")
def record():
    source = Scratch()
    return source.run(source.tokenize(["The cat sat on the mat"]), Edits())


@pytest.fixture(scope="session")
def figure(record):
    """Figure that the app shows first, made once."""
    return figures.head(record, Site("encoder", 0), 1)


@pytest.fixture(scope="session")
def hostile():
    """Everything raw: as if nothing had been cleaned for display."""
    weights = np.linspace(0, 1, len(HOSTILE), dtype=np.float32)
    weights[5] = np.nan
    table = pd.DataFrame({"token": pd.Series(HOSTILE, dtype=object), "weight": weights, "place": range(len(HOSTILE))})
    chart = (
        alt.Chart(alt.NamedData("table"), title="attention")
        .mark_bar()
        .encode(y=alt.Y("band:N", axis=alt.Axis(labelLimit=0)), x="weight:Q", tooltip=["token:N", "weight:Q"])
    )
    rows = enumerate(zip(HOSTILE, weights.tolist(), strict=True))
    chart.datasets = {"table": [{"token": t, "weight": w, "band": f"{i:04d} {t}"} for i, (t, w) in rows]}
    return SimpleNamespace(
        name="CON",
        title="".join(HOSTILE),
        description="".join(reversed(HOSTILE)),
        chart=chart,
        table=table,
        arrays={"weights": weights, "tokens": np.array(HOSTILE, dtype=object)},
    )
