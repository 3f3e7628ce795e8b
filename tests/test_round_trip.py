"""A run that was saved and read again is the run: every picture, number and word, of every source."""

import json

import numpy as np
import own_models
import pytest
import tiny
import torch
import transformers
from examples import some
from pictures import filled_of, labels_of, written
from seeing import PICTURE, Sees, seen_by
from sources.huggingface import fake_hub

import attnviz
from attnviz import Edits, Subsequent, Window, api, figures, files
from attnviz.analysis import rollout, steps
from attnviz.analysis.align import Side, beside
from attnviz.analysis.relevance import IntegratedGradients, Relevance, texts_of
from attnviz.core.errors import AttnvizError
from attnviz.core.masks import Mask
from attnviz.figures.attribution import Traced

EDITS = Edits(mask=Subsequent() & ~Window(1, 1), temperature=0.5, empty_rows="uniform")
TEXT = "the cat sat on the mat"


def traced(record):
    found = rollout.mixed(record, record.sites[-1].kind)
    return Traced(record, found, len(found.layers) - 1, rollout.rollout(found)[-1].numpy())


def of_word(record):
    """A word's logit, with the weights in the place of their gradients."""
    return {"token": "mat", "id": 0, "position": 1, "sentence": 0, "logit": 2.0, "texts": texts_of(record, 0)}


def relevant(record):
    def products(step):
        queries, keys = (slice(text.length) for text in record.texts(step.site))
        return torch.stack([step.weights(head, queries, keys) for head in range(step.num_heads)])

    return Relevance(**of_word(record), products={step.site: products(step) for step in record.steps})


def integrated(record):
    values = {kind: torch.linspace(-1, 2, len(tokens)).double() for kind, tokens in texts_of(record, 0).items()}
    return IntegratedGradients(**of_word(record), steps=3, baseline=0.5, attributions=values)


def stages(record, site):
    return steps.chain(record, None, site, 0)


def mask(record, site):
    queries, keys = record.tokens(site)
    rule = record.step(site).mask
    return figures.mask(rule if isinstance(rule, Mask) else Subsequent(), queries, keys)


def stage(record, site):
    found = next(one for one in stages(record, site) if one.matrices)
    return figures.stage(record, site, 0, found, found.matrices)


MADE = {
    "chain": lambda record, site: figures.chain(record, site, 0, stages(record, site)),
    "contributions": lambda record, site: figures.contributions(record),
    "contribution_parts": lambda record, site: figures.contribution_parts(record),
    "replaced": lambda record, site: figures.replaced(record, falls=None),
    "change": lambda record, site: figures.change(record, record),
    "difference": lambda record, site: figures.difference(beside(Side(record, site, 0), Side(record, site, "mean"))),
    "distance": lambda record, site: figures.head(record, site, 0),
    "head": lambda record, site: figures.head(record, site, 0, row_sums=True),
    "heads": lambda record, site: figures.heads(record, site, domain="shared"),
    "labels": lambda record, site: figures.labels(record),
    "lens_words": lambda record, site: figures.lens_words(record, 1, stage=0),
    "lines": lambda record, site: figures.lines(record, site, (0, "mean")),
    "logit_lens": lambda record, site: figures.logit_lens(record),
    "mask": mask,
    "next_word": lambda record, site: figures.next_word(record, 1, before=record),
    "overview": lambda record, site: figures.overview(record),
    "patches": lambda record, site: figures.patches(record, site, 0, chosen=1),
    "pushed": lambda record, site: figures.pushed(record, site, 0),
    "integrated_gradients": lambda record, site: figures.integrated_gradients(record, integrated(record)),
    "relevance": lambda record, site: figures.relevance(record, relevant(record), site, 0),
    "relevance_bars": lambda record, site: figures.relevance_bars(record, relevant(record), 0),
    "rollout": lambda record, site: figures.rollout(traced(record)),
    "rollout_row": lambda record, site: figures.rollout_row(traced(record), 1),
    "stage": stage,
    "step_by_step": lambda record, site: figures.step_by_step(record, before=record),
    "text_strip": lambda record, site: figures.text_strip(record, site, 0, chosen=0),
}
"""Every figure of a record, by the name of its function."""

OF_NO_RECORD = {"carried", "composition", "distance_over_corpus", "leaks", "spread", "states"}
"""Figures of weights, of a corpus, of tests that run the model, of a training, of dot products, and of an array."""


def embeds(folder):
    """Two texts of a tiny BERT, of different lengths."""
    sizes = {"hidden_size": 12, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 3}
    model = transformers.BertModel(transformers.BertConfig(**sizes, vocab_size=len(fake_hub.WORDS)))
    return attnviz.analyze([TEXT, "a dog"], api.load(str(fake_hub.write(folder, model))))


