"""The edits bar and the active heads: what differs from the original model.

In a link heads that are off are ``e0.1-e0.3``; what changes the scores of all calls is ``unscaled.temperature-0.5``;
what is taken from another text ``output-d0.1-The dog sat.`` (see `core.edits.Take`);
what is added to them is ``alibi.relative-0.softcap-5``: the seed of the relative bias, the bound of the scores.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import streamlit as st

from attnviz.core.amounts import counted
from attnviz.core.edits import KINDS, Edits, Site, Take
from attnviz.core.errors import InputError
from attnviz.core.masks import Mask, Subsequent, started
from attnviz.core.modifiers import ALiBi, Bias, RelativeBias
from attnviz.core.request import Request
from attnviz.core.scoring import EMPTY_ROWS
from attnviz.core.stack import Entry, Stack
from attnviz.sources.base import Source
from attnviz.ui import cache
from attnviz.ui.shared import look, mask, state, words
from attnviz.ui.shared.look import Place, ViewContext
from attnviz.ui.shared.mask import MASK
from attnviz.ui.shared.mask_link import BY_NAME, usual
from attnviz.ui.shared.photos import GRAYED
from attnviz.ui.shared.setting import Setting, State, choice, coded, flag, reader
from attnviz.ui.shared.state import control
from attnviz.ui.text import label, literal, note, quiet, style

LONGEST_TEXT = 2_000
"""Characters of a text from which something is taken."""
LONGEST_RULE = 60
"""Characters of a rule on a chip; of a longer list of numbers it has the first."""
MOST_NAMED = 4
"""Heads of a layer that a chip names; of more it says how many they are."""

SHORTCUTS = ("causal", "window", "prefix")
"""Rules that a page offers as pills; all others are composed in the mask lab."""

TITLES = {"causal": words.CAUSAL}
"""Names of rules on a page, where they differ from their own."""


@dataclass(frozen=True)
class Added:
    """Additions to the scores, or a bound of them: bias, never mask.

    Attributes:
        alibi: a penalty that grows with distance, another slope for each head.
        relative: the seed of a relative position bias; None for none.
        softcap: a bound that scores approach; None for none.
    """

    alibi: bool = False
    relative: int | None = None
    softcap: float | None = None

    @property
    def bias(self) -> tuple[Bias, ...]:
        relative = () if self.relative is None else (RelativeBias(seed=self.relative),)
        return (*([ALiBi()] if self.alibi else []), *relative)

    def __str__(self) -> str:
        relative = "" if self.relative is None else f"relative-{self.relative}"
        softcap = "" if self.softcap is None else f"softcap-{self.softcap:g}"
        return ".".join(filter(None, ("alibi" if self.alibi else "", relative, softcap)))


@dataclass(frozen=True)
class Tuned:
    """Scaling of the scores of every call.

    Attributes:
        temperature: divides them.
        scaled: whether they are multiplied by the model's own scale; else by 1.
    """

    temperature: float = 1.0
    scaled: bool = True

    @property
    def scale(self) -> float | None:
        """The scale in the place of the model's own; None for that."""
        return None if self.scaled else 1.0

    def __str__(self) -> str:
        temperature = "" if self.temperature == 1 else f"temperature-{self.temperature:g}"
        return ".".join(filter(None, ("" if self.scaled else "unscaled", temperature)))


_read_added = reader(
    r"(alibi)?\.?(?:relative-(\d{1,4}))?\.?(?:softcap-(?!0$)(\d{1,3}(?:\.\d{1,2})?))?",
    lambda m: Added(bool(m[1]), m[2] and int(m[2]), m[3] and float(m[3])),
    "alibi.relative-0.softcap-5",
    str,
)
_read_tuned = reader(
    r"(unscaled)?\.?(?:temperature-(?!0$)(\d{1,2}(?:\.\d{1,3})?|100))?",
    lambda m: Tuned(float(m[2] or 1), not m[1]),
    "unscaled.temperature-0.5",
    str,
)


OFF: Setting[frozenset[Place]] = coded(
    "heads_off",
    frozenset(),
    lambda off: "-".join(map(look.place_text, sorted(off))),
    lambda text: frozenset(look.read_places(text)),
    "model edits",
    lacks=look.lacks_place,
    former=("off",),
)


