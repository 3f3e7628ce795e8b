"""The attention calls captured from a model, and their conversion to a record of words, numbers or patches."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from torch import Tensor

from attnviz.capturing.call import Call, Run, runs_of
from attnviz.capturing.verify import BOUND, difference, scale_findings
from attnviz.core.amounts import counted
from attnviz.core.edits import Edits, Site
from attnviz.core.errors import AttnvizError, InputError, quoted
from attnviz.core.places import Picture, grid
from attnviz.core.record import Record, Step
from attnviz.core.tokens import Sentence, Token
from attnviz.core.windows import WindowGrid

PROVENANCE = "your own"
"""Provenance of the weights of a user's model."""
Strings = Sequence[str] | Sequence[Sequence[str]]
"""Words of one sentence, or one list of words per sentence."""
MOST_EXTRA = 16
"""Maximum number of positions before the patches, such as [CLS] and registers."""


@dataclass(frozen=True)
class Texts:
    """Sentences at the queries of a model or its decoder, and at the keys of cross-attention; None if not given."""

    queries: tuple[Sentence, ...] | None = None
    keys: tuple[Sentence, ...] | None = None

    @property
    def lengths(self) -> dict[str, tuple[int, ...]]:
        """Number of keys without padding per sentence, by kind of attention."""
        kinds = {"encoder": self.keys or self.queries, "decoder": self.queries, "cross": self.keys}
        return {kind: tuple(text.length for text in texts) for kind, texts in kinds.items() if texts}

    def with_places(self, places: tuple[int, int], image: Any, steps: tuple[Step, ...]) -> Self:
        """Use patches of pictures as missing sentences: see `places` and `image` of `Capture.record`."""
        batch = steps[0].shape[0]
        images = image if isinstance(image, tuple | list) else [image] * batch
        if len(images) != batch:
            raise InputError(f"There are {len(images)} pictures for {batch} sentences; give one for each, or one.")
        is_grid = isinstance(places, tuple | list) and len(places) == 2
        if not is_grid or not all(type(number) is int and number > 0 for number in places):
            raise InputError(f"`places` is {quoted(places)}; it has two whole numbers, rows and columns.")
        rows, columns = places
        sizes = [size for step in steps for size in (step.shape[2], _key_count(step))]
        extras = [size - rows * columns for size in sizes if 0 <= size - rows * columns <= MOST_EXTRA]
        if not extras:
            message = f"A grid of {rows} x {columns} has {rows * columns:,} patches, and the attention calls have"
            available = ", ".join(map(str, sorted(set(sizes))))
            raise InputError(f"{message} {available} positions; up to {MOST_EXTRA} of them may be other tokens.")
        extra = max(extras, key=extras.count)  # the most frequent number of positions that are no patches
        names = ["[CLS]"] if extra == 1 else [f"[extra {i}]" for i in range(extra)]
        tokens = patches(rows, columns, names)
        image_texts = tuple(picture_text(tokens, () if part is None else (Picture.of(part),)) for part in images)
        if self.queries or self.keys:
            return Texts(self.queries or image_texts, self.keys or image_texts)
        # without any text, pictures may be at the keys of cross-attention
        counts = [step.shape[2] for step in steps if step.site.kind == "cross" and _key_count(step) == len(tokens)]
        return Texts(sentences([[*map(str, range(counts[0]))]] * batch), image_texts) if counts else Texts(image_texts)

    def of_steps(self, steps: tuple[Step, ...]) -> tuple[Self, tuple[Step, ...], list[str]]:
        """Select the steps that fit the texts, at least one; return texts, steps, and a message per step left out."""
        fitting = [step for step in steps if self._fits(step, steps[0].shape[0])]
        if not fitting:
            message = f"There are tokens for {len(self.queries)} x {len(self.queries[0].tokens)} positions"
            shapes = ", ".join(dict.fromkeys(map(_shape_text, steps)))
            remedy = "Give as many, or none to number positions."
            raise InputError(f"{message}; the attention calls have {shapes}. {remedy}")
        reason = ", which do not fit the tokens" if self.queries else ""
        left_out = [step for step in steps if step not in fitting]
        messages = [f"{step.site} ({step.name or 'the model'}) has {_shape_text(step)}{reason}" for step in left_out]
        longest = max(size for step in fitting for size in (step.shape[2], _key_count(step)))
        queries = self.queries or sentences([[*map(str, range(longest))]] * fitting[0].shape[0])
        return Texts(queries, self.keys), tuple(fitting), messages

    def _fits(self, step: Step, batch: int) -> bool:
        """Whether a step has as many queries and keys as the texts; without texts, whether it has `batch` sentences."""
        if not self.queries:
            return step.shape[0] == batch
        decoder_text, encoder_text = self.queries[0], (self.keys or self.queries)[0]  # the same without `keys`
        queries = len((encoder_text if step.site.kind == "encoder" else decoder_text).tokens)
        keys = len((decoder_text if step.site.kind == "decoder" else encoder_text).tokens)
        has_keys = _key_count(step) == keys or (step.site.kind == "cross" and self.keys is None)
        return has_keys and (step.shape[0], step.shape[2]) == (len(self.queries), queries)


