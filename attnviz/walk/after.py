"""The stages from weights to what the layer gives."""

from attnviz.core.amounts import counted
from attnviz.walk import equations
from attnviz.walk.equations import Piece
from attnviz.walk.stages import StageCall, Worked, attended, number, span, works_out


def _join(call: StageCall) -> list[Piece]:
    return equations.join(call.step.num_heads)


@works_out("values", "Weighted values", "B H Q d_v", attended, needs="vectors")
def values(call: StageCall) -> Worked:
    """Weights mix values."""
    outputs = call.mixed(call.head)
    table = call.rows_table("output", f"O of head {call.head}", "d_v", outputs)
    keys = f"{counted(call.sizes['K'], 'value')} of {counted(call.sizes['d_v'], 'number')}"
    taken = " What goes on was taken from another text instead." if call.is_taken else ""
    return [table], f"For each query {keys} were multiplied by its weights and added: {span(outputs)}.{taken}"


@works_out("concat", "Concatenate", "B Q H·d_v", _join, needs="vectors")
def concat(call: StageCall) -> Worked:
    """The outputs of all heads side by side."""
    table = call.rows_table("concat", "Concat(O)", "H·d_v", call.joined)
    heads, d_v, off = call.step.num_heads, call.sizes["d_v"], sorted(call.heads_off)
    silent = f" Heads that are off give zeros: {', '.join(map(str, off))}." if off else ""
    each = f"{counted(heads, 'output')} of {counted(d_v, 'number')}"
    return [table], f"{each} stand side by side: {heads * d_v} for each query.{silent}"


@works_out("output", "Output projection", "B Q d_model", _join, needs="origin")
def output(call: StageCall) -> Worked:
    """Heads are mixed for the first time."""
    origin = call.origin
    outputs = origin.w_o(call.joined)
    of_head = origin.head_weight("w_o", call.head, call.step.num_heads)
    tables = [call.table("w_o", f"output weights, head {call.head}", ("d_v", "d_model"), of_head)]
    if origin.w_o.bias is not None:
        tables.append(call.table("b_o", "output bias", ("1", "d_model"), origin.w_o.bias.unsqueeze(0)))
    tables.append(call.rows_table("y", "Y", "d_model", outputs))
    share = call.joined.chunk(call.step.num_heads, -1)[call.head].to(of_head.dtype) @ of_head
    lengths = number(share.norm(dim=-1).mean()), number(outputs.norm(dim=-1).mean())
    changed = (
        f"{call.sizes['H·d_v']} numbers of all heads became {call.sizes['d_model']} for each query; of their length, "
        f"{lengths[1]} on average, head {call.head} alone would give {lengths[0]}."
    )
    return tables, changed
