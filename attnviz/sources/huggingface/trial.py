"""Tiny runs of a model that was just loaded: whether it runs, what of its attention is shown, what can be changed.

A model must give the same numbers with attnviz's attention as it gives as it was loaded, and its attention must be one
map of all queries and keys. Where only its eager form gives these numbers, the difference is a finding. This is tried
once for each class, configuration and implementation in a process.
"""

from collections.abc import Hashable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from attnviz.capturing import capture
from attnviz.core.edits import Edits, Site
from attnviz.core.errors import AttnvizError, Canceled, InputError
from attnviz.core.record import Step
from attnviz.core.tokens import Sentence
from attnviz.sources.huggingface import eager, faults, reading, running, tapped, unseen
from attnviz.sources.huggingface.eager import is_whole
from attnviz.sources.huggingface.loaded import Loaded, Trial
from attnviz.sources.huggingface.tapped import ModelRun

Batch = tuple[dict[str, Tensor], tuple[int, ...]]
"""Inputs of a run, and the lengths of its texts."""
TEXTS = ["A test.", "A test of a few more words."]
"""Texts of two lengths: windows and blocks have the shape of a map at one length only, and padding is tried."""
OWN = "{} computes attention in its own code."
NO_MAP = "has no attention that is one map of all queries and keys"


_trials: dict[Hashable, tuple[Trial, bool]] = {}
"""Trials by class, configuration and implementation, and whether the model keeps its own attention."""


def tried(loaded: Loaded) -> Loaded:
    """The same, with what its first runs showed, or those of a model of its class, configuration and implementation.

    Raises:
        AttnvizError: one sentence that says why it cannot be run, or that it gives no attention.
        Canceled: if nobody waits for it any more; nothing is known of it then.
    """
    settings = repr({**loaded.config.to_dict(), "name_or_path": "", "_name_or_path": ""})
    lengths = tuple(sentence.length for sentence in reading.sentences(loaded.tokenizer, TEXTS))
    kind = type(loaded.model), settings, loaded.implementation, loaded.device, loaded.dtype
    key = *kind, loaded.task, loaded.longest, loaded.keeps_own_attention, lengths
    if key not in _trials:
        result = itself(loaded)
        _trials[key] = result.trial, result.keeps_own_attention
        return result
    trial, keeps_own_attention = _trials[key]
    if keeps_own_attention and not loaded.keeps_own_attention:
        loaded.model.set_attn_implementation("eager")
    return replace(loaded, trial=trial, keeps_own_attention=keeps_own_attention)


def itself(loaded: Loaded) -> Loaded:
    """The same, with what its own first runs showed.

    Raises:
        AttnvizError: one sentence that says why it cannot be run, or that it gives no attention.
        Canceled: if nobody waits for it any more; nothing is known of it then.
    """
    kind = type(loaded.model).__name__
    with loaded.turns.turn(), faults.unforeseen(f"{loaded.name} ({kind})"):
        why = OWN.format(kind)
        if not loaded.keeps_own_attention:
            try:
                return _through_the_tap(loaded)
            except Canceled:
                raise
            except AttnvizError as error:
                why = str(error)
            except Exception as error:
                why = f"{kind} fails with attnviz's attention: {faults.first(error)}"
            loaded.model.set_attn_implementation("eager")
        try:
            return _captured(loaded)
        except Canceled:
            raise
        except Exception:  # then nothing is known of it but its weights, if it gives them
            return _read_only(loaded, why)


def inputs(loaded: Loaded, texts: list[str]) -> tuple[dict[str, Tensor], tuple[int, ...]]:
    """Inputs of a run, and the lengths; the decoder of an encoder-decoder reads one token less."""
    sentences = tuple(map(_shortened(loaded), reading.sentences(loaded.tokenizer, texts)))
    read = running.inputs(sentences, loaded)
    if loaded.task == "write":
        start = torch.full_like(read["input_ids"][:, :1], running.begins_with(loaded.model) % loaded.vocabulary)
        read["decoder_input_ids"] = torch.cat([start, read["input_ids"][:, 2:]], 1)
    return read, tuple(sentence.length for sentence in sentences)


def _shortened(loaded: Loaded) -> Any:
    """A function that cuts a sentence to the length that a model reads, in tokens that it has vectors for."""

    def shortened(sentence: Sentence) -> Sentence:
        tokens = sentence.tokens[: loaded.longest]
        tokens = tuple(replace(token, id=token.id % loaded.vocabulary) for token in tokens)
        return replace(sentence, tokens=tokens, length=min(sentence.length, len(tokens)))

    return shortened


