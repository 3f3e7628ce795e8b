"""The command `leaks`: a text in, the leaks and an exit status out, and files if they are asked for."""

from argparse import Namespace
from collections.abc import Callable

from attnviz import figures, words
from attnviz.cli import lines, values
from attnviz.cli.commands import write
from attnviz.core.edits import Site
from attnviz.core.leaks import LeakTest
from attnviz.core.masks import mask_from_text
from attnviz.figures.leaks import lines_of, title_of
from attnviz.leaks import leak_test
from attnviz.sources.base import Source

NOT_TESTED = 3
"""Exit status where nothing could be tested."""

MOST_LISTED = 20
"""Leaks printed, at most."""


def run(options: Namespace, say: Callable[[str], None], note: Callable[[str], None]) -> int:
    """Test one sentence and print what was found; gives the exit status: 1 if there is a leak, 3 if nothing was
    tested: no token is hidden from any output, or no output depends on another token than its own.

    Args:
        note: takes a line about something that is no mistake, such as a word that the model does not know.

    Raises:
        AttnvizError: if the text, the model or what is to be tested does not fit.
    """
    texts, source = values.texts(options.text, by_line=options.lines), values.source(options)
    sentences = source.tokenize(texts)
    test = leak_test(
        source,
        sentences,
        values.edits(options, source),
        site=_site(options, source),
        promised=mask_from_text(options.promised) if options.promised else None,
        sentence=values.sentence(options, sentences),
        most=options.most,
    )
    written = write(figures.leaks(test, dark=options.dark), options) if options.output else []
    for line in lines.unknown(source, texts):
        note(line)
    for line in (*_lines(test), *written):
        say(line)
    if test.pairs:
        return 1
    return 0 if test.is_tested else NOT_TESTED


def _site(options: Namespace, source: Source) -> Site | str | None:
    """Site to compare: a layer, a kind, or None for the default of `leak_test`."""
    if options.layer is None:
        return options.kind
    kinds = [site.kind for site in source.sites]
    return Site(options.kind or ("decoder" if "decoder" in kinds else kinds[0]), options.layer)


def _lines(test: LeakTest) -> list[str]:
    leaks = [words.leak(test, *pair) for pair in test.pairs]
    more = len(leaks) - MOST_LISTED
    leaks = [*leaks[:MOST_LISTED], *([f"... and {more:,} more; -o leaks.csv lists them"] if more > 0 else [])]
    notes = [f"note attention: {finding}" for finding in test.findings]
    return [title_of(test), *(f"  {line}" for line in lines_of(test) if line), *notes, *leaks]
