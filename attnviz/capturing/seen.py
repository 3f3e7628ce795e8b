"""The attention calls captured from a model, and the record made of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from attnviz.capturing.call import Call
from attnviz.capturing.checking import NOTABLE, difference
from attnviz.capturing.joining import whole
from attnviz.capturing.layout import Softmax
from attnviz.capturing.places import sentences_of
from attnviz.capturing.unusual import notes
from attnviz.core.amounts import counted
from attnviz.core.edits import Edits, Site
from attnviz.core.errors import AttnvizError, InputError
from attnviz.core.masks import Mask
from attnviz.core.record import Record, Step
from attnviz.core.tokens import Sentence, Token
from attnviz.core.windows import WindowGrid

OTHERS = {
    "cumsum": "running sums",
    "conv1d": "convolutions",
    "conv2d": "convolutions of pictures",
    "exp": "exponentials",
    "softplus": "step sizes (softplus)",
    "lstm": "an LSTM",
    "gru": "a GRU",
    "rnn_tanh": "a recurrent network",
    "fft_rfft": "Fourier transforms",
    "fft_fft": "Fourier transforms",
    "sigmoid": "gates (sigmoid)",
}
"""Functions of models that have something else than attention, in words."""
PROVENANCE = "your own"
"""Provenance of the weights of a person's model."""


@dataclass(frozen=True)
class ComparedSteps:
    """Steps that are the model's own attention.

    Attributes:
        unseen: what else there was, each in one sentence.
        findings: what is unusual about the steps, each in one sentence.
    """

    steps: tuple[Step, ...]
    unseen: list[str]
    findings: list[str]


