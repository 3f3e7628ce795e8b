"""An atlas is what a plain loop over the texts gives, however the corpus is cut and however often it was ended."""

import gc
import json
import shutil
import tempfile
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
import tiny
from examples import examples
from hypothesis import given
from hypothesis import strategies as st

from attnviz import api, atlas
from attnviz.analysis.blocks import by_distance
from attnviz.analysis.heads import METRICS, THRESHOLDS, head_metrics
from attnviz.atlas import building, tables
from attnviz.atlas.corpus import CorpusLine, Shard
from attnviz.atlas.measure import NAMES, Measured, Options, Pairs, SiteNumbers
from attnviz.core import progress
from attnviz.core.edits import Edits, Site
from attnviz.core.errors import Canceled, InputError
from attnviz.core.tokens import Sentence
from attnviz.studies import ablation

TEXTS = (
    "the black cat sat . the cat eats",
    "a dog sleeps",
    "the red dog sat on the red mat , the dog .",
    "cat",
    "it was a black chair and it sat",
    "the cat and the dog and the mat",
    "on . on . on . on .",
)

PARTS = ("heads", "effects", "distances", "examples", "pairs", "problems", "totals")


@pytest.fixture(autouse=True)
def models(tmp_path, monkeypatch):
    yield tiny.install(tmp_path, monkeypatch)
    monkeypatch.undo()
    tiny.forget()


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "corpus.txt"
    path.write_text("\n".join(TEXTS) + "\n", "utf-8")
    return path


def read(folder):
    return {name: pd.read_parquet(folder / f"{name}.parquet") for name in PARTS}


