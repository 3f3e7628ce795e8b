"""Pages of the site that are made and not written: the shell's help, and files that have their place elsewhere."""

import argparse
from collections.abc import Iterator
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from attnviz.cli import parser

ROOT = Path(__file__).parents[2]
COPIED = {
    "theme/icon.png": "assets/icon.png",
    "changelog.md": "CHANGELOG.md",
    "reference/file-format.md": "attnviz/files/format.md",
}
"""Files of the site, by where they stand in it and in the project."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what is made."""
    for place, path in COPIED.items():
        files.append(File.generated(config, place, abs_src_path=str(ROOT / path)))
    files.append(File.generated(config, "reference/shell.md", content="\n".join(_shell())))
    return files


def _shell() -> Iterator[str]:
    """Every command with its options, as `attnviz COMMAND --help` prints them."""
    whole = parser.build()
    (commands,) = (action.choices for action in whole._actions if isinstance(action, argparse._SubParsersAction))
    yield "# The shell\n"
    yield f"`attnviz COMMAND --help` prints the same. Other names: {_aliases()}.\n"
    yield from ("```text", parser.EXAMPLES, "```\n")
    for name, command in commands.items():
        yield f"## {name}\n"
        yield f"{command.description}\n"
        yield from ("```text", command.format_usage().removeprefix("usage: ").rstrip(), "```\n")
        for group in command._action_groups:
            yield from _group(group)


def _aliases() -> str:
    return ", ".join(f"`{old}` for `{new}`" for old, new in parser.ALIASES.items())


def _group(group: argparse._ArgumentGroup) -> Iterator[str]:
    actions = [action for action in group._group_actions if action.dest != "help"]
    if not actions:
        return
    yield f"| {group.title} | |\n|---|---|"
    for action in actions:
        names = ", ".join(action.option_strings) or action.metavar or action.dest
        takes = f" {action.metavar or action.dest.upper()}" if action.option_strings and action.nargs != 0 else ""
        help = (action.help or "").replace("|", "\\|").replace("<", "&lt;")
        yield f"| `{names}{takes}` | {help} |"
    yield ""