def _read_takes(values: Sequence[str]) -> tuple[Take, ...]:
    takes = tuple(map(Take.read, values))
    for take in takes:
        if len(take.text) > LONGEST_TEXT or not take.text.replace("\n", "").isprintable():
            raise InputError(words.NOT_TAKEN.format(most=LONGEST_TEXT))
    return takes


def _lacks_take(there: object, take: Take) -> str:
    return look.lacks_place(there, (take.site, take.head or 0)) if isinstance(there, Source) else ""


TAKEN: Setting[tuple[Take, ...]] = Setting(
    "take",
    (),
    lambda takes: [*map(str, takes)],
    _read_takes,
    of="model text edits",
    lacks=_lacks_take,
)
"""Takes from other texts, a parameter of the link for each; it goes with the text, to whose length it fits."""
OWN_MASK = flag("own_mask", True, "edits")
MASK_CROSS: Setting[bool | None] = choice("cross", {True: "true", False: "false"}, of="edits")
"""Whether the mask acts on cross-attention; where nobody chose, it does unless it hides the future."""
EMPTY = choice("empty", EMPTY_ROWS, EMPTY_ROWS[0], "edits")
ADDED = coded("added", Added(), str, _read_added, "edits")
TUNED = coded("scores", Tuned(), str, _read_tuned, "edits", former=("tuned",))


def mask_menu(source: Source, request: Request, site: Site) -> Edits:
    """Draw the menu of masks; give all that is set, also for a model in which nothing can be changed.

    Args:
        site: what is looked at; a rule that does not act there leads to where it does.
    """
    menu = state.menu(words.MASK, icon=":material/grid_on:", key="mask menu")
    if menu.open:
        with menu:
            _mask_controls(source, request, site)
    return _set_by(state.now(), source, request)


def _mask_controls(source: Source, request: Request, site: Site) -> None:
    fixed, hidden = bool(source.read_only), _hidden(source, request)
    own_mask = not hidden or state.get(OWN_MASK)

    def where_it_acts(now: State) -> State:
        acts = _edits(now, source, mask.of(now), own_mask).mask_at
        there = next((other for other in source.sites if acts(other.kind)), site)
        return now if acts(site.kind) else look.moved(site, now, there)

    _shortcuts(fixed, where_it_acts, built_in=own_mask and all(site.kind == "decoder" for site in source.sites))
    if hidden:
        part = hidden == "future" and not all(site.kind == "decoder" for site in source.sites)
        title, means = words.BUILT_IN["decoder" if part else hidden], words.BUILT_IN_HIDES[hidden]
        control(st.toggle, title, OWN_MASK, help=means, disabled=fixed)
    edits = _set_by(state.now(), source, request)
    if edits.mask is not None and _has_cross(source):
        control(st.toggle, words.MASK_CROSS, MASK_CROSS, shown=edits.mask_cross, disabled=fixed)
    if edits.mask is not None and not fixed:
        control(st.selectbox, words.EMPTY_ROWS, EMPTY, EMPTY_ROWS, format_func=words.EMPTY_ROW_GETS.get)


def put(now: State, source: Source, request: Request) -> Request:
    """A request with all that a state changes of a model."""
    return replace(request, edits=Edits() if source.read_only else _set_by(now, source, request))


def _set_by(now: State, source: Source, request: Request) -> Edits:
    """All that a state sets, also for a model in which nothing can be changed."""
    stack, _ = mask.fitting(mask.of(now), len(request.texts))
    return _edits(now, source, stack, not _hidden(source, request) or now[OWN_MASK])


def notices(source: Source, request: Request, edits: Edits) -> None:
    """Say which parts of the model are not shown, and which settings have no effect."""
    for entry in mask.fitting(mask.current(), len(request.texts))[1]:
        sentences = counted(entry.mask.batch_size, "sentence")
        note(words.OTHER_BATCH.format(rule=name_of(entry), sentences=sentences, count=len(request.texts)), "notice")
    if source.unseen:
        quiet(source.unseen)
    if source.alone and edits != Edits():
        quiet(source.alone)
    if not source.read_only:
        return
    if edits == Edits():
        quiet(source.read_only)
    else:
        note(words.LEFT_OUT.format(why=source.read_only, changes="; ".join(edits.in_words())), "notice")
        _reset_button(words.CLEAR_CHANGES)


