"""First runs of a loaded model: whether it runs, which attention can be shown, and where it is changed.

With attnviz's attention, a model must give the same outputs as with its own attention, and each attention call must
have one map of all queries and keys. If only the eager implementation of the model gives the same outputs, this is
reported as a finding. If no implementation does, the model runs as it was loaded, and its attention is captured in its
own code. Each combination of class, configuration and implementation is tested once per process.
"""

import re
from collections.abc import Hashable, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import groupby
from logging import getLogger
from typing import Any

import torch
from torch import Tensor, nn

from attnviz.capturing import capture
from attnviz.core.edits import Edits, Site
from attnviz.core.errors import AttnvizError, Canceled, InputError
from attnviz.core.record import Step
from attnviz.core.tokens import Sentence
from attnviz.sources.huggingface import faults, reading, running, tapped
from attnviz.sources.huggingface.linear import is_linear
from attnviz.sources.huggingface.loaded import Loaded, Trial
from attnviz.sources.huggingface.tapped import ModelRun

Batch = tuple[dict[str, Tensor], tuple[int, ...]]
"""Inputs of a run, and the lengths of its texts."""
TEXTS = ["A test.", "A test of a few more words."]
"""Texts of two lengths: windows and blocks can look like a full map at one length, and padding is tested, too."""
MIXERS = {
    "delta": "linear attention (gated delta rule)",
    "lightning": "linear attention (lightning attention)",
    "mamba": "state-space mixing (Mamba-1, a map per channel)",
    "recurrentblock": "linear recurrence (RG-LRU)",
    "conv": "short convolution",
}
"""Descriptions of layers that are not shown, by a part of the name or the class of one of their modules."""
FEED_FORWARD = re.compile("norm|mlp|moe")
"""Pattern for the name and class of every module in a layer that is only feed-forward."""
ROUNDING = 0.01
"""Largest difference that counts as rounding in float32, as a share of the norm of the hidden states."""

_trials: dict[Hashable, Trial] = {}
"""Cached trials by class, configuration and implementation."""


def tried(loaded: Loaded) -> Loaded:
    """Add the results of the first runs to a model; models of one class, configuration and implementation share them.

    Raises:
        AttnvizError: if the model cannot be run or gives no attention, with the reason.
        Canceled: if the load is canceled; then no trial is stored.
    """
    settings = repr({**loaded.config.to_dict(), "name_or_path": "", "_name_or_path": ""})
    lengths = tuple(sentence.length for sentence in reading.sentences(loaded.tokenizer, TEXTS))
    kind = type(loaded.model), settings, loaded.implementation, loaded.device, loaded.dtype
    key = *kind, loaded.task, loaded.longest, lengths
    if key not in _trials:
        with loaded.turns.turn(), faults.unforeseen(f"{loaded.name} ({type(loaded.model).__name__})"):
            _trials[key] = _first_trial(loaded)
    if _trials[key].is_captured:
        tapped.use_own(loaded.model, loaded.implementation)
    else:
        tapped.use_on(loaded.model)
    return replace(loaded, trial=_trials[key])


def _first_trial(loaded: Loaded) -> Trial:
    """Try a model with attnviz's attention; if it fails or its outputs change, capture a run in its own code."""
    if tapped.use_on(loaded.model):
        try:
            return _tap_trial(loaded)
        except (Canceled, InputError):
            raise
        except Exception as error:  # an error of the model itself occurs again in the captured run
            getLogger(__name__).info("%s is captured in its own code: %s", loaded.name, error)
    tapped.use_own(loaded.model, loaded.implementation)
    return _capture_trial(loaded)


def inputs(loaded: Loaded, texts: list[str]) -> Batch:
    """Make the inputs of a run: texts cut to the maximum length of the model, with token ids that have an embedding.

    The decoder of an encoder-decoder model reads one token less than its encoder.
    """

    def fit(sentence: Sentence) -> Sentence:
        """Cut a sentence to the maximum length, and replace each id without an embedding by an id that has one."""
        tokens = tuple(replace(token, id=token.id % loaded.vocabulary) for token in sentence.tokens[: loaded.longest])
        return replace(sentence, tokens=tokens, length=min(sentence.length, len(tokens)))

    sentences = tuple(map(fit, reading.sentences(loaded.tokenizer, texts)))
    model_inputs = running.inputs(sentences, loaded)
    if loaded.task == "write":
        start = torch.full_like(model_inputs["input_ids"][:, :1], running.begins_with(loaded.model) % loaded.vocabulary)
        model_inputs["decoder_input_ids"] = torch.cat([start, model_inputs["input_ids"][:, 2:]], 1)
    return model_inputs, tuple(sentence.length for sentence in sentences)