def bytes_of(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*.*"))}


@pytest.mark.parametrize("model", ["story", "translator"])
def test_an_atlas_is_what_a_loop_over_the_texts_gives(model, corpus, tmp_path):
    """Means, spreads, counts and quantiles by text, means by token, and the strongest texts, of every head."""
    atlas.build(model, corpus, tmp_path / "atlas", Options(shard=3, keep=2))
    found = read(tmp_path / "atlas")
    loop = pd.concat(
        [head_metrics(api.analyze(text, model)).assign(line=line) for line, text in enumerate(TEXTS, 1)]
    ).set_index(["site", "head"])

    assert len(found["heads"]) == len(loop) / len(TEXTS)
    for row in found["heads"].itertuples():
        head = loop.loc[(row.site, row.head)]
        for name in (one.name for one in METRICS):
            values = head[name].dropna().to_numpy(dtype=float)
            assert getattr(row, f"{name}_texts") == len(values)
            if len(values):
                assert getattr(row, name) == pytest.approx(values.mean(), rel=1e-5, abs=1e-6)
                middle = np.quantile(values, 0.5, method="lower")
                assert getattr(row, f"{name}_q50") == pytest.approx(middle, rel=1 / 255, abs=1e-6)
            if len(values) > 1:
                assert getattr(row, f"{name}_spread") == pytest.approx(values.std(ddof=1), rel=1e-3, abs=1e-6)
        for rule in THRESHOLDS:
            values = head[rule.metric].dropna()
            fails = getattr(row, f"{rule.metric}_fails")
            near = rule.least * (1 - 1 / 128)  # bins are that wide
            assert (values < near).mean() <= fails <= (values < rule.least).mean() if len(values) else np.isnan(fails)
        best = head.sort_values("entropy", ascending=False).head(2)
        there = found["examples"].query("site == @row.site and head == @row.head and name == 'entropy'")
        assert there["line"].tolist() == best["line"].tolist()
        assert there["value"].to_numpy() == pytest.approx(best["entropy"].to_numpy(dtype=float), rel=1e-5)


def test_distances_are_those_of_every_text(corpus, tmp_path):
    """Attention against distance adds up over texts."""
    atlas.build("story", corpus, tmp_path / "atlas", Options(shard=2))
    found, site = read(tmp_path / "atlas"), Site("decoder", 1)
    records = [api.analyze(text, "story") for text in TEXTS]

    one = found["distances"].query("site == 'decoder layer 1' and head == 2").set_index("nearest")
    curves = [by_distance(record.step(site), 2).curve().set_index("nearest") for record in records]
    for nearest, row in one.iterrows():
        there = [curve.loc[nearest] for curve in curves if nearest in curve.index]
        sums = sum(one["mean"] * one["pairs"] for one in there if one["pairs"])
        assert row["pairs"] == sum(one["pairs"] for one in there)
        assert row["mean"] == pytest.approx(sums / row["pairs"], rel=1e-5)


def test_effects_are_those_of_the_first_texts_of_each_shard(corpus, tmp_path):
    """Each head switched off alone, on a sample."""
    atlas.build("story", corpus, tmp_path / "atlas", Options(shard=4, ablate=1))
    effects = read(tmp_path / "atlas")["effects"].query("name == 'divergence'")
    source = api.load("story")
    swept = [ablation.sweep(source, source.tokenize([TEXTS[i]])).table["divergence"] for i in (0, 4)]

    assert effects["texts"].eq(2).all()
    assert effects["mean"].to_numpy() == pytest.approx(pd.concat(swept, axis=1).mean(axis=1).to_numpy(float), rel=1e-4)


def synthetic(values, first):
    """A shard whose texts have these values of every number, (T, H, M)."""
    none = np.zeros(0, np.int64)
    site = SiteNumbers(np.zeros(0), np.zeros((2, values.shape[1], 49)), np.zeros(values.shape[1]), Pairs(*[none] * 6))
    read = tuple((CorpusLine("", first + i), Sentence("", (), 0)) for i in range(len(values)))
    measured = Measured(read, (), (), {Site("encoder", 0): site}, values)
    return tables.of_shard(measured, Shard(0, "a.txt", first, len(values), 0, 0, ""), Options(keep=4))


@examples(15)
@given(
    values=st.lists(st.floats(0, 40, width=32) | st.just(float("nan")), min_size=2, max_size=24),
    cuts=st.sets(st.integers(1, 23), max_size=3),
)
def test_any_split_of_texts_gives_the_same_atlas(values, cuts, tmp_path_factory):
    """Counts, quantiles and strongest texts to the bit; sums up to the rounding of float64."""
    folder = tmp_path_factory.mktemp("split")
    array = np.tile(np.array(values)[:, None, None], (1, 2, len(NAMES))) / np.arange(1, 3)[:, None]
    ends = sorted({0, len(values), *(cut for cut in cuts if cut < len(values))})
    paths = []
    for start, stop in [(0, len(values)), *pairwise(ends)]:
        paths.append(folder / str(len(paths)))
        tables.write(synthetic(array[start:stop], start + 1), paths[-1])
    whole, split = (tables.merged(part, Options(keep=4, pairs=9)) for part in (paths[:1], paths[1:]))

    exact = [name for name in whole["heads"] if name.endswith(("texts", "q05", "q25", "q50", "q75", "q95"))]
    pd.testing.assert_frame_equal(whole["heads"][exact], split["heads"][exact])
    pd.testing.assert_frame_equal(whole["examples"], split["examples"])
    rounded = [one.name for one in METRICS] + [f"{one.name}_spread" for one in METRICS]
    assert np.allclose(whole["heads"][rounded], split["heads"][rounded], rtol=1e-9, atol=1e-9, equal_nan=True)


def test_what_was_ended_goes_on_and_gives_the_same_bytes(corpus, tmp_path, monkeypatch):
    """Only shards that were not whole are measured again."""
    atlas.build("story", corpus, tmp_path / "whole", Options(shard=2))
    measured, begun = building.measure, []

    def ended(*arguments, **named):
        begun.append(arguments[1][0].line)
        if len(begun) in (2, 4):
            raise KeyboardInterrupt
        return measured(*arguments, **named)

    monkeypatch.setattr(building, "measure", ended)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            atlas.build("story", corpus, tmp_path / "ended", Options(shard=2))
    (tmp_path / "ended" / "shards" / ".77.part").mkdir()
    atlas.build("story", corpus, tmp_path / "ended", Options(shard=2))

    assert begun == [1, 3, 3, 5, 5, 7]
    assert bytes_of(tmp_path / "whole").items() <= bytes_of(tmp_path / "ended").items()


def test_lines_that_cannot_be_read_are_named_and_the_rest_is_there(tmp_path):
    """Empty lines are counted; broken ones, and texts that are too long, have their line and the reason."""
    path = tmp_path / "texts.jsonl"
    long = " ".join(["cat"] * 40)
    lines = ['"the cat"', "", "{broken", '{"text": "a dog"}', json.dumps(long), '{"no": 1}', '"the mat"']
    path.write_bytes("\n".join(lines).encode() + b'\n"\xff"\n')
    result = atlas.build("story", path, tmp_path / "atlas", Options(shard=3))
    problems = read(tmp_path / "atlas")["problems"].set_index("line")["problem"]

    assert (result.texts, result.empty_lines, len(problems)) == (3, 1, 4)
    assert problems[3] == "This line is not valid JSON."
    assert "reads up to 13" in problems[5]
    assert problems[6].startswith("This line has no text")
    assert problems[8] == "This line is not UTF-8."


def test_parquet_and_lines_of_the_same_texts_are_one_atlas(corpus, tmp_path):
    """Whatever the corpus is kept in, in a folder or alone."""
    (tmp_path / "kept").mkdir()
    pd.DataFrame({"text": TEXTS}).to_parquet(tmp_path / "kept" / "corpus.parquet", row_group_size=2)
    atlas.build("story", corpus, tmp_path / "lines", Options(shard=3))
    atlas.build("story", tmp_path / "kept", tmp_path / "rows", Options(shard=3))
    one, other = read(tmp_path / "lines"), read(tmp_path / "rows")

    pd.testing.assert_frame_equal(one["heads"], other["heads"])
    pd.testing.assert_frame_equal(one["pairs"].drop(columns="file"), other["pairs"].drop(columns="file"))


@pytest.mark.parametrize("edits", [Edits(), Edits().with_heads_off(Site("decoder", 0), {0})])
def test_texts_measured_here_are_an_atlas_with_the_numbers_of_all_their_runs(edits, tmp_path):
    """The runs have the model's edits; a text that the model cannot read is named and left out of the counts."""
    source, done = api.load("story"), []
    found = atlas.of_texts(source, (*TEXTS, "cat " * 100), edits, report=lambda *now: done.append(now))
    each = [head_metrics(api.analyze(text, source, edits)) for text in TEXTS]

    assert (found.texts, len(found.problems()), done[-1]) == (len(TEXTS), 1, (len(TEXTS) + 1, len(TEXTS) + 1))
    assert found.problems()["line"].tolist() == [len(TEXTS) + 1]
    for one in METRICS:
        numbers = pd.DataFrame([table[one.name].astype(float) for table in each])
        for end, expected in (("", numbers.mean()), ("_spread", numbers.std()), ("_texts", numbers.count())):
            values = found.heads()[one.name + end].astype(float).tolist()
            assert values == pytest.approx(expected.tolist(), abs=1e-4, nan_ok=True), one.name + end


def test_an_atlas_of_texts_has_a_folder_that_goes_with_it(tmp_path, monkeypatch):
    """One that is canceled, or whose texts cannot be read, leaves none."""
    (place := tmp_path / "mine").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    source = api.load("story")
    measured = atlas.of_texts(source, TEXTS)
    assert measured.texts == len(TEXTS)
    assert [*place.iterdir()] == [measured.folder]
    with progress.report_to(progress.Progress(1, canceled=True)), pytest.raises(Canceled):
        atlas.of_texts(source, TEXTS)
    with pytest.raises(InputError, match="can read none of the 1 texts"):
        atlas.of_texts(source, ["cat " * 100])
    assert [*place.iterdir()] == [measured.folder]
    del measured
    gc.collect()

    assert [*place.iterdir()] == []


def test_a_corpus_that_changed_under_an_atlas_is_said(corpus, tmp_path):
    """When it is built again, and when it changes while it is built; what was done stays."""
    atlas.build("story", corpus, tmp_path / "atlas", Options(shard=3))
    made, before = building.opened.read_plan(tmp_path / "atlas"), bytes_of(tmp_path / "atlas" / "shards")
    corpus.write_text(corpus.read_text("utf-8").replace("dog sleeps", "cat sleeps"), "utf-8")

    with pytest.raises(InputError, match=r"its corpus differs at line 1 of 'corpus.txt' or after it"):
        atlas.build("story", corpus, tmp_path / "atlas", Options(shard=3))
    shutil.rmtree(tmp_path / "atlas" / "shards" / "000000")
    _, error = building.measure_shard(made, tmp_path / "atlas", made.shards[0])
    assert error.startswith("The corpus changed: lines 1 to 3 of 'corpus.txt' differ now.")
    assert bytes_of(tmp_path / "atlas" / "shards").items() < before.items()


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"model": "translator"}, "holds another atlas: its model is 'story', not 'translator'"),
        ({"options": Options(shard=3)}, "its option shard is 1000, not 3"),
        ({"settings": {"step": 20}}, "its 'story' has other weights or settings"),
    ],
)
def test_a_folder_holds_one_atlas(corpus, tmp_path, changed, says):
    """Another model, other options: another folder."""
    atlas.build("story", corpus, tmp_path / "atlas")
    given = {"model": "story", "texts": corpus, "folder": tmp_path / "atlas"} | changed

    with pytest.raises(InputError, match=says):
        atlas.build(**given)


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("gone.txt", None, "There is no file or folder"),
        ("empty.txt", b"", "holds no line"),
        ("bad.parquet", b"PAR2", "is not a Parquet file"),
        ("blank.txt", b"\n\n", None),
    ],
)
def test_what_is_no_corpus_is_said_in_a_sentence(tmp_path, name, content, says):
    """A corpus of empty lines is an atlas of nothing."""
    if content is not None:
        (tmp_path / name).write_bytes(content)
    if says:
        with pytest.raises(InputError, match=says):
            atlas.build("story", tmp_path / name, tmp_path / "atlas")
    else:
        assert atlas.build("story", tmp_path / name, tmp_path / "atlas").empty_lines == 2
