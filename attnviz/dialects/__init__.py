"""The same mask in every dialect: as a tensor, as code to paste, and as the wrong reader would take it."""

from attnviz.dialects.dialect import DIALECTS, Dialect, dialect
from attnviz.dialects.handing import Handed, Note, handed_to
