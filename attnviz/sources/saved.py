"""A record as a source: what was saved is looked at again, without its model."""

from collections.abc import Mapping
from dataclasses import dataclass

from attnviz.core.edits import Edits, Site
from attnviz.core.errors import InputError, quoted
from attnviz.core.record import Record
from attnviz.core.tokens import Sentence
from attnviz.sources.base import Source


@dataclass(frozen=True, eq=False)
class Saved(Source):
    """A record under a name, for the app. It reads the texts of its record and no others.

    Attributes:
        name: what the app calls it, such as the name of its file.
        record: what is looked at.
    """

    name: str
    record: Record

    one_run = True

    @property
    def provenance(self) -> str:
        return self.record.provenance

    @property
    def title(self) -> str:
        return self.name

    @property
    def does(self) -> str:
        kept = f" Numbers are kept as {self.record.precision}." if self.record.precision else ""
        return f"One run of {self.record.source}{self._changed(', changed: {}')}, without its model.{kept}"

    @property
    def read_only(self) -> str:
        what = f"{quoted(self.name)} is one run{self._changed(' ({})')} without its model"
        return f"{what}: load {self.record.source} to change something."

    def _changed(self, said: str) -> str:
        """What was changed in it, in some words; empty if nothing was."""
        return said.format("; ".join(words)) if (words := self.record.edits.in_words()) else ""

    @property
    def unseen(self) -> str | None:
        return self.record.unseen

    @property
    def examples(self) -> tuple[str, ...]:
        return ("\n".join(one.text for one in self.record.sentences),)

    @property
    def heads(self) -> Mapping[Site, int]:
        return {step.site: step.num_heads for step in self.record.steps}

    @property
    def sites(self) -> tuple[Site, ...]:
        return self.record.sites

    @property
    def num_heads(self) -> int:
        return max(self.heads.values())

    @property
    def d_model(self) -> int:
        return self.record.output.shape[-1]

    def site_name(self, site: Site) -> str:
        return f"{site} · {self.record.step(site).name}".rstrip(" ·")

    def described(self) -> list[tuple[str, str]]:
        step = self.record.steps[0]
        return [
            ("of the model", self.record.source),
            ("texts", f"{len(self.record.sentences):,}"),
            ("attention calls", f"{len(self.record.steps):,}"),
            (
                "numbers",
                f"{str(step.query.dtype).removeprefix('torch.')}, kept as {self.record.precision or 'they were'}",
            ),
        ]

    def tokenize(self, texts: list[str]) -> tuple[Sentence, ...]:
        """The tokens of its own texts.

        Raises:
            InputError: if other texts are given.
        """
        own = [one.text for one in self.record.sentences]
        if texts != own:
            raise InputError(f"{quoted(self.name)} holds one run, of {quoted(own[0])}; load its model to read others.")
        return self.record.sentences

    def run(
        self, sentences: tuple[Sentence, ...], edits: Edits = Edits(), targets: tuple[Sentence, ...] = ()
    ) -> Record:
        """The record.

        Raises:
            InputError: if something is to be changed, in the model or in the text.
        """
        self.check_own(sentences)
        if edits != Edits() or targets:
            raise InputError(self.read_only)
        return self.record

    def check_own(self, sentences: tuple[Sentence, ...]) -> None:
        """Raises: InputError: for other sentences, such as those in which a test changed a token."""
        if tuple(sentences) != self.record.sentences:
            raise InputError(f"{quoted(self.name)} holds one run; load its model to change or repeat its text.")
