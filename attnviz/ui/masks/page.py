"""The mask lab: a mask beside the weights it causes, composed, explained and tested."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial, reduce
from operator import and_

import streamlit as st
from torch import Tensor

from attnviz.core.masks import Full, Mask
from attnviz.core.request import Request
from attnviz.core.stack import Stack
from attnviz.sources.base import Source
from attnviz.sources.wrapped import Wrapped
from attnviz.ui.masks import built_in, checking, compose, conventions, words
from attnviz.ui.masks.lab import TAB, Lab
from attnviz.ui.masks.presets import CAUSAL
from attnviz.ui.shared import look, mask, state, toolbar
from attnviz.ui.shared.look import ViewContext
from attnviz.ui.shared.setting import flag
from attnviz.ui.shared.state import control, tabs
from attnviz.ui.shared.toolbar import Toolbar
from attnviz.ui.text import lead

SOS = flag("sos", True)


def page(source: Source, request: Request) -> None:
    begins = "sos" in source.settings()  # a trained model knows itself how to begin
    source = replace(source, sos=state.get(SOS)) if begins else source
    opens = look.opening_site(source)
    decoder = replace(opens, kind="decoder")  # it has a mask of its own to show
    hides = decoder in source.sites
    has_own = hides or source.one_run or isinstance(source, Wrapped)  # of these it shows what acted, and nothing else
    opening = Stack() if has_own else CAUSAL
    bar = toolbar.bar(source, request, combined=True, site=decoder if hides else opens, mask=opening, more=look.display)
    context = bar.at
    if begins:
        with bar.view:
            control(st.toggle, words.WITH_SOS, SOS, help=words.SHIFT_RIGHT)
    bar.predict()
    stack, _ = mask.fitting(mask.current(), len(request.texts))
    lab = Lab(
        *context.run,
        context.sentence,
        context.site,
        context.head,
        context.dark,
        stack=stack,
        mask=_mask(context, stack),
    )
    parts = (compose.tab, checking.tab, conventions.tab)
    tabs(TAB, {name: partial(_tab, *each, lab, bar) for name, *each in zip(words.TABS, words.ASKS, parts, strict=True)})


def _tab(question: str, draw: Callable[[Lab, Toolbar], None], lab: Lab, bar: Toolbar) -> None:
    lead(question)
    draw(lab, bar)


def _mask(context: ViewContext, stack: Stack) -> Mask:
    """The mask that acts at a site, for the head and the sentence that are shown; of a model that is read-only, the one
    that acted with what was composed. Of a model whose own mask has no name the rules of the page keep theirs.
    """
    step, rules = context.record.step(context.site), stack.mask()
    place = step, context.number, context.sentence
    if context.source.read_only:
        own = built_in.of(*place) if isinstance(step.mask, Tensor) else step.mask
        own = built_in.of_weights(*place) if own is None and step.weights_only else own
        acting = [mask for mask in (own, rules) if mask is not None]
        return reduce(and_, acting) if acting else Full()
    mask = step.mask
    if not isinstance(mask, Tensor):
        return mask or Full()
    edits = context.record.edits
    if rules is None or edits.mask_at(context.site.kind) != rules or not edits.own_mask:
        return built_in.of(*place)
    untouched = context.untouched.step(context.site)
    return built_in.of(untouched, context.number, context.sentence) & rules
