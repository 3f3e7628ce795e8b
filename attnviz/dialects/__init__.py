"""The same mask in every dialect: as a tensor, as code to paste, and as the wrong reader would take it."""

from attnviz.dialects.alignments import Aligned, alignments
from attnviz.dialects.dialect import DIALECTS, Dialect, dialect
from attnviz.dialects.handing import Handed, Note, handed_to

__all__ = ["DIALECTS", "Aligned", "Dialect", "Handed", "Note", "alignments", "dialect", "handed_to"]