def _tap_trial(loaded: Loaded) -> Trial:
    """Run a model with attnviz's attention on a padded batch, and on its longest text alone.

    The second run is necessary because some implementations omit the mask if there is no padding.

    Raises:
        AttnvizError: if a part of the model's attention does not go through the tap, or the outputs differ from those
            of the model's own attention.
    """
    model, name = loaded.model, type(loaded.model).__name__
    cannot_pad = loaded.task == "labels" and model.config.get_text_config().pad_token_id is None
    single = inputs(loaded, TEXTS[1:])
    batch = single if cannot_pad else inputs(loaded, TEXTS)
    output, run = _run_tapped(model, *batch)
    steps, hidden = run.tap.steps, running.hidden(output)
    if not (steps and _are_whole(steps, batch[0])):
        raise AttnvizError(f"{name} does not give the tap one map of all queries and keys.")
    kind = "decoder" if {step.site.kind for step in steps} == {"encoder"} and all(map(_is_causal, steps)) else None
    sites = [replace(step.site, kind=kind or step.site.kind) for step in steps]
    by_rule = _output_by_rule(model, single, hidden[-1]) if {site.kind for site in sites} == {"decoder"} else None
    single_output = _run_tapped(model, *single)[0] if by_rule is None else by_rule
    findings = _compare(loaded, [single, batch], [single_output, output])
    layers = {site: _layer_number(model, module) for site, module in zip(sites, run.modules, strict=True)}
    lists = [part for part in model.modules() if isinstance(part, nn.ModuleList) and run.modules[0] in part.modules()]
    layers, unseen = _not_shown(output, layers, lists)
    heads = {
        Site(site.kind, layers.get(site, site.layer)): step.num_heads for site, step in zip(sites, steps, strict=True)
    }
    width, takes_rules = _width(loaded, hidden, batch[0]), by_rule is not None
    return Trial(heads, width, unseen, layers, kind, takes_rules=takes_rules, findings=findings)


def _output_by_rule(model: nn.Module, batch: Batch, expected: Tensor) -> Any:
    """Run a text with the marker of `tapped.rules` as its mask; None if the model changes the marker or the output.

    Args:
        expected: hidden states of the same text, computed in a batch with a real mask.
    """
    try:
        with tapped.rules():
            output, run = _run_tapped(model, *batch)
    except Canceled:
        raise
    except Exception:  # the model does more with a mask than pass it to the attention
        return None
    hidden = running.hidden(output)[0]
    is_same = hidden.isfinite().all() and not differ(hidden, expected)
    softmax_steps = [step for step in run.tap.steps if step.mixing == "softmax"]
    return output if run.by_rule == len(softmax_steps) and is_same else None


def _compare(loaded: Loaded, batches: list[Batch], outputs: list[Any]) -> tuple[str, ...]:
    """Compare runs through the tap with the model's own attention; return a finding if only the eager one agrees.

    Raises:
        AttnvizError: if no implementation agrees.
    """
    model, name, finding = loaded.model, type(loaded.model).__name__, ""
    for implementation in dict.fromkeys((loaded.implementation, "eager")):
        tapped.use_own(model, implementation)
        try:
            with torch.inference_mode():
                own_outputs = [model(**model_inputs, **running.settings(model)) for model_inputs, _ in batches]
        except Canceled:
            raise
        except Exception as error:
            if implementation == "eager":
                raise
            finding = f"{name} fails under {implementation}: {faults.first(error).rstrip('.')}"
            continue
        finally:
            tapped.use_on(model)
        size = _difference(outputs, own_outputs, batches)
        if not size:
            return (f"{finding}. Its eager attention is shown",) if finding else ()
        finding = f"{name} gives other outputs under {implementation} than under eager: {size}"
    raise AttnvizError(f"{name} gives other numbers with attnviz's attention than with its own.")


