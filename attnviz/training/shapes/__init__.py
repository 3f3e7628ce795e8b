"""The vision model that says where a red shape is, seen from a blue one: its pictures, its training and its evidence."""

from attnviz.training.shapes.recipe import RECIPE
from attnviz.training.shapes.report import card
