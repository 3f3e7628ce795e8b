"""The parts of the residual stream of a Transformer written from scratch, from its weights and a record."""

import torch
from torch import Tensor, nn

from attnviz.core.edits import Site
from attnviz.core.record import Record
from attnviz.core.stream import (
    PROJECTIONS,
    Embedded,
    ModelWeights,
    Norm,
    Projections,
    Readout,
    Stream,
    StreamParts,
    value_bias_of,
)
from attnviz.models.multihead import MultiHeadAttention, linear_of
from attnviz.models.transformer import EncoderDecoder, LanguageModel, Layers

SAMPLE = 256
"""Number of token ids, and of positions, whose vectors stand for the embeddings of a model without a vocabulary."""


def norm_of(norm: nn.Module) -> Norm | None:
    """Copy the weights of a layer norm; None for the identity."""
    if isinstance(norm, nn.Identity):
        return None
    return Norm(norm.weight.detach(), norm.bias.detach(), norm.eps, is_centered=True)


def projections_of(attention: MultiHeadAttention, before: nn.Module) -> Projections:
    """Copy the projections of an attention module, and the norm before it."""
    linears = {name: linear_of(getattr(attention, name)) for name in PROJECTIONS}
    norm = norm_of(before)
    return Projections(**linears, before=norm, value_bias=value_bias_of(linears["w_v"], norm))


def attention_weights(stack: Layers, embedding: Tensor, positions: Tensor | None) -> ModelWeights:
    """Collect the weights of layers without an unembedding; `embedding` and `positions` as in `ModelWeights`."""
    layers = enumerate(stack.layers)
    sites = {Site(stack.kind, index): projections_of(layer.attention, layer.norm) for index, layer in layers}
    num_heads = dict.fromkeys(sites, stack.layers[0].attention.num_heads)
    return ModelWeights(sites, num_heads, embedding, positions, readout=None)


def model_weights(model: LanguageModel | EncoderDecoder) -> ModelWeights:
    """Collect the weights along the residual stream of a language model, or of the decoder of an encoder-decoder."""
    has_encoder = isinstance(model, EncoderDecoder)
    stack, embedding = (model.decoder, model.written) if has_encoder else (model.stack, model.embedding)
    sites = {}
    for index, layer in enumerate(stack.layers):
        sites[Site("decoder", index)] = projections_of(layer.attention, layer.norm)
        if layer.cross is not None:
            sites[Site("cross", index)] = projections_of(layer.cross, layer.cross_norm)
    return ModelWeights(
        sites=sites,
        num_heads=dict.fromkeys(sites, model.config.num_heads),
        embedding=embedding.words.weight.detach(),
        positions=embedding.positions.weight.detach(),
        readout=Readout(norm_of(model.norm), linear_of(model.unembedding)),
    )


def stream_of(model: LanguageModel | EncoderDecoder, record: Record, embedded: Embedded) -> Stream:
    """Compute the residual stream of a record from its heads' outputs, and check it against the logits."""
    stack = model.decoder if isinstance(model, EncoderDecoder) else model.stack
    weights, feed_forward = model_weights(model), {}
    position = embedded.positions.expand_as(embedded.words)
    x, states = embedded.words + position, []
    attention = torch.zeros_like(x)  # sum of all that attention adds to the stream
    with torch.inference_mode():
        for index, layer in enumerate(stack.layers):
            states.append(x)
            for site in (Site("decoder", index), Site("cross", index)):
                if site in weights.sites:
                    added = weights.sites[site].w_o(record.step(site).outputs())
                    x, attention = x + added, attention + added
            if layer.feed_forward is not None:
                feed_forward[index] = layer.feed_forward(x)
                x = x + feed_forward[index]
    parts = StreamParts(weights, embedded.words, position, feed_forward, x)
    parts.check(attention, record.prediction.logits, record.source)
    return Stream(weights.readout, tuple(states), parts)
