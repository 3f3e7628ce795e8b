"""One input of any kind as a source: a record, or a function from edits to one."""

import pytest
import torch
from seeing import PICTURE, Sees, seen_by

import attnviz
from attnviz.check.leak_test import leak_test
from attnviz.core.edits import Edits, Site
from attnviz.core.errors import InputError
from attnviz.sources.own_code import Recorded
from attnviz.sources.saved import Saved
from attnviz.studies.ablation import sweep

SITE = Site("encoder", 0)


@pytest.fixture
def look():
    """A run of a model on a picture, with edits."""
    seen_by(model := Sees(), PICTURE)

    def look(edits):
        with torch.no_grad(), attnviz.capture(model, edits) as seen:
            model(PICTURE[None])
        return seen.record(places=(3, 5), image=PICTURE)

    return look


def test_a_function_of_edits_is_a_source(look):
    """Whatever the model reads: heads are switched off in it, and each head in turn."""
    source = Recorded.of(look)
    (text,) = source.examples
    off = attnviz.analyze(text, source, Edits(heads_off={(SITE, 1)}))

    assert (source.name, source.read_only, source.site_name(SITE)) == ("Sees", None, "encoder layer 0 · attention")
    assert attnviz.analyze(text, source).steps is source.record.steps
    assert off.step(SITE).is_off(1)
    assert not torch.equal(off.output, source.record.output)
    assert len(sweep(source, source.tokenize([text])).heads) == 3


def test_a_record_reads_its_own_text_alone(look):
    """A change acts on its attention, and it says how far that reaches."""
    source = Saved("one run", look(Edits()))
    (text,) = source.examples

    assert "the rest of the model is not in the file" in source.alone
    assert attnviz.analyze(text, source, Edits(temperature=2.0)).step(SITE).scoring.temperature == 2
    with pytest.raises(InputError, match="the rest of the model is not in the file"):
        sweep(source, source.tokenize([text]))
    with pytest.raises(InputError, match="holds one run"):
        attnviz.analyze("another text", source)


def test_what_changes_tokens_is_refused(look):
    """A leak test would say of a picture that nothing moved, as its tokens are names alone."""
    source = Recorded.of(look)
    with pytest.raises(InputError, match="holds one run"):
        leak_test(source)


def test_a_function_that_gives_something_else_is_refused(look):
    with pytest.raises(InputError, match="it takes Edits and gives a Record"):
        Recorded.of(lambda edits: 3)
    with pytest.raises(InputError, match=r"Line \d+ of test_recorded\.py raised ZeroDivisionError"):
        Recorded.of(lambda edits: 1 / 0)
