"""First runs of a loaded model: whether it runs, which attention can be shown, and where it is changed.

With attnviz's attention, a model must give the same outputs as with its own attention, and each attention call must
have one map of all queries and keys. If only the eager implementation of the model gives the same outputs, this is
reported as a finding. If no implementation does, the model runs as it was loaded, and its attention is captured in its
own code. Each combination of class, configuration and implementation is tested once per process.
"""

from collections.abc import Hashable, Sequence
from contextlib import suppress
from dataclasses import replace
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
from attnviz.sources.huggingface.loaded import Loaded, Trial
from attnviz.sources.huggingface.tapped import ModelRun

Batch = tuple[dict[str, Tensor], tuple[int, ...]]
"""Inputs of a run, and the lengths of its texts."""
TEXTS = ["A test.", "A test of a few more words."]
"""Texts of two lengths: windows and blocks can look like a full map at one length, and padding is tested, too."""
ROUNDING = 0.01
"""Largest difference that counts as rounding in float32, as a share of the norm of the hidden states."""

_trials: dict[Hashable, Trial] = {}
"""Cached trials by class, configuration and implementation."""


def tried(loaded: Loaded) -> Loaded:
    """Add the results of the first runs to a model; models of one class, configuration and implementation share it."""
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
        tapped.use_attnviz(loaded.model)
    return replace(loaded, trial=_trials[key])


def _first_trial(loaded: Loaded) -> Trial:
    """Try a model with attnviz's attention; if it fails or its outputs change, capture a run in its own code."""
    if tapped.use_attnviz(loaded.model):
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
        ids, start = model_inputs["input_ids"], running.begins_with(loaded.model) % loaded.vocabulary
        model_inputs["decoder_input_ids"] = torch.cat([torch.full_like(ids[:, :1], start), ids[:, 2:]], 1)
    return model_inputs, tuple(sentence.length for sentence in sentences)


def _tap_trial(loaded: Loaded) -> Trial:
    """Run a model with attnviz's attention on a padded batch, and on its longest text alone.

    The second run is necessary because some implementations omit the mask if there is no padding. Raises AttnvizError
    if a part of the model's attention does not go through the tap.
    """
    model = loaded.model
    cannot_pad = loaded.task == "labels" and model.config.get_text_config().pad_token_id is None
    single = inputs(loaded, TEXTS[1:])
    batch = single if cannot_pad else inputs(loaded, TEXTS)
    output, run = _run_tapped(model, *batch)
    steps, hidden = run.tap.steps, running.hidden(output)
    if not (steps and _are_whole(steps, batch[0])):
        raise AttnvizError(f"{type(model).__name__} does not give the tap one map of all queries and keys.")
    causal_encoder = {step.site.kind for step in steps} == {"encoder"} and _is_causal(steps)
    kind = "decoder" if causal_encoder else None
    sites = [replace(step.site, kind=kind or step.site.kind) for step in steps]
    by_rule = None  # output of the text alone, with the mask as a rule, if that works
    if {site.kind for site in sites} == {"decoder"}:
        by_rule = _output_by_rule(model, single, hidden[-1])
    single_output = _run_tapped(model, *single)[0] if by_rule is None else by_rule
    findings = _compare(loaded, [single, batch], [single_output, output])
    names = {module: name for name, module in model.named_modules()}
    layers = {}  # the last number in the name of a module, such as "h.3.attn", is that of its layer
    for site, module in zip(sites, run.modules, strict=True):
        numbers = [int(part) for part in names[module].split(".") if part.isdecimal()]
        layers[site] = numbers[-1] if numbers else -1
    layers, unseen = _not_shown(model, output, layers, run.modules[0])
    heads = {}
    for site, step in zip(sites, steps, strict=True):
        heads[Site(site.kind, layers.get(site, site.layer))] = step.num_heads
    width, takes_rules = _width(loaded, hidden, batch[0]), by_rule is not None
    return Trial(heads, width, unseen, layers, kind, takes_rules=takes_rules, findings=findings)


def _is_causal(steps: Sequence[Step]) -> bool:
    """Whether no query of several attends to a later position, in any head of any step."""
    n = steps[0].shape[2]
    weights = (step.weights(head)[:, :n] for step in steps for head in range(step.num_heads))
    return n > 1 and not any(rows.triu(1).any() for rows in weights)


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

    Args:
        outputs: outputs of the runs through the tap, one for each batch.

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
            tapped.use_attnviz(model)  # again, after its own attention
        size = _difference(outputs, own_outputs, batches)
        if not size:
            return (f"{finding}. Its eager attention is shown",) if finding else ()
        finding = f"{name} gives other outputs under {implementation} than under eager: {size}"
    raise AttnvizError(f"{name} gives other numbers with attnviz's attention than with its own.")


