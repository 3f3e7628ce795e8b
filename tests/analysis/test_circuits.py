"""Circuits of the weights, against full matrices of vocabulary x vocabulary in float64 and answers known by hand."""

from dataclasses import replace

import pytest
import torch

from attnviz.analysis import circuits
from attnviz.core.edits import Site
from attnviz.core.errors import InputError
from attnviz.core.stream import Linear, ModelWeights, Norm, Projections, Readout

D_MODEL, HEADS, D_K, D_V, WORDS, LONGEST = 14, 2, 3, 5, 23, 11
SITES = [Site("decoder", layer) for layer in range(3)]


def random(*shape):
    return torch.randn(*shape, generator=random.generator)


@pytest.fixture
def weights():
    """Three layers with every kind of norm, biases and factors; each axis has a size of its own."""
    random.generator = torch.Generator().manual_seed(0)

    def linear(out, inside):
        return Linear(random(out, inside), random(out))

    def norm(*, is_centered):
        return Norm(1 + random(D_MODEL) / 2, random(D_MODEL), 1e-5, is_centered)

    sites = {
        site: Projections(
            linear(HEADS * D_K, D_MODEL),
            linear(HEADS * D_K, D_MODEL),
            linear(HEADS * D_V, D_MODEL),
            linear(D_MODEL, HEADS * D_V),
            before=norm(is_centered=site.layer > 0),
            after=None if site.layer == 2 else norm(is_centered=site.layer == 1),
            factor=1 - site.layer * 0.6,
        )
        for site in SITES
    }
    readout = Readout(norm(is_centered=True), linear(WORDS, D_MODEL), factor=-0.5)
    embedding, positions = random(WORDS, D_MODEL), random(LONGEST, D_MODEL)
    return ModelWeights(sites, dict.fromkeys(sites, HEADS), embedding, positions, readout)


def folded(norm):
    """A norm without its scale and bias as a matrix, (d_model, d_model)."""
    center = torch.eye(D_MODEL).double() - norm.is_centered / D_MODEL if norm else torch.eye(D_MODEL).double()
    return center @ norm.weight.double().diag() if norm else center


def of_head(projections, name, head):
    """W of one head as the paper writes it, float64."""
    return getattr(projections, name).weight.double().mT.chunk(HEADS, 0 if name == "w_o" else 1)[head]


def full(weights, site, head, fold):
    """E, U as (words, d_model), and W_Q, W_K, W_V, W_O of a head, float64, with norms folded if asked for."""
    projections = weights.sites[site]
    before, after = (folded(projections.before), folded(projections.after)) if fold else (folded(None),) * 2
    q, k, v = (before @ of_head(projections, name, head) for name in ("w_q", "w_k", "w_v"))
    last = folded(weights.readout.norm if fold else None)
    unembedding = last @ weights.readout.unembedding.weight.double().mT * weights.readout.factor
    return (
        weights.embedding.double(),
        unembedding,
        q,
        k,
        v,
        of_head(projections, "w_o", head) @ after * (projections.factor),
    )


def positive(matrix):
    values = torch.linalg.eigvals(matrix)
    return float(values.sum().real / values.abs().sum())


