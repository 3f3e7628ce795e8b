"""The steps, the query in full, why there is a scale and what it costs, as one HTML handout."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from attnviz import figures
from attnviz.core.display import file_stem, in_title, shown
from attnviz.ui.shared import pictures
from attnviz.ui.shared import words as common
from attnviz.ui.shared.text import quiet
from attnviz.ui.steps import parts, words
from attnviz.ui.steps.walked import Walk
from attnviz.walk import Stage


def button(at: Walk, every: tuple[Stage, ...]) -> None:
    """One button that gives the file."""
    name = file_stem(at.record.source, at.site, f"head-{at.head}", at.record.sentences[at.sentence].text, end="handout")
    made, options = partial(_file, pictures.lent((at, every), "handout")), {"icon": ":material/description:"}
    pictures.save(common.HANDOUT, made, f"{name}.html", "text/html", key="handout", **options)
    quiet(words.HANDOUT_HOLDS)


def _file(lent: Callable[[], tuple[Walk, tuple[Stage, ...]]]) -> bytes:
    return page(*lent())


def page(at: Walk, every: tuple[Stage, ...]) -> bytes:
    """The handout: always light, for paper.

    Raises:
        AttnvizError: if a picture cannot be drawn.
    """
    from attnviz.export.handout import Section, handout

    at = replace(at, dark=False)
    text = shown(at.record.sentences[at.sentence].text, 200).replace("␣", " ")
    changed = at.record.edits.in_words() + at.knobs.in_words
    lead = [f"“{text}”", words.OF_HEAD.format(model=in_title(at.record.source), head=at.site.head(at.head))]
    lead += [words.CHANGES.format(changes=", ".join(changed))] if changed else []
    return handout(words.HANDOUT_TITLE, lead, [Section(*one) for one in sections(at, every)])


def sections(at: Walk, every: tuple[Stage, ...]) -> list[tuple]:
    """Every step, then the chosen query in full, then why there is a scale and what it costs.

    Each has a title, an equation, remarks, pictures and tables.
    """
    made = [_step(at, i, stage) for i, stage in enumerate(every, 1)]
    if not at.record.read_only:
        made += _row(at)
        made.append((words.ABOUT_SCALE, "", (words.WHY_SCALE,), (figures.spread(parts.spreads(parts.D_KS)),)))
        made.append((words.WHAT_IT_COSTS, "", (), (), ((words.COST_HEAD, parts.costs(at)),)))
    return made


def _step(at: Walk, number: int, stage: Stage) -> tuple:
    where = {"sentence": at.sentence, "selected": at.selected}
    drawn = tuple(_figure(at, stage, group, **where) for group in _groups(stage))
    texts = words.SHAPE.format(shape=stage.sizes), stage.missing or stage.changed, words.WHY[stage.key]
    return f"{number}. {stage.title}", stage.text, texts, drawn


def _groups(stage: Stage) -> list[tuple]:
    """The tables of a step, few enough for a picture."""
    if stage.key != "project":
        return [stage.matrices[:1] if stage.key == "mask" else stage.matrices] if stage.matrices else []
    each = [tuple(m for m in stage.matrices if m.key.split("_")[1] == n or m.key[0] == n) for n in "qkv"]
    return [group for group in each if group]


def _figure(at: Walk, stage: Stage, matrices: tuple, **more) -> figures.Figure:
    return figures.stage(at.record, at.site, at.head, stage, matrices, titled=False, **more)


def _row(at: Walk) -> list[tuple]:
    found, key = at.worked, at.looked_at
    token = shown(at.tokens[0][at.query].text)
    tables = parts.worked_table(at, found), parts.totals(found)
    products, values = figures.products(found, key), figures.values(found, len(at.tokens[1]))
    drawn = [(_figure(at, one, one.matrices),) for one in (products, values)]
    return [
        (words.QUERY_IN_FULL.format(position=at.query, query=token), "", (words.SOFTMAX, found.digits), (), tables),
        (words.PRODUCTS.format(query=at.query, key=key), products.text, (), drawn[0]),
        (words.VALUES, values.text, (words.INFLUENCE,), drawn[1]),
    ]
