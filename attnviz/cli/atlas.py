"""The command `atlas`: measure every head over a corpus, and list heads by a condition."""

import re
from argparse import Namespace

from attnviz.cli import terminal
from attnviz.core.amounts import counted
from attnviz.core.errors import InputError, quoted


def run(options: Namespace) -> int:
    """Build or query an atlas, and return the exit status: 1 if a shard failed, else 0."""
    try:
        return _build(options) if options.action == "build" else _query(options)
    except KeyboardInterrupt:
        terminal.note("Canceled. The same command continues the build.")
        raise


def _build(options: Namespace) -> int:
    """Run `atlas build` with a progress bar, and print the number of texts and the lines that were left out."""
    from tqdm import tqdm

    from attnviz import atlas

    bar: tqdm | None = None

    def draw_progress(done: int, of: int) -> None:
        nonlocal bar
        if bar is None:
            bar = tqdm(total=of, initial=done, unit=" texts", disable=None)
            if done:
                terminal.note(f"{done:,} of {of:,} texts are done already.")
        bar.update(done - bar.n)

    def print_address(address: str) -> None:
        terminal.note(f"Dask's dashboard: {address}")

    memory = "auto" if options.memory is None else f"{options.memory:g}GB"
    engine = atlas.Engine(options.workers, options.scheduler, memory, print_address)
    sizes = atlas.Options(options.shard, options.keep, options.pairs, options.ablate)
    settings = {} if options.step is None else {"step": options.step}
    names = options.model, options.corpus, options.output
    try:
        result = atlas.build(*names, sizes, settings=settings, work=engine, report=draw_progress)
    except OSError as error:
        message = " ".join(str(error).split())
        reason = message.rpartition("Detail: ")[2]  # an error of pyarrow ends in "Detail: ..."
        problem = f"{quoted(options.output, 200)} cannot be written: {reason}."
        raise InputError(f"{problem} Finished shards are kept: run the same command again to continue.") from None
    finally:
        if bar is not None:
            bar.close()
    counts = f"{counted(result.texts, 'text')}, {counted(result.tokens, 'token')}"
    left_out = f"{counted(result.empty_lines, 'empty line')}, {len(result.problems()):,} with problems"
    terminal.say(f"{counts}, in {result.folder}. Left out: {left_out}.")
    lines = [f"{row.file}, line {row.line:,}: {row.problem}" for row in result.problems().itertuples()]
    for shard in result.failed:
        last = shard["line"] + shard["lines"] - 1
        lines.append(f"{shard['file']}, lines {shard['line']:,} to {last:,}: {shard['error']}")
    terminal.note(*lines[:10])
    if len(lines) > 10:
        terminal.note(f"{len(lines) - 10:,} more; problems.parquet and atlas.json have them.")
    return int(bool(result.failed))


def _query(options: Namespace) -> int:
    """Run `atlas query`: print the heads for which a condition holds, with the metrics that it names."""
    from attnviz import atlas
    from attnviz.atlas.opened import ALIASES
    from attnviz.atlas.tables import columns_of
    from attnviz.cli.tables import lines_of

    result = atlas.open(options.folder)
    heads = result.heads(options.condition)
    if options.json:
        terminal.say(heads.to_json(orient="records", indent=1))
        return 0
    words = [ALIASES.get(word, word) for word in re.findall(r"\w+", options.condition)]
    metric_of_column = {column: name for name in ALIASES.values() for column in columns_of(name)}
    metrics = dict.fromkeys(metric_of_column[word] for word in words if word in metric_of_column)  # each metric once
    means = [column for name in metrics for column in (name, f"{name}_low", f"{name}_high")]
    terminal.say(*lines_of(heads[["site", "head", *means, "role", "role_fails"]]))
    counts = f"{counted(len(heads), 'head')}, over {counted(result.texts, 'text')}"
    terminal.say(f"{counts}: means over texts with 95% intervals; roles are suggested by weights alone.")
    return 0
