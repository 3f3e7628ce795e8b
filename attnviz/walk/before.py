"""The stages from tokens to the queries, keys and values of one head."""

import torch
from torch import Tensor

from attnviz.core.amounts import counted
from attnviz.core.origin import Embedded
from attnviz.walk import equations
from attnviz.walk.equations import Piece
from attnviz.walk.stages import Matrix, StageCall, Worked, number, works_out


def _embed(call: StageCall) -> list[Piece]:
    if call.origin is None:
        return equations.embed(True, ["Input"])
    return equations.embed(call.origin.query_tokens.positions is not None, _between(call))


def _between(call: StageCall) -> list[str]:
    """Layers between the embedding and a call, the last first, as in an equation."""
    last, is_cross = call.step.site.layer - 1, call.step.site.kind == "cross"
    names = ["LayerNorm"] if call.origin.is_normalized else []
    if is_cross:
        names.append("SelfAttention")
    if last > 0:
        names.append(f"Layer_{last}")
    if last >= 0:
        names.append("… Layer_0" if last > 0 else "Layer_0")
    return names


def _project(call: StageCall) -> list[Piece]:
    return equations.project(call.step.num_heads)


@works_out("embedding", "Embedding", "B Q d_model", _embed, needs="origin")
def embedding(call: StageCall) -> Worked:
    """Tokens become vectors."""
    tables = [
        call.table(f"words_{axis}", f"{axis} tokens", (axis, "d_model"), tokens.words[call.sentence])
        for axis, tokens in _sides(call)
    ]
    n, d = tables[0].shape
    return tables, f"{counted(n, 'token')} became {counted(n, 'vector')} of {counted(d, 'number')}."


@works_out("position", "Position", "B Q d_model", _embed, needs="origin")
def position(call: StageCall) -> Worked:
    """Positions are added to the tokens."""
    if call.origin.query_tokens.positions is None:
        return call.origin.query_tokens.note
    tables: list[Matrix] = []
    for axis, tokens in _sides(call):
        positions = tokens.positions
        tables += [
            call.table(f"positions_{axis}", "P", (axis, "d_model"), positions),
            call.table(
                f"embedded_{axis}", f"{axis} tokens + positions", (axis, "d_model"), _sum(tokens, call.sentence)
            ),
        ]
    words, moved = call.origin.query_tokens.words[call.sentence], call.origin.query_tokens.positions
    lengths = number(words.norm(dim=-1).mean()), number(moved.norm(dim=-1).mean())
    changed = f"To vectors of length {lengths[0]} on average, positions of length {lengths[1]} were added."
    return tables, changed


@works_out("input", "Input of this layer", "B Q d_model", _embed, needs="origin")
def layer_input(call: StageCall) -> Worked:
    """Layers between the embedding and this attention call."""
    site, before = call.step.site, _sum(call.origin.query_tokens, call.sentence)
    x = call.origin.query_input[call.sentence]
    tables = [call.table("x", "X", ("query", "d_model"), x)]
    if _is_cross(call) or call.keys != call.queries:
        key_input = call.origin.key_input[call.sentence]
        tables.append(call.table("x_keys", "X of the keys", ("key", "d_model"), key_input))
    if torch.equal(x, before):
        return tables, "No number changed: the first layer reads them as they are."
    parts = [counted(site.layer, "layer")] if site.layer > 0 else []
    if site.kind == "cross":
        parts.append("the self-attention of this one")
    if call.origin.is_normalized:
        parts.append("a normalization")
    below = " and ".join(filter(None, (", ".join(parts[:-1]), *parts[-1:])))
    below = below[:1].upper() + below[1:]
    lengths = number(before.norm(dim=-1).mean()), number(x.norm(dim=-1).mean())
    changed = f"{below}: vectors of length {lengths[0]} on average became vectors of length {lengths[1]}."
    return tables, changed


@works_out("project", "Project to Q, K, V", "B Q H·d_k", _project, needs="origin")
def project(call: StageCall) -> Worked:
    """The projections to queries, keys and values, for all heads at once."""
    tables: list[Matrix] = []
    for letter, axis, width in (("q", "query", "d_k"), ("k", "key", "d_k"), ("v", "key", "d_v")):
        linear, name = getattr(call.origin, f"w_{letter}"), letter.upper()
        vectors = call.origin.query_input if letter == "q" else call.origin.key_input
        of_head = call.origin.head_weight(f"w_{letter}", call.head, call.step.num_heads)
        tables.append(call.table(f"w_{letter}", f"weights of {name}, head {call.head}", ("d_model", width), of_head))
        if linear.bias is not None:
            bias = linear.bias.chunk(call.step.num_heads)[call.head]
            tables.append(
                call.table(f"b_{letter}", f"bias of {name}, head {call.head}", ("1", width), bias.unsqueeze(0))
            )
        whole = linear(vectors)[call.sentence]
        tables.append(call.table(f"{letter}_all", f"{name} of all heads", (axis, f"H·{width}"), whole))
    sizes = call.sizes
    biases = "no biases" if call.origin.w_q.bias is None else "plus a bias"
    changed = (
        f"Vectors of {sizes['d_model']} numbers were multiplied by three matrices of {sizes['d_model']} x "
        f"{sizes['H·d_k']}, {biases}: queries, keys and values of all heads at once."
    )
    return tables, changed


