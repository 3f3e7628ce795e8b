"""A step of a lesson as a notebook: its texts, and what it shows as code that draws the same figures."""

import re
from collections.abc import Callable, Iterator
from typing import Any

from attnviz.lessons import Lesson, LessonStep
from attnviz.ui import cache
from attnviz.ui.learn import words
from attnviz.ui.learn.going import begun
from attnviz.ui.learn.scenes import D_KS
from attnviz.ui.learn.slides import FIGURES, looked_at
from attnviz.ui.settings import LINKED
from attnviz.ui.shared import words as common
from attnviz.ui.shared.code import CodeWriter
from attnviz.ui.shared.look import CELL, QUERY, ViewContext
from attnviz.ui.shared.setting import State, read

KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}


def file_name(lesson: Lesson, number: int) -> str:
    """File name of the notebook of a step: "01-a-word-looks-at-other-words.ipynb"."""
    title = lesson.steps[number - 1].title.lower().replace("ₖ", "-k")  # a letter of the name, too
    title = re.sub(r"[^a-z0-9]+", "-", title).strip("-")
    return f"{number:02}-{title}.ipynb"


def notebook(lesson: Lesson, number: int) -> dict[str, Any]:
    """The notebook of a step, counted from 1, before it was run: what `nbformat` reads, version 4.5."""
    step, writer = lesson.steps[number - 1], CodeWriter(cache.maker)
    now = begun(step)
    codes = [*_cells(step, now, writer)]
    there = {code.splitlines()[-1] for code in codes}
    done = [code for goal in _goals(step, now) for code in _cells(step, goal, writer, tried=True)]
    cells = [
        _text(f"# {number} · {step.title}", step.idea, *_terms(step)),
        _code("\n".join(writer.imported())),
        *map(_code, codes),
        _text(f"## {words.TRY_IT}", words.ON_THE_PAGE.format(do=step.do), f"**{step.question}**", *_choices(step)),
        *(_code(code) for code in done if code.splitlines()[-1] not in there),
        _text(f"<details><summary>{words.ANSWER}</summary>", step.answer, "</details>"),
        _text(*_ways(lesson, number)),
    ]
    for i, cell in enumerate(cells):
        cell["id"] = f"cell-{i}"
    return {"cells": cells, "metadata": {"kernelspec": KERNEL}, "nbformat": 4, "nbformat_minor": 5}


def _goals(step: LessonStep, now: State) -> tuple[State, ...]:
    """States that a notebook tries: the first goal."""
    if step.finds:
        return (now,)
    return tuple(now.replaced(read(now.link() | goal, LINKED)) for goal in step.goal[:1])


def _cells(step: LessonStep, now: State, writer: CodeWriter, *, tried: bool = False) -> Iterator[str]:
    """The code of each thing that a step shows in a state.

    Args:
        tried: whether what is asked for was done.
    """
    context = looked_at(now)
    for name in step.shows:
        if name in WRITTEN:
            yield from WRITTEN[name](context, now, writer, tried)
        elif name in FIGURES:
            before = len(writer.lines)
            figure_code = writer.figure(FIGURES[name](context, now))
            prints = [f"print({_cell(context, now, writer)})"] if name == "map" and now[CELL] else []
            yield "\n".join([*writer.lines[before:], *prints, figure_code])


def _cell(context: ViewContext, now: State, writer: CodeWriter) -> str:
    _import(writer, "attnviz.analysis", "sentences")
    return writer.call("sentences.cell", (context.record, context.site, context.head, *now[CELL]), {})


def _row(context: ViewContext, now: State, writer: CodeWriter, tried: bool) -> Iterator[str]:
    before = len(writer.lines)
    row = writer.call("attnviz.analysis.steps.row", (context.record, context.site, context.head, now[QUERY]), {})
    tokens = f"{writer.value(context.record)}.tokens({writer.value(context.site)})[1]"
    lines = [*writer.lines[before:], f"row, tokens = {row}, {tokens}"]
    lines.append("for key in row.keys[: row.query + 1]:")
    yield "\n".join([*lines, '    print(f"{tokens[key].text:10} {row.sums[key]:7.2f} {row.weights[key]:6.3f}")'])
    yield _VALUES.format(call=", ".join(map(writer.value, (context.record, context.site, context.head))))


