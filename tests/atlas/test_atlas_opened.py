"""Questions to an atlas: what the tables hold, and nothing that a person types is more than a question."""

import json
import shutil

import pytest
from pandas.testing import assert_frame_equal

from attnviz import api, atlas, cli
from attnviz.core.edits import Site
from attnviz.core.errors import InputError

TEXTS = ("a b c a b", "x y z x", "the cat saw the dog and the cat", "one two one two one two")


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("atlas")
    (folder / "corpus.txt").write_text("".join(f"{text}\n" for text in TEXTS))
    atlas.build("constructed", folder / "corpus.txt", folder / "atlas", atlas.Options(shard=2, keep=3))
    return atlas.open(folder / "atlas")


def test_heads_are_found_by_a_condition(built):
    """By the name of a metric or by its title, in the order of the heads, with the same columns as without one."""
    every = built.heads()
    for where in ("previous > 0.9", "previous_token > 0.9", "kind = 'decoder' and previous_low > 0.9"):
        found = built.heads(where)
        assert found["head"].tolist() == every[every["previous"] > 0.9]["head"].tolist() == [0]
        assert list(found) == list(every)
    assert len(built.heads("induction > (SELECT avg(induction) FROM heads)")) in range(1, len(every))


@pytest.mark.parametrize(
    ("where", "says"),
    [
        ("nope > 1", 'Referenced column "nope" not found'),
        ("previous >", "syntax error"),
        ("1 = 1; DROP TABLE heads", "more than one statement"),
        ("1 = 1 UNION SELECT 1", "set operation"),
        ("head IN (SELECT 1 FROM read_csv('corpus.txt'))", "disabled"),
        ("head IN (SELECT 1 FROM 'corpus.txt')", "corpus.txt"),
        ("'previous'", "Could not convert"),
    ],
)
def test_what_is_no_condition_is_said_and_no_file_is_opened(built, where, says, monkeypatch):
    """In one sentence, without what the database would tell besides."""
    monkeypatch.chdir(built.folder.parent)
    with pytest.raises(InputError, match="is not a condition on heads") as error:
        built.heads(where)

    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_a_metric_that_is_newer_than_an_atlas_is_missing_in_it(built, tmp_path):
    """The others are as they were, and it names no head."""
    every, folder = built.heads(), tmp_path / "atlas"
    shutil.copytree(built.folder, folder)
    newer = [name for name in every if name.startswith("previous")]
    every.drop(columns=newer).to_parquet(folder / "heads.parquet")
    older = atlas.open(folder)

    for heads in (older.heads(), older.heads("induction >= 0")):
        assert heads[newer].isna().all(axis=None)
        assert heads[newer].dtypes.eq(float).all()
        assert_frame_equal(heads.drop(columns=newer), every.drop(columns=newer))
    assert cli.main(["atlas", "query", str(folder), "induction >= 0"]) == 0
    with pytest.raises(InputError, match="is not a condition on heads: Referenced column"):
        older.heads("previous_token > 0.9")


def test_examples_are_the_texts_on_which_a_head_does_most(built):
    """With their lines; every number is that of the text alone."""
    found = built.examples(Site("decoder", 1), 0, "induction", k=2)

    assert len(found) == 2
    assert found["value"].is_monotonic_decreasing
    for row in found.itertuples():
        assert row.text == TEXTS[row.line - 1]


def test_pairs_are_searched_by_their_tokens(built):
    """Capital letters aside; every pair is a cell of its text, and of all pairs those with most weight come first."""
    found = built.search(query_token="THE", key_token="cat", min_weight=0.001)

    assert set(found["query_token"]) == {"the"}
    assert set(found["key_token"]) <= {"cat"}
    assert found["weight"].is_monotonic_decreasing
    for row in built.search(min_weight=0.3, k=5).itertuples():
        record = api.analyze(TEXTS[row.line - 1], "constructed")
        step = next(step for step in record.steps if str(step.site) == row.site)
        assert float(step.weights(row.head)[row.query, row.key]) == pytest.approx(row.weight, abs=1e-4)
    assert len(built.search(site="decoder layer 0", head=0, k=3)) == 3
    assert built.search(query_token="' OR 1 = 1 --").empty


