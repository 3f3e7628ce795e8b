"""Models of transformers that see or hear as sources: one picture or one sound, with an empty text."""

from dataclasses import dataclass, replace

from attnviz.capturing import Capture
from attnviz.capturing.captured import picture_text
from attnviz.core.edits import NOT_TAKEN, Edits, Site
from attnviz.core.errors import InputError, quoted
from attnviz.core.places import Sound
from attnviz.core.record import Record, Step
from attnviz.core.request import Pictures
from attnviz.core.tokens import Sentence, Token
from attnviz.sources.huggingface import faults, reading, running, senses
from attnviz.sources.huggingface.loaded import Loaded
from attnviz.sources.huggingface.positions import CellMap, Plane, patching, square_patching
from attnviz.sources.huggingface.source import Pretrained


@dataclass(frozen=True)
class SenseModel(Pretrained):
    """A model by its Hub name or its folder that sees one picture or hears one sound."""

    untaken = NOT_TAKEN
    unknown_token = ""

    @property
    def reads(self) -> str:
        return "sound" if self.facts.hears else "picture"

    def site_name(self, site: Site) -> str:
        return f"{site} · {self.facts.trial.calls.get(site, '')}".rstrip(" ·")

    def tokenize(self, texts: list[str], pictures: Pictures = ()) -> tuple[Sentence, ...]:
        """Cut pictures into patches, or sounds into stretches of time; raise InputError if it cannot take them."""
        hears, loaded = self.facts.hears, self.loaded
        if not pictures or any(len(row) != 1 or isinstance(row[0], Sound) != hears for row in pictures):
            takes = "hears one sound, and reads no text" if hears else "reads one picture, and no text"
            how = "attnviz.sound('speech.wav')" if hears else "attnviz.picture('cat.png'), in the shell cat.png"
            value = next((repr(picture) for row in pictures for picture in row), quoted(texts[0]))
            raise InputError(f"{self.name} {takes}; given {value}. In Python give {how}.")
        if hears:
            most, longest = senses.longest_sound(loaded.processor), max(row[0].seconds for row in pictures)
            if most and longest > most:
                raise InputError(f"{self.name} hears up to {most:g} s; this sound lasts {longest:.2f} s. Cut it.")
        sentences, sizes = [], set()
        for row in pictures:
            with faults.unforeseen(self.name, "given this sound" if hears else "given this picture"):
                plane = senses.plane_of(loaded.processor, row[0])
            sizes.add((plane.height, plane.width))
            if hears:
                sentences.append(_sound_positions(loaded, row[0], plane))
            else:
                sentences.append(picture_text(loaded.patching.tokens(plane), row))
        if len(sizes) > 1:
            what = "hears sounds of one length together" if hears else "reads these pictures in different sizes"
            raise InputError(f"{self.name} {what}; give one at a time.")
        return tuple(sentences)

    def run(
        self, sentences: tuple[Sentence, ...], edits: Edits = Edits(), targets: tuple[Sentence, ...] = ()
    ) -> Record:
        """Run the model on pictures or sounds; a decoder reads `targets`, by default the text that it writes itself."""
        self.check_targets(targets)
        loaded, cut = self.loaded, ()  # cut: length of each written text that was cut off, else 0
        with faults.unforeseen(f"{self.name} ({loaded.made_of})"):
            model_inputs = senses.inputs(loaded, tuple(sentence.pictures[0] for sentence in sentences))
            if self.writes and not targets:
                ids, counts, cut = running.written(loaded, edits, model_inputs)
                targets = reading.written(loaded.tokenizer, ids.tolist(), counts)
            if targets:
                model_inputs["decoder_input_ids"] = running.inputs(targets, loaded)["input_ids"]
            captured, output, maps = senses.captured_run(loaded, model_inputs, edits)
            steps = captured.steps
        windowed = [f"{step.name} has {step.shape[0]} windows" for step in steps if step.shape[0] != len(sentences)]
        steps = tuple(step for step in steps if step.shape[0] == len(sentences))  # `unseen` names the others
        own_texts = {}  # queries and keys of each site
        if not self.writes:
            own_texts = {step.site: _texts(loaded, step, sentences, captured, maps) for step in steps}
            targets = next((queries for site, (queries, _) in own_texts.items() if site.kind == "decoder"), ())
        record = Record(
            sentences,
            self.name,
            self.provenance,
            edits,
            steps,
            senses.states(steps, output).float().cpu(),
            targets,
            unseen="; ".join([*captured.unseen, *windowed]) or None,
        )
        own_texts = {site: texts for site, texts in own_texts.items() if texts != record.usual_texts(site)}
        return replace(record, own_texts=own_texts, **self.predicted(output, record.output, sentences, targets, cut))


def _texts(
    loaded: Loaded, step: Step, sentences: tuple[Sentence, ...], captured: Capture, maps: list[CellMap]
) -> tuple[tuple[Sentence, ...], tuple[Sentence, ...]]:
    """Sentences of the queries and of the keys of a call.

    Their tokens are those of the input sentences, patches of another size, or learned queries, which have no position.
    """
    planes = [senses.plane_of(loaded.processor, sentence.pictures[0]) for sentence in sentences]
    windows, call = captured.windows.get(step.site), [call.site for call in captured.calls].index(step.site)
    extra = senses.extra_positions(loaded)

    def texts_of(count: int) -> tuple[Sentence, ...]:
        """Sentences of `count` tokens, for the queries or the keys of the call."""
        if count == len(sentences[0].tokens):
            return sentences
        if windows is not None:
            patches = [loaded.patching.in_windows(windows, plane) for plane in planes]
        else:
            # divisions by the convolutions before the call, by a later stage, or by squares
            divisions = [*filter(None, [patching(maps, count, call, extra)]), *loaded.patching.stages()]
            patches = []
            for plane in planes:
                fitting = next((division for division in divisions if division.count(plane) == count), None)
                fitting = fitting or square_patching(count, plane, loaded.patching.extra)
                patches.append(fitting and fitting.tokens(plane))
        if step.site.kind != "encoder" or None in patches:
            queries = tuple(Token(f"query {i}", i, 0, 0) for i in range(count))
            return (Sentence(f"{count} queries", queries, count),) * len(sentences)
        pairs = zip(patches, sentences, strict=True)
        return tuple(picture_text(tokens, sentence.pictures) for tokens, sentence in pairs)

    return texts_of(step.shape[2]), texts_of(step.shape[3] - step.has_sink)


def _sound_positions(loaded: Loaded, sound: Sound, plane: Plane) -> Sentence:
    """Positions of a sound, named by their central time and frequency; positions after its end have no box."""
    rows, columns = loaded.patching.cells(plane)
    tokens, first = [*loaded.patching.tokens(plane)], len(loaded.patching.extra)
    scale, offset = plane.across
    for i, token in enumerate(tokens[first:]):
        row, column = divmod(i, columns.count)
        seconds = (scale * columns.middle(column) + offset) * sound.seconds
        hertz = f" · {senses.pitch(loaded, rows.middle(row)):,.0f} Hz" if rows.count > 1 else ""
        tokens[first + i] = replace(token, text=f"{seconds:.2f} s{hertz}", special=token.box is None)
    return Sentence(f"a sound of {sound.seconds:.2f} s", tuple(tokens), len(tokens), (sound,))
