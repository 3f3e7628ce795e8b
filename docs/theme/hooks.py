"""Pages of the site that are made and not written: the shell's help, tables of rules, formulas."""

import argparse
import re
import sys
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

from griffe import Extension, Object
from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

import attnviz
from attnviz import export, figures, lessons
from attnviz.analysis.heads import METRICS
from attnviz.cli import parser
from attnviz.core import masks
from attnviz.figures import FORMS

sys.path.append(str(Path(__file__).parent))
import wrong_maps

ROOT = Path(__file__).parents[2]
COPIED = {
    "theme/icon.png": "assets/icon.png",
    "changelog.md": "CHANGELOG.md",
    "contributing.md": "CONTRIBUTING.md",
    "security.md": ".github/SECURITY.md",
    "reference/file-format.md": "attnviz/files/format.md",
}
"""Files of the site that have their place elsewhere in the project."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made."""
    for place, path in COPIED.items():
        files.append(File.generated(config, place, abs_src_path=str(ROOT / path)))
    files.append(File.generated(config, "reference/shell.md", content="\n".join(_shell())))
    for file in _museum(config):
        files.append(file)
    return files


class TogetherDescribed(Extension):
    """Attributes that one line describes, "rows, columns: of the grid.", are not read as one with a type."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Join their names by blanks that do not part."""
        if obj.docstring:
            names = re.compile(r"^ +\w+(?:, \w+)+(?=: )", re.MULTILINE)
            obj.docstring.value = names.sub(lambda found: found[0].replace(", ", ",\u00a0"), obj.docstring.value)


def on_page_markdown(markdown: str, *, page: Page, **_: Any) -> str:
    """Insert the tables that a page names by a line of its own; lead links to pages, not to files."""
    if page.file.src_uri in COPIED:
        markdown = markdown.replace("](docs/", "](")
    if not page.file.src_uri.startswith("reference/"):
        return markdown
    return re.sub(f"^({'|'.join(TABLES)})$", lambda name: "\n".join(TABLES[name[0]]()), markdown, flags=re.MULTILINE)


def on_page_content(html: str, **_: Any) -> str:
    """Formulas as MathML, which browsers draw without a script; wide tables that keys can scroll."""
    formula = r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>'
    kinds = {"span": "inline", "div": "block"}
    html = re.sub(formula, lambda found: convert(unescape(found[2]), display=kinds[found[1]]), html, flags=re.DOTALL)
    wide = r"<table>\n<thead>\n<tr>\n(?:<th[^\n]*\n){3,}.*?</table>"
    return re.sub(
        wide, r'<div class="wide" tabindex="0" role="region" aria-label="Table">\g<0></div>', html, flags=re.S
    )


def on_post_page(output: str, **_: Any) -> str:
    """Give the search a name for screen readers."""
    return output.replace(
        'data-md-component="search" role="dialog"', 'data-md-component="search" role="dialog" aria-label="Search"'
    )


def _shell() -> Iterator[str]:
    """Every command with its options, as `attnviz COMMAND --help` prints them."""
    whole = parser.build()
    (commands,) = (action.choices for action in whole._actions if isinstance(action, argparse._SubParsersAction))
    yield "# The shell\n"
    yield "`attnviz COMMAND --help` prints the same.\n"
    yield from ("```text", parser.EXAMPLES, "```\n")
    for name, command in commands.items():
        yield f"## {name}\n"
        yield f"{command.description}\n"
        yield from _options(command)


def _options(command: argparse.ArgumentParser) -> Iterator[str]:
    """How a command is written, its options, and the same of each of its actions."""
    yield from ("```text", " ".join(command.format_usage().removeprefix("usage: ").split()), "```\n")
    for group in command._action_groups:
        yield from _group(group)
    nested = (action.choices for action in command._actions if isinstance(action, argparse._SubParsersAction))
    for name, action in (one for choices in nested for one in choices.items()):
        yield f"### {command.prog.partition(' ')[2]} {name}\n"
        yield from _options(action)


