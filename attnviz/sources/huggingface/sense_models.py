"""Models of transformers that see or hear as sources: one picture or one sound, with an empty text."""

from dataclasses import dataclass, replace

from attnviz.capturing import Capture
from attnviz.capturing.seen import picture_text
from attnviz.core.edits import Edits, Site
from attnviz.core.errors import InputError, quoted
from attnviz.core.places import Sound
from attnviz.core.record import Record, Step
from attnviz.core.request import Pictures
from attnviz.core.taking import NOT_TAKEN
from attnviz.core.tokens import Sentence, Token
from attnviz.sources.huggingface import faults, reading, running, senses
from attnviz.sources.huggingface.loaded import Loaded
from attnviz.sources.huggingface.positions import CellMaps, Patching, Plane, square_patching
from attnviz.sources.huggingface.source import Pretrained

QUERY = "query "
"""Beginning of the name of a position that stands nowhere: a query that a model has learned."""


@dataclass(frozen=True)
class SenseModel(Pretrained):
    """A model that reads one picture or one sound, with an empty text."""

    untaken = NOT_TAKEN
    unknown_token = ""

    def site_name(self, site: Site) -> str:
        return f"{site} · {self.facts.trial.calls.get(site, '')}".rstrip(" ·")

    def run(
        self, sentences: tuple[Sentence, ...], edits: Edits = Edits(), targets: tuple[Sentence, ...] = ()
    ) -> Record:
        """Run the model on the pictures or sounds of sentences; what a decoder reads may be given as `targets`.

        Raises:
            InputError: if a head is not there, or there are `targets` for a model that writes nothing.
            AttnvizError: if the model fails on them, with what to send us.
        """
        self.check_targets(targets)
        self.check_heads(edits)
        loaded, cut = self.loaded, ()
        with faults.unforeseen(f"{self.name} ({loaded.made_of})"):
            read = senses.inputs(loaded, tuple(sentence.pictures[0] for sentence in sentences))
            if self.writes and not targets:
                ids, counts, cut = senses.written(loaded, read, edits)
                targets = reading.written(loaded.tokenizer, ids.tolist(), counts)
            if targets:
                read["decoder_input_ids"] = running.inputs(targets, loaded)["input_ids"]
            captured, output, maps = senses.captured_run(loaded, read, edits)
            steps = captured.steps
        unseen = [f"{step.name} has {step.shape[0]} windows" for step in steps if step.shape[0] != len(sentences)]
        steps = tuple(step for step in steps if step.shape[0] == len(sentences))
        own_texts = {}
        if not self.writes:
            own_texts = {step.site: self._texts(loaded, step, sentences, captured, maps) for step in steps}
            targets = next((queries for site, (queries, _) in own_texts.items() if site.kind == "decoder"), ())
        record = Record(
            sentences,
            self.name,
            self.provenance,
            edits,
            steps,
            senses.states(steps, output).float().cpu(),
            targets,
            unseen="; ".join([*captured.unseen, *unseen]) or None,
        )
        own_texts = {site: ends for site, ends in own_texts.items() if ends != record.usual_texts(site)}
        return replace(record, own_texts=own_texts, **self.predicted(output, record.output, sentences, targets, cut))

    def _texts(
        self, loaded: Loaded, step: Step, sentences: tuple[Sentence, ...], captured: Capture, maps: CellMaps
    ) -> tuple[tuple[Sentence, ...], tuple[Sentence, ...]]:
        """The positions of queries and of keys of one call: those of the sentences, or patches of another size."""
        planes = [senses.plane_of(loaded.processor, sentence.pictures[0]) for sentence in sentences]
        windows, call = captured.windows.get(step.site), [call.site for call in captured.calls].index(step.site)

        def texts_of(count: int) -> tuple[Sentence, ...]:
            if count == len(sentences[0].tokens):
                return sentences
            extra = senses.extra_positions(loaded)
            if windows is not None:
                rows = [self.facts.patching.in_windows(windows, plane) for plane in planes]
            else:
                cuts = [maps.patching(count, call, extra) or _merged(count, plane, loaded) for plane in planes]
                rows = [cut and cut.tokens(plane) for cut, plane in zip(cuts, planes, strict=True)]
            if step.site.kind != "encoder" or None in rows:
                numbered = tuple(Token(f"{QUERY}{i}", i, 0, 0) for i in range(count))
                return (Sentence(f"{count} queries", numbered, count),) * len(sentences)
            return tuple(picture_text(row, sentence.pictures) for row, sentence in zip(rows, sentences, strict=True))

        return texts_of(step.shape[2]), texts_of(step.shape[3] - step.has_sink)