@works_out("split", "Split into heads", "B H Q d_k", _project, needs="vectors")
def split(call: StageCall) -> Worked:
    """The columns of the projections become heads: what attention is given."""
    step, index = call.step, (call.sentence, call.head)
    is_adjusted = call.origin is not None and call.origin.is_adjusted
    query, key = (_projected(call, letter) for letter in "qk") if is_adjusted else (step.query[index], step.key[index])
    tables = [
        call.table("q", "Q", ("query", "d_k"), query),
        call.table("k", "K", ("key", "d_k"), key),
        call.table("v", "V", ("key", "d_v"), step.value[index]),
    ]
    heads, d_k = counted(step.num_heads, "head"), call.sizes["d_k"]
    if call.origin is None:
        changed = f"The model hands {heads} of {counted(d_k, 'number')} to attention; this is head {call.head}."
        return tables, changed
    first = call.head * d_k
    cut = f"{step.num_heads * d_k} columns were cut into {heads} of {d_k}; head {call.head} has columns {first} to "
    edited = set_by_hand(call)
    rest = "No number changed." if not edited else f"Of its numbers, {edited} are set by hand."
    return tables, f"{cut}{first + d_k - 1}. {rest}"


def _adjust(call: StageCall) -> list[Piece]:
    if call.origin is None:
        return []
    return equations.adjust(norm=call.origin.normalizes_heads, turn=call.origin.is_rotary)


@works_out("adjust", "Adjust Q and K", "B H Q d_k", _adjust, needs="vectors")
def adjust(call: StageCall) -> Worked:
    """A norm of each query and key, and a turn by its position, where the model has them."""
    if call.origin is None or not call.origin.is_adjusted:
        return "Queries and keys are what their projections give."
    index, vectors = (call.sentence, call.head), {"q": call.step.query, "k": call.step.key}
    tables = [
        call.table(f"{letter}_adjusted", f"{letter.upper()} adjusted", (axis, "d_k"), vectors[letter][index])
        for letter, axis in (("q", "query"), ("k", "key"))
    ]
    before, after = _projected(call, "q"), vectors["q"][index]
    lengths = number(before.norm(dim=-1).mean()), number(after.norm(dim=-1).mean())
    changed = f"Queries of length {lengths[0]} on average were normalized to length {lengths[1]}. "
    changed = changed if call.origin.normalizes_heads else ""
    if call.origin.is_rotary:
        changed += "Pairs of numbers were turned by an angle that grows with the position, which changes no length. "
    return tables, f"{changed}Values stay as they are."


def _projected(call: StageCall, letter: str) -> Tensor:
    """Projections of one head, (n, d)."""
    vectors = call.origin.query_input if letter == "q" else call.origin.key_input
    return getattr(call.origin, f"w_{letter}")(vectors)[call.sentence].chunk(call.step.num_heads, -1)[call.head]


def set_by_hand(call: StageCall) -> int:
    """How many numbers of a head's queries, keys and values are not what the projections give, rounding aside."""
    step = call.step
    vectors = {"v": step.value} if call.origin.is_adjusted else {"q": step.query, "k": step.key, "v": step.value}
    have = {letter: tensor[call.sentence, call.head] for letter, tensor in vectors.items()}
    eps = torch.finfo(step.query.dtype).eps
    bounds = {"rtol": max(1e-4, 8 * eps), "atol": max(1e-5, 8 * eps), "equal_nan": True}
    return sum(int((~_projected(call, letter).isclose(own.float(), **bounds)).sum()) for letter, own in have.items())


def _is_cross(call: StageCall) -> bool:
    return call.origin.key_input is not call.origin.query_input


def _sides(call: StageCall) -> list[tuple[str, Embedded]]:
    """The tokens that look; and those that are seen, where they are others."""
    sides = [("query", call.origin.query_tokens)]
    if _is_cross(call) or call.keys != call.queries:
        sides.append(("key", call.origin.key_tokens))
    return sides


def _sum(tokens: Embedded, sentence: int) -> Tensor:
    words = tokens.words[sentence]
    return words if tokens.positions is None else words + tokens.positions
