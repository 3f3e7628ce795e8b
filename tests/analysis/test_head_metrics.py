"""Metrics of heads, compared with heads set by hand and with loops over every cell in float64."""

import math
from dataclasses import replace

import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pictures import translation_of

from attnviz.analysis import batch
from attnviz.analysis.heads import METRICS, head_metrics, seconds
from attnviz.core.edits import Edits, Site
from attnviz.core.masks import Painted, Subsequent
from attnviz.core.record import Record
from attnviz.core.tap import Tap
from attnviz.core.tokens import Sentence, Token

NAMES = [one.name for one in METRICS]


def text_record(ids, *, heads=2, kind="encoder", special=(), length=None, edits=Edits(), seed=0):
    """Random attention over tokens that may come twice; those from `length` on are padding."""
    n, length = len(ids), length or len(ids)
    tokens = tuple(Token(f"t{id}", id, 0, 0, special=i >= length) for i, id in enumerate(ids))
    tokens = tuple(replace(t, id=100, special=True) if i in special else t for i, t in enumerate(tokens))
    generator = torch.Generator().manual_seed(seed)
    query, key, value = (torch.randn(1, heads, n, d, generator=generator) for d in (5, 5, 3))
    mask = (torch.arange(n) < length).expand(n, n)
    tap = Tap(edits)
    output = tap.attend(query, key, value, site=Site(kind, 0), mask=mask if length < n else None)
    sentence = Sentence("", tokens, length)
    return Record((sentence,), "test", "random", edits, tuple(tap.steps), output.transpose(1, 2).flatten(2))


def naive(record, head):
    """Every metric of self-attention as its formula says, cell by cell."""
    step, sentence = record.steps[0], record.sentences[0]
    weights = step.weights(head).tolist()
    tokens, n, causal = sentence.tokens, sentence.length, step.site.kind == "decoder"
    values = [math.hypot(*row) for row in step.value[0, head].tolist()]
    outputs = [[math.hypot(*row) for row in step.output(h).tolist()] for h in range(step.num_heads)]
    open = step.may_attend(head).tolist()
    empty = [step.empty_queries(h).tolist() for h in range(step.num_heads)]
    rows = [i for i in range(n) if not empty[head][i]]
    every = [i for i in range(n) if not any(one[i] for one in empty)]

    def twin(i, j):
        typed = 0 <= j < n and not tokens[i].special and tokens[i].id == tokens[j].id
        return typed and (j < i if causal else j != i)

    def mean(found):
        found = list(found)
        return sum(found) / len(found) if found else None

    def share(keys):
        return mean(sum(weights[i][j] for j in keys(i)) for i in rows if keys(i))

    entropies = [-sum(w * math.log(w) for w in weights[i] if w) for i in rows]
    return {
        "entropy": mean(entropies),
        "effective_keys": mean(map(math.exp, entropies)),
        "evenness": sum(entropies) / widest if (widest := sum(math.log(max(1, sum(open[i]))) for i in rows)) else None,
        "confidence": mean(max(weights[i]) for i in rows),
        "distance": mean(sum(w * abs(i - j) for j, w in enumerate(weights[i])) for i in rows),
        "local": mean(sum(w for j, w in enumerate(weights[i]) if abs(i - j) <= 2) for i in rows),
        "self": share(lambda i: [i]),
        "previous": share(lambda i: [i - 1] if i else []),
        "next": share(lambda i: [i + 1] if i + 1 < n else []),
        "first": share(lambda i: [0] if i else []),
        "special": share(lambda i: [j for j in range(n) if tokens[j].special]),
        "duplicate": share(lambda i: [j for j in range(n) if twin(i, j)]),
        "induction": share(lambda i: [j for j in range(n) if twin(i, j - 1)]),
        "value_weighted": mean(sum(w * v for w, v in zip(weights[i], values, strict=True)) for i in rows),
        "output_share": mean(outputs[head][i] / sum(one[i] for one in outputs) for i in every),
    }