@pytest.mark.parametrize("fold", [True, False])
def test_every_number_is_that_of_the_full_matrices(weights, fold):
    result = circuits(weights, fold_norms=fold)

    for head in result.heads.itertuples():
        site = Site(head.kind, head.layer)
        e, u, q, k, v, o = full(weights, site, head.head, fold)
        whole = torch.linalg.eigvals(e @ v @ o @ u)
        rows = result.eigenvalues.query("layer == @head.layer and head == @head.head")
        assert head.copying == pytest.approx(positive(e @ v @ o @ u), abs=1e-9)
        assert sorted(rows["real"]) == pytest.approx(sorted(whole[whole.abs().topk(D_V).indices].real.tolist()))
        assert head.eigenvalue == pytest.approx(float(whole[whole.abs().argmax()].real))
        if head.layer:
            other = Site("decoder", int(head.through.split()[1].split(".")[0])), int(head.through.split(".")[1])
            *_, v_before, o_before = full(weights, *other, fold)
            assert head.induction == pytest.approx(positive(e @ q @ k.mT @ (v_before @ o_before).mT @ e.mT), abs=1e-9)

    for pair in result.composition.itertuples():
        *_, v, o = full(weights, Site("decoder", pair.layer), pair.head, fold)
        _, _, q, k, v_later, o_later = full(weights, Site("decoder", pair.later_layer), pair.later_head, fold)
        written = v @ o
        for score, read in ((pair.q, q @ k.mT), (pair.k, k @ q.mT), (pair.v, v_later @ o_later)):
            assert score == pytest.approx(float((written @ read).norm() / written.norm() / read.norm()), abs=1e-12)
    assert len(result.composition) == 3 * HEADS * HEADS


def test_previous_token_is_the_weight_of_neighbors_in_an_attention_to_positions(weights):
    """Rows of a decoder are causal, those of an encoder are not; the norm and the biases are the model's own."""
    twoway = replace(
        weights, sites={Site("encoder", 1): weights.sites[SITES[1]]}, num_heads={Site("encoder", 1): HEADS}
    )
    for given, site, is_causal in ((weights, SITES[1], True), (twoway, Site("encoder", 1), False)):
        projections = given.sites[site]
        x = projections.before(weights.positions).double()
        for head in range(HEADS):
            part = slice(head * D_K, (head + 1) * D_K)
            q, k = (
                x @ linear.weight.double()[part].mT + linear.bias.double()[part]
                for linear in (projections.w_q, projections.w_k)
            )
            scores = q @ k.mT / D_K**0.5
            if is_causal:
                scores = scores.masked_fill(torch.ones(LONGEST, LONGEST).triu(1).bool(), -torch.inf)
            expected = scores.softmax(-1).diagonal(-1).mean()
            table = circuits(given).heads.query("layer == 1 and head == @head")
            assert table["previous_token"].item() == pytest.approx(float(expected), abs=1e-6)


def test_what_is_not_known_is_missing_and_the_rest_is_there(weights):
    """Weights of queries, vectors of positions, the table of words; queries that are turned have no previous token."""
    unknown = {site: replace(projections, w_q=None) for site, projections in weights.sites.items()}
    without_queries = circuits(replace(weights, sites=unknown))
    turned = {site: replace(projections, rotary=True) for site, projections in weights.sites.items()}
    rotary = circuits(replace(weights, sites=turned))
    no_words = circuits(replace(weights, embedding=None, positions=None))

    assert without_queries.heads[["previous_token", "induction", "through"]].isna().all(axis=None)
    assert without_queries.composition[["q", "k"]].isna().all(axis=None)
    assert without_queries.composition["v"].notna().all()
    assert without_queries.heads["copying"].notna().all()
    assert rotary.heads["previous_token"].isna().all()
    assert rotary.heads["copying"].notna().all()
    assert no_words.heads[["copying", "eigenvalue", "previous_token", "induction"]].isna().all(axis=None)
    assert no_words.eigenvalues.empty
    assert no_words.composition.notna().all(axis=None)
    names = [sentence.split(" score")[0] for sentence in no_words.lacking]
    assert names == ["No copying", "No previous-token", "No induction"]
    assert circuits(weights).lacking == ()
    unknown = {site: replace(projections, w_q=None, w_v=None) for site, projections in weights.sites.items()}
    assert circuits(replace(weights, sites=unknown)).lacking[-1].startswith("No composition")


def test_what_has_no_circuits_says_so(weights):
    with pytest.raises(InputError, match="This model has no self-attention whose weights are known"):
        circuits(replace(weights, sites={}))
    with pytest.raises(InputError, match="The embedding has 20 words, and the unembedding 23; copying is from words"):
        circuits(replace(weights, embedding=weights.embedding[:20]))
