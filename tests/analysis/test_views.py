"""Views: pieces merged into words, special tokens left out, pairs taken apart."""

import math
import re
from dataclasses import replace

import numpy as np
import pytest
from allocations import Held
from hypothesis import given
from hypothesis import strategies as st
from pictures import SITE, record_of

from attnviz import analysis, figures
from attnviz.analysis import sentences, tables, views
from attnviz.analysis.views import READ_ONLY, View, groups
from attnviz.core.edits import Edits
from attnviz.core.errors import InputError
from attnviz.core.masks import Painted, Subsequent, Window
from attnviz.core.tokens import Token

WORDS = View(words=True)
UN = ["<s>", "un", "like", "ly", "good", "</s>"]


def tokens_of(pieces, *, joined=(), special=(), second=()):
    return tuple(
        Token(text, i, 0, 0, special=i in special, joined=i in joined, segment=int(i in second))
        for i, text in enumerate(pieces)
    )


def record_with(pieces, *, edits=Edits(), scores=None, heads=2, **marks):
    record = record_of(pieces, edits=edits, scores=scores, heads=heads)
    sentence = replace(record.sentences[0], text="", tokens=tokens_of(pieces, **marks))
    return replace(record, sentences=(sentence,))


def unlikely(**settings):
    return record_with(UN, joined={2, 3}, special={0, 5}, **settings)


@st.composite
def records(draw, **fixed):
    """Records of 1 to 9 tokens of any marks, with any cells blocked."""
    n = draw(st.integers(1, 9))
    some = st.sets(st.integers(0, n - 1))
    marks = {name: fixed.get(name, draw(some)) for name in ("joined", "special", "second")}
    blocked = draw(st.sets(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1))))
    empty_rows = draw(st.sampled_from(["zero", "nan", "uniform"]))
    return record_with(["w"] * n, edits=Edits(mask=Painted(tuple(blocked)), empty_rows=empty_rows), **marks)


HEADS = st.sampled_from([0, 1, *analysis.AGGREGATIONS])


def seen(record, view=View(), **window):
    return views.see(record, SITE, view=view, **window)


SENTENCES = View(sentences=True)


@st.composite
def texts(draw):
    """Records of one to nine words, some of which end a sentence."""
    words = draw(st.lists(st.sampled_from(["a", "b.", "c!", "d"]), min_size=1, max_size=9))
    blocked = draw(st.sets(st.tuples(st.integers(0, 8), st.integers(0, 8))))
    return record_of(words, edits=Edits(mask=Painted(tuple(blocked))))


@given(
    record=texts(),
    head=HEADS,
    view=st.builds(
        View, st.booleans(), st.sampled_from(views.SPECIAL), sentences=st.booleans(), parts=st.sampled_from((0, 0, 3))
    ),
    ends=st.tuples(st.integers(0, 8), st.integers(1, 9)),
    block=st.tuples(st.integers(1, 4), st.integers(1, 4)),
)
def test_a_view_is_the_same_however_its_map_is_cut_up(record, head, view, ends, block):
    """Against the whole matrix: the sums in float64, and a cell is open where any that it stands for is."""
    step = record.step(SITE)
    weights = analysis.weights_of(step, head).double().numpy()
    is_open = analysis.may_attend(step, head).numpy()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("attnviz.analysis.blocks.HEIGHT", block[0])
        patched.setattr("attnviz.analysis.blocks.WIDTH", block[1])
        found, window = seen(record, view), seen(record, view, rows=slice(*ends))
        cells = found.cells([head])[0]

        assert len(window.queries) == 0 or np.allclose(
            window.cells([head])[0].weights, cells.weights[np.isin(found.queries.starts, window.queries.starts)]
        )
    rows, columns = (
        [slice(*span) for span in zip(side.starts, side.stops, strict=True)] for side in (found.queries, found.keys)
    )
    expected = np.array([[weights[row, column].sum(1).mean() for column in columns] for row in rows])
    assert cells.weights == pytest.approx(expected, abs=1e-5)
    for i, (top, bottom) in enumerate(zip(found.queries.starts, found.queries.stops, strict=True)):
        for j, (left, right) in enumerate(zip(found.keys.starts, found.keys.stops, strict=True)):
            assert (cells.blocked[i, j] == 0) == is_open[top:bottom, left:right].any()


@pytest.mark.parametrize("view", [SENTENCES, View(words=True)])
def test_one_sentence_of_many_tokens_is_never_held_as_a_whole_map(view):
    """Neither of the weights nor of a mask."""
    n = 2_500

    def one(n):
        record = record_with(["w"] * n, joined=set(range(1, n)), edits=Edits(mask=Subsequent()), heads=1)
        tokens = record.sentences[0].tokens
        with Held() as held:
            found = seen(record, view).cells([0])[0]
            _, blocked = views.see_mask(Subsequent(), tokens, tokens, view=view).blocked()
        return found, blocked, held

    one(2)
    found, blocked, held = one(n)

    assert found.weights == pytest.approx(1.0)
    assert blocked.tolist() == [[0]]
    assert max(held.tensor, held.arrays) < n * n


