"""Large maps on the screen."""

import json
import math
import re
import struct
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
import torch
import vl_convert
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from pictures import SITE, record_of

from attnviz import figures
from attnviz.charts.pixels import Number
from attnviz.core.masks import And, Not, Or, Prefix, Random, Strided, Subsequent, Window
from attnviz.ui import readout
from attnviz.ui.readout import FORMATS, number_of


def screen(drawn):
    spec, table = readout.vega(drawn)
    return spec, pd.DataFrame(table, dtype=object)


def head(record, head=0, **options):
    return figures.head(record, SITE, head, on_screen=True, **options).drawing


def mask_of(mask, *tokens, **options):
    return figures.mask(mask, *tokens, on_screen=True, **options).drawing


def read(drawn):
    """Return the state and the numbers of every cell as a browser decodes them, as (rows, columns) arrays."""
    _, table = screen(drawn)
    sayings = table.loc[table["kind"] == "state_texts", "name"].to_numpy()
    (cells,) = json.loads(map_of(table)["numbers"].json("here"))
    assert cells.pop("of") == "here"
    codes = [int(code, 16) for code in pieces(cells.pop("state_code"), drawn)]
    numbers = {
        name: np.array([struct.unpack(">f", bytes.fromhex(one)) for one in pieces(digits, drawn)])
        for name, digits in cells.items()
    }
    return sayings[np.array(codes).reshape(drawn.squares.states.shape)], {
        name: values.reshape(drawn.squares.states.shape) for name, values in numbers.items()
    }


def map_of(table):
    """The row of the table that is the map."""
    (row,) = table[table["kind"] == "meta"].to_dict("records")
    return row


def pieces(digits, drawn):
    """The equal parts of the digits of all cells, one for each, row by row."""
    long, rest = divmod(len(digits), drawn.squares.states.size)
    assert not rest
    return [digits[i : i + long] for i in range(0, len(digits), long)]


def blame(mask, queries, keys):
    """Why each cell is blocked, rule by rule and cell by cell."""
    places = torch.arange(queries)[:, None], torch.arange(keys)
    blockers = mask.blockers(places[0][None], places[1][None, None], torch.zeros(1, 1, 1, dtype=torch.int64))
    every = [(rule, blocked.expand(1, queries, keys)[0].tolist()) for rule, blocked in blockers.items()]
    return [
        [" and ".join(rule for rule, blocked in every if blocked[i][j]) for j in range(keys)] for i in range(queries)
    ]


def said(reason):
    return f"blocked by {reason}" if reason else "may attend"


RULES = st.one_of(
    st.integers(1, 4).flatmap(lambda n: st.builds(Random, st.integers(0, n), st.just(n), st.integers(0, 10**5))),
    st.builds(Subsequent, st.integers(-5, 5)),
    st.builds(Window, st.integers(0, 20), st.integers(0, 20)),
    st.builds(Prefix, st.integers(0, 20)),
    st.builds(Strided, st.integers(1, 4)),
)


@given(st.lists(RULES | st.tuples(RULES, RULES).map(Or) | RULES.map(Not), min_size=1, max_size=16), st.integers(33, 41))
@examples(30)
def test_every_cell_of_a_stack_names_the_rules_that_block_it(stack, n):
    """However many rules there are, and however many of their combinations occur."""
    mask = And(tuple(stack))
    reasons = blame(mask, n, n)

    sayings, _ = read(mask_of(mask, ["w"] * n))

    assert sayings.tolist() == [[said(reason) for reason in row] for row in reasons]


@given(arrays(np.float32, (33, 35), elements=st.floats(width=32)))
@examples(25)
def test_numbers_travel_to_their_last_bit(values):
    """Infinite ones, those that are none, and those that are next to nothing among them."""
    drawn = mask_of(Subsequent(), ["w"] * 33, ["w"] * 35)

    def numbers_of(*numbers):
        return read(replace(drawn, squares=replace(drawn.squares, numbers=numbers)))[1]

    numbers = numbers_of(Number("weight", values, ".4f"), Number("score", -values, ".3f"))

    np.testing.assert_array_equal(numbers["weight"].astype(np.float32), values)
    np.testing.assert_array_equal(numbers["score"].astype(np.float32), -values)
    huge = numbers_of(Number("score", np.full(values.shape, 1e300), ""))  # is not infinite
    assert np.isfinite(huge["score"]).all()