def patches(rows: int, columns: int, extra: Sequence[str] = ()) -> tuple[Token, ...]:
    """Tokens "row3·col5" for the patches of a picture, row by row, counted from 0, after the tokens `extra`."""
    before = [Token(name, id, 0, 0, special=True) for id, name in enumerate(extra)]
    names = [f"row{row}·col{column}" for row in range(rows) for column in range(columns)]
    boxes = zip(names, grid(rows, columns), strict=True)
    return (*before, *(Token(name, len(before) + i, 0, 0, box=box) for i, (name, box) in enumerate(boxes)))


def picture_text(tokens: tuple[Token, ...], pictures: tuple[Picture, ...]) -> Sentence:
    """Create a sentence from the tokens of pictures."""
    count = sum(token.box is not None for token in tokens)
    return Sentence(f"a picture of {count:,} patches", tokens, len(tokens), pictures)


def sentences(words: Strings) -> tuple[Sentence, ...]:
    """Create sentences from words. Ids number the different words from 1; shorter sentences are padded at the end."""
    word_lists = [words] if all(isinstance(word, str) for word in words) else words
    longest, padded = max(map(len, word_lists)), []
    for word_list in word_lists:
        text = [*map(str, word_list)]
        tokens, start, ids = [], 0, {word: id for id, word in enumerate(dict.fromkeys(text), 1)}
        for word in text:
            tokens.append(Token(word, ids[word], start, start + len(word)))
            start += len(word) + 1
        padding = [Token("<pad>", 0, start, start, special=True)] * (longest - len(text))
        padded.append(Sentence(" ".join(text), (*tokens, *padding), len(text)))
    return tuple(padded)


def _key_count(step: Step) -> int:
    """Count the keys of a step, without a sink."""
    return step.shape[3] - step.has_sink


def _shape_text(step: Step) -> str:
    """Write the shape of a step as "2 x 5 queries, 7 keys"."""
    return f"{step.shape[0]} x {step.shape[2]} queries, {_key_count(step)} keys"