@pytest.mark.parametrize(
    ("text", "cut", "sentences"),
    [
        ("He said: 'No.' Then he left! Why?", " ", ["He said: 'No.'", "Then he left!", "Why?"]),
        ("3.5 is more than 3. So", "", ["3.5 is more than 3.", "So"]),
        ("Title\nText goes on\n\nmore", " ", ["Title", "Text goes on", "more"]),
        ("你好。他说：「好！」走", "", ["你好。", "他说：「好！」", "走"]),
        ("no end", " ", ["no end"]),
    ],
)
def test_sentences_end_where_a_reader_says_they_do(text, cut, sentences):
    """The text between tokens decides for words and for single characters, not the words that a tokenizer joins."""
    spans = [match.span() for match in re.finditer(r"\S+" if cut else r"\S", text)]
    tokens = tuple(Token(text[a:b], 0, a, b) for a, b in spans)

    assert list(groups(tokens, SENTENCES, text).labels) == sentences


@pytest.mark.parametrize("view", [WORDS, SENTENCES, View(parts=1)])
def test_nothing_is_merged_over_a_border_of_roles(view):
    """A role begins a word, a sentence and a part, even within a word: of "un|like|ly" the answer is "ly"."""
    tokens = tokens_of(["un", "like", "ly", "good"], joined={1, 2, 3})
    tokens = tuple(replace(token, role="answer" if i > 1 else "") for i, token in enumerate(tokens))
    merged = groups(tokens, view)

    assert (merged.starts.tolist(), merged.stops.tolist()) == ([0, 2], [2, 4])
    assert merged.roles == ("prompt", "answer")


def test_empty_rows_and_nan_survive():
    """A word whose pieces all have no key left is an empty row; one with a NaN is not a number."""
    empty = unlikely(edits=Edits(mask=Painted(tuple((q, k) for q in (1, 2, 3) for k in range(6)))))
    broken = unlikely(scores={(0, 2, 1): math.nan})

    assert seen(empty, WORDS).empty(0).tolist() == [False, True, False, False]
    assert (seen(empty, WORDS).cells([0])[0].states[1] == analysis.EMPTY).all()
    assert (seen(broken, WORDS).cells([0])[0].states[1] == analysis.NAN).all()
    assert "no key left" in sentences.cell(empty, SITE, 0, 2, 4, view=WORDS)
    assert "not a number" in sentences.cell(broken, SITE, 0, 1, 1, view=View(True, "hide"))


def test_a_view_that_leaves_nothing_says_so():
    with pytest.raises(InputError, match="special='away'; available: show, hide"):
        View(special="away")
    with pytest.raises(InputError, match="only special tokens"):
        seen(record_with(["<s>"], special={0}), View(special="hide"))


def test_each_cell_keeps_its_own_rule_however_few_rows_are_held(monkeypatch):
    """Rules that occur first in other rows have other numbers there, and the same names."""
    mask = Painted(((0, 1), (0, 2))) & Subsequent()
    record = record_with(["a", "b", "c", "d", "e"], joined={4}, edits=Edits(mask=mask))

    def rules():
        found = seen(record, WORDS).cells([0])[0]
        return np.array(("", *found.reasons), object)[found.blocked].tolist()

    once = rules()
    monkeypatch.setattr("attnviz.analysis.blocks.BLOCK", 1)
    assert rules() == once
    plain = analysis.cells(record.step(SITE), 0)
    assert once[1] == np.array(("", *plain.reasons), object)[plain.blocked][1, :4].tolist()


def test_a_model_that_is_read_only_has_no_scores():
    """Nothing shows one: not the picture, nor its legend, the table, the arrays; the picture says why once."""
    record = replace(record_of(["a", "b"], scores={(0, 0, 1): -math.inf}), read_only=True)

    for figure in (figures.head(record, SITE, 0), figures.heads(record, SITE)):
        assert figure.data["meta"]["subtitle"][0].replace("\n", " ").count(READ_ONLY) == 1
        assert READ_ONLY[1:] in figure.description
        assert figure.table["score"].isna().all()
        assert "scores" not in figure.arrays
        assert "minus infinity" not in str(figure.chart.to_dict())
    assert "score" not in figures.head(record, SITE, 0).chart.to_dict()["datasets"]["cells"][0]
    assert tables.weights_table(views.see(record, SITE), 1)["weight"].notna().all()
    assert analysis.cells(record.step(SITE), 0, scores=False).scores is None


@given(
    mask=st.sampled_from([Subsequent(), Window(2, 1), Subsequent() & Window(3), Painted(((3, 2), (0, 0)))]),
    rows=st.tuples(st.integers(0, 6), st.integers(7, 11)),
    columns=st.tuples(st.integers(0, 6), st.integers(7, 11)),
    tile=st.integers(1, 4),
)
def test_a_window_of_a_mask_is_a_part_of_it(mask, rows, columns, tile):
    """Cell by cell; of tiles a square is open where any of its cells is, and its rule is that of its first."""
    tokens = tokens_of(["w"] * 11)
    reasons, codes = mask.reasons(11, 11)
    rows, columns = slice(*rows), slice(*columns)
    every = np.array(("", *reasons), object)[codes.numpy()][rows, columns]

    part = views.see_mask(mask, tokens, tokens, rows=rows, columns=columns)
    names, blocked = part.blocked(tile)
    found = np.array(("", *names), object)[blocked]

    assert (
        part.window
        == f"queries {rows.start} to {rows.stop - 1} of 11, keys {columns.start} to {columns.stop - 1} of 11"
    )
    assert part.open_keys.tolist() == (every == "").sum(1).tolist()
    for i, row in enumerate(found):
        for j, rule in enumerate(row):
            square = every[i * tile : (i + 1) * tile, j * tile : (j + 1) * tile]
            assert rule == ("" if (square == "").any() else square[0, 0])