def _edits(now: State, source: Source, stack: Stack, own_mask: bool) -> Edits:
    heads_off = frozenset((site, head) for site, head in now[OFF] if not look.lacks_place(source, (site, head)))
    added, tuned = now[ADDED], now[TUNED]
    scores = {"temperature": tuned.temperature, "scale": tuned.scale, "bias": added.bias, "softcap": added.softcap}
    chosen = now[MASK_CROSS]
    hides = any(entry.on and isinstance(entry.mask, Subsequent) for entry in stack.entries)
    self_alone = _has_cross(source) and stack.mask() is not None and (hides if chosen is None else not chosen)
    taken = tuple(take for take in now[TAKEN] if not TAKEN.lacks(source, take))
    more = {"own_mask": own_mask, "mask_cross": not self_alone, "empty_rows": now[EMPTY], "taken": taken}
    return Edits(stack.mask(), heads_off, **more, **scores)


def _has_cross(source: Source) -> bool:
    return any(site.kind == "cross" for site in source.sites)


def _hidden(source: Source, request: Request) -> str:
    """Part that the built-in mask hides: the "future", "padding", "both", or nothing."""
    future = any(site.kind == "decoder" for site in source.sites)
    padding = len({sentence.length for sentence in cache.sentences(source, request)}) > 1
    if future and padding:
        return "both"
    if future:
        return "future"
    return "padding" if padding else ""


def _shortcuts(fixed: bool, move: Callable[[State], State], *, built_in: bool) -> None:
    """Some rules as pills, with the numbers of those that are on. A pill adds a rule, or takes it away.

    Args:
        move: a step to where the rules act.
        built_in: whether every call of the model hides the future by itself, so that there is nothing to add.
    """
    on = {entry.mask.keyword: i for i, entry in reversed([*enumerate(mask.current().entries)]) if entry.on}
    offered = [name for name in SHORTCUTS if name in on or not (built_in and name == "causal")]
    if len(offered) < len(SHORTCUTS):
        options = {"icon": ":material/lock:", "disabled": True}
        st.button(TITLES["causal"], key="built in", **options)
        quiet(words.CAUSAL_BUILT_IN)

    def choose(now: State, chosen: list[str]) -> State:
        return move(mask.changed(now, lambda stack: _with_shortcuts(stack, chosen)))

    options = {"shown": [name for name in offered if name in on], "at": "rules", "step": choose, "disabled": fixed}
    options["format_func"] = lambda name: TITLES.get(name, name.capitalize())
    control(st.pills, words.MASK, MASK, offered, lead="", selection_mode="multi", **options)
    for name, key in (("window", "before"), ("window", "after"), ("prefix", "length")):
        if name in on:
            rule = mask.current().entries[on[name]].mask
            number(on[name], rule, key, at=f"{name} {key}", width=116, disabled=fixed, required=True)


def number(i: int, rule: Mask, name: str, *, at: str, lead: bool = True, **options: object) -> None:
    """One number of a rule of the mask."""
    parameter = next(candidate for candidate in rule.parameters() if candidate.name == name)

    def step(now: State, typed: float | None) -> State:
        return mask.with_numbers(now, i, lambda: {name: typed})

    behavior = {"shown": getattr(rule, name), "lead": parameter.label if lead else None, "at": at, "step": step}
    control(st.number_input, parameter.label, MASK, parameter.least, parameter.most, **behavior, **options)


def without_future(now: State) -> State:
    """With the future hidden, and what else is masked left as it is."""
    return mask.changed(now, lambda stack: _with_shortcuts(stack, [*_rules(stack), "causal"]))


def hides_future(now: State) -> bool:
    return "causal" in _rules(mask.of(now))


def _rules(stack: Stack) -> list[str]:
    return [entry.mask.keyword for entry in stack.entries if entry.on]


def _with_shortcuts(stack: Stack, chosen: list[str]) -> Stack:
    """Remove what was switched off; add what is new: a prefix before the rules that block, as it opens the future."""
    entries = [e for e in stack.entries if not e.on or e.mask.keyword not in SHORTCUTS or e.mask.keyword in chosen]
    on = {e.mask.keyword for e in entries if e.on}
    for name in (name for name in SHORTCUTS if name in chosen and name not in on):
        causal = next((i + 1 for i, e in enumerate(entries) if e.on and e.mask.keyword == "causal"), len(entries))
        index = {"causal": 0, "prefix": causal}.get(name, len(entries))
        entries.insert(index, usual(started(BY_NAME[name], 0, ())))
    return Stack(tuple(entries))