_VALUES = """values, key = attnviz.figures.values(row, len(tokens)), int(row.weights.argmax())
attnviz.figures.stage({call}, values, values.matrices, selected=(row.query, key))"""


def _scores(context: ViewContext, now: State, writer: CodeWriter, tried: bool) -> Iterator[str]:
    if tried:
        before = writer.value(context.untouched), len(writer.lines)
        call = writer.call(
            "attnviz.analysis.steps.compare",
            (context.untouched, context.record, context.site, context.head, now[QUERY]),
            {},
        )
        yield "\n".join([*writer.lines[before[1] :], f"print({call}.message)"])


def _d_k(context: ViewContext, now: State, writer: CodeWriter, tried: bool) -> Iterator[str]:
    if not tried:
        yield f"attnviz.figures.spread(attnviz.analysis.steps.dot_product_variance({writer.value(D_KS)}))"


def _peeking(context: ViewContext, now: State, writer: CodeWriter, tried: bool) -> Iterator[str]:
    if tried:
        _import(writer, "attnviz.lessons", "peeking")
        yield "\n".join(
            [
                "masked, unmasked = peeking.learn(attnviz.Subsequent()), peeking.learn(None)",
                f"said = {writer.value(words.WRITING)}",
                "print(said.format(masked=masked.writing, open=unmasked.writing, guess=peeking.GUESS))",
                "for (step, with_mask), (_, without) in list(zip(masked.losses, unmasked.losses))[::6]:",
                f"    print(f'step {{step:3}}: loss {words.MASKED} {{with_mask:.2f}}, {words.OPEN} {{without:.2f}}')",
            ]
        )


def _bugs(context: ViewContext, now: State, writer: CodeWriter, tried: bool) -> Iterator[str]:
    _import(writer, "attnviz.lessons", "bugs")
    if tried:
        yield 'for bug in bugs.museum()[:3]:\n    print(f"{bug.title}. {bug.because}\\n{bug.fix}\\n")'
        return
    yield 'for number, bug in enumerate(bugs.museum(), 1):\n    print(f"{number}. {bug.symptom}")'
    for number, bug in ((1, "inverted"), (3, "after")):
        right = words.AS_IT_SHOULD_BE.format(number=number)
        yield f'made = bugs.live("{bug}")  # {right}\n{_BUG.format(side="right")}'
        yield f"# {words.WITH_THE_BUG}\n{_BUG.format(side='wrong')}"


_BUG = "attnviz.figures.head(made.{side}, made.{side}.sites[0], made.head, row_sums=True, side=300)"

WRITTEN: dict[str, Callable[[ViewContext, State, CodeWriter, bool], Iterator[str]]] = {
    "row": _row,
    "scores": _scores,
    "d_k": _d_k,
    "peeking": _peeking,
    "bugs": _bugs,
}
"""Code of scenes that are no single figure, by the names that lessons use."""


def _import(writer: CodeWriter, home: str, name: str) -> None:
    writer.names.setdefault(home, set()).add(name)


def _terms(step: LessonStep) -> list[str]:
    return [f"- **{term.name}**: {term.means}.{f' *{term.source}*' if term.source else ''}" for term in step.terms]


def _choices(step: LessonStep) -> list[str]:
    return [f"- {choice}" for choice in step.choices]


def _ways(lesson: Lesson, number: int) -> list[str]:
    """Links to the steps before and after."""
    ways = [f"[{common.BACK}]({file_name(lesson, number - 1)})"] if number > 1 else []
    ways += [f"[{words.NEXT}]({file_name(lesson, number + 1)})"] if number < len(lesson.steps) else []
    return [lesson.closing if number == len(lesson.steps) else "", " · ".join(ways)]


def _text(*parts: str) -> dict[str, Any]:
    blocks = "\n\n".join(part.strip() for part in parts if part)
    return {
        "cell_type": "markdown",
        "metadata": {},
        "source": re.sub(r"(^- .*)\n\n(?=- )", r"\1\n", blocks, flags=re.M),
    }


def _code(text: str) -> dict[str, Any]:
    return {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": text}
