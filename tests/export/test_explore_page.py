"""The page of a whole record: what is in it, exactly, what of it runs, and how large it may be."""

import base64
import hashlib
import json
import re
import zlib

import hostile
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from pictures import CROSS, SITE, prediction_of, record_of, story_of

import attnviz
from attnviz.analysis import sentences
from attnviz.core.edits import Edits, Site
from attnviz.core.errors import InputError
from attnviz.core.masks import Subsequent, Window
from attnviz.core.record import Record
from attnviz.core.tap import Tap
from attnviz.export import explore as pages

EIGHT, SIXTEEN = 0.004, 0.000008
"""How far a weight may be from that of the record."""


def data_of(page: str) -> dict:
    return json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1])


def inflated(text: str) -> bytes:
    return zlib.decompress(base64.b64decode(text))


def weights_of(page: str, site: int = 0) -> np.ndarray:
    """The weights of a site, (heads, queries, keys), read as a browser reads them."""
    data, block = data_of(page), re.search(rf'id="weights-{site}">(.*?)</script>', page, re.DOTALL)[1]
    one = data["sites"][site]
    return one["top"] * read(inflated(block), data["bits"]).reshape(-1, *one["shape"])


def read(content: bytes, bits: int) -> np.ndarray:
    planes = np.frombuffer(content, np.uint8).astype(np.int64).reshape(bits // 8, -1)
    levels, last = sum(plane << 8 * i for i, plane in enumerate(planes)), 2**bits - 2
    share = levels / last
    return np.where(levels > last, np.nan, share if bits == 16 else share**2)


def of_heads(record: Record) -> np.ndarray:
    step = record.steps[0]
    return torch.stack([step.weights(head) for head in range(step.num_heads)]).numpy()


@pytest.mark.parametrize(("bits", "far"), [(16, SIXTEEN), (8, EIGHT)])
@given(weights=arrays(np.float32, st.integers(0, 40), elements=st.floats(0, 1, width=32) | st.just(np.nan)))
def test_levels_are_as_near_as_the_page_says(bits, far, weights):
    found = read(pages.planes(pages.levels(weights, bits)), bits)

    np.testing.assert_allclose(found, weights, rtol=0, atol=far)


def test_rules_and_empty_rows_are_those_of_the_record():
    record = record_of(["a", "b", "c", "d"], edits=Edits(~Subsequent() & Window(1, 1), empty_rows="nan"))
    page = attnviz.explore(record)
    (site,), grids = data_of(page)["sites"], data_of(page)["grids"]
    reasons, blocked = record.steps[0].reasons(0)

    assert tuple(site["reasons"]) == tuple(map(sentences.blocked_by, reasons))
    assert inflated(grids[site["heads"][1]["grid"]]) == bytes(blocked.flatten().tolist())
    assert site["heads"][0]["empty"] == [3]
    assert np.isnan(weights_of(page)).any(2).tolist() == [[False, False, False, True]] * 2


def test_a_mask_of_each_head_is_its_own():
    """The mask is a plain tensor with one map per head; a map that two heads share is stored once."""
    allowed = torch.ones(1, 3, 4, 4, dtype=torch.bool)
    allowed[0, 1, :, 2] = False
    query, key, value = torch.randn(3, 1, 3, 4, 5).unbind()
    tap = Tap(Edits())
    output = tap.attend(query, key, value, mask=allowed, site=SITE)
    like = record_of(["a", "b", "c", "d"])
    record = Record(like.sentences, "own", "random", Edits(), tuple(tap.steps), output.transpose(1, 2).flatten(2))

    page = attnviz.explore(record)
    heads, grids = data_of(page)["sites"][0]["heads"], data_of(page)["grids"]

    assert heads[0]["grid"] == heads[2]["grid"] != heads[1]["grid"]
    assert len(grids) == 2
    assert inflated(grids[heads[1]["grid"]]) == bytes([0, 0, 1, 0] * 4)


def test_very_many_weights_have_8_bits_and_too_many_are_refused(monkeypatch):
    record = record_of(["a", "b", "c"])
    monkeypatch.setattr(pages, "LARGE", 10)
    page = attnviz.explore(record)

    assert data_of(page)["bits"] == 8
    np.testing.assert_allclose(weights_of(page), of_heads(record), rtol=0, atol=EIGHT)
    monkeypatch.setattr(pages, "MOST_WEIGHTS", 17)
    with pytest.raises(InputError, match="have 18 weights; a page holds 17 at most: shorten the text"):
        attnviz.explore(record)


def test_what_is_predicted_is_in_the_page_before_and_after_a_change():
    words = ["the", "cat"]
    before = story_of(words, {"a": 0.25, "b": 0.75}, {"a": 0.5, "b": 0.5})
    after = story_of(words, {"a": 0.75, "b": 0.25}, {"a": 1.0, "b": 0.0}, edits=Edits(temperature=0.5))
    data = data_of(attnviz.explore(after, before=before))

    assert data["changed"] == ["temperature 0.5"]
    assert data["predicted"]["where"] == "after"
    assert data["predicted"]["words"]["0"]["token"] == "the"
    assert data["predicted"]["words"]["0"]["words"] == [
        ["a", pytest.approx(0.75), pytest.approx(0.25)],
        ["b", pytest.approx(0.25), pytest.approx(0.75)],
    ]


def test_what_a_translator_wrote_is_in_the_page_and_each_text_once():
    """The rows of cross-attention are the decoder's tokens, its columns the encoder's."""
    record = attnviz.analyze("the cat sleeps")
    data = data_of(attnviz.explore(record, site=Site("cross", 1), head=2))
    cross = next(site for site in data["sites"] if site["name"] == "cross layer 1")

    assert data["predicted"]["written"] == [*record.prediction.written]
    assert data["sites"][data["opens"][0]] == cross
    assert [[text for text, *_ in data["texts"][cross[axis]]] for axis in ("queries", "keys")] == [
        [*record.targets[0].labels],
        [*record.sentences[0].labels],
    ]
    assert len(data["texts"]) == 2


@pytest.mark.parametrize("part", range(3))
def test_no_text_of_a_person_is_markup_or_code(part):
    """Whole hostile texts as tokens, as predicted words and as the name of a model: all of it stays in the data."""
    labels = [text.text for text in hostile.TEXTS[part::3]]
    record = record_of(labels, keys=2)
    words = dict.fromkeys(labels, 1 / len(labels))
    name = "</title><script>hacked=1</script>"
    record = Record(record.sentences, name, "your own", Edits(), record.steps, record.output)
    told = Record(**vars(record) | {"prediction": prediction_of(*[words] * len(labels))})
    page = attnviz.explore(told)

    data = page[page.index('id="data">') + 10 :].split("</script>")[0]
    outside = page.replace(data, "").replace("&lt;/title&gt;&lt;script&gt;hacked=1&lt;/script&gt;", "")
    assert len(re.findall("<script", page)) == 3
    assert "hacked" not in outside
    assert not re.search("[<>&\u2028\u2029\x00-\x08\ud800-\udfff]", data)


def test_the_page_runs_one_script_and_asks_for_nothing():
    """Its policy names the script and the style by their hashes, and nothing else."""
    page = attnviz.explore(record_of(["a", "b"]))
    policy = re.search('Content-Security-Policy" content="(.*?)"', page)[1]
    forms = "<script type=.module.>(.*?)</script>", "<style>(.*?)</style>"
    parts = [re.search(form, page, re.DOTALL)[1] for form in forms]
    hashes = [base64.b64encode(hashlib.sha256(part.encode()).digest()).decode() for part in parts]

    assert policy.startswith(f"default-src 'none'; script-src 'sha256-{hashes[0]}'; style-src 'sha256-{hashes[1]}';")
    assert "unsafe" not in policy
    assert not re.search(r"https?:|//[a-z]+\.[a-z]+/", page.replace("http-equiv", ""))


def test_a_notebook_shows_the_page_in_a_frame_that_reaches_nothing():
    page = attnviz.explore(record_of(['a"b', "c"]))
    shown = page._repr_html_()

    assert 'sandbox="allow-scripts"' in shown
    assert shown.count('"') == 2 * shown.count('="')
    assert repr(page) == f"<a page of {len(page):,} characters: write it to a file that ends in .html>"


def test_what_is_not_there_is_said_in_one_sentence():
    record = record_of(["a"])
    nothing = Record(record.sentences, "none", "random", Edits(), (), record.output)

    for asked, sentence in (
        ({"sentence": 1}, "There is no sentence 1; there are 1, counted from 0."),
        ({"head": 2}, "There is no head 2 of encoder layer 0; there are 2."),
        ({"site": CROSS}, "'test' has no cross layer 0. It has: encoder layer 0."),
    ):
        with pytest.raises(InputError, match=f"^{re.escape(sentence)}$"):
            attnviz.explore(record, **asked)
    with pytest.raises(InputError, match="'none' has no attention to show"):
        attnviz.explore(nothing)
