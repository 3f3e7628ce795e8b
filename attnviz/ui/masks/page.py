"""The mask lab: a mask beside the weights it causes, composed, explained and tested."""

import streamlit as st

from attnviz.core.edits import Edits
from attnviz.core.masks import Full, Mask
from attnviz.core.stack import Stack
from attnviz.sources.base import Source
from attnviz.ui.masks.base import Lab
from attnviz.ui.masks.tabs import tabs
from attnviz.ui.shared import cache, editing, looking, masking, says
from attnviz.ui.shared.rules import CAUSAL


def page(source: Source, lines: tuple[str, ...]) -> None:
    source = looking.step(looking.with_sos(source))
    decodes = any(site.kind == "decoder" for site in source.sites)  # then it has a mask of its own to show
    with st.container(gap="xsmall"):
        opening = Stack() if decodes else CAUSAL
        edits, said = editing.edits_bar(source, lines, opening=opening, shortcuts=False)
    record = cache.record(source, lines, edits)
    before = cache.record(source, lines) if edits != Edits() else None
    with st.container(horizontal=True, vertical_alignment="center", gap="medium"):
        site = looking.site(source, looking.masked_site(source))
        sentence = looking.sentence(lines)
        head = looking.focus(source)
    cell = looking.selected(record, site)
    with said:
        says.line(record, before, position=says.position(record, site, cell, sentence), sentence=sentence)
    stack, _ = masking.fitting(masking.current(), len(lines))
    mask = _mask(source, record, site, stack)
    dark = looking.is_dark()
    tabs(Lab(source, lines, sentence, site, head, stack, mask, edits, dark))


def _mask(source, record, site, stack: Stack) -> Mask:
    """The mask of a site; of a model that is read-only, what was composed."""
    mask = stack.mask() if source.read_only else record.step(site).mask
    return mask if isinstance(mask, Mask) else Full()
