"""A model of transformers that hears as a source: its encoder attends over time, its decoder over words."""

from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from attnviz.core.edits import Edits
from attnviz.core.errors import InputError, quoted
from attnviz.core.places import Sound
from attnviz.core.record import Prediction, Record
from attnviz.core.request import Pictures
from attnviz.core.taking import NOT_TAKEN
from attnviz.core.tokens import Sentence
from attnviz.sources.huggingface import faults, opening, pictures, reading, running, sounds
from attnviz.sources.huggingface.picture_model import PictureModel
from attnviz.sources.huggingface.source import Pieces


@dataclass(frozen=True)
class SoundModel(PictureModel):
    """A model that hears by its Hub name or its folder; it hears one sound, with an empty text.

    Raises:
        AttnvizError: one sentence that says why it cannot be loaded.
    """

    reads = "sound"
    untaken = NOT_TAKEN

    def tokenize(self, texts: list[str], pictures: Pictures = ()) -> tuple[Sentence, ...]:
        """The positions of sounds in time.

        Raises:
            InputError: if a text has no sound, or one is too long, with both lengths; or they differ in length.
        """
        heard = [picture for row in pictures for picture in row if isinstance(picture, Sound)]
        if not heard or any(len(row) > 1 for row in pictures) or len(heard) < len(texts):
            what = f"{self.name} hears one sound, and reads no text; given {quoted(texts[0])}"
            raise InputError(f"{what}. In Python give attnviz.sound('speech.wav').")
        hearing = sounds.hearing_of(self.loaded)
        longest = max(sound.seconds for sound in heard)
        if hearing.longest and longest > hearing.longest:
            raise InputError(
                f"{self.name} hears up to {hearing.longest:g} s; this sound lasts {longest:.2f} s. Cut it."
            )
        if not hearing.positions and len({round(sound.seconds * hearing.rate) for sound in heard}) > 1:
            raise InputError(f"{self.name} hears sounds of one length together; give these one at a time.")
        return tuple(map(hearing.sentence, heard))

    def run(
        self, sentences: tuple[Sentence, ...], edits: Edits = Edits(), targets: tuple[Sentence, ...] = ()
    ) -> Record:
        """Run the model on the sounds of sentences; what a decoder reads may be given as `targets`.

        Raises:
            InputError: if a head is not there, or there are `targets` for a model that writes nothing.
            AttnvizError: if the model fails on them, with what to send us.
        """
        self.check_targets(targets)
        loaded, cut = self.loaded, ()
        self._check_heads(edits)
        with faults.unforeseen(f"{self.name} ({loaded.made_of})"):
            read = sounds.inputs(loaded, sounds.hearing_of(loaded), tuple(s.pictures[0] for s in sentences))
            if targets:
                read["decoder_input_ids"] = running.inputs(targets, loaded)["input_ids"]
            elif self.writes:
                ids, counts, cut = sounds.written(loaded, read, edits)
                targets = reading.written(loaded.tokenizer, ids.tolist(), counts)
                read["decoder_input_ids"] = ids.to(loaded.device)
            captured, output = sounds.captured_run(loaded, read, edits)
            steps = captured.steps
        hidden = pictures.states_of(output)
        states = steps[-1].outputs() if hidden is None else hidden.float().cpu()
        unseen = "; ".join(captured.unseen) or None
        record = Record(sentences, self.name, self.provenance, edits, steps, states, targets, unseen=unseen)
        return replace(record, **self._said(output, targets, cut))

    def _said(self, output: Any, targets: tuple[Sentence, ...], cut: tuple[int, ...]) -> dict[str, Any]:
        """The words or the labels that a model gives."""
        logits, config = getattr(output, "logits", None), self.facts.config
        if not isinstance(logits, Tensor):
            return {}
        logits = logits.detach().float().cpu()
        if self.writes:
            words = Pieces(self.facts.tokenizer, logits.shape[-1])
            written = tuple(target.text for target in targets)
            return {"prediction": Prediction(logits, words, written, cut=cut if any(cut) else ())}
        if self.facts.task == "labels":
            names = opening.labels(config, logits.shape[-1])
            return {"labels": (names, logits), "label_kind": opening.label_kind(config)}
        return {}
