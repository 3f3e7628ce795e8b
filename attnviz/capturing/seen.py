"""The attention calls captured from a model, and their conversion to a record."""

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
"""Provenance of the weights of a user's model."""


class Capture:
    """The captured attention of one model.

    Calling a module again begins a new run, also on the same text; a generation with a cache is one run. `sites`,
    `windows`, `steps` and `unseen` describe the last run. Every map is compared with rows of weights or outputs that
    the model computed; a map that differs is not shown, and is reported in `unseen`.

    Attributes:
        output: last result of the model's forward; None if only parts of the model were called.
        notes: captured attention that cannot be shown, one sentence each.
        findings: unusual properties of the shown maps, one sentence each.
        awaited: messages about functions other than a softmax on scores, by module name, until a softmax follows.
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
        """Number of runs."""
        return len(self._runs())

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
            run: number of the run, from 0, needed if there are several (`runs`); -1 is the last.
            name: name of the source; by default the class of the model.
            places: numbers of rows and columns of the patches of a picture, which replace missing `tokens`, or
                missing `keys` if `tokens` are given.
            image: picture, PIL or (height, width, 3); for a batch one per sentence, or one for all.

        Raises:
            InputError: if no attention call has as many queries and keys as there are tokens or patches, with both
                numbers; if there are several runs and `run` is missing.
            AttnvizError: if no attention was captured, with the reasons.
        """
        last = self.runs - 1
        if run is None and last > 0:
            raise InputError(f"There were {last + 1} runs: choose one, record(run=0) to record(run={last}).")
        run, texts = -1 if run is None else run, Texts(*(words and sentences(words) for words in (tokens, keys)))
        if places is not None:
            texts = texts.with_places(places, image, self.steps_of({}, run))
        steps, unseen, findings = self._verified_steps(texts.lengths, run)
        texts, steps, others = texts.of_steps(steps)
        states = hidden(self.output) if run in (-1, last) else None
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

    def note(self, sentence: str) -> None:
        """Note captured attention that cannot be shown; the same sentence is noted once."""
        if sentence not in self.notes:
            self.notes.append(sentence)

    def check(self) -> None:
        """Raise AttnvizError if an edit had no effect; the message lists the sites."""
        if self.edits == type(self.edits)():
            return
        refused = [call.why_not for call in self.calls if call.why_not and call.is_edited]
        if refused:
            raise AttnvizError(f"The edits cannot be applied correctly: {refused[0]}.")
        calls = {site: call for run in self._runs() for site, call in run.last.items()}
        if not calls:
            raise AttnvizError(f"The edits reached nothing. {self._no_attention_message(self.unseen)}")
        for site, head in sorted(self.edits.heads_off):
            if site not in calls or head >= calls[site].shape[1]:
                each = [f"{place} ({call.shape[1]} heads, {call.name or self.name})" for place, call in calls.items()]
                raise AttnvizError(f"The edits reached nothing at {site.head(head)}. There is: {', '.join(each)}.")

    def _runs(self) -> list[Run]:
        return runs_of(call for call in self.calls if not call.why_not)

    def _last_calls(self) -> dict[Site, Call]:
        runs = self._runs()
        return runs[-1].last if runs else {}

    def _verified_steps(
        self, lengths: Mapping[str, tuple[int, ...]], run: int, is_any: bool = False
    ) -> tuple[tuple[Step, ...], list[str], list[str]]:
        """Steps of a run that agree with the model, at least one unless `is_any`; messages on the rest; findings."""
        runs = self._runs()
        if runs and run not in range(-1, len(runs)):
            raise InputError(f"There is no run {run}: use record(run=0) to record(run={len(runs) - 1}).")
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
                unseen.append(f"the recomputed map of {name} {what}, so it is not shown")
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
            what = f"weights are recomputed in float32 and differ from those of the model, in {dtype}, by"
            findings.append(f"In {counted(len(rounded), 'call')} {what} up to {largest:.1g} ({name})")
        return tuple(steps), unseen, findings

    def _no_attention_message(self, unseen: list[str]) -> str:
        nothing = "no function of torch that attention is made of was called in it. Was it run in the block and thread?"
        if self.output is not None:
            nothing = "it ran and took no softmax of queries and keys, so it has no attention weights"
        what = "; ".join(unseen or dict.fromkeys(softmax.sentence for softmax in self.softmaxes))
        return f"No attention was seen in {self.name}: {what or nothing}"


def hidden(output: Any) -> Tensor | None:
    """The first float tensor (B, n, d) in the output of a model, searched recursively; None if there is none."""
    if isinstance(output, Tensor):
        return output if output.dim() == 3 and output.is_floating_point() else None
    parts = output.values() if hasattr(output, "values") else output
    tensors = map(hidden, parts) if hasattr(output, "values") or isinstance(output, list | tuple) else ()
    return next((tensor for tensor in tensors if tensor is not None), None)
