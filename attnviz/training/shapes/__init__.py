"""The vision model that says where a red shape is, seen from a blue one."""

from attnviz.training.shapes.recipe import RECIPE
from attnviz.training.shapes.report import card