def _group(group: argparse._ArgumentGroup) -> Iterator[str]:
    nested = argparse._SubParsersAction
    actions = [one for one in group._group_actions if one.dest != "help" and not isinstance(one, nested)]
    if not actions:
        return
    yield f"| {group.title} | what it does |\n|---|---|"
    for action in actions:
        names = ", ".join(action.option_strings) or action.metavar or action.dest
        takes = f" {action.metavar or action.dest.upper()}" if action.option_strings and action.nargs != 0 else ""
        help = (action.help or "").replace("|", "\\|").replace("<", "&lt;")
        yield f"| `{names}{takes}` | {help} |"
    yield ""


def _names() -> Iterator[str]:
    yield "| name | what it is |\n|---|---|"
    for name in attnviz.__all__:
        value = getattr(attnviz, name)
        where = value.__name__ if name in attnviz._MODULES else f"{value.__module__}.{value.__qualname__}"
        first = re.split(r"(?<=[.?:]) |\n", (value.__doc__ or "").strip())[0].removesuffix(":").replace("|", "\\|")
        link = f"`attnviz.{name}`" if name in attnviz._MODULES else f"[`attnviz.{name}`][{where}]"
        yield f"| {link} | {first} |"


def _metrics() -> Iterator[str]:
    for one in METRICS:
        yield f"- **{one.title}**: ${one.formula}$" + (f" ({one.where})" if one.where else "") + "  "
        yield f"    {one.means} Range: {one.range}. *{one.source}*".replace("<", "&lt;")


def _forms() -> Iterator[str]:
    """The forms of a head with what they take, and the figure of each."""
    yield "| `--form` | on the page Heads | what it takes |\n|---|---|---|"
    for name, form in FORMS.items():
        takes = ", ".join(f"`{option}`" for option in sorted(form.takes))
        yield f"| `{name}` | {'yes' if form.is_on_page else 'no'} | {takes or '–'} |"
    yield ""
    for form in FORMS.values():
        yield f"::: {form.figure.__module__}.{form.figure.__qualname__}\n"


def _rules() -> Iterator[str]:
    for rule in masks.RULES.values():
        if rule.meaning:
            yield f"::: {rule.__module__}.{rule.__name__}\n    options:\n      members: false\n"


TABLES = {"NAMES": _names, "METRICS": _metrics, "FORMS": _forms, "RULES": _rules}
"""What stands for which line."""


def _museum(config: MkDocsConfig) -> Iterator[File]:
    """The page of the bug museum: each mistake with its right and its wrong map, its cause and its repair."""
    parts = [
        "# Bug museum",
        "Twelve mistakes that people made in attention, each made again on what a real model computes.",
    ]
    for bug in lessons.museum():
        parts += [f"## {bug.title}", bug.symptom]
        maps = wrong_maps.made(bug.name)
        if isinstance(maps, wrong_maps.TrainedPair):
            losses = [
                f"{run.losses[-1][1]:.2f}, and {run.generation_loss:.2f} where it writes"
                for run in (maps.right, maps.wrong)
            ]
            parts.append(f"Loss of the right model: {losses[0]}. Loss of the wrong one: {losses[1]}.")
        else:
            for name, record in (("right", maps.right), ("wrong", maps.wrong)):
                picture = f"museum-{bug.name}-{name}.svg"
                figure = figures.head(record, record.sites[0], maps.head)
                yield File.generated(config, picture, content=export.render(figure, "svg"))
                parts.append(f"![The {name} map: {figure.description.partition('. ')[0]}]({picture})")
        found = f"`attnviz check` finds it by the rule `{bug.rule}`." if bug.rule else f"Found by {bug.found_by}."
        parts += [bug.because, f"```diff\n{bug.fix}\n```", f"{found} [{bug.seen_in}]({bug.source})"]
    yield File.generated(config, "museum.md", content="\n\n".join(parts))
