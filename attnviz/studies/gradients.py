"""Gradients of a word's logit with respect to attention weights or input embeddings, by one more run of the model.

The weights are differentiated as independent variables: the effect of a changed weight on later computations, without
the softmax that produced the weight. No parameter of the model gets a gradient.
"""

from typing import Any

import torch
from torch import Tensor

from attnviz.analysis.contributions import position_and_ids
from attnviz.analysis.predictions import position_of, predicting
from attnviz.analysis.relevance import IntegratedGradients, Relevance, texts_of
from attnviz.core.errors import AttnvizError, Canceled, InputError, check_whole
from attnviz.core.record import Record
from attnviz.core.tap import GradientTap
from attnviz.sources.base import Source
from attnviz.studies.ablation import OnProgress

MOST_WEIGHTS = 2**26
"""Maximum number of weights of all heads in one graph: 12 layers of 12 heads with 682 tokens."""
COPIES = 20
"""Approximate bytes per weight: the weight, the tensors it was computed from, their gradients and the products."""
RUNS = 3
"""Approximate time of a forward and backward pass, in forward passes."""
STEPS, MOST_STEPS = 50, 1000
"""Default and largest number of points of the sum that approximates the integral."""


def relevance(
    source: Source, record: Record, token: str | int | None = None, position: int | None = None, *, sentence: int = 0
) -> Relevance:
    """Run the model once more, and compute gradient times weight of every head for the logit of a word.

    Args:
        source: source of the record.
        token: the word, or its id; by default the most probable one.
        position: position after which the word is predicted; negative ones count from the end. By default the last
            position, or the first blank if the model fills in blanks.

    Raises:
        InputError: if the model predicts no words, word or position do not exist, or there are too many weights.
    """
    chosen = _choose_word(record, token, position, sentence)
    tap = GradientTap(record.edits)
    _, logits = source.graph(record, tap)
    word, logit = _word_logit(record, logits, **chosen)
    with torch.inference_mode(False):
        gradients = torch.autograd.grad(logit, [*tap.attention.values()], allow_unused=True, materialize_grads=True)
    products = {}
    for (site, weights), gradient in zip(tap.attention.items(), gradients, strict=True):
        queries, keys = (text.length for text in record.texts(site, sentence=sentence))
        product = (weights.detach()[sentence] * gradient[sentence]).float().cpu()
        sink = [product.shape[2] - 1] if record.step(site).has_sink else []
        products[site] = product[:, :queries, [*range(keys), *sink]]
    return Relevance(**word, products=products, unseen=record.unseen)


def integrated(
    source: Source,
    record: Record,
    token: str | int | None = None,
    position: int | None = None,
    *,
    steps: int = STEPS,
    sentence: int = 0,
    report: OnProgress | None = None,
) -> IntegratedGradients:
    """Compute integrated gradients of a word's logit over the input embeddings, from zero vectors (Sundararajan 2017).

    The attribution of an embedding x is x times the mean of ∂ logit / ∂ x at α x, over the midpoints α of equal parts
    of 0 to 1. Position vectors are not scaled. In an encoder-decoder, both texts are scaled together.

    Args:
        steps: number of parts; each takes a forward and a backward pass. With more parts `gap` approaches 0.
    """
    check_whole("steps", steps, 1, MOST_STEPS)
    chosen = _choose_word(record, token, position, sentence)

    def run(vectors: tuple[Tensor, ...]) -> tuple[float, tuple[Tensor, ...]]:
        """Compute the logit and its gradients; the large graph is freed on return."""
        leaves, logits = source.graph(record, GradientTap(record.edits), vectors)
        value = logits[sentence, chosen["position"], chosen["id"]]
        with torch.inference_mode(False):
            gradients = torch.autograd.grad(value, leaves, allow_unused=True, materialize_grads=True)
        return float(value.detach()), gradients

    embeddings, logits = source.graph(record, GradientTap(record.edits))
    word, _ = _word_logit(record, logits, **chosen)
    del logits  # frees its graph
    baseline, _ = run(_scale_sentence(embeddings, 0.0, sentence))
    means = [torch.zeros(vectors.shape[1:], dtype=torch.float64) for vectors in embeddings]
    for step in range(steps):
        _, gradients = run(_scale_sentence(embeddings, (step + 0.5) / steps, sentence))
        for mean, gradient in zip(means, gradients, strict=True):
            mean += gradient[sentence].double().cpu() / steps
        if report is not None and report(step + 1, steps) is False:
            raise Canceled(f"The integral was ended after {step + 1} of {steps} steps.")
    attributions = {
        kind: (vectors.detach()[sentence].double().cpu() * mean).sum(-1)[: len(tokens)]
        for (kind, tokens), vectors, mean in zip(word["texts"].items(), embeddings, means, strict=True)
    }
    return IntegratedGradients(**word, steps=steps, baseline=baseline, attributions=attributions)


def weights_of(record: Record) -> int:
    """Count the weights of all heads in one graph; raise InputError if there are more than `MOST_WEIGHTS`."""
    count = sum(torch.Size(step.shape).numel() for step in record.steps)
    if count > MOST_WEIGHTS:
        problem = f"{count:,} weights of all heads are too many to differentiate at once"
        raise InputError(f"{problem}; the limit is {MOST_WEIGHTS:,}. Shorten the text.")
    return count


def _choose_word(record: Record, token: str | int | None, position: int | None, sentence: int) -> dict[str, int]:
    """Return "position", "id" and "sentence" of the word to explain, as arguments of `_word_logit`."""
    blanks, last = predicting(record).blanks, position_of(record, -1, sentence=sentence)
    if position is None:
        position = blanks[sentence][0] if blanks and blanks[sentence] else last
    position, id, _ = position_and_ids(record, token, position, sentence=sentence)
    weights_of(record)  # raises InputError if there are too many weights
    return {"position": position, "id": id, "sentence": sentence}


def _word_logit(record: Record, logits: Tensor, position: int, id: int, sentence: int) -> tuple[dict[str, Any], Tensor]:
    """Return the fields of a `WordLogit`, and the logit from a second run; raise AttnvizError if the runs differ."""
    first, second = record.prediction.logits[sentence, position], logits[sentence, position]
    finite = first.isfinite()
    difference = float((second.detach().cpu() - first)[finite].abs().max())
    if not difference <= 3e-2 * float(first[finite].abs().max()):  # rounding of half precision
        problem = f"gives other logits with vectors in place of tokens (a difference of {difference:.3g})"
        raise AttnvizError(f"'{record.source}' {problem}, so its gradients would belong to another run.")
    fields = {"position": position, "id": id, "sentence": sentence, "logit": float(second[id].detach())}
    return fields | {"token": record.prediction.vocabulary[id], "texts": texts_of(record, sentence)}, second[id]


def _scale_sentence(vectors: tuple[Tensor, ...], share: float, sentence: int) -> tuple[Tensor, ...]:
    """Copy embeddings as leaves of a new graph, and multiply the embeddings of one sentence by `share`."""
    with torch.inference_mode(False), torch.no_grad():
        copies = tuple(part.detach().clone() for part in vectors)
        for copy in copies:
            copy[sentence] *= share
    return tuple(copy.requires_grad_() for copy in copies)
