"""A vision model of transformers as a source: each of its attention calls has places in a picture."""

from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from attnviz.capturing.tokens import pictured
from attnviz.core.edits import Edits, Site
from attnviz.core.errors import InputError, quoted
from attnviz.core.places import Sound
from attnviz.core.record import Prediction, Record, Step
from attnviz.core.request import Pictures
from attnviz.core.taking import NOT_TAKEN
from attnviz.core.tokens import Sentence, Token
from attnviz.core.windows import WindowGrid
from attnviz.sources.huggingface import faults, opening, pictures, placing
from attnviz.sources.huggingface.loaded import Loaded
from attnviz.sources.huggingface.pictures import pixel_map
from attnviz.sources.huggingface.source import HuggingFace


@dataclass(frozen=True)
class PictureModel(HuggingFace):
    """A vision model by its Hub name or its folder; it reads one picture, with an empty text.

    Raises:
        AttnvizError: one sentence that says why it cannot be loaded.
    """

    reads = "picture"
    untaken = NOT_TAKEN
    generates = can_chat = False
    ends = frozenset()
    unknown_token, mask_token = "", None

    def check_pictures(self, pictures: Pictures) -> None:
        """Raises: InputError: if there is a sound for a model that sees; `tokenize` says what else it reads."""
        heard = [picture for row in pictures for picture in row if isinstance(picture, Sound)]
        if heard and self.reads == "picture":
            raise InputError(f"{self.name} reads a picture; given {heard[0]!r}.")

    @classmethod
    def settings(cls) -> tuple[str, ...]:
        return ()

    def unknown(self, texts: list[str]) -> dict[str, tuple[str, ...]]:
        return {}

    def site_name(self, site: Site) -> str:
        return f"{site} · {self.facts.trial.calls.get(site, '')}".rstrip(" ·")

    def tokenize(self, texts: list[str], pictures: Pictures = ()) -> tuple[Sentence, ...]:
        """The patches of pictures.

        Raises:
            InputError: if a text has no picture, or pictures have different numbers of patches.
        """
        if not pictures or any(len(row) > 1 for row in pictures):
            what = f"{self.name} reads one picture, and no text; given {quoted(texts[0])}"
            raise InputError(f"{what}. In Python give attnviz.picture('cat.png'), in the shell cat.png.")
        loaded = self.loaded
        with faults.unforeseen(self.name, "given this picture"):
            maps = [pixel_map(loaded.processor, row[0].size) for row in pictures]
        counts = {(pixels.height, pixels.width) for pixels in maps}
        if len(counts) > 1:
            raise InputError(f"{self.name} reads these pictures in different sizes; give one at a time.")
        patching = self.facts.patching
        return tuple(pictured(patching.tokens(pixels), row) for row, pixels in zip(pictures, maps, strict=True))

    def run(
        self, sentences: tuple[Sentence, ...], edits: Edits = Edits(), targets: tuple[Sentence, ...] = ()
    ) -> Record:
        """Run the model on the pictures of sentences.

        Raises:
            InputError: if a head is not there, or there are `targets`.
            AttnvizError: if the model fails on them, with what to send us.
        """
        self.check_targets(targets)
        loaded = self.loaded
        self._check_heads(edits)
        shown = tuple(sentence.pictures[0] for sentence in sentences)
        with faults.unforeseen(f"{self.name} ({loaded.made_of})"):
            captured, output = pictures.captured_run(loaded, pictures.inputs(loaded, shown), edits)
            steps = captured.steps
        unseen = [f"{step.name} has {step.shape[0]} windows" for step in steps if step.shape[0] != len(sentences)]
        steps = tuple(step for step in steps if step.shape[0] == len(sentences))
        texts = {step.site: self._texts(loaded, step, sentences, captured.windows.get(step.site)) for step in steps}
        targets = next((queries for site, (queries, _) in texts.items() if site.kind == "decoder"), ())
        hidden = pictures.states_of(output)
        record = Record(
            sentences,
            self.name,
            self.provenance,
            edits,
            steps,
            steps[-1].outputs() if hidden is None else hidden.float().cpu(),
            targets,
            unseen="; ".join([*captured.unseen, *unseen]) or None,
        )
        own = {site: ends for site, ends in texts.items() if ends != record.usual_texts(site)}
        return replace(record, own_texts=own, **self._predicted(output, record))

    def _texts(
        self, loaded: Loaded, step: Step, sentences: tuple[Sentence, ...], windows: WindowGrid | None
    ) -> tuple[tuple[Sentence, ...], tuple[Sentence, ...]]:
        """The positions of queries and of keys of one call: those of the sentences, or patches of another size."""
        maps = [pixel_map(loaded.processor, sentence.pictures[0].size) for sentence in sentences]

        def positions(count: int) -> tuple[Sentence, ...]:
            if count == len(sentences[0].tokens):
                return sentences
            if windows is not None:
                rows = [self.facts.patching.in_windows(windows, pixels) for pixels in maps]
            else:
                extra = pictures.extra_positions(loaded)
                cut = [(placing.patching_of(count, pixels, extra), pixels) for pixels in maps]
                rows = [None if patching is None else patching.tokens(pixels) for patching, pixels in cut]
            if step.site.kind != "encoder" or None in rows:
                numbered = tuple(Token(f"{pictures.QUERY}{i}", i, 0, 0) for i in range(count))
                return (Sentence(f"{count} queries", numbered, count),) * len(sentences)
            return tuple(pictured(row, sentence.pictures) for row, sentence in zip(rows, sentences, strict=True))

        return positions(step.shape[2]), positions(step.shape[3] - step.has_sink)

    def _predicted(self, output: Any, record: Record) -> dict[str, Any]:
        """Labels of pictures, or of the queries that look for objects."""
        logits, config = getattr(output, "logits", None), self.facts.config
        if not isinstance(logits, Tensor):
            return {}
        logits = logits.detach().float().cpu()
        if self.facts.task == "labels" and logits.dim() == 2:
            names = opening.labels(config, logits.shape[-1])
            return {"labels": (names, logits), "label_kind": opening.label_kind(config)}
        if self.facts.task == "objects" and record.targets and logits.shape[1] == len(record.targets[0].tokens):
            names = (*opening.labels(config, logits.shape[-1] - 1), "no object")
            places = (tuple(range(logits.shape[1])),) * len(logits)
            return {"prediction": Prediction(logits, names, blanks=places, classes=True)}
        return {}
