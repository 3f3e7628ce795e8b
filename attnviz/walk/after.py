"""The stages from weights to what the layer gives."""

from attnviz.walk import equations
from attnviz.walk.before import NOT_TAKEN_APART, READ_ONLY
from attnviz.walk.stages import Call, Stage, number, span


def values(call: Call) -> Stage:
    """Weights mix values."""
    equation = equations.equation(equations.attend(call.step, call.knobs), "values")
    shown = {"key": "values", "title": "Times V", "equation": equation} | call.shape("B", "H", "Q", "d_v")
    if call.record.read_only:
        return Stage(**shown, missing=READ_ONLY)
    found = call.mixed(call.head)
    table = call.rows_table("output", f"O of head {call.head}", "d_v", found)
    changed = (
        f"For each query {call.sizes['K']} values of {call.sizes['d_v']} numbers were multiplied by its weights and "
        f"added: {span(found)}."
    )
    return Stage(**shown, matrices=(table,), changed=changed)


def concat(call: Call) -> Stage:
    """The outputs of all heads side by side."""
    equation = equations.equation(equations.join(call.step.num_heads), "concat")
    shown = {"key": "concat", "title": "Concatenate", "equation": equation} | call.shape("B", "Q", "H·d_v")
    if call.record.read_only:
        return Stage(**shown, missing=READ_ONLY)
    table = call.rows_table("concat", "Concat(O)", "H·d_v", call.joined)
    heads, d_v, off = call.step.num_heads, call.sizes["d_v"], sorted(call.heads_off)
    silent = f" Heads that are off give zeros: {', '.join(map(str, off))}." if off else ""
    changed = f"{heads} outputs of {d_v} numbers stand side by side: {heads * d_v} for each query.{silent}"
    return Stage(**shown, matrices=(table,), changed=changed)


def output(call: Call) -> Stage:
    """Heads are mixed for the first time."""
    equation = equations.equation(equations.join(call.step.num_heads), "output")
    shown = {"key": "output", "title": "W_O", "equation": equation} | call.shape("B", "Q", "d_model")
    if call.record.read_only or call.origin is None:
        return Stage(**shown, missing=READ_ONLY if call.record.read_only else NOT_TAKEN_APART)
    origin = call.origin
    found = origin.w_o(call.joined)
    of_head = origin.head_weight("w_o", call.head, call.step.num_heads)
    tables = [call.table("w_o", f"W_O of head {call.head}", ("d_v", "d_model"), of_head)]
    if origin.w_o.bias is not None:
        tables.append(call.table("b_o", "b_O", ("1", "d_model"), origin.w_o.bias.unsqueeze(0)))
    tables.append(call.rows_table("y", "Y", "d_model", found))
    share = call.joined.chunk(call.step.num_heads, -1)[call.head] @ of_head
    lengths = number(share.norm(dim=-1).mean()), number(found.norm(dim=-1).mean())
    changed = (
        f"{call.sizes['H·d_v']} numbers of all heads became {call.sizes['d_model']} for each query; of their length, "
        f"{lengths[1]} on average, head {call.head} alone would give {lengths[0]}."
    )
    return Stage(**shown, matrices=tuple(tables), changed=changed)
