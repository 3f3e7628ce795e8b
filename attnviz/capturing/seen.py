"""The attention calls captured from a model, and the record made of them."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from attnviz.capturing.call import Call
from attnviz.capturing.joining import Run, runs_of
from attnviz.capturing.tokens import Strings, Texts, sentences
from attnviz.capturing.verify import BOUND, difference, notes
from attnviz.core.amounts import counted
from attnviz.core.edits import Edits, Site
from attnviz.core.errors import AttnvizError, InputError
from attnviz.core.record import Record, Step
from attnviz.core.windows import WindowGrid

PROVENANCE = "your own"
"""Provenance of the weights of a person's model."""


class Capture:
    """The attention of one model while it was captured.

    A module that is called again begins another run, also on the same text; a generation with a cache is one run.
    `sites`, `windows`, `steps` and `unseen` are of the last run. Every map is compared with rows of the model's
    weights, or of its output; one that differs is not shown, but named in `unseen`.

    Attributes:
        output: what the model's forward gave last; None if it was not called as a whole.
        notes: what was seen and cannot be shown, each in one sentence.
        findings: what is unusual about what is shown, each in one sentence.
        awaited: by the name of a module, what it took of scores instead of a softmax, until there is one.
    """

    def __init__(self, name: str, edits: Edits):
        self.name, self.edits = name, edits
        self.calls: list[Call] = []
        self.output: Any = None
        self.notes: list[str] = []
        self.findings: list[str] = []
        self.softmaxes: list[Any] = []
        self.awaited: dict[str, str] = {}

    @property
    def runs(self) -> int:
        """How many runs there were."""
        return len(self._runs())

    @property
    def sites(self) -> dict[Site, str]:
        """The sites and the names of the modules that call attention there."""
        return {site: call.name or self.name for site, call in self._last_calls().items()}

    @property
    def windows(self) -> dict[Site, WindowGrid]:
        """Windows of a picture within which a site attends; its step is of the whole picture, padded to them."""
        return {site: call.windows for site, call in self._last_calls().items() if call.windows is not None}

    @property
    def steps(self) -> tuple[Step, ...]:
        """A step per site."""
        return self.steps_of({})

    @property
    def unseen(self) -> list[str]:
        """Attention that was seen and cannot be shown, each in one sentence."""
        return self._verified_steps({}, -1, is_any=True)[1]

    def steps_of(self, lengths: Mapping[str, tuple[int, ...]], run: int = -1) -> tuple[Step, ...]:
        """A step per site of a run; `lengths` are those of the keys of each sentence without padding, by kind."""
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
        """Record of the captured calls: for every figure, metric, check and file.

        Args:
            tokens: what stands at each position that the model read, as words; of several sentences a list each, padded
                at the end. Of an encoder-decoder, what its decoder read. Without them positions are numbered.
            keys: what cross-attention looks at, as words: of an encoder-decoder, what its encoder read.
            run: number of the run, from 0, where there are several (`runs`); -1 is the last.
            name: of the source; by default the model's class.
            places: rows and columns of the patches of a picture. They stand for the words that are missing: for
                `tokens`, or for `keys` if there are tokens.
            image: the picture, of PIL or (height, width, 3); of a batch one for each, or one for all.

        Raises:
            InputError: if no attention call has as many queries and keys as there are tokens or patches, with both
                numbers; if there are several runs and none is named.
            AttnvizError: if no attention was seen, with what was.
        """
        last = self.runs - 1
        if run is None and last > 0:
            raise InputError(f"There were {last + 1} runs: say which, record(run=0) to record(run={last}).")
        run, texts = -1 if run is None else run, Texts(*(words and sentences(words) for words in (tokens, keys)))
        if places is not None:
            texts = texts.with_places(places, image, self.steps_of({}, run))
        steps, unseen, findings = self._verified_steps(texts.lengths, run)
        texts, steps, others = texts.of_steps(steps)
        states = hidden(self.output) if run in (-1, last) else None
        if states is None or states.shape[:2] != (len(texts.queries), len(texts.queries[0].tokens)):
            states = steps[-1].outputs()  # else such as logits of the last position alone
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

    def note(self, sentence: str) -> None:
        """Say once what was seen and cannot be shown."""
        if sentence not in self.notes:
            self.notes.append(sentence)

    def check(self) -> None:
        """Raises: AttnvizError: if an edit reached nothing, with what there is."""
        if self.edits == type(self.edits)():
            return
        refused = [call.why_not for call in self.calls if call.why_not and call.is_edited]
        if refused:
            raise AttnvizError(f"The edits cannot be right: {refused[0]}.")
        calls = {site: call for run in self._runs() for site, call in run.last.items()}
        if not calls:
            raise AttnvizError(f"The edits reached nothing. {self._no_attention_message(self.unseen)}")
        for site, head in sorted(self.edits.heads_off):
            if site not in calls or head >= calls[site].shape[1]:
                each = [f"{at} ({call.shape[1]} heads, {call.name or self.name})" for at, call in calls.items()]
                raise AttnvizError(f"The edits reached nothing at {site.head(head)}. There is: {', '.join(each)}.")

    def _runs(self) -> list[Run]:
        return runs_of(call for call in self.calls if not call.why_not)

    def _last_calls(self) -> dict[Site, Call]:
        runs = self._runs()
        return runs[-1].last if runs else {}

    def _verified_steps(
        self, lengths: Mapping[str, tuple[int, ...]], run: int, is_any: bool = False
    ) -> tuple[tuple[Step, ...], list[str], list[str]]:
        """The steps of a run that are the model's own, one at least unless `is_any`; what else there was; findings."""
        runs = self._runs()
        if runs and run not in range(-1, len(runs)):
            raise InputError(f"There is no run {run}: say record(run=0) to record(run={len(runs) - 1}).")
        calls, unjoined = runs[run].whole() if runs else ({}, [])
        refused = [call.why_not for call in self.calls if call.why_not]
        loose = [each.sentence for each in self.softmaxes if not each.is_placed and (each.of_product or each.why_not)]
        unseen = [*dict.fromkeys([*refused, *loose, *self.awaited.values()]), *unjoined, *self.notes]
        steps, rounded = [], []
        for site, call in calls.items():
            step, name = call.step(self.edits, lengths.get(site.kind)), f"{site} ({call.name or 'the model'})"
            off = difference(step, call.samples)
            if off.excess > 1:
                what = f"differs from the model's own weights or output by up to {off.largest:.2g}"
                unseen.append(f"the map of {name}, worked out again, {what}, so it is not shown")
                continue
            steps.append(step if call.windows is None else call.windows.joined(step, self.edits))
            if off.has_nan:
                unseen.append(f"{name} has NaN where the model itself has")
            if off.largest > BOUND:
                rounded.append((off.largest, str(call.samples[0].dtype).removeprefix("torch."), name))
        if not steps and not is_any:
            raise AttnvizError(self._no_attention_message(unseen))
        findings = [*self.findings, *(notes(steps) if self.edits.scale is None else ())]
        if rounded:
            largest, dtype, name = max(rounded)
            what = f"weights are worked out again in float32; from the model's own, in {dtype}, they differ by"
            findings.append(f"In {counted(len(rounded), 'call')} {what} up to {largest:.1g} ({name})")
        return tuple(steps), unseen, findings

    def _no_attention_message(self, unseen: list[str]) -> str:
        nothing = "no function of torch that attention is made of was called in it. Was it run in the block and thread?"
        if self.output is not None:
            nothing = "it ran and took no softmax of queries and keys, so it has no attention weights"
        what = "; ".join(unseen or dict.fromkeys(softmax.sentence for softmax in self.softmaxes))
        return f"No attention was seen in {self.name}: {what or nothing}"


def hidden(output: Any) -> Tensor | None:
    """The first tensor of floats in what a model gave that is (B, n, d); None if there is none."""
    if isinstance(output, Tensor):
        return output if output.dim() == 3 and output.is_floating_point() else None
    parts = output.values() if hasattr(output, "values") else output
    tensors = map(hidden, parts) if hasattr(output, "values") or isinstance(output, list | tuple) else ()
    return next((tensor for tensor in tensors if tensor is not None), None)
