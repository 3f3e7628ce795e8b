"""Tables in Arrow format, as Streamlit sends them to the browser, built directly from columns.

The conversion through pandas took a third of the time of a click.
"""

from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import pyarrow as pa

from attnviz.charts.marks import Table
from attnviz.charts.readout import CellNumbers

CELLS: WeakValueDictionary[str, CellNumbers] = WeakValueDictionary()
"""Cell values of cached charts, by URL."""


class Screen(NamedTuple):
    """Chart specification with its tables in Arrow, its data table, and the cell values that a browser requests."""

    spec: dict[str, Any]
    data: pa.Table | None
    cells: CellNumbers | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of the tables; the rest of the specification is shared by all figures of the same form."""
        tables = self.spec.get("datasets", {}).values()
        return sum(map(len, tables)) + sum(part.nbytes for part in (self.data, self.cells) if part is not None)

    @classmethod
    def of(cls, spec: dict[str, Any], data: Table | None) -> "Screen":
        """Convert the columns of a figure's specification and data to Arrow."""
        if data is None:
            return cls(spec | {"datasets": {name: _bytes(table) for name, table in spec["datasets"].items()}}, None)
        cells = next(filter(None, data["read"]))
        address = f"cells/{cells.name}.json"
        cells = CELLS.setdefault(address, cells)
        return cls(spec, pa.table(data | {"read": [readout and address for readout in data["read"]]}), cells)


def _bytes(table: Table | bytes) -> bytes:
    if isinstance(table, bytes):
        return table
    arrow, sink = pa.table(table), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, arrow.schema) as stream:
        stream.write_table(arrow)
    return sink.getvalue().to_pybytes()