def _through_the_tap(loaded: Loaded) -> Loaded:
    """Run a model with attnviz's attention.

    Raises:
        AttnvizError: if the model computes another attention, or if not all of it are maps.
    """
    model, name = loaded.model, type(loaded.model).__name__
    unpadded = loaded.task == "labels" and model.config.get_text_config().pad_token_id is None
    batches = [inputs(loaded, TEXTS[1:]), inputs(loaded, TEXTS[:1] if unpadded else TEXTS)]
    read, lengths = batches[-1]
    tapped.use_on(model)
    output, run = _tapped(model, read, lengths)
    alone = None
    steps, hidden = run.tap.steps, running.hidden(output)
    if not steps:
        raise AttnvizError(OWN.format(name))
    if not all(is_whole(step, eager.sizes(read)) for step in steps):
        raise AttnvizError(f"{name} has attention that is no map of all queries and keys.")
    if {step.site.kind for step in steps} == {"encoder"} and all(map(_is_causal, steps)):
        alone = "decoder"
        output, run = _tapped(model, read, lengths, alone)
        steps = run.tap.steps
    alone_output = _tapped(model, *batches[0], alone)[0]
    findings = _compared(loaded, batches, [alone_output, output])
    layers = {step.site: _number(model, module) for step, module in zip(steps, run.modules, strict=True)}
    lists = [part for part in model.modules() if isinstance(part, nn.ModuleList) and run.modules[0] in part.modules()]
    layers, others = unseen.not_shown(output, layers, "work in code of their own", lists)
    heads = {Site(step.site.kind, layers.get(step.site, step.site.layer)): step.num_heads for step in steps}
    trial = Trial(heads, _width(loaded, hidden, read), None, others, layers, alone, findings=findings)
    return replace(
        loaded, trial=replace(trial, takes_rules=_takes_rules(loaded, alone, *batches[0], running.hidden(alone_output)))
    )


def _compared(loaded: Loaded, batches: list[Batch], outputs: list[Any]) -> tuple[str, ...]:
    """Compare runs through the tap with the model as it was loaded; gives a finding where only its eager form agrees.

    A text alone is among them: some implementations leave the mask out where there is no padding.

    Raises:
        AttnvizError: if the model's eager attention gives other numbers, too.
    """
    name, implementation = type(loaded.model).__name__, loaded.implementation
    try:
        own = _own(loaded, implementation, batches)
    except Canceled:
        raise
    except Exception as error:
        if implementation == "eager":
            raise
        tapped.use_on(loaded.model)
        own, off = None, f"{name} fails under {implementation}: {faults.first(error).rstrip('.')}"
    if own is not None:
        if not _differ(outputs, own, batches):
            return ()
        off = f"{name} answers otherwise under {implementation} than under eager: {_difference(outputs, own, batches)}"
    if implementation == "eager" or _differ(outputs, _own(loaded, "eager", batches), batches):
        raise AttnvizError(f"{name} gives other numbers with attnviz's attention than with its own.")
    return (f"{off}. Its eager attention is shown",)


def _own(loaded: Loaded, implementation: str, batches: list[Batch]) -> list[Any]:
    """Outputs of the model with an attention of its own; the tap is on it again afterwards."""
    model = loaded.model
    model.set_attn_implementation(implementation)
    with torch.inference_mode():
        outputs = [model(**read, **running.settings(model)) for read, _ in batches]
    tapped.use_on(model)
    return outputs


def _differ(outputs: list[Any], own: list[Any], batches: list[Batch]) -> bool:
    """Whether the hidden states of runs differ, or have another shape."""
    for ours, expected, (read, lengths) in zip(outputs, own, batches, strict=True):
        hidden, states = running.hidden(ours), running.hidden(expected)
        real = (None,) * len(lengths) if "decoder_input_ids" in read else lengths
        if hidden.shape != states.shape or any(map(eager.differ, hidden, states, real)):
            return True
    return False


def _difference(outputs: list[Any], own: list[Any], batches: list[Batch]) -> str:
    """The largest difference of two answers, and the largest number in the model's own: "0.48 of 0.47"."""
    pairs = []
    for ours, expected, (read, lengths) in zip(outputs, own, batches, strict=True):
        answers = [getattr(output, "logits", None) for output in (ours, expected)]
        if any(answer is None for answer in answers):
            answers = [running.hidden(output) for output in (ours, expected)]
        mine, theirs = (answer.float() for answer in answers)
        if "decoder_input_ids" not in read and theirs.dim() == 3:
            mine, theirs = (torch.cat([row[:n] for row, n in zip(x, lengths, strict=True)]) for x in (mine, theirs))
        pairs.append((float((mine - theirs).abs().max()), float(theirs.abs().max())))
    return "{:.2g} of {:.2g}".format(*max(pairs))