HARD = (0.0, -0.0, 1.0, -1.0, 0.1, 2**-149, -(2**-127), 2**-126, 1 / 128, 123456.789, -1e9, 3.4028234e38, 1e-7)


@given(st.lists(st.floats(width=32), min_size=1, max_size=60))
@examples(5)
def test_a_browser_reads_the_digits_of_any_float32(values):
    """Vega decodes bits to the decimal that lies nearest; what is no number, or infinite, says so."""
    values = np.array([*values, *HARD, math.inf, -math.inf, math.nan], np.float32)
    for form, places in (".6f", 6), (FORMATS["score"], 3):
        texts = decoded([struct.pack(">f", value).hex() for value in values], form)

        for value, text in zip(values.tolist(), texts, strict=True):
            if math.isfinite(value):
                apart = abs(Decimal(text.replace("−", "-")) - Decimal(value))
                assert apart <= max(Decimal(5).scaleb(-places - 1), abs(Decimal(value)).scaleb(-15)), (value, text)
            else:
                assert text == {math.inf: "∞", -math.inf: "−∞"}.get(value, "NaN")


@pytest.mark.parametrize("kind", [">u1", ">u2", ">u4"])
@given(st.data())
@examples(3)
def test_a_browser_reads_the_number_of_each_cell(kind, data):
    """However many digits it takes."""
    cells = data.draw(arrays(kind, st.integers(1, 40)))

    every = re.sub(r"\bat\b", "datum.at", readout._cell_code("datum.cells", len(cells), "at < 0"))
    assert texts_of([{"cells": cells.tobytes().hex(), "at": i} for i in range(-1, len(cells))], [("text", every)]) == [
        "0",
        *map(str, cells.tolist()),
    ]


def decoded(codes, form):
    """Decode hexadecimal codes as Vega does with the expression of the screen."""
    steps = [("bits", "toNumber('0x' + datum.code)"), ("text", number_of("datum.bits", form))]
    return texts_of([{"code": code} for code in codes], steps)


def texts_of(rows, steps):
    """Return the field "text" of each row after Vega has computed some formulas."""
    update = {"text": {"field": "text"}, "y": {"field": "y"}}
    values = [{"y": 20 * i} | row for i, row in enumerate(rows)]
    transform = [{"type": "formula", "as": name, "expr": how} for name, how in steps]
    spec = {
        "data": [{"name": "codes", "values": values, "transform": transform}],
        "marks": [{"type": "text", "from": {"data": "codes"}, "encode": {"update": update}}],
    }
    return re.findall("<text[^>]*>([^<]*)</text>", vl_convert.vega_to_svg(spec))


def test_the_readout_says_what_the_table_says():
    """Plus infinity, minus infinity and no number are each one thing in the readout, the tooltip and the table."""
    odd = {(0, 0, 1): math.nan, (0, 1, 0): -math.inf, (0, 2, 2): math.inf}
    record = record_of(["w"] * 60, scores=odd)
    drawn = head(record)

    sayings, numbers = read(drawn)
    cells, table = drawn._cells(), figures.head(record, SITE, 0).table

    for name in ("weight", "score"):
        np.testing.assert_array_equal(numbers[name].ravel().astype(np.float32), table[name])
        shown = {math.inf: "∞", -math.inf: "−∞"}
        odd = [None if math.isfinite(v) else shown.get(v, "NaN") for v in table[name].tolist()]
        assert [t if o else None for t, o in zip(cells[f"{name}_text"], odd, strict=True)] == odd
    assert cells["says"] == sayings.ravel().tolist()
    assert [sayings[at] for at in ((0, 1), (1, 0), (2, 2))] == [
        "NaN: not a number", "score: minus infinity", "NaN: not a number"
    ]  # fmt: skip


@pytest.mark.parametrize("length", [513, 1030])
def test_a_tile_tells_where_its_largest_weight_stands(length):
    record = record_of([f"t{i}" for i in range(length)])
    drawn = head(record)
    _, table = screen(drawn)
    weights, tile = record.step(SITE).weights(0).numpy(), drawn.size.tile

    offsets = np.array([int(one, 16) for one in pieces(map_of(table)["offset"], drawn)]).reshape(
        drawn.squares.states.shape
    )

    for row in range(0, len(offsets), 97):
        for column in range(0, len(offsets), 89):
            part = weights[row * tile : (row + 1) * tile, column * tile : (column + 1) * tile]
            assert part[divmod(offsets[row, column], tile)] == part.max()
