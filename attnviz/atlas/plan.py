"""Plan of an atlas, written before the first shard: a second run with something else is refused."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from attnviz import api
from attnviz.atlas.corpus import Shard
from attnviz.atlas.measure import Options
from attnviz.core import whole
from attnviz.core.errors import InputError, quoted
from attnviz.sources import script
from attnviz.sources.base import Source

PLAN = "plan.json"

FORMAT = 1


@dataclass(frozen=True)
class Model:
    """How a worker makes the model: its name, or FILE.py:FUNCTION, and its settings.

    Attributes:
        weights: their checksum; None where the settings alone make the source again.
    """

    name: str
    settings: tuple[tuple[str, Any], ...] = ()
    weights: str | None = None

    @classmethod
    def of(cls, name: str, **settings: Any) -> "Model":
        source = load(name, **settings)
        return cls(name, tuple(sorted(settings.items())), source.checksum())

    def source(self) -> Source:
        """Raises: InputError: if its weights are not those with which the atlas was begun."""
        source = load(self.name, **dict(self.settings))
        if source.checksum() != self.weights:
            raise InputError(f"The weights of '{self.name}' are not those with which the atlas was begun.")
        return source


def load(name: str, **settings: Any) -> Source:
    file, sign, function = name.rpartition(":")
    if sign and file.endswith(".py"):
        return script.build(file, function)
    return api.load(name, **settings)


@dataclass(frozen=True)
class Plan:
    """All that decides what is in an atlas.

    Attributes:
        corpus: the folder of the corpus, seen from that of the atlas; it decides nothing.
    """

    model: Model
    options: Options
    shards: tuple[Shard, ...]
    corpus: str = field(compare=False)

    @property
    def lines(self) -> int:
        return sum(shard.lines for shard in self.shards)

    def to_json(self) -> dict[str, Any]:
        return json.loads(json.dumps({"attnviz atlas": FORMAT} | asdict(self)))

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "Plan":
        model = Model(data["model"]["name"], tuple(map(tuple, data["model"]["settings"])), data["model"]["weights"])
        return cls(model, Options(**data["options"]), tuple(Shard(**shard) for shard in data["shards"]), data["corpus"])


def read(folder: Path) -> Plan | None:
    """The plan of an atlas; None if it has none.

    Raises:
        InputError: if it is no plan.
    """
    try:
        data = json.loads((folder / PLAN).read_text("utf-8"))
        if data["attnviz atlas"] != FORMAT:
            raise ValueError
        return Plan.from_json(data)
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise InputError(f"{quoted(str(folder / PLAN), 200)} is not the plan of an atlas.") from None


def settle(folder: Path, plan: Plan) -> None:
    """Write a plan, or find the same one there.

    Raises:
        InputError: if the folder holds something else, or an atlas of another model, corpus or options.
    """
    there = read(folder)
    if there is None:
        if any(not file.name.startswith(".") and file.name != "corpus.jsonl" for file in folder.iterdir()):
            raise InputError(f"{quoted(str(folder), 200)} holds other files and no {PLAN}: give an empty folder.")
        whole.write(folder / PLAN, json.dumps(plan.to_json(), indent=1).encode())
    elif there != plan:
        raise InputError(f"{quoted(str(folder), 200)} holds another atlas: {_difference(there, plan)}")


def _difference(there: Plan, plan: Plan) -> str:
    """First difference, with both sides, and what to do."""
    if there.model.name != plan.model.name:
        return f"of '{there.model.name}', not of '{plan.model.name}'. Give another folder."
    if there.model != plan.model:
        return f"of '{there.model.name}' with other weights or settings. Give another folder."
    if there.options != plan.options:
        stored, current = asdict(there.options), asdict(plan.options)
        name = next(name for name in stored if stored[name] != current[name])
        return f"{name} is {stored[name]} there and {current[name]} here. Give another folder."
    for shard, other in zip(there.shards, plan.shards, strict=False):
        if shard != other:
            change = f"the corpus changed at line {other.first:,} of {quoted(other.file, 200)} or after it"
            return f"{change}. Give another folder for another corpus."
    return f"the corpus had {len(there.shards):,} shards and has {len(plan.shards):,}. Give another folder."