def _difference(outputs: list[Any], own_outputs: list[Any], batches: list[Batch]) -> str:
    """Largest difference between the outputs of two runs, and the largest of the model's own outputs: "0.48 of 0.47".

    An empty string if the hidden states agree. Padding is not compared.
    """
    is_same, differences = True, []  # each with the largest of the model's own outputs
    for output, own_output, (model_inputs, lengths) in zip(outputs, own_outputs, batches, strict=True):
        lengths = (None,) * len(lengths) if "decoder_input_ids" in model_inputs else lengths
        hidden, own_hidden = running.hidden(output), running.hidden(own_output)
        is_same = is_same and hidden.shape == own_hidden.shape and not any(map(differ, hidden, own_hidden, lengths))
        logits, own_logits = getattr(output, "logits", None), getattr(own_output, "logits", None)
        if logits is None or own_logits is None:
            logits, own_logits = hidden, own_hidden
        if own_logits.dim() == 3:
            logits = torch.cat([row[:length] for row, length in zip(logits, lengths, strict=True)])
            own_logits = torch.cat([row[:length] for row, length in zip(own_logits, lengths, strict=True)])
        differences.append((float((logits - own_logits).abs().max()), float(own_logits.abs().max())))
    difference, largest = max(differences)
    return "" if is_same else f"{difference:.2g} of {largest:.2g}"


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
    """Run a model as it was loaded, and capture the attention calls in its own code."""
    model = loaded.model
    model_inputs, _ = inputs(loaded, TEXTS)
    with torch.inference_mode(), capture(model) as captured:
        output = model(**model_inputs, **running.settings(model))
    width = _width(loaded, running.hidden(output), model_inputs)
    steps = ()
    with suppress(AttnvizError):  # no attention call was captured
        steps = captured.steps
    partly_shown, unseen = _not_shown(model, output, {step.site: step.site.layer for step in steps})
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


def _width(loaded: Loaded, hidden: Tensor, model_inputs: dict[str, Tensor]) -> int:
    """Width of the hidden states; raise InputError if there is not one vector for each token."""
    rows = model_inputs.get("decoder_input_ids", model_inputs["input_ids"]).shape
    if hidden.shape[:2] != rows:
        name, shape = f"{faults.name(loaded.name)} ({type(loaded.model).__name__})", tuple(hidden.shape)
        what = f"gives hidden states of {shape} for {rows[0]} texts of {rows[1]} tokens"
        raise InputError(f"{name} {what}, and attnviz shows models with one vector for each token.")
    return hidden.shape[-1]


def _not_shown(
    model: nn.Module, output: Any, layer_numbers: dict[Site, int], attention: nn.Module | None = None
) -> tuple[dict[Site, int], str | None]:
    """Describe the attention that is not shown, found by comparing the sites with the layers that return hidden states.

    Args:
        layer_numbers: number in the model of the layer of each site.
        attention: module that computed the attention of the first site, if it is known.

    Returns:
        The layer numbers of the sites whose kind of attention is only partly shown, and the description; None if all is
        shown.
    """
    if hasattr(output, "decoder_hidden_states"):
        encoder_states, decoder_states = getattr(output, "encoder_hidden_states", None), output.decoder_hidden_states
        states, attention = {"encoder": encoder_states, "decoder": decoder_states, "cross": decoder_states}, None
    else:
        kind = next(iter(layer_numbers), Site("encoder", 0)).kind
        states = {kind: getattr(output, "hidden_states", None)}
    partly, sentences = {}, []
    for kind, hidden_states in states.items():
        layers = max(0, len(hidden_states or ()) - 1)  # the first states are those before the first layer
        numbers = {site: number for site, number in layer_numbers.items() if site.kind == kind}
        shown = sorted({*numbers.values()})
        if len(numbers) > layers > 0:
            calls = f"{layers} {kind} layers compute attention {len(numbers)} times"
            sentences.append(f"{calls}; each counts as a layer here")
        elif layers and not numbers:
            sentences.append(f"the {kind} attention is not shown: its layers work in code of their own")
        if 0 < len(shown) < layers:
            others = _other_parts(model, attention, layers, shown) or "work in code of their own"
            listed = ", ".join(map(str, shown))
            sentences.append(f"shown of {layers} {kind} layers, counted from 0: {listed}; the others {others}")
            if len(numbers) == len(shown):
                partly.update(numbers)
    text = "; ".join(sentences)
    return partly, f"{text[0].upper()}{text[1:]}." if text else None


def _other_parts(model: nn.Module, attention: nn.Module | None, layers: int, shown_layers: list[int]) -> str:
    """Complete "the other layers ...": "compute X", with the classes X that no layer of `shown_layers` has; or ""."""
    for module_list in model.modules():
        if isinstance(module_list, nn.ModuleList) and len(module_list) == layers and attention in module_list.modules():
            classes = [[type(child).__name__ for child in layer.children()] for layer in module_list]
            in_shown = {name for number in shown_layers for name in classes[number]}
            names = [name for layer in classes for name in layer if name not in in_shown and "Norm" not in name]
            return f"compute {', '.join(dict.fromkeys(names))}" if names else ""
    return ""
