"""Files and pasted text become the arrays that they hold; every bad one gives a sentence, and none is unpickled."""

import io
import json
import pickle
import resource
import tracemalloc
import zipfile

import numpy as np
import pytest
import torch
from arrays import additive, causal, weights
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of
from safetensors.torch import save

from attnviz.check import check, reading
from attnviz.core.errors import InputError


class Bomb:
    """Object that reports when it is unpickled."""

    def __reduce__(self):
        return (exec, ("raise SystemExit('unpickled')",))


def npy(array, **options):
    file = io.BytesIO()
    np.save(file, array, **options)
    return file.getvalue()


def npz(**arrays):
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    return file.getvalue()


def packed(**members):
    """Return a compressed ZIP of these files."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name.replace("__", "."), content)
    return file.getvalue()


def only(given):
    (array,) = given.chosen().values()
    return array


NUMBERS = arrays_of.array_shapes(min_dims=1, max_dims=4, max_side=4).flatmap(
    lambda shape: st.one_of(
        arrays_of.arrays(np.bool_, shape),
        arrays_of.arrays(np.int64, shape, elements=st.integers(-9, 9)),
        arrays_of.arrays(np.float64, shape),
        arrays_of.arrays(np.float16, shape),
    )
)


@given(array=NUMBERS)
def test_arrays_come_back_from_files(array):
    """Bit by bit, through npy, npz and safetensors; NaN and infinities too."""
    files = {
        "a.npy": npy(array),
        "a.npz": npz(weights=array),
        "a.safetensors": save({"mask": torch.from_numpy(array.copy())}),
    }
    for name, content in files.items():
        found = np.asarray(only(reading.read_file(name, content)))

        assert found.dtype == array.dtype
        assert found.shape == array.shape
        assert found.tobytes() == array.tobytes()


@given(array=NUMBERS)
def test_arrays_come_back_from_text(array):
    """As JSON with NaN and Infinity, as Python prints lists, and, of two axes, as CSV."""
    texts = [json.dumps(array.tolist()), str(array.tolist())]
    if array.ndim == 2:
        texts.append("\n".join(",".join(map(str, row)) for row in array.tolist()))
    for text in texts:
        assert np.array_equal(only(reading.read_text(text)), array, equal_nan=array.dtype.kind == "f")


@pytest.mark.parametrize(
    "tensor",
    [
        causal(5),
        causal(3).long(),
        weights()[0, 0],
        weights(),
        additive(causal(4)),
        torch.eye(3) * 1e-7,
        causal(4)[None],
    ],
)
@pytest.mark.parametrize("printed", [repr, str, lambda one: repr(one.numpy()), lambda one: str(one.numpy())])
def test_what_pytorch_and_numpy_print_can_be_pasted(tensor, printed):
    """To the digits that they print, and these are known."""
    given_back = reading.read_text(printed(tensor))

    assert only(given_back).shape == tuple(tensor.shape)
    assert np.allclose(only(given_back), tensor.numpy(), rtol=0, atol=5e-5)


CELLS = st.sampled_from([*"0 1 -1 +2 .5 1. 0.25 1e-05 nan -inf 1234567890123456 123456789012345 007".split()])
SIGNS = st.sampled_from([",", ";", "\t", " ", " , ", ",\t", "  "])


@given(st.data())
def test_each_cell_of_csv_is_read_for_itself(data):
    """Whatever stands between: whole numbers stay whole, and quotes change nothing."""
    width = data.draw(st.integers(1, 3))
    rows = data.draw(st.lists(st.lists(CELLS, min_size=width, max_size=width), min_size=1, max_size=4))
    text = "\n".join(data.draw(SIGNS).join(row) for row in rows)
    quoted = "\n".join(",".join(f'"{cell}"' for cell in row) for row in rows)

    expected = np.array([[int(one) if one.lstrip("+-").isdigit() else float(one) for one in row] for row in rows])
    for one in (text, quoted):
        read = only(reading.read_text(one))
        assert read.dtype == expected.dtype
        np.testing.assert_array_equal(read, expected)


DAMAGED = "is damaged, holds a pickle, or is not a"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.npy", b"", "is empty"),
        ("a.pkl", b"1", "must end in .npz"),
        ("a.pt", pickle.dumps([1]), "must end in .npz"),
        ("a.npy", npy(weights().numpy())[:300], DAMAGED),
        ("a.npy", npy(np.array([Bomb()], dtype=object), allow_pickle=True), DAMAGED),
        ("a.npy", pickle.dumps(Bomb()), DAMAGED),
        ("a.npz", npz(mask=np.array([Bomb()], dtype=object)), "holds no array of numbers"),
        ("a.npz", npz(mask=weights().numpy())[:200], DAMAGED),
        ("a.npz", npz(about=np.array("text")), "holds no array of numbers"),
        ("a.npz", packed(readme__txt=b"text"), "not a NumPy array"),
        ("a.safetensors", b"\xff" * 40, DAMAGED),
        ("a.safetensors", save({"mask": torch.ones(9)})[:-3], DAMAGED),
        ("a.csv", b"0,1\n1", "rows of different lengths"),
        ("a.csv", b"query,key\n0,1", "cannot be read as rows"),
        ("a.csv", b"0,1\n0,,1", "cannot be read as rows"),
        ("a.csv", b"0,5;0,5\n0,2;0,8", "a point for a comma"),
        ("a.csv", b"\xff\xfe0\x00", "not a text in UTF-8"),
        ("a.json", b'{"mask": {"a": [1]}}', "cannot be read as rows|is not a number"),
        ("a.json", b"[[1, [2]]]", "a list in place of a number"),
        ("a.json", b"[[1, null]]", "None, which is not a number"),
        ("a.json", b"[]", "holds 0 numbers"),
        ("a.json", b"[" * 100_000, "cannot be read as rows"),
        ("a.json", b"[" + b"9" * 5000 + b"]", "cannot be read as rows|too large"),
        ("a.txt", b"tensor([[1, 2, ..., 3]])", "leaves numbers out"),
        ("a.txt", b"tensor([exit()])", "cannot be read as rows"),
    ],
)
def test_a_bad_file_gives_one_sentence(name, content, message):
    """Never a traceback, never what a pickle says."""
    with pytest.raises(InputError, match=message) as refused:
        reading.read_file(name, content)

    assert str(refused.value).endswith(".")
    assert len(str(refused.value)) < 250


@given(
    content=st.binary(max_size=200), name=st.sampled_from(reading.ENDINGS), cut=st.integers(0, 300), seed=st.booleans()
)
def test_damaged_files_never_raise_anything_else(content, name, cut, seed):
    """Random bytes, and good files with random bytes in the middle."""
    good = {".npy": npy(causal().numpy()), ".npz": npz(mask=causal().numpy()), ".safetensors": save({"a": causal()})}
    whole = good.get(name, b"[[1, 0], [1, 1]]")
    mixed = whole[:cut] + content + whole[cut + len(content) :] if seed else content
    try:
        check(only(reading.read_file(f"a{name}", mixed)))
    except ValueError as refused:
        assert type(refused).__module__ == "attnviz.core.errors", repr(refused)


def test_a_header_that_promises_too_much_costs_nothing():
    """A few bytes that tell of 2.4 GB, or of 8 TB, are refused without a page of it."""
    for count in (3 * 10**8, 10**12):
        file = io.BytesIO()
        np.lib.format.write_array_header_1_0(file, {"descr": "<f8", "fortran_order": False, "shape": (count,)})
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with pytest.raises(InputError, match=DAMAGED):
            reading.read_file("a.npy", file.getvalue() + bytes(32))

        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2**12


def test_a_bomb_is_refused_by_its_directory():
    """Arrays of zeros that unpack to a byte too many; their sizes stand in the directory, and nothing is unpacked."""
    bomb = packed(a__npy=bytes(2**26), b__npy=bytes(2**26 + 1))
    tracemalloc.start()
    with pytest.raises(InputError, match="unpacks to 134,217,729 bytes in 2 arrays"):
        reading.read_file("a.npz", bomb)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert peak < 2**20