class Capture:
    """The attention of one model while it was captured.

    Attributes:
        calls: every attention call in the order in which they were made.
        output: what the model's forward gave last; None if it was not called as a whole.
        notes: what was seen and cannot be shown, each in one sentence.
        findings: what is unusual about what is shown, each in one sentence.
        softmaxes: those of unknown scores.
        awaited: by the name of a module, what it took of scores instead of a softmax, until there is one.

    Every map is compared with rows of the model's own weights, or of its output; one that differs is not shown, but
    named in `unseen`.
    """

    def __init__(self, name: str, edits: Edits):
        self.name, self.edits = name, edits
        self.calls: list[Call] = []
        self.output: Any = None
        self.notes: list[str] = []
        self.findings: list[str] = []
        self.softmaxes: list[Softmax] = []
        self._called: set[str] = set()
        self.awaited: dict[str, str] = {}

    @property
    def sites(self) -> dict[Site, str]:
        """The sites and the names of the modules that call attention there."""
        return {site: call.name or self.name for site, call in self._whole()[0].items()}

    @property
    def heads(self) -> dict[Site, int]:
        """How many heads each site has."""
        return {site: call.shape[1] for site, call in self._whole()[0].items()}

    @property
    def windows(self) -> dict[Site, WindowGrid]:
        """Windows of a picture within which a site attends; its step is of the whole picture, padded to them."""
        return {site: call.windows for site, call in self._whole()[0].items() if call.windows is not None}

    @property
    def steps(self) -> tuple[Step, ...]:
        """A step per site; see `steps_of`."""
        return self.steps_of({})

    def steps_of(self, lengths: Mapping[str, tuple[int, ...]]) -> tuple[Step, ...]:
        """A step per site: of the last pass, or of a whole generation with a cache.

        Args:
            lengths: by the kind of attention, how many keys of each sentence are no padding.

        Raises:
            AttnvizError: if no attention was seen, with what was.
        """
        return self._compared(lengths).steps

    def _compared(self, lengths: Mapping[str, tuple[int, ...]]) -> "ComparedSteps":
        """The steps that are the model's own attention, and what is to be said of all.

        Raises:
            AttnvizError: if there is none.
        """
        calls, unseen = self._whole()
        unseen = [*self._refused(), *unseen, *self.notes]
        steps, rounded = [], []
        for site, call in calls.items():
            step = call.step(self.edits, lengths.get(site.kind))
            off, name = difference(step, call.samples), f"{site} ({call.name or self.name})"
            if off.excess > 1:
                what = f"differs from the model's own weights or output by up to {off.largest:.2g}"
                unseen.append(f"the map of {name}, worked out again, {what}, so it is not shown")
                continue
            steps.append(step if call.windows is None else call.windows.joined(step, self.edits))
            if off.rows_of_nan:
                unseen.append(f"{name} has NaN in {off.rows_of_nan} of the rows compared, as the model itself has")
            if off.largest > NOTABLE:
                rounded.append((off.largest, str(off.dtype).removeprefix("torch."), name))
        findings = list(self.findings)
        if rounded:
            largest, dtype, name = max(rounded)
            what = f"weights are worked out again in float32; from the model's own, in {dtype}, they differ by"
            findings.append(f"In {counted(len(rounded), 'call')} {what} up to {largest:.1g} ({name})")
        findings += notes(steps, self.edits)
        if not steps:
            raise AttnvizError(self._nothing(unseen))
        return ComparedSteps(tuple(steps), unseen, findings)

    def _whole(self) -> tuple[dict[Site, Call], list[str]]:
        return whole([call for call in self.calls if not call.why_not])

    def record(
        self,
        tokens: Sequence[str] | Sequence[Sequence[str]] | None = None,
        keys: Sequence[str] | Sequence[Sequence[str]] | None = None,
        *,
        name: str | None = None,
        provenance: str = PROVENANCE,
        output: Tensor | None = None,
        places: tuple[int, int] | Sequence[Token] | None = None,
        image: Any = None,
        prefix: Sequence[str] = (),
    ) -> Record:
        """Record of the captured calls: for every figure, metric, check and file.

        Args:
            tokens: what stands at each position that the model read, as words; of several sentences a list each, padded
                at the end. Of an encoder-decoder, what its decoder read. Without them positions are numbered.
            keys: what cross-attention looks at, as words: of an encoder-decoder, what its encoder read.
            name: of the source; by default the model's class.
            provenance: where its weights come from.
            output: hidden states or logits, (B, n, d); by default found in what the model gave.
            places: of a model of pictures, rows and columns of its patches; or a token for each position, those of
                patches with a `box`. They take the place of the words that were not given: of `tokens`, of `keys` if
                there are tokens.
            image: the picture, of PIL or (height, width, 3); of a batch one for each, or one for all.
            prefix: what keys are called that stand before those of the tokens, as learned memory does. They are shown
                behind them.

        Raises:
            InputError: if no attention call has as many queries and keys as there are tokens or patches, with both
                numbers.
            AttnvizError: if no attention was seen, with what was.
        """
        query_sentences, key_sentences = (words and _sentences(words) for words in (tokens, keys))
        if places is not None:
            pictured = sentences_of(places, image, _sizes(self.steps), self.steps[0].shape[0])
            query_sentences, key_sentences = _with_places(pictured, query_sentences, key_sentences, self.steps)
        compared = self._compared(_lengths(query_sentences, key_sentences))
        steps, unseen = compared.steps, compared.unseen
        if prefix:
            steps, query_sentences, key_sentences = _with_prefix(steps, query_sentences, key_sentences, tuple(prefix))
        steps, others = _fitting(steps, query_sentences, key_sentences, len(prefix))
        unseen += others
        query_sentences = query_sentences or _numbered(steps)
        hidden_states = hidden(self.output) if output is None else output
        positions = (len(query_sentences), len(query_sentences[0].tokens))
        if hidden_states is None or (output is None and tuple(hidden_states.shape[:2]) != positions):
            states = output_of(steps)  # such as logits of the last position alone
        else:
            states = hidden_states.detach().float().cpu()
        return Record(
            key_sentences or query_sentences,
            name or self.name,
            provenance,
            self.edits,
            steps,
            states,
            query_sentences if key_sentences else (),
            read_only=any(step.weights_only for step in steps),
            unseen="; ".join(unseen) or None,
            findings=tuple(compared.findings),
        )

    def called(self, name: str) -> None:
        """Remember a function that a model without attention may have instead of it."""
        if name in OTHERS:
            self._called.add(name)

    def note(self, sentence: str) -> None:
        """Say once what was seen and cannot be shown."""
        if sentence not in self.notes:
            self.notes.append(sentence)

    def check(self) -> None:
        """Raises: AttnvizError: if an edit reached nothing, with what there is."""
        if self.edits == type(self.edits)():
            return
        heads = self.heads
        refused = [call.why_not for call in self.calls if call.why_not and call.is_edited]
        if refused:
            raise AttnvizError(f"The edits cannot be right: {refused[0]}.")
        if not heads:
            raise AttnvizError(f"The edits reached nothing. {self._nothing(self.unseen)}")
        for site, head in sorted(self.edits.heads_off):
            if head >= heads.get(site, 0):
                has = ", ".join(f"{other} ({count} heads, {self.sites[other]})" for other, count in heads.items())
                raise AttnvizError(f"The edits reached nothing at {site.head(head)}. There is: {has}.")

    @property
    def unseen(self) -> list[str]:
        """Attention that was seen and cannot be shown, each in one sentence."""
        if any(not call.why_not for call in self.calls):
            try:
                return self._compared({}).unseen
            except AttnvizError:  # no map is the model's own
                pass
        return [*self._refused(), *self.notes]

    def _refused(self) -> list[str]:
        """Why calls, and weights of unknown scores, are not shown."""
        loose = [
            softmax.sentence
            for softmax in self.softmaxes
            if not softmax.is_placed and (softmax.of_product or softmax.why_not)
        ]
        refused = [call.why_not for call in self.calls if call.why_not]
        return list(dict.fromkeys([*refused, *loose, *self.awaited.values()]))

    def _nothing(self, unseen: list[str]) -> str:
        what = "; ".join(unseen)
        if not what and self.softmaxes:
            what = "; ".join(dict.fromkeys(softmax.sentence for softmax in self.softmaxes))
        elif not what and self._called:
            instead = ", ".join(sorted(OTHERS[name] for name in self._called))
            what = f"it takes no softmax of queries and keys, so it has no attention weights; it has {instead} instead"
        elif not what:
            what = "no function of torch that attention is made of was called in it"
            what = f"{what}. Was it run in the block, in this thread?"
        return f"No attention was seen in {self.name}: {what}"