@given(
    ids=st.lists(st.integers(0, 4), min_size=1, max_size=11),
    kind=st.sampled_from(["encoder", "decoder"]),
    padding=st.integers(0, 3),
    special=st.booleans(),
    emptied=st.booleans(),
    seed=st.integers(0, 50),
)
def test_every_metric_is_what_its_formula_says(ids, kind, padding, special, emptied, seed):
    """Padding, and rows with no key left, are in no mean; a number is missing just where there is nothing to count."""
    mask = Subsequent() if kind == "decoder" else None
    if emptied:
        shut = Painted(tuple((len(ids) - 1, key) for key in range(len(ids) + padding)))
        mask = shut if mask is None else mask & shut
    record = text_record(
        [*ids, *[9] * padding],
        kind=kind,
        special={0} if special else (),
        length=len(ids),
        edits=Edits(mask=mask),
        seed=seed,
    )
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(batch, "NEAR", 2)
        table = head_metrics(record)

    assert table["rows"].tolist() == [len(ids) - emptied] * 2
    assert table["left_out"].tolist() == [int(emptied)] * 2
    for head in range(2):
        numbers = naive(record, head)
        assert numbers.keys() == {*NAMES}
        for name, expected in numbers.items():
            found = table[name][head]
            if expected is None:
                assert found is pd.NA, name
            else:
                assert found == pytest.approx(expected, abs=1e-5), name
    assert not any(math.isnan(x) for name in NAMES for x in table[name].dropna())


def test_a_query_that_is_no_number_leaves_the_other_rows_as_they_are():
    """As if its row had no key left."""
    ids = [1, 2, 1, 3, 2]
    whole = text_record(ids)
    step = whole.steps[0]
    query, sums = step.query.clone(), step.logsumexp.clone()
    query[0, 0, 2], sums[0, 0, 2] = math.nan, math.nan
    broken = head_metrics(replace(whole, steps=(replace(step, query=query, logsumexp=sums),)))
    shut = head_metrics(text_record(ids, edits=Edits(mask=Painted(tuple((2, key) for key in range(5))))))

    rest = [name for name in NAMES if name != "output_share"]
    pd.testing.assert_frame_equal(broken[rest].iloc[:1], shut[rest].iloc[:1])
    assert broken["left_out"].tolist() == [1, 0]


def test_cross_attention_and_a_sink_measure_what_a_loop_does():
    """A sink takes weight and stands nowhere; of cross-attention what has no place among the keys is missing."""
    generator, tap, n = torch.Generator().manual_seed(1), Tap(), 5
    query, key, value = torch.randn(3, 1, 2, n, 5, generator=generator).unbind()
    plain = text_record([1, 2, 1, 3, 1])
    tap.attend(query, key, value, site=Site("decoder", 0), mask=Subsequent(), sinks=torch.tensor([0.5, 2.0]))
    table = head_metrics(replace(plain, steps=tuple(tap.steps)))
    crossed = translation_of("the black cat".split(), {"le": 0.9, "chat": 0.1}, {"chat": 1.0})
    cross = head_metrics(crossed)

    for head in range(2):
        rows = tap.steps[0].weights(head).double().tolist()
        far = [sum(w * (i - j) for j, w in enumerate(row[:n])) / sum(row[:n]) for i, row in enumerate(rows)]
        assert table["distance"][head] == pytest.approx(sum(far) / n, abs=1e-6)
        assert table["special"][head] == pytest.approx(sum(row[n] for row in rows) / n, abs=1e-6)
    rows = crossed.steps[0].weights(0).double().tolist()
    assert cross["first"][0] == pytest.approx(sum(row[0] for row in rows) / len(rows), abs=1e-6)
    assert cross["confidence"][0] == pytest.approx(sum(map(max, rows)) / len(rows), abs=1e-6)
    assert cross["distance"].isna().all()


def test_what_a_record_does_not_hold_is_missing_and_the_rest_is_there():
    """A model that is read only has no queries, keys and values; cross-attention has no distances."""
    read_only = head_metrics(replace(text_record([1, 2, 1, 2]), read_only=True))
    cross = head_metrics(translation_of("the black cat".split(), {"le": 0.9, "chat": 0.1}, {"chat": 1.0}))
    needing = [one.name for one in METRICS if one.needs != "weights"]

    assert needing == ["value_weighted", "output_share"]
    assert read_only[needing].isna().all(axis=None)
    assert read_only[["entropy", "induction", "previous"]].notna().all(axis=None)
    for one in METRICS:
        if "cross" not in one.kinds:
            assert cross[one.name].isna().all()
    assert cross[["entropy", "first", "value_weighted"]].notna().all(axis=None)


def test_some_numbers_are_measured_alone_and_it_is_said_how_far_that_is():
    """The others are missing; the last thing that is said is that all weights are measured."""
    record, said = text_record([0, 1, 2, 0, 1], seed=1), []

    table = head_metrics(record, names=("confidence",), report=lambda done, of: said.append((done, of)))

    assert table["confidence"].tolist() == head_metrics(record)["confidence"].tolist()
    assert table["entropy"].isna().all()
    assert said[-1] == (50, 50)
    assert seconds(record) > 0