def _difference(outputs: list[Any], own_outputs: list[Any], batches: list[Batch]) -> str:
    """Largest difference between the outputs of two runs, and the largest of the model's own outputs: "0.48 of 0.47".

    An empty string if the hidden states agree. Padding is not compared.
    """
    is_same, pairs = True, []
    for output, expected, (model_inputs, lengths) in zip(outputs, own_outputs, batches, strict=True):
        real = (None,) * len(lengths) if "decoder_input_ids" in model_inputs else lengths
        hidden, states = running.hidden(output), running.hidden(expected)
        is_same = is_same and hidden.shape == states.shape and not any(map(differ, hidden, states, real))
        logits, own_logits = getattr(output, "logits", None), getattr(expected, "logits", None)
        if logits is None or own_logits is None:
            logits, own_logits = hidden, states
        if own_logits.dim() == 3:
            logits, own_logits = (
                torch.cat([row[:n] for row, n in zip(x, real, strict=True)]) for x in (logits, own_logits)
            )
        pairs.append((float((logits - own_logits).abs().max()), float(own_logits.abs().max())))
    return "" if is_same else "{:.2g} of {:.2g}".format(*max(pairs))


def differ(hidden: Tensor, expected: Tensor, length: int | None = None) -> bool:
    """Whether hidden states of one sentence differ by more than rounding, without its padding.

    The bound is far above rounding and below the effect of another formula; in 16 bits it is ten times as large. NaN
    counts as equal, so that a broken model is shown as it is.
    """
    difference, size = (hidden - expected)[:length].double().norm(), expected[:length].double().norm()
    return bool(difference > (ROUNDING if hidden.dtype.itemsize > 2 else 10 * ROUNDING) * size)


def _are_whole(steps: Sequence[Step], model_inputs: dict[str, Tensor]) -> bool:
    """Whether each step is one map of all queries and keys."""
    n = model_inputs["input_ids"].shape[1]
    m = model_inputs.get("decoder_input_ids", model_inputs["input_ids"]).shape[1]
    sizes = {"encoder": (n, n), "decoder": (m, m), "cross": (m, n)}
    return all((step.shape[2], step.shape[3] - step.has_sink) == sizes[step.site.kind] for step in steps)


def _capture_trial(loaded: Loaded) -> Trial:
    """Run a model as it was loaded, and capture the attention calls in its own code.

    Raises:
        InputError: if its attention is not one map of all queries and keys.
    """
    model = loaded.model
    model_inputs, _ = inputs(loaded, TEXTS)
    with torch.inference_mode(), capture(model) as captured:
        output = model(**model_inputs, **running.settings(model))
    width, steps = _width(loaded, running.hidden(output), model_inputs), ()
    with suppress(AttnvizError):  # no attention call was captured
        steps = captured.steps
    partly_shown, unseen = _not_shown(output, {step.site: step.site.layer for step in steps})
    is_partial = any(call.why_not for call in captured.calls) or any(step.weights_only for step in steps)
    if not steps or is_partial or partly_shown or not _are_whole(steps, model_inputs):
        what = "has no attention that is one map of all queries and keys, so attnviz cannot show it"
        raise InputError(f"{faults.name(loaded.name)} ({type(model).__name__}) {what}.")
    return Trial({step.site: step.num_heads for step in steps}, width, unseen, calls=captured.sites)


def _run_tapped(model: nn.Module, model_inputs: dict[str, Tensor], lengths: tuple[int, ...]) -> tuple[Any, ModelRun]:
    """Run a model through the tap; linear attention returns weights · values, so that its maps are compared, too."""
    run = ModelRun(model, Edits(), lengths)
    run.tap.recomputes = True
    with torch.inference_mode():
        return tapped.call(model, run, **model_inputs, **running.settings(model)), run


def _is_causal(step: Step) -> bool:
    """Whether no query attends to a later key."""
    n = step.shape[2]
    return n > 1 and not any(step.weights(head)[:, :n].triu(1).any() for head in range(step.num_heads))


def _layer_number(model: nn.Module, module: nn.Module) -> int:
    """Layer number in the path of a module, such as 7 in "model.layers.7.self_attn"; -1 if there is none."""
    path = next(name for name, candidate in model.named_modules() if candidate is module)
    return int(next((part for part in reversed(path.split(".")) if part.isdecimal()), -1))


