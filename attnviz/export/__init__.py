"""Export of pictures: files that open anywhere, contain the exact numbers and need no network."""

from attnviz.export.draw import ExportError, lacking, warm
from attnviz.export.formats import FORMATS, NAMES, PRESETS, Format, everything, filename, notes, render
from attnviz.export.numbers import csv