def _merged(count: int, plane: Plane, loaded: Loaded) -> Patching | None:
    """The cut of a later stage, whose patches are several of the first ones."""
    cuts = (loaded.patching.merged(2**power) for power in range(1, 8))
    return next((cut for cut in cuts if cut.count(plane) == count), None) or square_patching(
        count, plane, loaded.patching.extra
    )


@dataclass(frozen=True)
class PictureModel(SenseModel):
    """A vision model by its Hub name or its folder; it reads one picture, with an empty text.

    Raises:
        AttnvizError: one sentence that says why it cannot be loaded.
    """

    reads = "picture"

    def check_pictures(self, pictures: Pictures) -> None:
        """Raises: InputError: if there is a sound for a model that sees; `tokenize` says what else it reads."""
        sounds = [picture for row in pictures for picture in row if isinstance(picture, Sound)]
        if sounds:
            raise InputError(f"{self.name} reads a picture; given {sounds[0]!r}.")

    def tokenize(self, texts: list[str], pictures: Pictures = ()) -> tuple[Sentence, ...]:
        """The patches of pictures.

        Raises:
            InputError: if a text has no picture, or pictures have different numbers of patches.
        """
        if not pictures or any(len(row) != 1 for row in pictures):
            what = f"{self.name} reads one picture, and no text; given {quoted(texts[0])}"
            raise InputError(f"{what}. In Python give attnviz.picture('cat.png'), in the shell cat.png.")
        loaded = self.loaded
        with faults.unforeseen(self.name, "given this picture"):
            planes = [senses.plane_of(loaded.processor, row[0]) for row in pictures]
        if len({(plane.height, plane.width) for plane in planes}) > 1:
            raise InputError(f"{self.name} reads these pictures in different sizes; give one at a time.")
        patching = loaded.patching
        return tuple(picture_text(patching.tokens(plane), row) for row, plane in zip(pictures, planes, strict=True))


@dataclass(frozen=True)
class SoundModel(SenseModel):
    """A model that hears by its Hub name or its folder; it hears one sound, with an empty text.

    Raises:
        AttnvizError: one sentence that says why it cannot be loaded.
    """

    reads = "sound"

    def check_pictures(self, pictures: Pictures) -> None:
        """Nothing: `tokenize` says what it hears."""

    def tokenize(self, texts: list[str], pictures: Pictures = ()) -> tuple[Sentence, ...]:
        """The positions of sounds in time.

        Raises:
            InputError: if a text has no sound, or one is too long, with both lengths; or they differ in length.
        """
        sounds = [row[0] for row in pictures if len(row) == 1 and isinstance(row[0], Sound)]
        if not sounds or len(sounds) < len(texts):
            what = f"{self.name} hears one sound, and reads no text; given {quoted(texts[0])}"
            raise InputError(f"{what}. In Python give attnviz.sound('speech.wav').")
        loaded = self.loaded
        most, longest = senses.longest_sound(loaded.processor), max(sound.seconds for sound in sounds)
        if most and longest > most:
            raise InputError(f"{self.name} hears up to {most:g} s; this sound lasts {longest:.2f} s. Cut it.")
        planes = [senses.plane_of(loaded.processor, sound) for sound in sounds]
        if len({plane.width for plane in planes}) > 1:
            raise InputError(f"{self.name} hears sounds of one length together; give these one at a time.")
        return tuple(_heard(loaded, sound, plane) for sound, plane in zip(sounds, planes, strict=True))


def _heard(loaded: Loaded, sound: Sound, plane: Plane) -> Sentence:
    """Positions of a sound by the middle of their time, and of their frequency; those after its end have no box."""
    (rows, columns), tokens = loaded.patching.cells(plane), loaded.patching.tokens(plane)
    (slope, offset), begin = plane.across, len(loaded.patching.extra)
    times = [f"{(slope * columns.middle(i) + offset) * sound.seconds:.2f} s" for i in range(columns.count)]
    pitches = (
        [""] if rows.count == 1 else [f" · {senses.pitch(loaded, rows.middle(i)):,.0f} Hz" for i in range(rows.count)]
    )
    names = (time + pitch for pitch in pitches for time in times)
    placed = (
        replace(token, text=name, special=token.box is None) for token, name in zip(tokens[begin:], names, strict=True)
    )
    return Sentence(f"a sound of {sound.seconds:.2f} s", (*tokens[:begin], *placed), len(tokens), (sound,))
