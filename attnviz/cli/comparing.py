"""`attnviz compare`: A, what it is compared with, and the difference."""

import argparse
from argparse import Namespace
from dataclasses import replace
from typing import TYPE_CHECKING

from attnviz.cli import typed
from attnviz.core.errors import InputError

if TYPE_CHECKING:  # torch: not for --help
    from attnviz.analysis.align import Side
    from attnviz.core.request import Request
    from attnviz.figures import Figure
    from attnviz.sources.base import Source


def add(command: argparse.ArgumentParser) -> None:
    """Add the options of B."""
    other = command.add_argument_group("what it is compared with: the original model, or the same with")
    other.add_argument("--with-text", metavar="TEXT", help="another sentence")
    head = "another head: 5.3 is head 3 of layer 5, c1.2 one of cross-attention"
    other.add_argument("--with-head", type=typed.place, metavar="HEAD", help=head)
    other.add_argument("--with-model", metavar="NAME", help="another model")
    other.add_argument("--with-step", type=int, metavar="N", help="another training step")


def figure(options: Namespace, source: "Source", request: "Request") -> "Figure":
    """The difference of two maps, as the page Compare draws it.

    Raises:
        InputError: if both are the same.
    """
    from attnviz import api, figures
    from attnviz.analysis.align import Side, beside
    from attnviz.cli import values
    from attnviz.core.edits import Edits, Site
    from attnviz.core.request import Request

    record = api.analyze(request, source)
    sentence = values.sentence(options, record.sentences)
    a = Side(record, values.site(options, source), values.head(options, source), sentence)
    changes = (options.with_text, options.with_head, options.with_model, options.with_step)
    if all(change is None for change in changes):
        if request.edits == Edits():
            raise InputError("B is the same; give --with-text, --with-head, --with-model, --with-step, or a change.")
        request = request.unchanged
    other = _source(options, source)
    if options.with_text is not None:
        request = replace(values.asked(options, options.with_text, source), edits=request.edits)
    elif request.answer and options.with_model is not None:  # another model has other ids
        request = Request((record.sentences[sentence].text,), edits=request.edits)
    kind, layer, head = options.with_head or (a.site.kind, a.site.layer, a.head)
    place = Site(kind or a.site.kind, layer), head, sentence if options.with_text is None else 0
    b = Side(api.analyze(request.unchanged if other.read_only else request, other), *place)
    comparison = beside(a, _same_words(a, b, source, other))
    cell = values.selected(options, len(comparison.rows), len(comparison.columns))
    return figures.difference(comparison, dark=options.dark, **cell)


def _source(options: Namespace, source: "Source") -> "Source":
    from attnviz.cli import values

    if options.with_model is not None:
        return values.load(options.with_model, **({} if options.with_step is None else {"step": options.with_step}))
    if options.with_step is None:
        return source
    return values.source(Namespace(**vars(options) | {"step": options.with_step}))


def _same_words(a: "Side", b: "Side", source: "Source", other: "Source") -> "Side":
    """Another training step of A's model reads the words that A wrote, so that each row is of one word."""
    from attnviz.analysis.align import Side

    written = a.record.targets
    if not written or b.record.targets == written or source.id != other.id or source is other:
        return b
    return Side(other.run(b.record.sentences, b.record.edits, written), b.site, b.head, b.sentence)
