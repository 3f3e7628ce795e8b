"""The tab of the leak test: one token changed, the model run again, and whose output moved though it must not."""

from dataclasses import replace
from functools import partial

import streamlit as st

from attnviz import figures, words
from attnviz.core.edits import Edits, Site
from attnviz.core.errors import AttnvizError
from attnviz.core.leaks import MOST, LeakTest
from attnviz.core.masks import Full, Mask, Subsequent
from attnviz.core.stack import Stack
from attnviz.core.tokens import Token
from attnviz.leaks import leak_test, mistakes, probes
from attnviz.sources.base import Source
from attnviz.ui.masks.base import Lab
from attnviz.ui.masks.choices import EXHIBIT, FUTURE, LAYER, PROMISES, TESTED, WAS_MEANT
from attnviz.ui.shared import cache, cores, looking, masking, pictures, state
from attnviz.ui.shared import mask_link as link
from attnviz.ui.shared.editing import OWN_MASK
from attnviz.ui.shared.masking import MASK
from attnviz.ui.shared.notes import in_words, label, large, note, quiet
from attnviz.ui.shared.state import Setting, control

MEANT = state.coded("meant", None, link.encode_stack, link.decode_stack)
"""The mask that was meant, where that of the page is a mistake on purpose."""
BEFORE: Setting[tuple[Stack | None, bool] | None] = state.kept("before mistake", None)
"""The mask before such a mistake, and whether the model's own was on."""
TEST = state.choice("tested", TESTED, TESTED[0])
APPLIED = state.choice("applied", tuple(mistakes.EXHIBITS), next(iter(mistakes.EXHIBITS)))
PROMISE = state.choice("promise", PROMISES)
ASKED: Setting[tuple] = state.kept("leaks asked", ())
"""The test that takes long and was asked for."""

Tokens = tuple[Token, ...]

HOW = "One token after the other is changed and the model run again. Whose output moves has seen the change."

QUICK = 1.5
"""Seconds that a test may take without being asked for."""


def tab(lab: Lab) -> None:
    _mistaken()
    with st.container(horizontal=True, vertical_alignment="center", gap="medium"):
        tested = _choice("Tested", TESTED, TEST)
        if tested == EXHIBIT:
            how = _choice("The mask is applied", tuple(mistakes.EXHIBITS), APPLIED)
        else:
            promised = _promised(lab)
    try:
        if tested == EXHIBIT:
            _exhibit(lab, how)
            return
        test = _model(lab, lab.site if tested == LAYER else _kind(lab), promised)
    except AttnvizError as error:
        note(str(error), "notice")
        return
    if test is not None:
        _result(lab, test)


def _choice(title: str, options: tuple[str, ...], setting: Setting[str]) -> str:
    label(title)
    chosen = state.get(setting) if state.get(setting) in options else options[0]
    st.pills(title, options, **control(setting, chosen), wrap=True, required=True, label_visibility="collapsed")
    return chosen


def _kind(lab: Lab) -> str:
    return lab.site.kind


def _mistaken() -> None:
    """That a mistake stands on the page, and the way back."""
    if state.get(MEANT) is None:
        return
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        label("The mask of this page is a mistake on purpose.")
        st.button("Undo the mistake", key="undo mistake", icon=":material/undo:", on_click=_undo)


def _undo() -> None:
    """What there was before; of a mistake that a link brought, what was meant."""
    mask, own_mask = state.get(BEFORE) or (state.get(MEANT), True)
    state.change(masking.put, mask or Stack())
    for setting, value in ((MASK, mask), (MEANT, None), (OWN_MASK, own_mask), (BEFORE, None)):
        state.put(setting, value)


def _promised(lab: Lab) -> Mask | None:
    """What each layer is to keep; None is the model's own mask with that of the page."""
    meant = state.get(MEANT)
    possible = {WAS_MEANT: meant is not None, FUTURE: lab.site.kind != "cross"}
    chosen = _choice("Promised", tuple(name for name in PROMISES if possible.get(name, True)), PROMISE)
    if chosen == WAS_MEANT and meant is not None:
        return meant.mask() or Full()
    return Subsequent() if chosen == FUTURE and possible[FUTURE] else None


def _model(lab: Lab, place: Site | str, promised: Mask | None) -> LeakTest | None:
    """The test of the model; if it takes long, when it is asked for."""
    edits = replace(lab.edits, mask=None) if lab.source.read_only else lab.edits
    asked = (lab.source, lab.lines, edits, place, promised, lab.sentence)
    tokens, layers = len(lab.seen[lab.sentence].tokens), len(lab.source.sites)
    if probes.seconds(lab.source.d_model, min(tokens, MOST), layers) <= QUICK:
        return _kept(asked)
    if state.get(ASKED) != asked:
        quiet(f"Each of {min(tokens, MOST)} tokens is changed and the model run again: that takes a while here.")
        if not st.button("Test for leaks", key="test leaks", type="primary"):
            return None
        state.put(ASKED, asked)
    place = st.empty()
    test = _kept(asked, report=lambda done, of: place.progress(done / of, f"{done} of {of} tokens changed"))
    place.empty()
    return test


def _kept(asked: tuple, **report) -> LeakTest:
    """The test, by all that it depends on; `report` is told how far it is."""
    return cache.KEPT.get(("leak test", *asked), partial(_test, *asked, **report))


def _test(
    source: Source,
    lines: tuple[str, ...],
    edits: Edits,
    place: Site | str,
    promised: Mask | None,
    sentence: int,
    **more,
) -> LeakTest:
    """A leak test of at most as many tokens as one may take."""
    sentences = cache.sentences(source, lines)
    with cores.used_by(source):
        return leak_test(source, sentences, edits, site=place, promised=promised, sentence=sentence, **more)


def _exhibit(lab: Lab, how: str) -> None:
    """One layer with random numbers, in which the mask is applied as it was chosen."""
    exhibit = mistakes.EXHIBITS[how]
    test = _exhibited(how, lab.mask, *lab.tokens, lab.sentence if lab.mask.batch_size else 0)
    _result(lab, test, exhibit.says)


@cache.kept
def _exhibited(how: str, mask: Mask, queries: Tokens, keys: Tokens, sentence: int) -> LeakTest:
    return mistakes.leak_test_of_exhibit(how, mask, queries, keys, sentence=sentence)


def _result(lab: Lab, test: LeakTest, says: str = HOW) -> None:
    """How many leaks there are, the grid, and the selected cell in words."""
    cell = looking.selected(lab.record, lab.site)
    inside = cell is not None and all(i < n for i, n in zip(cell, test.moved.shape, strict=True))
    figure = figures.leaks(test, dark=lab.dark, selected=cell if inside else None, rev=looking.rev("cell"))
    with st.container(horizontal=True, gap="large"):
        with st.container(width="content"):
            pictures.take_away(figure, "leaks")
            pictures.picture(figure, "leaks", select="cell", on_select=looking.select)
        with st.container(key="beside leaks"):
            large(f"{words.count_of_leaks(test).capitalize()}.")
            quiet(says)
            if inside or test.pairs:
                said = words.leak(test, *(cell if inside else test.pairs[0]))
                in_words(f"{said[0].upper()}{said[1:]}.")
            pictures.how_to_select(inside)
    pictures.numbers(figure, "leaks")
