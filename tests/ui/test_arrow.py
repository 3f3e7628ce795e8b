"""Tables on their way to the browser."""

import io

import pyarrow as pa
import pytest
import vl_convert
from pictures import SITE, record_of

from attnviz import figures
from attnviz.charts.picture import records
from attnviz.core.edits import Edits
from attnviz.ui.shared import arrow

RECORD = record_of(["cat", "<b>", "שלום", "was"], edits=Edits(heads_off=frozenset({(SITE, 1)})))
PICTURES = {
    "head": figures.head(RECORD, SITE, 1, selected=(2, 1)),
    "heads": figures.heads(RECORD, SITE, focused=0),
    "change": figures.change(record_of(["cat", "<b>", "שלום", "was"]), RECORD),
}


def drawn(spec: dict, tables: dict[str, list[dict]]) -> str:
    return vl_convert.vegalite_to_svg(spec | {"datasets": tables}, allowed_base_urls=[])


@pytest.mark.parametrize("name", PICTURES)
def test_one_table_of_what_stands_around_a_picture_draws_what_many_do(name):
    """A browser reads each table by itself, also one without rows."""
    spec = PICTURES[name].screen
    many = {table: records(columns) for table, columns in spec["datasets"].items()}

    sent = arrow.shown(spec, None).spec
    few = {
        table: pa.ipc.open_stream(io.BytesIO(rows)).read_all().to_pylist() for table, rows in sent["datasets"].items()
    }

    assert len(few) < len(many)
    assert drawn(sent, few) == drawn(spec, many)