class Capture:
    """The captured attention of one model. Calling a module again begins a new run, also on the same text; a generation
    with a cache is one run. `sites`, `windows`, `steps` and `unseen` describe the last run. Every map is compared with
    rows of weights or outputs that the model computed; a map that differs is not shown, and is reported in `unseen`.

    Attributes:
        output: last result of the model's forward; None if only parts of the model were called.
        notes: captured attention that cannot be shown, one sentence each.
        findings: unusual properties of the shown maps, one sentence each.
    """

    def __init__(self, name: str, edits: Edits):
        self.name, self.edits = name, edits
        self.calls: list[Call] = []
        self.output: Any = None
        self.notes: list[str] = []
        self.findings: list[str] = []
        self.softmaxes: list[Any] = []  # each a `Softmax`

    @property
    def runs(self) -> int:
        """Number of runs."""
        return len(self._join_runs())

    @property
    def sites(self) -> dict[Site, str]:
        """The sites of the last run, with the name of the module that makes each call."""
        return {site: call.name or self.name for site, call in self._last_calls().items()}

    @property
    def windows(self) -> dict[Site, WindowGrid]:
        """Windows of each site with window attention; its step is for the whole picture, padded to whole windows."""
        return {site: call.windows for site, call in self._last_calls().items() if call.windows is not None}

    @property
    def steps(self) -> tuple[Step, ...]:
        """One step per site."""
        return self.steps_of({})

    @property
    def unseen(self) -> list[str]:
        """Captured attention that cannot be shown, one sentence each."""
        return self._verified_steps({}, -1, is_any=True)[1]

    def steps_of(self, lengths: Mapping[str, tuple[int, ...]], run: int = -1) -> tuple[Step, ...]:
        """One step per site of a run; `lengths` has the number of keys without padding per sentence, by kind."""
        return self._verified_steps(lengths, run)[0]

    def record(
        self,
        tokens: Strings | None = None,
        keys: Strings | None = None,
        *,
        run: int | None = None,
        name: str | None = None,
        places: tuple[int, int] | None = None,
        image: Any = None,
    ) -> Record:
        """Convert the captured calls to a record, for every figure, metric, check and file.

        Args:
            tokens: input of the model, one word per position; for several sentences, one list per sentence, padded at
                the end; for an encoder-decoder, the input of its decoder. Without tokens, positions are numbered.
            keys: words at the keys of cross-attention; for an encoder-decoder, the input of its encoder.
            run: index of the run, from 0, needed if there are several (`runs`); -1 is the last.
            name: name of the source; by default the class of the model.
            places: how many rows and columns of patches a picture has; patches replace missing `tokens`, or missing
                `keys` if `tokens` are given.
            image: picture, PIL or (height, width, 3); for a batch one per sentence, or one for all.

        Raises:
            InputError: if no attention call has as many queries and keys as there are tokens or patches, with both
                numbers; if there are several runs and `run` is missing.
            AttnvizError: if no attention was captured, with the reasons.
        """
        last = self.runs - 1
        if run is None and last > 0:
            raise InputError(f"There were {last + 1} runs: choose one, record(run=0) to record(run={last}).")
        run, texts = -1 if run is None else run, Texts(tokens and sentences(tokens), keys and sentences(keys))
        if places is not None:
            texts = texts.with_places(places, image, self.steps_of({}, run))
        steps, unseen, findings = self._verified_steps(texts.lengths, run)
        texts, steps, others = texts.of_steps(steps)
        states = hidden_states(self.output) if run in (-1, last) else None
        if states is None or states.shape[:2] != (len(texts.queries), len(texts.queries[0].tokens)):
            states = steps[-1].outputs()  # the output may be logits of the last position alone
        return Record(
            texts.keys or texts.queries,
            name or self.name,
            PROVENANCE,
            self.edits,
            steps,
            states.detach().float().cpu(),
            texts.queries if texts.keys else (),
            read_only=any(step.weights_only for step in steps),
            unseen="; ".join([*unseen, *others]) or None,
            findings=tuple(findings),
        )

    def check(self) -> None:
        """Raise AttnvizError if an edit had no effect; the message lists the sites."""
        if self.edits == type(self.edits)():  # no edits
            return
        refused = [call.why_not for call in self.calls if call.why_not and call.is_edited]
        if refused:
            raise AttnvizError(f"The edits cannot be applied correctly: {refused[0]}.")
        calls = {site: call for run in self._join_runs() for site, call in run.last.items()}
        if not calls:
            raise AttnvizError(f"The edits reached nothing. {self._no_attention_message(self.unseen)}")
        for site, head in sorted(self.edits.heads_off):
            if site not in calls or head >= calls[site].shape[1]:
                sites = [f"{other} ({call.shape[1]} heads, {call.name or self.name})" for other, call in calls.items()]
                raise AttnvizError(f"The edits reached nothing at {site.head(head)}. Sites: {', '.join(sites)}.")

    def _join_runs(self) -> list[Run]:
        """Group the calls that can be shown into runs."""
        return runs_of(call for call in self.calls if not call.why_not)

    def _last_calls(self) -> dict[Site, Call]:
        """The last call of each site of the last run."""
        runs = self._join_runs()
        return runs[-1].last if runs else {}

    def _verified_steps(
        self, lengths: Mapping[str, tuple[int, ...]], run: int, is_any: bool = False
    ) -> tuple[tuple[Step, ...], list[str], list[str]]:
        """Select the steps of a run whose map equals the rows that the model computed; return them, a message per map
        that cannot be shown, and findings on the steps. Without any step, raise AttnvizError unless `is_any`."""
        runs = self._join_runs()
        if runs and run not in range(-1, len(runs)):
            raise InputError(f"There is no run {run}: use record(run=0) to record(run={len(runs) - 1}).")
        calls, unjoined = runs[run].joined() if runs else ({}, [])
        refused = [call.why_not for call in self.calls if call.why_not]
        without_call = [softmax for softmax in self.softmaxes if not softmax.is_placed]
        unused = [softmax.sentence for softmax in without_call if softmax.of_product or softmax.why_not]
        unseen = [*dict.fromkeys([*refused, *unused, *unjoined, *self.notes])]
        steps, rounded = [], []
        for site, call in calls.items():
            step, name = call.step(self.edits, lengths.get(site.kind)), f"{site} ({call.name or 'the model'})"
            excess, largest = difference(step, call.samples)
            if excess > 1:
                problem = f"differs from the model's own weights or output by up to {largest:.2g}"
                unseen.append(f"the recomputed map of {name} {problem}, so it is not shown")
                continue
            steps.append(step if call.windows is None else call.windows.join(step, self.edits))
            if largest > BOUND:  # allowed only for a model in 16 bits
                rounded.append((largest, str(call.samples[0].dtype).removeprefix("torch."), name))
        if not steps and not is_any:
            raise AttnvizError(self._no_attention_message(unseen))
        findings = [*self.findings, *(scale_findings(steps) if self.edits.scale is None else ())]
        if rounded:
            largest, dtype, name = max(rounded)
            problem = f"weights are recomputed in float32 and differ from those of the model, in {dtype}, by"
            findings.append(f"In {counted(len(rounded), 'call')} {problem} up to {largest:.1g} ({name})")
        return tuple(steps), unseen, findings

    def _no_attention_message(self, unseen: list[str]) -> str:
        """Explain why nothing was captured: the reasons in `unseen`, or that no attention was computed."""
        nothing = "it ran without a softmax of queries and keys, so it has no attention weights"
        if self.output is None:
            nothing = "it called no attention function. Was it run inside the `with` block, in the same thread?"
        reasons = "; ".join(unseen or dict.fromkeys(softmax.sentence for softmax in self.softmaxes))
        return f"No attention was captured in {self.name}: {reasons or nothing}"


def hidden_states(output: Any) -> Tensor | None:
    """Find the first float tensor (B, n, d) in the output of a model, recursively; None if there is none."""
    if isinstance(output, Tensor):
        return output if output.dim() == 3 and output.is_floating_point() else None
    if hasattr(output, "values"):  # a dict or an output class of transformers
        output = tuple(output.values())
    parts = output if isinstance(output, list | tuple) else ()
    return next((tensor for tensor in map(hidden_states, parts) if tensor is not None), None)