def every_pair(source="constructed"):
    """Two typed tokens that are not the same place, of rows with a choice: site, head, line, query, key and weight."""
    found = {}
    for line, text in enumerate(TEXTS, 1):
        record = api.analyze(text, source)
        for step in record.steps:
            looks, seen = record.tokens(step.site)
            for head in range(step.num_heads):
                weights, choices = step.weights(head).tolist(), step.may_attend(head).sum(-1).tolist()
                for i, query in enumerate(looks):
                    for j, key in enumerate(seen):
                        if i != j and weights[i][j] and choices[i] > 1 and not (query.special or key.special):
                            found[str(step.site), head, line, i, j] = weights[i][j], query.text, key.text
    return found


@pytest.mark.parametrize("pairs", [0, 1, 2, 50])
def test_an_answer_says_from_which_weight_no_pair_is_missing(pairs, built, tmp_path):
    """Every pair of tokens that some head joins with a larger weight is listed."""
    atlas.build("constructed", built.folder.parent / "corpus.txt", tmp_path, atlas.Options(shard=2, pairs=pairs))
    found = atlas.open(tmp_path).search(k=10_000)
    above = found.attrs["complete_above"]
    there = set(zip(found["site"], found["head"], found["query_token"], found["key_token"], strict=True))
    missing = [v[0] for at, v in every_pair().items() if (*at[:2], *v[1:]) not in there]

    assert above == pytest.approx(max(0.5, max(missing)), abs=1e-5) if pairs < 3 else above == 0.5
    assert max(missing) <= above + 1e-6
    assert atlas.open(tmp_path).search(site="decoder layer 0", head=3).attrs["complete_above"] <= above


def test_other_tables_are_those_of_a_head(built):
    """Shares of the attention by distance sum to 1; without --ablate there are no effects."""
    assert built.table("distances", "decoder layer 0", 0)["share"].sum() == pytest.approx(1)
    assert built.table("effects", "decoder layer 0", 0).empty


def test_what_an_atlas_has_not_is_said(built, tmp_path):
    """A head, a metric, an atlas, one that is not finished, and a corpus that is gone."""
    with pytest.raises(InputError, match=r"has no head 9 at decoder layer 0. Available heads: decoder layer 0"):
        built.examples("decoder layer 0", 9, "previous")
    with pytest.raises(InputError, match=r"There is no table '\.\./corpus'. Available tables: distances,"):
        built.table("../corpus", "decoder layer 0", 0)
    with pytest.raises(InputError, match="There is no metric 'beauty'"):
        built.examples("decoder layer 0", 0, "beauty")
    with pytest.raises(InputError, match="There is no atlas in"):
        atlas.open(tmp_path)
    (tmp_path / "corpus.txt").write_text("a b a\n")
    atlas.build("constructed", tmp_path / "corpus.txt", tmp_path / "atlas")
    (tmp_path / "corpus.txt").write_text("a b c\n")
    with pytest.raises(InputError, match="The corpus changed: lines 1 to 1 of"):
        atlas.open(tmp_path / "atlas").examples("decoder layer 0", 0, "previous")
    (tmp_path / "atlas" / "atlas.json").unlink()
    with pytest.raises(InputError, match="is not finished"):
        atlas.open(tmp_path / "atlas")


def test_a_question_from_the_shell(built, capsys):
    """The metrics that the condition names, each with its interval; or every number as JSON."""
    assert cli.main(["atlas", "query", str(built.folder), "previous_token > 0.9"]) == 0
    out = capsys.readouterr().out
    names = ["site", "head", "previous", "previous_low", "previous_high", "role", "role_fails"]
    assert out.splitlines()[0].split() == names
    assert out.splitlines()[1].startswith("decoder layer 0  0     ")
    assert "previous token" in out.splitlines()[1]
    assert "1 head, over 4 texts: means over texts with 95% intervals; roles are suggested by weights alone." in out
    assert cli.main(["atlas", "query", str(built.folder), "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 8
    assert cli.main(["atlas", "query", str(built.folder), "x ="]) == 2