def elsewhere(context: ViewContext) -> None:
    """Say that a mask leaves the shown layer as it is, with a button to a layer that it acts on."""
    if context.edits.mask is None or context.edits.mask_at(context.site.kind):
        return
    site = next((site for site in context.record.sites if context.edits.mask_at(site.kind)), None)
    if site is not None:
        quiet(words.NOT_HERE.format(site=context.site))
        behavior = {"type": "tertiary", "icon": ":material/arrow_forward:", "on_click": look.look_at}
        st.button(words.SEE_LAYER.format(site=site), key="see masked", args=(site, context.number), **behavior)


def name_of(entry: Entry, *, first: bool = True) -> str:
    """A rule as it is called: "Causal (hide the future)", "or prefix of 2", "not padding mask"."""
    rule = str(entry.mask)
    plain = {entry.mask.rule: words.RULE_MASK.format(rule=entry.mask.rule), "causal": TITLES["causal"]}
    rule = plain.get(rule, rule)
    rule = rule if len(rule) <= LONGEST_RULE else f"{rule[:LONGEST_RULE].rsplit(',', 1)[0]}, …"
    how = " ".join(filter(None, ("or" if entry.join == "or" and not first else "", "not" if entry.negated else "")))
    return words.RULE[how].format(rule=rule)


def chips(source: Source, request: Request, edits: Edits, original: str) -> None:
    """One removable chip for each thing that is changed, and one button that resets all; else what the model is."""
    fixed = source.read_only or edits == Edits()
    changes = [
        *_training_step(source),
        *([] if fixed else [*_changed(source, request, edits), *_heads_off(edits), *_taken(edits)]),
    ]
    if not changes:
        if source.read_only:
            label(words.READ_ONLY)
        elif source.alone:
            label(words.AS_IN_FILE)
        elif original:
            label(original)
        return
    _reset_button(words.RESET_ALL)
    for key, text, *undo in changes:
        st.button(literal(text), key=f"chip {key}", icon=":material/close:", on_click=_change, args=undo)


def _training_step(source: Source) -> Iterator[tuple]:
    """The training step of the weights, where it is not the last one."""
    if source.step is not None:
        text = words.STEP_IS.format(step=look.step_in_words(source.step, source.steps[-1]))
        yield "training step", text, State.put, look.STEP, None


def _changed(source: Source, request: Request, edits: Edits) -> Iterator[tuple]:
    """Changes other than heads that are off: key, text, and the step that takes each back."""
    stack, hidden = mask.fitting(mask.current(), len(request.texts))[0], _hidden(source, request)
    on = [(i, entry) for i, entry in enumerate(stack.entries) if entry.on]
    kinds = [kind for kind in KINDS if any(site.kind == kind for site in source.sites)]
    where = words.ALL_LAYERS if all(map(edits.mask_at, kinds)) else ", ".join(filter(edits.mask_at, kinds))
    for i, entry in on:
        there = words.ALREADY_BUILT_IN if _is_built_in(source, edits, on, entry) else where
        yield i, f"{name_of(entry, first=i == on[0][0])} · {there}", mask.without, i
    relative, softcap = state.get(ADDED).relative, edits.softcap
    for setting, changed, text in (
        (ADDED.part("alibi"), state.get(ADDED).alibi, words.ALIBI),
        (ADDED.part("relative"), relative is not None, words.RELATIVE.format(seed=relative)),
        (ADDED.part("softcap"), softcap is not None, words.SOFTCAP.format(bound=softcap or 0)),
        (TUNED.part("temperature"), edits.temperature != 1, words.TEMPERATURE.format(temperature=edits.temperature)),
        (TUNED.part("scaled"), edits.scale is not None, words.UNSCALED),
        (OWN_MASK, not edits.own_mask, words.NOT_MASKED.get(hidden, "")),
        (EMPTY, edits.empty_rows != EMPTY_ROWS[0], words.ROWS_GET.format(policy=edits.empty_rows)),
    ):
        if changed:
            yield text, text, State.put, setting, setting.default


