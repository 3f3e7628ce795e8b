"""Open and query an atlas; results are pandas tables. DuckDB evaluates conditions and searches the Parquet files.

    atlas = attnviz.atlas.open("atlas")
    atlas.heads("previous_token > 0.9 and entropy_spread < 0.2")
    atlas.examples("decoder layer 1", 0, "previous")
    atlas.search(query_token="it", min_weight=0.5)

A condition from a user is evaluated as an SQL expression over the columns of one table, in a database without access to
files; tokens are passed as parameters, never as a part of the SQL.
"""

import builtins
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq

from attnviz import api
from attnviz.analysis.heads import METRICS, metric
from attnviz.atlas import corpus
from attnviz.atlas.corpus import Shard
from attnviz.atlas.measure import Options
from attnviz.atlas.tables import columns_of
from attnviz.core import storage
from attnviz.core.edits import Site
from attnviz.core.errors import InputError, quoted
from attnviz.sources import own_code
from attnviz.sources.base import Source

_TITLES = {measure.name: measure.title.partition(" (")[0].lower() for measure in METRICS}
ALIASES = {re.sub(r"\W+", "_", title): name for name, title in _TITLES.items()}
"""Names of metrics by their titles, such as previous_token for previous."""

PLAN, FORMAT = "plan.json", 2
RESULT = "atlas.json"
"""File that is written last: an atlas with this file is complete."""
TABLES = ("distances", "effects", "pairs")


