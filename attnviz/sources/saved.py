"""A saved record without its model, as a source."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from attnviz.core.edits import NOT_TAKEN, Edits, Site
from attnviz.core.errors import InputError, quoted
from attnviz.core.record import Record
from attnviz.core.tap import Tap
from attnviz.core.tokens import Sentence
from attnviz.sources.base import PROVENANCES, Source

ALONE = "A change acts on this attention alone: the rest of the model is not in the file."


@dataclass(frozen=True, eq=False)
class Saved(Source):
    """A saved record without its model, for the app. It accepts only the texts of the record.

    Attributes:
        name: display name, such as the name of the file.
        record: record of the saved run.
        case: metadata of the file on how the record was made; not verified, as anybody may have written it.
    """

    name: str
    record: Record
    case: Mapping[str, Any] = field(default_factory=dict, kw_only=True)

    untaken = NOT_TAKEN

    def __post_init__(self):
        record = self.record
        vars(self).update(unseen=record.unseen, findings=record.findings, d_model=record.output.shape[-1])

    @property
    def provenance(self) -> str:
        return self.record.provenance if self.record.provenance in PROVENANCES else "your own"

    @property
    def does(self) -> str:
        precision = f" Numbers are kept as {self.record.precision}." if self.record.precision else ""
        if self.record.source == self.name:
            return "Attention that was computed elsewhere, without its model."
        edits = "; ".join(self.record.edits.in_words())
        changed = f", changed: {edits}" if edits else ""
        return f"One run of {self.record.source}{changed}, without its model.{precision}"

    @property
    def read_only(self) -> str | None:
        if not self.record.read_only:
            return None
        return f"{quoted(self.name)} holds weights alone: a change of masks, heads or scores needs queries and keys."

    @property
    def alone(self) -> str:
        return "" if self.read_only else ALONE

    @property
    def one_run(self) -> tuple[str, ...]:
        return tuple(sentence.text for sentence in self.record.sentences)

    @property
    def examples(self) -> tuple[str, ...]:
        return ("\n".join(self.one_run),)

    @property
    def heads(self) -> Mapping[Site, int]:
        return {step.site: step.num_heads for step in self.record.steps}

    def site_name(self, site: Site) -> str:
        return f"{site} · {self.record.step(site).name}".rstrip(" ·")

    def described(self) -> list[tuple[str, str]]:
        dtype = str(self.record.steps[0].query.dtype).removeprefix("torch.")
        versions = [f"{package} {self.case[package]!s:.40}" for package in ("attnviz", "torch") if package in self.case]
        rows = [] if self.record.source == self.name else [("of the model", self.record.source)]
        rows += [
            ("texts", f"{len(self.record.sentences):,}"),
            ("attention calls", f"{len(self.record.steps):,}"),
            ("numbers", f"{dtype}, kept as {self.record.precision or 'they were'}"),
        ]
        return [*rows, ("made by", ", ".join(versions))] if versions else rows

    def tokenize(self, texts: list[str]) -> tuple[Sentence, ...]:
        """Return the tokens of the record's texts; raise InputError for other texts."""
        if tuple(texts) != self.one_run:
            text = quoted(self.one_run[0])
            raise InputError(f"{quoted(self.name)} holds one run, of {text}; load its model to read others.")
        return self.record.sentences

    def run(
        self, sentences: tuple[Sentence, ...], edits: Edits = Edits(), targets: tuple[Sentence, ...] = ()
    ) -> Record:
        """Return the record; with edits, compute each attention call again and leave out predictions.

        Raises:
            InputError: for other sentences or any targets, or for edits if the record holds only weights.
        """
        self.check_own(sentences)
        if targets or (edits != Edits() and self.read_only):
            raise InputError(self.read_only or f"{quoted(self.name)} holds one run; load its model for other words.")
        if edits == Edits():
            return self.record
        tap = Tap(edits)
        outputs = [tap.again(step) for step in self.record.steps]  # of each call, (B, H, n, d_v)
        last = outputs[-1].movedim(1, 2).flatten(2)
        unknown = dict.fromkeys(("prediction", "labels", "vectors"))  # the rest of the model would be needed
        return replace(self.record, edits=edits, steps=tuple(tap.steps), output=last, **unknown)

    def check_own(self, sentences: tuple[Sentence, ...]) -> None:
        """Raise InputError unless the sentences are those of the record, with unchanged tokens."""
        if tuple(sentences) != self.record.sentences:
            raise InputError(f"{quoted(self.name)} holds one run; load its model to change or repeat its text.")