def _heads_off(edits: Edits) -> Iterator[tuple]:
    """Each layer with heads off: key, which or how many, and the step that takes it back."""
    for site in sorted({site for site, _ in edits.heads_off}):
        heads = sorted(edits.off(site))
        many = words.HEADS_OF.format(count=len(heads), site=site)
        named = site.head(*heads) if len(heads) <= MOST_NAMED else many
        yield site, words.HEADS_OFF.format(heads=named), _with_off, site, ()


def _taken(edits: Edits) -> Iterator[tuple]:
    """Each thing that is taken from another text: key, what, and the step that takes it back."""
    for number, take in enumerate(edits.taken):
        brief = take if len(take.text) <= LONGEST_RULE else replace(take, text=f"{take.text[:LONGEST_RULE]}…")
        yield f"take{number}", words.TAKEN.format(what=brief.in_words()), without_take, take


def with_take(now: State, take: Take) -> State:
    """With one more thing that is taken from another text."""
    return now.put(TAKEN, tuple(dict.fromkeys([*now[TAKEN], take])))


def without_take(now: State, take: Take) -> State:
    return now.put(TAKEN, tuple(other for other in now[TAKEN] if other != take))


def _is_built_in(source: Source, edits: Edits, on: Sequence[tuple[int, Entry]], entry: Entry) -> bool:
    """Whether a rule hides the future in a model of which every call does so by itself, so that it changes nothing."""
    alone = all(other.join == "and" for _, other in on[1:])
    hides = alone and entry.mask == Subsequent() and not entry.negated
    return hides and edits.own_mask and all(site.kind == "decoder" for site in source.sites)


def _reset_button(title: str) -> None:
    st.button(title, key="reset", on_click=_change, args=(_reset,), wrap=False)


def _change(step: Callable[..., State], *args: object) -> None:
    """One step; the model and the picture that it reads are made outside of what runs again by itself."""
    before = tuple(map(state.get, (look.STEP, GRAYED)))
    state.change(step, *args)
    if before != tuple(map(state.get, (look.STEP, GRAYED))):
        st.rerun()


def _reset(now: State) -> State:
    """Back to the original model; on a page that begins with a mask, no mask is then a choice."""
    now = mask.put(now, Stack()).without("edits").put(look.STEP, None)
    return now.put(MASK, Stack()) if now[mask.OPENING].entries else now


def eyes(context: ViewContext, corners: Sequence[tuple[int, int]]) -> None:
    """An eye over each thumbnail, pressed while its head is on: one widget, as every one costs time at each click.

    Args:
        corners: where the right upper corners of the thumbnails stand in their picture, in pixels.
    """
    heads, off = range(len(corners)), context.edits.off(context.site)
    places = (
        f".st-key-heads_off-eyes button:nth-child({i + 1}) {{left: {x - 24}px; top: {y - 24}px;}}"
        for i, (x, y) in enumerate(corners)
    )
    style(" ".join(places), "eyes")
    control(
        st.pills,
        words.ACTIVE_HEADS,
        OFF,
        heads,
        shown=[head for head in heads if head not in off],
        lead="",
        at="eyes",
        step=lambda now, on: _switched(now, context, {*heads} - {*on}),
        selection_mode="multi",
        format_func=lambda head: words.HEAD_NUMBER.format(head=head),
        disabled=bool(context.source.read_only),
    )


def _switched(now: State, context: ViewContext, heads_off: set[int]) -> State:
    """With these heads off; the one that is switched is what the large picture shows."""
    switched = heads_off ^ context.edits.off(context.site)
    now = _with_off(now, context.site, heads_off)
    shows = len(switched) == 1 and isinstance(context.head, int)
    return now.put(look.SITE, context.site).put(look.SHOW, *switched) if shows else now


def active_heads(context: ViewContext) -> None:
    """Switch all heads of a layer on, off, or each to the other."""
    heads, off = range(context.source.num_heads), context.edits.off(context.site)
    for name, heads_off in ((words.ALL, ()), (words.NONE, heads), (words.INVERT, {*heads} - off)):
        options = {"on_click": state.change, "args": (_with_off, context.site, heads_off), "type": "tertiary"}
        st.button(name, key=f"active {name}", disabled=bool(context.source.read_only), **options)


def _with_off(now: State, site: Site, heads: Iterable[int]) -> State:
    """With these heads of a site off, and no others of it."""
    return now.put(OFF, Edits(heads_off=now[OFF]).with_heads_off(site, frozenset(heads)).heads_off)
