"""Every head off in turn: one run over copies measures what a run per head would."""

from dataclasses import replace
from math import exp

import pytest
import tiny
import torch

from attnviz import api
from attnviz.core.edits import Edits, Resolved, Site
from attnviz.core.errors import InputError, ShapeError
from attnviz.core.masks import Painted
from attnviz.core.tap import Tap, silence
from attnviz.sources.trained import Trained
from attnviz.studies import ablation


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        yield tiny.install(tmp_path_factory.mktemp("assets"), patch)
    tiny.forget()


def run_alone(source, sentences, site, head, before):
    """One run with a head off, as a person would make it, reading what was written before."""
    edits = Edits(heads_off={(site, head)})
    targets = before.targets if before.targets else ()
    return source.run(sentences, edits, targets) if targets else source.run(sentences, edits)


@pytest.mark.parametrize("name", ["translator", "story"])
def test_copies_in_one_run_measure_what_a_run_for_each_head_does(models, name, monkeypatch):
    """Outputs, predictions and what is written; of two sentences of different lengths, a few copies at once."""
    source = Trained(name)
    sentences = source.tokenize(["the black cat sleeps", "a dog eats and sleeps on the mat"])
    monkeypatch.setattr(ablation, "TOKENS", 90)
    found = ablation.sweep(source, sentences)
    before = source.run(sentences)

    assert found.heads == tuple((site, head) for site in source.sites for head in range(3))
    for at, (site, head) in list(enumerate(found.heads))[:: 4 if name == "translator" else 1]:
        after = run_alone(source, sentences, site, head, before)
        changes, diverged, said, losses = [], [], [], []
        for b, read in enumerate(before.read):
            n = read.length
            change = (after.output[b, :n] - before.output[b, :n]).norm(dim=-1) / before.output[b, :n].norm(dim=-1)
            p, q = (record.prediction.logits[b, :n].double().softmax(-1) for record in (before, after))
            kl = (p * (p / q).log()).nan_to_num().sum(-1)
            top = p.argmax(-1)
            changes.append(change.mean())
            diverged.append(kl.mean())
            said.append((q - p)[range(n), top].mean())
            ids = torch.tensor([token.id for token in read.tokens[1:n]])
            logits = (record.prediction.logits[b, : n - 1].double() for record in (before, after))
            old, new = (torch.nn.functional.cross_entropy(one, ids) for one in logits)
            losses.append(new - old)
        row = found.table.loc[at]
        assert row["output"] == pytest.approx(float(sum(changes)) / 2, abs=1e-5)
        assert row["divergence"] == pytest.approx(float(sum(diverged)) / 2, abs=1e-5)
        assert row["loss"] == pytest.approx(float(sum(losses)) / 2, abs=1e-5)
        assert row["said"] == pytest.approx(float(sum(said)) / 2, abs=1e-5)
        if name == "translator":
            free = source.run(sentences, Edits(heads_off={(site, head)})).prediction.written
            others = [new != old for new, old in zip(free, before.prediction.written, strict=True)]
            assert row["rewritten"] == sum(others) / 2


def test_a_source_that_takes_one_sentence_at_a_time_is_swept_one_by_one():
    """As some models that classify do; what is wrong with a single run is raised."""

    class Alone(type(api.load("constructed"))):
        most = 1

        def run(self, sentences, edits=Edits(), targets=()):
            if len(sentences) > self.most:
                raise InputError("One at a time.")
            return super().run(sentences, edits)

    source, plain = Alone(), api.load("constructed")
    sentences = source.tokenize(["a b a b"])
    one_by_one, together = ablation.sweep(source, sentences), ablation.sweep(plain, sentences)

    assert one_by_one.table["output"].tolist() == pytest.approx(together.table["output"].tolist(), abs=1e-6)
    Alone.most = 0
    with pytest.raises(InputError, match="One at a time"):
        ablation.sweep(source, sentences)


def test_each_sentence_of_a_batch_has_its_own_heads_off():
    """In the output, and in what the step gives later; those off in all come on top."""
    site = Site("encoder", 0)
    edits = Resolved(heads_off={(site, 2)}, each_off=(frozenset({(site, 0)}), frozenset(), frozenset({(site, 1)})))
    query, key, value = torch.randn(3, 3, 3, 5, 7).unbind(0)
    tap = Tap(edits)
    output, plain = tap.attend(query, key, value, site=site), Tap().attend(query, key, value, site=site)

    off = torch.tensor([[1, 0, 1], [0, 0, 1], [0, 1, 1]]).bool()
    assert torch.equal(output, plain.masked_fill(off[:, :, None, None], 0))
    for b in range(3):
        for head in range(3):
            torch.testing.assert_close(tap.steps[0].output(head, sentence=b), output[b, head])
    with pytest.raises(ShapeError, match="each of 2 sentence"):
        silence(plain, frozenset(), (frozenset(), frozenset()))


def test_what_is_no_number_is_missing_and_not_nothing(models):
    """A row of NaN makes outputs, vectors and sentences NaN; no text says that nothing changed."""

    class Vectors(type(api.load("constructed"))):
        def run(self, sentences, edits=Edits(), targets=()):
            record = super().run(sentences, edits)
            return replace(record, vectors=record.output.mean(1))

    nothing_left = Edits(Painted(((1, 0), (1, 1), (1, 2))), empty_rows="nan")
    constructed, story = Vectors(), Trained("story")
    vectors = ablation.sweep(constructed, constructed.tokenize(["a b c"]), nothing_left)
    words = ablation.sweep(story, story.tokenize(["the cat"]), nothing_left)

    assert vectors.table[["output", "turned"]].isna().all(axis=None)
    assert words.table[["output", "divergence", "said"]].isna().all(axis=None)


def test_what_matters_is_the_prediction_where_there_is_one():
    """The verdict names the head without which it moves most, by how much, also where another moves the output most."""
    source, agreed = api.load("story"), set()
    for text in ("The keys to the cabinet", "The cat sat on the mat because it was tired."):
        found = ablation.sweep(source, source.tokenize([text]))
        most = int(found.table["divergence"].argmax())
        site, head = found.strongest
        agreed.add(most == int(found.table["output"].argmax()))

        assert found.by == "divergence"
        assert found.strongest == found.heads[most]
        nats = found.table["divergence"][most]
        changes = (
            f"it changes the predictions by {nats:.3f} nats on average, "
            f"as if a word's probability fell from 100% to {exp(-nats):.0%}"
        )
        assert found.sentences()[0] == f"{site.head(head).capitalize()} matters most here: switched off, {changes}."
    assert agreed == {True, False}