def _takes_rules(
    loaded: Loaded, alone: str | None, read: dict[str, Tensor], lengths: tuple[int, ...], plain: Tensor
) -> bool:
    """Whether each attention call gets what stands for a causal mask, and the model then gives the same."""
    try:
        with tapped.rules():
            output, run = _tapped(loaded.model, read, lengths, alone)
    except Canceled:
        raise
    except Exception:  # it does something else with a mask than handing it on
        return False
    return run.by_rule == len(run.tap.steps) > 0 and torch.equal(running.hidden(output), plain)


def _captured(loaded: Loaded) -> Loaded:
    """Run a model with attention in its own code, and capture it there.

    Raises:
        AttnvizError: if not all that is seen are maps with their scores, or its own weights are other ones.
    """
    model, name = loaded.model, type(loaded.model).__name__
    read, lengths = inputs(loaded, TEXTS)
    with torch.inference_mode(), capture(model) as captured:
        output = model(**read, output_attentions=True, **running.settings(model))
    steps, expected = {step.site: step for step in captured.steps}, eager.sizes(read)
    if any(call.why_not for call in captured.calls) or any(step.weights_only for step in steps.values()):
        raise AttnvizError(OWN.format(name))
    if not all(is_whole(step, expected) for step in steps.values()):
        raise AttnvizError(f"{name} has attention that is no map of all queries and keys.")
    alone = next(iter(steps)).kind
    for site, weights in eager.maps(output, alone).items():
        is_map = eager.is_map(model.config.model_type, site, weights, *expected[site.kind])
        if is_map and not eager.are_weights(steps[site], weights, model.config.model_type, lengths):
            raise AttnvizError(f"{name} gives other weights than its scores have.")
    partly, others = unseen.not_shown(output, {site: site.layer for site in steps}, "work in code of their own")
    if partly:
        raise AttnvizError(OWN.format(name))
    heads = {site: step.num_heads for site, step in steps.items()}
    trial = Trial(heads, _width(loaded, running.hidden(output), read), None, others, calls=captured.sites)
    return replace(loaded, keeps_own_attention=True, trial=trial)


def _tapped(
    model: nn.Module, read: dict[str, Tensor], lengths: tuple[int, ...], alone: str | None = None
) -> tuple[Any, ModelRun]:
    run = ModelRun(model, Edits(), lengths, alone=alone)
    with torch.inference_mode():
        return model(**read, attnviz=run, **running.settings(model)), run


def _is_causal(step: Step) -> bool:
    """Whether no query looks at a later key."""
    n = step.shape[2]
    return n > 1 and not any(step.weights(head)[:, :n].triu(1).any() for head in range(step.num_heads))


def _number(model: nn.Module, module: nn.Module) -> int:
    """The number in a module's name, as of "model.layers.7.self_attn"."""
    path = next(name for name, candidate in model.named_modules() if candidate is module)
    return int(next((part for part in reversed(path.split(".")) if part.isdecimal()), -1))


def _read_only(loaded: Loaded, why: str) -> Loaded:
    """Raises: InputError: if the model gives no maps."""
    whole: dict[Site, int] | None = None
    name, model = faults.name(loaded.name), loaded.model
    for text in TEXTS:
        read, _ = inputs(loaded, [text])
        with torch.inference_mode():
            output = model(**read, output_attentions=True, **running.settings(model))
        site_heads = eager.whole(model, output, read)
        whole = site_heads if whole is None else {site: heads for site, heads in site_heads.items() if site in whole}
    if not whole:
        raise InputError(f"{name} ({type(model).__name__}) {NO_MAP}, so attnviz cannot show it.")
    _, others = unseen.not_shown(output, {site: site.layer for site in whole}, "give no map of all queries and keys")
    only = f"{why.rstrip('.')}: its weights can be shown, but masks and heads cannot be changed."
    width = _width(loaded, running.hidden(output), read)
    return replace(loaded, keeps_own_attention=True, trial=Trial(whole, width, only, others))


def _width(loaded: Loaded, hidden: Tensor, read: dict[str, Tensor]) -> int:
    """Raises: InputError: if hidden states are not one for each token."""
    rows = read.get("decoder_input_ids", read["input_ids"]).shape
    if hidden.shape[:2] != rows:
        what = f"{faults.name(loaded.name)} ({type(loaded.model).__name__}) gives no vector for each token"
        raise InputError(f"{what} ({rows[1]} tokens, hidden states of {tuple(hidden.shape)}), so it cannot be shown.")
    return hidden.shape[-1]
