"""The tab of conventions: the mask as code to copy for each library, and how libraries write masks."""

import streamlit as st

from attnviz.core.errors import AttnvizError
from attnviz.core.masks import ALIGNMENTS
from attnviz.mask_formats import FORMATS, mask_format
from attnviz.ui.masks import words
from attnviz.ui.masks.lab import Lab
from attnviz.ui.shared import everything
from attnviz.ui.shared.setting import choice
from attnviz.ui.shared.state import control
from attnviz.ui.shared.toolbar import Toolbar
from attnviz.ui.text import label, large, note, quiet, table

TARGET = choice("dialect", words.TARGETS, "sdpa", former=words.FORMER_TARGETS)
ALIGNMENT = choice("alignment", ALIGNMENTS, ALIGNMENTS[0])


def tab(lab: Lab, bar: Toolbar) -> None:
    with bar.export:
        everything.menu(lab)
    name = control(st.pills, words.SAME_MASK, TARGET, words.TARGETS, format_func=words.TARGETS.get, lead="")
    mask, target = lab.mask, mask_format(name)
    queries, keys = lab.lengths
    if queries != keys:  # with more keys than queries: where the first query stands
        mask = mask.aligned(queries, keys, control(st.segmented_control, words.ALIGN, ALIGNMENT, ALIGNMENTS))
    large(words.FORMAT_SAYS.format(format=target.title, says=target.meaning))
    label(words.CODE)
    try:
        st.code(target.code(mask, queries, keys), "python", wrap_lines=True)
    except AttnvizError as error:
        note(str(error), "notice")
    if lab.edits.bias:
        quiet(words.MASK_ALONE)
    label(words.FORMATS)
    table([(each.title, words.MEANS[each.empty_rows].format(each.meaning)) for each in FORMATS], rows_named=True)
