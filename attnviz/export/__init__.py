"""Pictures as bytes: files that open anywhere, hold the exact numbers and ask the network for nothing."""

from attnviz.export.draw import ExportError, lacking, warm
from attnviz.export.formats import (
    FORMATS,
    NAMES,
    PRESETS,
    Format,
    everything,
    filename,
    formats_for,
    notes,
    render,
)
from attnviz.export.numbers import csv