def hidden(output: Any) -> Tensor | None:
    """The first tensor of floats in what a model gave that is (B, n, d); None if there is none."""
    if isinstance(output, Tensor):
        return output if output.dim() == 3 and output.is_floating_point() else None
    parts = ()
    if hasattr(output, "values"):
        parts = output.values()
    elif isinstance(output, list | tuple):
        parts = output
    return next((tensor for tensor in map(hidden, parts) if tensor is not None), None)


def output_of(steps: tuple[Step, ...]) -> Tensor:
    """The output of the last call, its heads side by side, (B, Q, H · d_v)."""
    step = steps[-1]
    heads = (
        torch.stack([step.output(head, sentence=b) for head in range(step.num_heads)], 1) for b in range(step.shape[0])
    )
    return torch.stack([output.flatten(1) for output in heads]).float()


def _sentences(tokens: Sequence[str] | Sequence[Sequence[str]]) -> tuple[Sentence, ...]:
    many = [tokens] if all(isinstance(token, str) for token in tokens) else tokens
    longest = max(map(len, many))
    return tuple(_sentence([str(word) for word in words], longest) for words in many)


def _sentence(words: list[str], longest: int) -> Sentence:
    tokens, start, ids = [], 0, {word: id for id, word in enumerate(dict.fromkeys(words), 1)}
    for word in words:
        tokens.append(Token(word, ids[word], start, start + len(word)))
        start += len(word) + 1
    padding = [Token("<pad>", 0, start, start, special=True)] * (longest - len(words))
    return Sentence(" ".join(words), (*tokens, *padding), len(words))


def _with_prefix(
    steps: tuple[Step, ...],
    query_sentences: tuple[Sentence, ...] | None,
    key_sentences: tuple[Sentence, ...] | None,
    prefix: tuple[str, ...],
) -> tuple[tuple[Step, ...], tuple[Sentence, ...], tuple[Sentence, ...] | None]:
    """Steps whose first keys stand behind those of the tokens, and sentences that end with the names of these keys.

    Raises:
        InputError: if there are no tokens.
    """
    if query_sentences is None:
        raise InputError("`prefix` names the keys before those of the tokens: give tokens, too.")

    def longer(sentences: tuple[Sentence, ...] | None) -> tuple[Sentence, ...] | None:
        return sentences and tuple(
            replace(sentence, tokens=(*sentence.tokens, *_named(sentence, prefix))) for sentence in sentences
        )

    lengths = {
        "encoder": key_sentences or query_sentences,
        "decoder": query_sentences,
        "cross": key_sentences or query_sentences,
    }
    sizes = {kind: len(sentences[0].tokens) + len(prefix) for kind, sentences in lengths.items()}
    moved = tuple(
        _behind(step, len(prefix)) if step.shape[3] - step.has_sink == sizes[step.site.kind] else step for step in steps
    )
    return moved, longer(query_sentences), longer(key_sentences)


def _named(sentence: Sentence, names: tuple[str, ...]) -> tuple[Token, ...]:
    end = len(sentence.text)
    return tuple(Token(name, 0, end, end, special=True) for name in names)


