"""Plan of an atlas, written before the first shard, so that a later call with other inputs is refused."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from attnviz import api
from attnviz.atlas.corpus import Shard
from attnviz.atlas.measure import Options
from attnviz.core import storage
from attnviz.core.errors import InputError, quoted
from attnviz.sources import script
from attnviz.sources.base import Source

PLAN, FORMAT = "plan.json", 2


@dataclass(frozen=True)
class Plan:
    """All inputs that determine the content of an atlas.

    Attributes:
        model: name for `attnviz.load`, or FILE.py:FUNCTION.
        settings: settings of the model, by name.
        weights: checksum of its weights; None if the settings alone determine the source.
        corpus: path of the corpus, relative to the folder of the atlas; ignored in comparisons.
    """

    model: str
    settings: dict[str, Any]
    weights: str | None
    options: Options
    shards: tuple[Shard, ...]
    corpus: str = field(compare=False)

    @property
    def lines(self) -> int:
        """Number of lines of the corpus."""
        return sum(shard.lines for shard in self.shards)

    def source(self) -> Source:
        """Load the model.

        Raises:
            InputError: if its weights changed since the atlas was started.
        """
        source = load(self.model, **self.settings)
        if source.checksum() != self.weights:
            raise InputError(f"The weights of '{self.model}' are not those with which the atlas was begun.")
        return source

    def settle(self, folder: Path) -> None:
        """Write the plan into a folder, unless the folder has an equal plan.

        Raises:
            InputError: if the folder holds other files, or an atlas of another model, corpus or options.
        """
        there = read(folder)
        if there is None:
            if any(not file.name.startswith(".") and file.name != "corpus.jsonl" for file in folder.iterdir()):
                raise InputError(f"{quoted(str(folder), 200)} holds other files and no {PLAN}: give an empty folder.")
            data = {"attnviz atlas": FORMAT} | asdict(self)
            storage.write(folder / PLAN, json.dumps(data, indent=1).encode())
        elif there != self:
            difference = f"{self._difference(there)}. Give another folder."
            raise InputError(f"{quoted(str(folder), 200)} holds another atlas: {difference}")

    def _difference(self, there: "Plan") -> str:
        """Describe the first difference from another plan."""
        if there.model != self.model:
            return f"of '{there.model}', not of '{self.model}'"
        if (there.settings, there.weights) != (self.settings, self.weights):
            return f"of '{there.model}' with other weights or settings"
        for name, value in asdict(self.options).items():
            if (other := getattr(there.options, name)) != value:
                return f"{name} is {other} there and {value} here"
        changed = (new for old, new in zip(there.shards, self.shards, strict=False) if old != new)
        first = next(changed, self.shards[-1])
        return f"the corpus changed at line {first.first:,} of {quoted(first.file, 200)} or after it"


def load(name: str, **settings: Any) -> Source:
    """Load a model by its name, or build it with FILE.py:FUNCTION."""
    file, sign, function = name.rpartition(":")
    return script.build(file, function) if sign and file.endswith(".py") else api.load(name, **settings)


def read(folder: Path) -> Plan | None:
    """Read the plan in a folder; None if there is no plan.

    Raises:
        InputError: if the file is not a plan of this version.
    """
    try:
        data = json.loads((folder / PLAN).read_text("utf-8"))
        version, options = data.pop("attnviz atlas"), Options(**data["options"])
        shards = tuple(Shard(**shard) for shard in data.pop("shards"))
        plan = Plan(**data | {"options": options, "shards": shards})
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, RecursionError):
        version = None
    if version != FORMAT:
        raise InputError(f"{quoted(str(folder / PLAN), 200)} is no plan of an atlas of this version: build it anew.")
    return plan
