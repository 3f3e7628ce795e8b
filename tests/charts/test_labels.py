"""What a model that classifies makes of a sentence."""

import math

import pytest
from pictures import labels, labels_of, names, record_of, said

from attnviz import analysis, figures
from attnviz.core.errors import InputError
from attnviz.figures.outputs import MOST_LABELS, NO_NUMBERS, ONE_LABEL

TEXT = ["not", "bad"]
BEFORE, AFTER = labels_of(TEXT, [0.0, 0.0, math.log(2)]), labels_of(TEXT, [math.log(6), 0.0, 0.0])


def test_of_many_classes_the_most_probable_are_drawn_and_the_table_holds_all():
    record = labels_of(TEXT, [float(i) for i in range(40)], names=[f"n{i}" for i in range(40)])

    assert names(labels(record)) == [f"n{39 - i}" for i in range(MOST_LABELS)]
    assert f"the {MOST_LABELS} most probable of 40 labels" in said(labels(record))
    assert len(figures.labels(record).table) == 40


def test_a_single_class_is_the_logistic_function_of_its_number():
    record = labels_of(TEXT, [math.log(3)], names=["relevant"])

    assert analysis.labels(record)[0].probability == pytest.approx(0.75)
    assert ONE_LABEL in said(labels(record))


def test_numbers_words_and_arrays_of_labels():
    figure = figures.labels(AFTER, before=BEFORE)

    assert figure.name == "test-labels-not-bad"
    assert figure.table["probability"].tolist() == pytest.approx([0.75, 0.125, 0.125])
    assert figure.table["probability_before"].tolist() == pytest.approx([0.25, 0.25, 0.5])
    assert figure.arrays["labels"].tolist() == ["bad", "so so", "good"]
    assert figure.description.startswith("The most probable of 3 labels: “bad” 75.0% (before the change 25.0%), ")


def test_labels_that_are_no_numbers_and_models_without():
    broken = labels_of(TEXT, [math.nan] * 3)

    assert NO_NUMBERS in said(labels(broken))
    with pytest.raises(InputError, match="'test' does not classify"):
        labels(record_of(TEXT))
    with pytest.raises(InputError, match="different labels"):
        labels(BEFORE, before=labels_of(TEXT, [1.0], names=["x"]))