def pretrained(folder):
    """A tiny Llama, whose heads share keys."""
    sizes = {"hidden_size": 16, "intermediate_size": 8, "num_hidden_layers": 2, "num_attention_heads": 4}
    sizes |= {"num_key_value_heads": 2, "vocab_size": len(fake_hub.WORDS), "pad_token_id": 0}
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes))
    return attnviz.analyze(TEXT, api.load(str(fake_hub.write(folder, model))), Edits(softcap=3.0))


def arrays(vectors):
    """Weights, or the queries and keys, of other code."""
    q, k = torch.randn(2, 1, 3, 5, 4).unbind()
    given = {"query": q, "key": k} if vectors else {"weights": torch.rand(2, 1, 3, 5, 5) * 0.3}
    return attnviz.from_arrays(**given, tokens=list("abcde"))


def own(_):
    source = attnviz.wrap(own_models.Writer().eval(), own_models.tokenize, TEXT)
    return attnviz.analyze(TEXT, source, Edits(heads_off={(source.sites[0], 1)}))


SHIPPED = [name for name in api.SOURCES if name != "induction"]
"""Of the trained models those that `tiny` makes."""

SOURCES = {name: lambda _, name=name: attnviz.analyze(TEXT, name, EDITS) for name in SHIPPED} | {
    "pretrained": pretrained,
    "own": own,
    "weights": lambda _: arrays(False),
    "vectors": lambda _: arrays(True),
    "picture": lambda _: seen_by(Sees(), PICTURE).record(places=(3, 5), image=PICTURE),
    "fills": lambda _: filled_of(["the", "[MASK]", "sat"], [1], *[{"the": 0.7, "cat": 0.2}] * 3),
    "classifies": lambda _: labels_of(["good", "film"], [0.2, 0.1, 3.0]),
    "embeds": embeds,
}


@pytest.fixture(scope="module")
def shipped(tmp_path_factory):
    """The trained models, tiny."""
    with pytest.MonkeyPatch.context() as patch:
        yield tiny.install(tmp_path_factory.mktemp("assets"), patch)
    tiny.forget()


@pytest.fixture(scope="module", params=some([*SOURCES], 2))
def record(request, shipped, tmp_path_factory):
    return SOURCES[request.param](tmp_path_factory.mktemp("model"))


def made(name, record, site):
    """A figure as all that it says: picture, title, words, table and arrays; or why there is none."""
    try:
        figure = MADE[name](record, site)
        texts = (figure.name, figure.title, figure.description, figure.caption)
        return json.dumps(written(figure.chart)), texts, figure.table.to_csv(), figure.arrays
    except AttnvizError as error:
        return str(error)


def test_every_figure_is_named_here():
    """A new one is held against the law, too."""
    every = {name for name in figures.__all__ if name[0].islower()}

    def makes(figure):
        return isinstance(figure, type) or figure.__annotations__.get("return") is figures.Figure

    assert {name for name in every if makes(getattr(figures, name))} == set(MADE) | OF_NO_RECORD


def test_every_picture_number_and_word_of_a_file_is_that_of_the_run(record):
    """Of the last attention call (make sweep: of the first, too), and of the page of every head."""
    again = files.read(files.saved(record))
    drawn = 0

    for site in some([record.sites[-1], record.sites[0]], 1):
        for name in MADE:
            ours, theirs = (made(name, one, site) for one in (record, again))
            assert ours[:3] == theirs[:3], name
            if not isinstance(ours, str):
                drawn += 1
                assert ours[3].keys() == theirs[3].keys()
                for array in ours[3]:
                    np.testing.assert_array_equal(ours[3][array], theirs[3][array])
    assert drawn > 10
    assert attnviz.explore(record) == attnviz.explore(again)


def test_float16_is_said_wherever_it_is_drawn(record):
    """On each picture, in its title, and on the page of every head; of a whole record nowhere."""
    rounded, site = files.read(files.saved(record, precision="float16")), record.sites[-1]

    silent = []
    for name in MADE.keys() - {"mask"}:  # a mask has no number that was rounded
        figure, whole = made(name, rounded, site), made(name, record, site)
        if not isinstance(figure, str):
            silent += [name] * ("kept as float16" not in figure[0] or "kept as float16" not in figure[1][1])
            assert "float16" not in str(whole), name
    assert silent == []
    assert "kept as float16" in attnviz.explore(rounded)
    assert "float16" not in attnviz.explore(record)