def _behind(step: Step, count: int) -> Step:
    """A step whose first keys stand behind all others, but for a sink."""
    keys = step.shape[3]
    last = keys - step.has_sink
    order = torch.tensor([*range(count, last), *range(count), *range(last, keys)])

    def moved(value: Any) -> Any:
        if isinstance(value, Mask):
            value = value.tensor(*step.shape[2:])
        return value[..., order] if isinstance(value, Tensor) and value.shape[-1] == keys else value

    scoring = replace(step.scoring, bias=tuple(map(moved, step.scoring.bias)))
    sides = {"key": step.key[:, :, order], "value": step.value[:, :, order]}
    return replace(step, **sides, mask=moved(step.mask), scoring=scoring)


def _sizes(steps: tuple[Step, ...]) -> list[int]:
    return [size for step in steps for size in (step.shape[2], step.shape[3] - step.has_sink)]


def _with_places(
    pictured: tuple[Sentence, ...],
    query_sentences: tuple[Sentence, ...] | None,
    key_sentences: tuple[Sentence, ...] | None,
    steps: tuple[Step, ...],
) -> tuple[tuple[Sentence, ...], tuple[Sentence, ...] | None]:
    """The positions of queries, and of the keys of cross-attention: patches where nobody said what they are."""
    if query_sentences or key_sentences:
        return query_sentences or pictured, key_sentences or pictured
    count = len(pictured[0].tokens)
    crosses = [step for step in steps if step.site.kind == "cross" and step.shape[3] == count]
    return (_numbered((crosses[0],), crosses[0].shape[2]), pictured) if crosses else (pictured, None)


def _numbered(steps: tuple[Step, ...], length: int | None = None) -> tuple[Sentence, ...]:
    length = length or max(_sizes(steps))
    return _sentences([[str(i) for i in range(length)]] * steps[0].shape[0])


def _lengths(
    query_sentences: tuple[Sentence, ...] | None, key_sentences: tuple[Sentence, ...] | None
) -> dict[str, tuple[int, ...]]:
    kinds = {"encoder": key_sentences or query_sentences, "decoder": query_sentences, "cross": key_sentences}
    return {kind: tuple(sentence.length for sentence in sentences) for kind, sentences in kinds.items() if sentences}


def _shape(step: Step) -> str:
    return f"{step.shape[0]} x {step.shape[2]} queries, {step.shape[3] - step.has_sink} keys"


def _fitting(
    steps: tuple[Step, ...],
    query_sentences: tuple[Sentence, ...] | None,
    key_sentences: tuple[Sentence, ...] | None,
    prefix: int,
) -> tuple[tuple[Step, ...], list[str]]:
    """The steps of as many sentences, queries and keys as there are tokens, with the keys of a prefix.

    Returns:
        The steps, and a sentence for each other one.

    Raises:
        InputError: if there is none.
    """
    fitting, others = steps, []
    if query_sentences:
        sizes = {
            "encoder": len((key_sentences or query_sentences)[0].tokens) - prefix,
            "decoder": len(query_sentences[0].tokens) - prefix,
        }
        fitting = tuple(step for step in steps if _fits(step, len(query_sentences), sizes, prefix))
        if not fitting:
            raise InputError(_unfit(steps, len(query_sentences), sizes["decoder"]))
        others = [f"{step.name} has {_shape(step)}, not the tokens'" for step in steps if step not in fitting]
    batch = fitting[0].shape[0]
    others += [f"{step.name} has {_shape(step)}" for step in fitting if step.shape[0] != batch]
    return tuple(step for step in fitting if step.shape[0] == batch), others


def _fits(step: Step, batch: int, sizes: dict[str, int], prefix: int = 0) -> bool:
    queries = sizes["encoder" if step.site.kind == "encoder" else "decoder"]
    keys = sizes["decoder" if step.site.kind == "decoder" else "encoder"]
    alone = step.site.kind == "cross" and sizes["encoder"] == sizes["decoder"]  # nobody said what the keys are
    fitting = (keys, keys + prefix)
    return step.shape[0] == batch and step.shape[2] == queries and (alone or step.shape[3] - step.has_sink in fitting)


def _unfit(steps: tuple[Step, ...], batch: int, length: int) -> str:
    shapes = ", ".join(dict.fromkeys(map(_shape, steps)))
    more = [
        step for step in steps if step.shape[2] == length < step.shape[3] - step.has_sink and step.site.kind != "cross"
    ]
    how = "Give as many tokens."
    if more:
        count = more[0].shape[3] - more[0].has_sink - length
        how = f"Where {count} learned keys stand before those of the tokens, name them: record(..., prefix=[...])."
    return f"There are tokens for {batch} x {length} positions; the attention calls have {shapes}. {how}"
