"""Numbers of one or more records: what can be computed without running a model."""

from attnviz.analysis import steps
