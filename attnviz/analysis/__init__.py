"""Arrays and tables that are read off records, without running a model."""

from attnviz.analysis import steps