@dataclass(frozen=True)
class Plan:
    """All inputs that determine the content of an atlas, stored in its folder.

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
        """Load the model; raise InputError if its weights changed since the atlas was started."""
        source = load(self.model, **self.settings)
        if source.checksum() != self.weights:
            raise InputError(f"The weights of '{self.model}' changed since the atlas was started.")
        return source

    def settle(self, folder: Path) -> None:
        """Write the plan into an empty folder; do nothing if the folder has an equal plan already.

        Raises:
            InputError: if the folder holds other files, or an atlas of another model, corpus or options.
        """
        existing = read_plan(folder)
        if existing is None:
            names = [file.name for file in folder.iterdir() if not file.name.startswith(".")]
            if names not in ([], ["corpus.jsonl"]):  # the corpus of `building.of_texts`
                raise InputError(f"{quoted(str(folder), 200)} has other files but no {PLAN}: give an empty folder.")
            data = {"attnviz atlas": FORMAT} | asdict(self)
            storage.write(folder / PLAN, json.dumps(data, indent=1).encode())
        elif existing != self:
            difference = f"{self._difference(existing)}. Give another folder."
            raise InputError(f"{quoted(str(folder), 200)} holds another atlas: {difference}")

    def _difference(self, existing: "Plan") -> str:
        """Describe the first difference between this plan and another one, `existing`, in the same folder."""
        if existing.model != self.model:
            return f"its model is '{existing.model}', not '{self.model}'"
        if (existing.settings, existing.weights) != (self.settings, self.weights):
            return f"its '{existing.model}' has other weights or settings"
        for name, value in asdict(self.options).items():
            if (other := getattr(existing.options, name)) != value:
                return f"its option {name} is {other}, not {value}"
        pairs = zip(existing.shards, self.shards, strict=False)
        changed = next((shard for old_shard, shard in pairs if shard != old_shard), self.shards[-1])
        return f"its corpus differs at line {changed.first:,} of {quoted(changed.file, 200)} or after it"


def load(name: str, **settings: Any) -> Source:
    """Load a model by its name, or build it with FILE.py:FUNCTION."""
    file, _, function = name.rpartition(":")  # file is "" in a name without a colon
    return own_code.build(file, function) if file.endswith(".py") else api.load(name, **settings)


def read_plan(folder: Path) -> Plan | None:
    """Read the plan in a folder; None if there is no plan. Raise InputError for a file of another version."""
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
        raise InputError(f"{quoted(str(folder / PLAN), 200)} is not a plan of this version: build the atlas anew.")
    return plan


@dataclass(frozen=True)
class Atlas:
    """A complete atlas.

    Attributes:
        plan: model, corpus and options of the atlas.
        texts, tokens: number of texts and tokens that the model read.
        empty_lines: number of lines without text.
        failed: file, line, lines and error of each shard that could not be measured and is missing.
    """

    folder: Path
    plan: Plan
    texts: int
    tokens: int
    empty_lines: int
    failed: tuple[dict[str, Any], ...]

    def heads(self, where: str = "") -> pd.DataFrame:
        """Return a table with a row per head, or only the heads for which the SQL condition `where` holds.

        Each metric has the columns `<name>` (mean over texts), `<name>_low` and `_high` (95% interval), `_spread`
        (standard deviation), `_texts` (number of texts), and `_q05` to `_q95` (quantiles). `<name>_fails` is the share
        of texts on which a metric with a threshold (`analysis.heads.THRESHOLDS`) is below it. `role` is the role that
        the means suggest, if any, and `role_fails` is the column `_fails` of its metric. `pairs_above` is the weight
        above which no token pair is missing: see `search`. A metric that is newer than the atlas is NaN.

        Raises:
            InputError: if `where` is not a condition on these columns.
        """
        path = self.folder / "heads.parquet"
        heads = _heads_where(path, where) if where.strip() else pd.read_parquet(path)
        newer = [column for measure in METRICS for column in columns_of(measure.name) if column not in heads]
        return heads.reindex(columns=[*heads, *newer]) if newer else heads

    def examples(self, site: Site | str, head: int, name: str, k: int = 10) -> pd.DataFrame:
        """Return a table of the `k` texts on which a metric of a head is largest: value, file, line, rank and text.

        Raises:
            InputError: if there is no such head or metric, or the corpus changed.
        """
        metric(name)
        rows = self._head_rows("examples", site, head)
        rows = rows[(rows["name"] == name) & (rows["rank"] <= k)].reset_index(drop=True)
        return rows.drop(columns="name").assign(text=list(map(self.text, rows["file"], rows["line"])))

    def search(
        self,
        query_token: str | None = None,
        key_token: str | None = None,
        min_weight: float = 0.0,
        *,
        site: Site | str | None = None,
        head: int | None = None,
        k: int = 100,
    ) -> pd.DataFrame:
        """Search the stored pairs of a query and its strongest key; return the `k` pairs with the largest weights.

        For each head and shard, an atlas stores a limited number of pairs, and two equal pairs of token strings only
        once, so weak pairs may be missing. No pair above the weight `attrs["complete_above"]` of the result is missing.

        Args:
            query_token, key_token: tokens as in the text; case, and blanks around a token, are ignored.
        """
        values = {
            "lower(trim(query_token)) = lower(trim(?))": query_token,
            "value >= ?": float(min_weight),
            "lower(trim(key_token)) = lower(trim(?))": key_token,
            "head = ?": head,
            "site = ?": None if site is None else str(site),
        }
        values = {condition: value for condition, value in values.items() if value is not None}
        order = "ORDER BY value DESC, file, line, query, key, site, head LIMIT ?"
        columns = "site, head, value AS weight, query_token, key_token, file, line, query, key"
        path = str(self.folder / "shards" / "*" / "pairs.parquet")
        with _database() as (database, _):
            sql = f"SELECT {columns} FROM read_parquet(?) WHERE {' AND '.join(values)} {order}"
            pairs = database.execute(sql, [path, *values.values(), k]).df()
        heads = self.heads()
        is_searched = (heads["site"] == str(site)) | (site is None)
        is_searched &= (heads["head"] == head) | (head is None)
        pairs.attrs["complete_above"] = heads[is_searched]["pairs_above"].max()
        return pairs

    def table(self, name: str, site: Site | str, head: int) -> pd.DataFrame:
        """Return the rows of a head in another table, one of `TABLES`; raise InputError if there is none."""
        if name not in TABLES:
            raise InputError(f"There is no table {quoted(name)}. Available tables: {', '.join(TABLES)}.")
        return self._head_rows(name, site, head)

    def problems(self) -> pd.DataFrame:
        """List the texts that could not be read: file, line and problem."""
        return pd.read_parquet(self.folder / "problems.parquet")

    def text(self, file: str, line: int) -> str:
        """Read a text of the corpus; raise InputError if the corpus is missing or changed."""
        for shard in self.plan.shards:
            if shard.file == file and shard.first <= line < shard.first + shard.lines:
                return corpus.texts(self.folder / self.plan.corpus, shard)[line - shard.first].text
        raise InputError(f"The atlas has no line {line:,} of {quoted(file, 200)}.")

    def _head_rows(self, name: str, site: Site | str, head: int) -> pd.DataFrame:
        """Read the rows of a head in a table; raise InputError if there is no such head."""
        if (str(site), head) not in self._heads:
            last_heads = dict(self._heads)  # by site
            names = ", ".join(f"{site} heads 0 to {last}" for site, last in last_heads.items())
            raise InputError(f"The atlas has no head {quoted(head)} at {str(site)[:40]}. Available heads: {names}.")
        filters = [("site", "==", str(site)), ("head", "==", head)]
        return pd.read_parquet(self.folder / f"{name}.parquet", filters=filters).drop(columns=["site", "head"])

    @cached_property
    def _heads(self) -> list[tuple[str, int]]:
        """Site and number of every head, in the order of the model."""
        heads = self.heads()
        return list(zip(heads["site"], heads["head"], strict=True))


def _heads_where(path: Path, where: str) -> pd.DataFrame:
    """Select the heads for which an SQL condition on columns or `ALIASES` holds; raise InputError if it is invalid."""
    columns = set(pq.read_schema(path).names)
    aliases = {alias: name for alias, name in ALIASES.items() if alias != name and name in columns}
    selection = ", ".join(["*", *[f'"{name}" AS "{alias}"' for alias, name in aliases.items()]])
    with _database() as (database, duckdb):
        database.execute(f"CREATE TABLE heads AS SELECT {selection} FROM read_parquet(?)", [str(path)])
        database.execute("SET enable_external_access = false")
        database.execute("SET lock_configuration = true")
        try:
            heads = database.table("heads").filter(duckdb.SQLExpression(where)).df()
        except duckdb.Error as error:
            first_line = str(error).strip().partition("\n")[0]
            reason = first_line.partition("Error: ")[2] or first_line
            raise InputError(f"{quoted(where, 80)} is not a condition on heads: {reason[:200]}") from None
    return heads.drop(columns=[*aliases])


def open(folder: str | Path) -> Atlas:
    """Open a complete atlas; raise InputError if there is no atlas, or it is not complete."""
    folder = Path(folder)
    atlas_plan = read_plan(folder)
    if atlas_plan is None:
        raise InputError(f"There is no atlas in {quoted(str(folder), 200)}.")
    try:
        with builtins.open(folder / RESULT, encoding="utf-8") as file:
            result = json.load(file)
        result["failed"] = tuple(result["failed"])
        return Atlas(folder, atlas_plan, **result)
    except (OSError, ValueError, KeyError, TypeError):
        problem = f"The atlas in {quoted(str(folder), 200)} is not finished"
        raise InputError(f"{problem}: to continue it, repeat the command that started it.") from None


@contextmanager
def _database() -> Iterator[tuple[Any, Any]]:
    """Open an empty database in memory; yield it with the module `duckdb`."""
    try:
        import duckdb
    except ImportError:
        raise InputError("An atlas needs duckdb: pip install 'attnviz[atlas]'.") from None
    with duckdb.connect(config={"autoinstall_known_extensions": False}) as database:
        yield database, duckdb
