"""The command `atlas`: measure every head over a corpus, and list heads by a condition."""

import re
from argparse import Namespace

from attnviz.cli import terminal
from attnviz.core.amounts import counted
from attnviz.core.errors import InputError, quoted


def run(options: Namespace) -> int:
    """Build or query an atlas, and return the exit status: 1 if a shard failed, else 0."""
    try:
        return (_build if options.action == "build" else _query)(options)
    except KeyboardInterrupt:
        terminal.note("Canceled. The same command continues the build.")
        raise


def _build(options: Namespace) -> int:
    """Run `atlas build`, with a progress bar, and print what was left out."""
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

    settings = {} if options.step is None else {"step": options.step}
    memory = "auto" if options.memory is None else f"{options.memory:g}GB"
    dask = options.workers, options.scheduler, memory
    engine = atlas.Engine(*dask, on_dashboard=lambda address: terminal.note(f"Dask's dashboard: {address}"))
    inputs = options.model, options.corpus, options.output
    content = atlas.Options(options.shard, options.keep, options.pairs, options.ablate)
    try:
        result = atlas.build(*inputs, content, settings=settings, work=engine, report=draw_progress)
    except OSError as error:
        reason = " ".join(str(error).split()).partition("Detail: ")
        why = f"{quoted(options.output, 200)} cannot be written: {reason[2] or reason[0]}."
        raise InputError(f"{why} Finished shards are kept: run the same command again to continue.") from None
    finally:
        if bar is not None:
            bar.close()
    counts = f"{counted(result.texts, 'text')}, {counted(result.tokens, 'token')}"
    left_out = f"{counted(result.empty_lines, 'empty line')}, {len(result.problems()):,} with problems"
    terminal.say(f"{counts}, in {result.folder}. Left out: {left_out}.")
    lines = [f"{row.file}, line {row.line:,}: {row.problem}" for row in result.problems().itertuples()]
    for part in result.failed:
        last = part["line"] + part["lines"] - 1
        lines.append(f"{part['file']}, lines {part['line']:,} to {last:,}: {part['error']}")
    for line in lines[:10]:
        terminal.note(line)
    if len(lines) > 10:
        terminal.note(f"{len(lines) - 10:,} more; problems.parquet and atlas.json have them.")
    return int(bool(result.failed))


def _query(options: Namespace) -> int:
    """Run `atlas query`: print the heads for which a condition holds, with the metrics that it names."""
    from attnviz import atlas
    from attnviz.atlas.opened import ALIASES
    from attnviz.atlas.tables import columns_of
    from attnviz.cli.tables import lines_of

    opened = atlas.open(options.folder)
    heads = opened.heads(options.condition)
    if options.json:
        terminal.say(heads.to_json(orient="records", indent=1))
        return 0
    words = [ALIASES.get(word, word) for word in re.findall(r"\w+", options.condition)]
    named = dict.fromkeys(name for word in words for name in ALIASES.values() if word in columns_of(name))
    means = [f"{name}{end}" for name in named for end in ("", "_low", "_high")]
    counts = f"{counted(len(heads), 'head')}, over {counted(opened.texts, 'text')}"
    lines = lines_of(heads[["site", "head", *means, "role", "role_fails"]])
    for line in [*lines, f"{counts}: means over texts with 95% intervals; roles are suggested by weights alone."]:
        terminal.say(line)
    return 0
