"""The parts of a logit: they sum to it whatever was edited, and are what hooks on the modules say in float64."""

import re

import pandas as pd
import pytest
import tiny
import torch
from hypothesis import given
from hypothesis import strategies as st
from rules import rules

import attnviz
from attnviz import Edits, Site, analysis, api
from attnviz.core.errors import Canceled, InputError
from attnviz.studies import ablation

TEXTS = {
    "induction": "The cat sat down. The cat sat",
    "story": "the girl near the dogs was happy because she",
    "translator": "the black cat sleeps on the red chair .",
}
MODELS = pytest.mark.parametrize("name", [*TEXTS])


def record_of(name, edits=Edits(), text=None):
    return attnviz.analyze(text or TEXTS[name], name, edits, stream=True)


@MODELS
@given(data=st.data())
def test_the_parts_sum_to_the_logit_after_each_token_whatever_is_edited(name, data):
    """For any word or difference of two words, with heads off, a temperature and any mask; in float64, to 1e-6."""
    source = api.load(name)
    heads = st.sampled_from([(site, head) for site in source.sites for head in range(source.num_heads)])
    off, mask = data.draw(st.frozensets(heads, max_size=3)), data.draw(st.none() | rules(batch=1, longest=9))
    edits = Edits(mask=mask, heads_off=off, temperature=data.draw(st.floats(0.2, 5)), mask_cross=False)
    with tiny.in_float64():
        record = attnviz.analyze(TEXTS[name], source, edits, stream=True)
    logits = record.prediction.logits[0].double()
    words = st.integers(0, logits.shape[-1] - 1).filter(lambda word: logits[0, word].isfinite())

    for position in range(record.read[0].length):
        token, minus = data.draw(words), data.draw(st.none() | words)
        found = analysis.contributions(record, token, position, minus=minus)
        logit = float(logits[position, token] - (0 if minus is None else logits[position, minus]))
        assert found.logit == pytest.approx(logit, abs=1e-9)
        assert found.table["contribution"].sum() == pytest.approx(logit, abs=1e-6)
        assert found.residual == pytest.approx(logit - found.table["contribution"].sum(), abs=1e-9)
        assert found.summary["contribution"].sum() == pytest.approx(found.table["contribution"].sum(), abs=1e-9)
        assert [
            found.heads.set_index(["kind", "layer", "head"])["contribution"].get((s.kind, s.layer, h), 0.0)
            for s, h in off
        ] == [0.0] * len(off)


@MODELS
def test_a_logit_falls_with_a_head_off_as_in_a_run_of_its_own(name, monkeypatch):
    """A decoder reads the same words; heads that are off already are left out; a few copies in one run."""
    monkeypatch.setattr(ablation, "TOKENS", 40)
    source, edits = api.load(name), Edits(heads_off={(api.load(name).sites[-1], 0)})
    sentences = source.tokenize([TEXTS[name], "the dog"])
    before = source.run(sentences, edits)
    words = {"token": 9, "minus": 5, "position": 2, "sentence": 1}
    falls = ablation.logit_falls(source, sentences, edits, **words)

    heads = [(site, head) for site in source.sites for head in range(source.num_heads)]
    assert [*zip(falls["site"], falls["head"], strict=True)] == [
        (str(s), h) for s, h in heads if (s, h) not in edits.heads_off
    ]
    for row in falls.iloc[::3].itertuples():
        off = Edits(heads_off=edits.heads_off | {(Site(row.kind, row.layer), row.head)})
        after = source.run(sentences, off, before.targets if source.writes else ())
        old, new = (run.prediction.logits[1, 2].double() for run in (before, after))
        assert row.fall == pytest.approx(float((old - new)[9] - (old - new)[5]), abs=1e-4)
    with pytest.raises(Canceled):
        ablation.logit_falls(source, sentences, edits, lambda done, count: False)


@pytest.mark.parametrize(("dtype", "step"), [(torch.bfloat16, 2**-4), (torch.float16, 2**-7), (torch.float32, None)])
def test_logits_of_half_precision_come_in_steps(dtype, step):
    """The distance of two neighbors of the largest, between 8 and 16; and the answer says it."""
    logits = torch.linspace(-9, 12.3, 500).to(dtype).float()

    assert ablation.step_of(logits) == step
    falls = pd.DataFrame({"kind": ["decoder"], "layer": [1], "head": [0], "fall": [0.5]})
    falls.attrs["step"] = step
    assert ("in steps of" in analysis.contributions(record_of("induction")).in_words(falls)) == (step is not None)


@pytest.mark.parametrize(
    ("fall", "says"),
    [
        (-1.0, "does not fall (it rises by 1.00): other parts make up for all of it"),
        (2.83, "falls by 2.83: other parts make up for 50% of what the head adds"),
        (5.5, "falls by 5.50, about as much as the head adds: nothing replaces it"),
        (9.0, "falls by 9.00, more than the head adds: later parts also use its output"),
    ],
)
def test_the_answer_says_whether_others_replace_the_head(fall, says):
    """By the part of what it adds that is lost without it."""
    found = analysis.contributions(record_of("induction"))
    falls = pd.DataFrame({"kind": ["decoder"], "layer": [1], "head": [0], "fall": [fall]})

    answer = found.in_words(falls)
    assert answer.startswith("Head 0 of decoder layer 1 adds most to “down”: 5.41 of the logit 9.50. With this head ")
    assert says in answer


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"token": "dwon"}, "'induction' has no token 'dwon'. Did you mean 'down'?"),
        ({"token": 10_000}, "There is no word with the id 10000"),
        ({"minus": "dwon"}, "Did you mean 'down'?"),
        ({"position": 9}, "There is no position 9; there are 9, counted from 0."),
    ],
)
def test_what_is_not_there_is_refused(arguments, why):
    with pytest.raises(InputError, match=re.escape(why)):
        analysis.contributions(record_of("induction"), **arguments)


def test_runs_without_parts_are_refused_in_a_sentence():
    """No stream, no prediction, a word that cannot be written, no numbers at all."""
    nothing = Edits(mask=attnviz.mask("~full"), empty_rows="nan")
    for make, why in (
        (lambda: analysis.contributions(attnviz.analyze("a cat", "story")), "stream=True"),
        (lambda: record_of("scratch", text="a cat"), "predicts no words"),
        (lambda: analysis.contributions(record_of("translator"), "<sos>"), "choose another word"),
        (lambda: record_of("story", nothing), "are NaN or infinite"),
    ):
        with pytest.raises(InputError, match=why):
            make()