def _width(loaded: Loaded, hidden: Tensor, model_inputs: dict[str, Tensor]) -> int:
    """Width of the hidden states; raise InputError if there is not one vector for each token."""
    rows = model_inputs.get("decoder_input_ids", model_inputs["input_ids"]).shape
    if hidden.shape[:2] == rows:
        return hidden.shape[-1]
    what = f"gives hidden states of {tuple(hidden.shape)} for {rows[1]} tokens"
    if hidden.shape[1:3] == rows:
        what = f"keeps {len(hidden)} vectors for each token"
    elif hidden.dim() == 3:
        what = f"shortens its texts: {rows[1]} tokens have {hidden.shape[1]} hidden states"
    name = f"{faults.name(loaded.name)} ({type(loaded.model).__name__})"
    raise InputError(f"{name} {what}, and attnviz shows models with one vector for each token.")


def _not_shown(
    output: Any, layer_numbers: dict[Site, int], lists: Sequence[nn.ModuleList] = ()
) -> tuple[dict[Site, int], str | None]:
    """Describe the attention that is not shown, found by comparing the sites with the layers that return hidden states.

    Args:
        layer_numbers: number in the model of the layer of each site.
        lists: lists of modules, one of which may hold the layers in the order of `layer_numbers`.

    Returns:
        The layer numbers of the sites whose kind of attention is only partly shown, and the description; None if all is
        shown.
    """
    if hasattr(output, "decoder_hidden_states"):
        layers = {kind: getattr(output, f"{kind}_hidden_states", None) for kind in ("encoder", "decoder")}
        layers["cross"], lists = layers["decoder"], ()
    else:
        layers = {next(iter(layer_numbers), Site("encoder", 0)).kind: getattr(output, "hidden_states", None)}
    partly, sentences = {}, []
    for kind, states in layers.items():
        total = max(0, len(states or ()) - 1)
        numbers = {site: number for site, number in layer_numbers.items() if site.kind == kind}
        if len(numbers) > total > 0:
            sentences.append(
                f"{total} {kind} layers compute attention {len(numbers)} times; each counts as a layer here"
            )
        elif total and not numbers:
            sentences.append(f"the {kind} attention is not shown: its layers work in code of their own")
        elif hidden_parts := _other_parts(lists, total, {*numbers.values()}):
            sentences.append(f"of {total} {kind} layers, counted from 0, {hidden_parts}")
        elif len(numbers) < total:
            listed = ", ".join(str(number) for number in numbers.values())
            sentences.append(
                f"shown of {total} {kind} layers, counted from 0: {listed}; the others work in code of their own"
            )
        if 0 < len(numbers) < total and len({*numbers.values()}) == len(numbers):
            partly |= numbers
    text = "; ".join(sentences)
    return partly, f"{text[0].upper()}{text[1:]}." if text else None


def _other_parts(lists: Sequence[nn.ModuleList], total: int, with_attention: set[int]) -> str:
    """Describe the parts of a hybrid model that are not shown, by layer; "" if there are none or one is unknown."""
    layers_by_part: dict[str, list[int]] = {}
    for number, layer in enumerate(next((part for part in lists if len(part) == total), ())):
        parts = [f"{name} {type(part).__name__}".lower() for name, part in layer.named_children()]
        mixer = next((words for sign, words in MIXERS.items() if any(sign in part for part in parts)), "")
        if number in with_attention:
            is_mamba_beside = any("mamba" in part for part in parts) and not any(map(is_linear, layer.modules()))
            words = f"attention beside {MIXERS['mamba']}, and the latter is not shown" if is_mamba_beside else ""
        elif mixer or all(map(FEED_FORWARD.search, parts)):
            words = f"{mixer or 'feed-forward alone'}, not shown"
        else:
            return ""
        if words:
            layers_by_part.setdefault(words, []).append(number)
    return "; ".join(f"{_format_layers(numbers)} {words}" for words, numbers in layers_by_part.items())


def _format_layers(numbers: Sequence[int]) -> str:
    """Format ascending layer numbers with a verb: "layer 3 is", "layers 0 to 2, 4 to 6 are"."""
    runs = [[number for _, number in run] for _, run in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0])]
    listed = ", ".join(f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs)
    return f"layers {listed} are" if len(numbers) > 1 else f"layer {listed} is"
