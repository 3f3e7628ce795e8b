"""Leak tests of a model and of a function: change one token at a time, and compare the outputs that must not change."""

import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from attnviz.check.leaks import MOST, LeakTest, distance, tolerance
from attnviz.core.amounts import counted, plural
from attnviz.core.edits import Edits
from attnviz.core.errors import InputError, NotFiniteError, ShapeError, quoted
from attnviz.core.masks import Mask, Subsequent
from attnviz.core.masks.base import PerText
from attnviz.core.record import Record, Step, check_finite, not_finite_rows
from attnviz.core.tokens import Sentence, Token
from attnviz.sources.base import Source

PROBE = "The cat sat on the mat"
"""Text for a source without an example."""
TRIES = 4
"""Number of replacement tokens to try if a replacement changes the mask."""


def leak_test(
    source: Source,
    sentences: Sequence[Sentence] | str | None = None,
    edits: Edits = Edits(),
    *,
    promised: Mask | None = None,
    report: Callable[[int, int], object] = lambda done, of: None,
    targets: tuple[Sentence, ...] = (),
) -> LeakTest:
    """Change one token at a time, and compare the output at every position with the output before.

    Each token is replaced by another token of the sentence. The changed copies run in batches that also hold the
    unchanged sentence three times; the differences between these three are the noise. The decoder input is held fixed.
    If a token changes the mask itself, earlier keys are allowed, and only later keys are tested. Special tokens are not
    changed; in a long text, `MOST` evenly spaced tokens are changed.

    Args:
        sentences: result of `source.tokenize`, whose first sentence is tested, with its padding; or a text; by default
            the first example of the source.
        edits: changes to the attention.
        promised: mask that each layer of the decoder (of the encoder, if there is no decoder) should have. By default
            the built-in mask, even if the edits switch it off, and the mask of the edits; a decoder should always hide
            the future.
        report: function that is called with the number of positions done and the number of all.
        targets: decoder input, one sentence; by default what the model writes.

    Raises:
        InputError: if there is no self-attention, if outputs for the same input differ, or if the tokens change the
            mask and `promised` is not given.
        NotFiniteError: if the model gives NaN or infinite numbers, unless the edits request NaN for empty rows.
    """
    if sentences is None or isinstance(sentences, str):
        sentences = source.tokenize([sentences or next(iter(source.examples), PROBE)])
    edits_of_text = replace(edits, mask=edits.mask and edits.mask.of_sentence(0))
    before = source.run(sentences[:1], edits_of_text, targets[:1])
    decoder_input = before.targets if source.writes else ()
    unedited = before if edits == Edits() else source.run(sentences[:1], Edits(), decoder_input)
    text, kinds = before.read[0], {site.kind for site in before.sites}
    kind = "decoder" if "decoder" in kinds else "encoder"
    if kind not in kinds:
        raise InputError(f"'{source.name}' has no self-attention, so no mask can hide a token of its text.")
    outputs = [before.output[0].cpu(), *([before.prediction.logits[0]] if before.prediction is not None else [])]
    is_odd = not_finite_rows(outputs[0])  # outputs that are not finite
    if edits.empty_rows != "nan":
        for output in outputs:
            check_finite(before, output, text.length, text.labels)
    changeable = [i for i, token in enumerate(text.tokens) if not token.special or i >= text.length]
    if not changeable:
        raise InputError("The text has only special tokens, which are not changed; give another text.")
    positions = changeable[:: math.ceil(len(changeable) / MOST)]
    moved, noise, mask_changes = _change_tokens(source, edits_of_text, before, positions, report)
    moved[is_odd] = torch.nan
    allowed, promise = _promise(unedited, edits.mask_at(kind), kind, promised)
    if mask_changes and promised is None and kind != "decoder":
        message = f"Changing position {mask_changes[0]} changes the mask itself: say what the mask must hide"
        raise InputError(f"{message}, --intent causal or two-way, or promised=Subsequent() in Python.")
    allowed[:, mask_changes] |= torch.ones_like(allowed).tril()[:, mask_changes]
    unchanged = [i for i in range(len(text.tokens)) if i not in positions]
    tokens_are = "special tokens are" if all(text.tokens[i].special for i in unchanged) else "some tokens are"
    without_effect = [i for i in positions if moved[~is_odd, i].isnan().all() and not is_odd.all()]
    notes = [] if not allowed.all() else ["every output may depend on every token, so nothing can leak"]
    for places, note in (
        (unchanged, f"{tokens_are} left as they are, at {{}}"),
        (mask_changes, "changing {} changes the mask itself, so only the future is judged"),
        (without_effect, "changing {} moves no output, so nothing is known about it"),
        (is_odd.nonzero().flatten().tolist(), "the output at {} is not a number, so nothing is known about it"),
    ):
        if places:
            notes.append(note.format(f"{plural('position', len(places))} {', '.join(map(str, places))}"))
    return LeakTest(
        moved=moved,
        promised=allowed,
        noise=noise,
        tolerance=tolerance(noise, torch.float32),
        queries=text.tokens,
        keys=text.tokens,
        where=f"{kind}, {counted(sum(step.site.kind == kind for step in unedited.steps), 'layer')}",
        promise=promise,
        source=source.name,
        provenance=source.provenance,
        edits=edits,
        text=sentences[0].text,
        notes=tuple(notes),
        opened=_reachable_tokens(open_cells(step) for step in before.steps if step.site.kind == kind),
    )


def leak_test_function(
    attend: Callable[[Tensor, Tensor, Tensor, Any], Any], mask: Mask, n: int, *, keys: int | None = None
) -> LeakTest:
    """Test an attention function: change the key and value at each position, and compare the output of each query.

    Each key is replaced three times: by another key, by that key times 1,000, and by that key times -1,000; the largest
    change counts. If weights are masked after the softmax and normalized again, only a very large score shows it.

        leak_test_function(F.scaled_dot_product_attention, Subsequent(), 8).pairs

    Args:
        attend: function of query (1, heads, n, d_k), key and value (1, heads, keys, d_k), float64, and the mask,
            boolean (n, keys), True = may attend; returns the output, or a tuple whose first item is the output.
        mask: mask that the function should keep.
        n, keys: numbers of queries and keys; `keys` is n by default.

    Raises:
        ShapeError: if the output is not a tensor with one vector per query.
        UnsteadyError: if outputs for the same input differ too much.
        NotFiniteError: if an output is not finite, although its query has a key left.
    """
    keys = n if keys is None else keys
    if not (type(n) is type(keys) is int and 1 <= n <= MOST and 1 <= keys <= MOST):
        raise InputError(f"A function is tested on 1 to {MOST} queries and keys; given {quoted(n)} and {quoted(keys)}.")
    options = {"generator": torch.Generator().manual_seed(0), "dtype": torch.float64}
    query, key, value, other_key, other_value = (torch.randn(1, 2, i, 8, **options) for i in (n, *[keys] * 4))
    allowed = mask.grid(n, keys)

    def output(key: Tensor, value: Tensor) -> Tensor:
        """Compute the output per query, (n, d), with all heads concatenated."""
        output = attend(query.clone(), key.clone(), value.clone(), allowed.clone())
        output = output[0] if isinstance(output, tuple | list) else output
        is_output = isinstance(output, Tensor) and output.is_floating_point() and output.dim() > 1
        if not is_output or output.shape[-2] != n:
            instead = tuple(output.shape) if isinstance(output, Tensor) else type(output).__name__
            expected = f"floating-point numbers, (1, heads, n, d_v) or (1, n, d_v), with n = {n}"
            raise ShapeError(f"The function must return {expected}; it returned {instead}.")
        return output.detach().movedim(-2, 0).flatten(1)

    before, columns = output(key, value), []
    noise = float(distance(before, output(key, value)).max())
    bound = tolerance(noise, torch.float64)
    for position in range(keys):
        is_changed = (torch.arange(keys) == position)[:, None]
        new_value = other_value.where(is_changed, value)
        outputs = [output((factor * other_key).where(is_changed, key), new_value) for factor in (1, 1000, -1000)]
        columns.append(torch.stack([distance(before, after) for after in outputs]).amax(0))
    not_finite = ~before.isfinite().all(-1)
    moved = torch.stack(columns, 1).masked_fill(not_finite[:, None], torch.nan)
    tokens = [tuple(Token(str(i), i, 0, 0) for i in range(length)) for length in (n, keys)]
    name, rows = getattr(attend, "__name__", type(attend).__name__), not_finite.nonzero().flatten().tolist()
    notes = (f"the output of query {rows[0]} is not a number, so nothing is known about it",) if rows else ()
    test = LeakTest(moved, allowed, noise, bound, *tokens, "one layer", str(mask), name, "random", notes=notes)
    unexpected = [row for row in rows if allowed[row].any()]  # for a query without any key, NaN is expected
    if unexpected and not test.pairs:
        problem = f"is not a number, though it may attend to {counted(int(allowed[unexpected[0]].sum()), 'key')}"
        hint = "Was the mask made by multiplying with -inf? 0 * -inf is NaN: use torch.where or masked_fill."
        raise NotFiniteError(f"The output of query {unexpected[0]} {problem}. {hint}")
    return test


def _change_tokens(
    source: Source, edits: Edits, before: Record, positions: list[int], report: Callable[[int, int], object]
) -> tuple[Tensor, float, list[int]]:
    """Change the token at each of `positions` in the text that the model (or its decoder) reads, one at a time. Return
    the relative change of each output, (n, n), NaN in columns where no output changed; the largest difference between
    runs on the same text (noise); and positions where every other token changes the mask, such as a separator."""
    sentence, noise, mask_changes = before.read[0], 0.0, []
    size = len(sentence.tokens)
    moved, batch_size = torch.full((size, size), torch.nan, dtype=torch.float64), max(1, 1024 // size - 3)

    def run(copies: Sequence[Sentence]) -> list[tuple[Record, int]]:
        """Run copies as a batch, or in two halves if it is too large; return the record and row of each copy."""
        sentences, targets, mask = tuple(copies), (), edits.mask
        if source.writes:
            sentences, targets = before.sentences * len(copies), sentences
        mask = PerText((mask,) * len(copies)) if mask is not None and mask.batch_size else mask
        try:
            record = source.run(sentences, replace(edits, mask=mask), targets)
        except InputError:
            if len(copies) == 1:
                raise
            half = len(copies) // 2
            return [*run(copies[:half]), *run(copies[half:])]
        return [(record, row) for row in range(len(copies))]

    waiting = [(position, _replacements(source, before, position)) for position in positions]
    waiting = [(position, tokens) for position, tokens in waiting if tokens]
    while waiting:
        batch, waiting, copies = waiting[:batch_size], waiting[batch_size:], []
        for position, tokens in batch:
            token = replace(sentence.tokens[position], id=tokens[0].id, text=tokens[0].text)
            changed = (*sentence.tokens[:position], token, *sentence.tokens[position + 1 :])
            copies.append(replace(sentence, tokens=changed))
        half = len(copies) // 2  # the unchanged sentence runs first, in the middle and last, to measure the noise
        first, *results = run([sentence, *copies[:half], sentence, *copies[half:], sentence])
        middle, last = results.pop(half), results.pop()
        output = first[0].output[first[1]]
        noise = max(noise, *(float(distance(output, record.output[row]).max()) for record, row in (middle, last)))
        for (position, tokens), (record, row) in zip(batch, results, strict=True):
            pairs = () if record.read_only else zip(first[0].steps, record.steps, strict=True)
            changes_mask = any(not torch.equal(open_cells(a, first[1]), open_cells(b, row)) for a, b in pairs)
            if changes_mask and len(tokens) > 1:
                waiting.append((position, tokens[1:]))
                continue
            if changes_mask:
                mask_changes.append(position)
            column = distance(output, record.output[row]).cpu()
            moved[:, position] = column if column.any() else torch.nan
        report(len(positions) - len(waiting), len(positions))
    return moved, noise, sorted(mask_changes)


def _replacements(source: Source, before: Record, position: int) -> list[Token]:
    """List at most `TRIES` tokens to put at a position: later tokens of the sentence, then earlier ones, then other
    words, or for an encoder-decoder the most probable next tokens."""
    text, prediction, more = before.read[0], before.prediction, ()
    if source.writes:
        best = prediction.logits[0, max(0, position - 1)].topk(TRIES + 2).indices.tolist()
        more = (Token(prediction.vocabulary[id], id, 0, 0) for id in best)
    else:
        with suppress(InputError):  # the tokenizer of a user may not know these words
            more = source.tokenize(["the a red cat ."])[0].tokens
    candidates = (*text.tokens[position + 1 : text.length], *text.tokens[:position], *more)
    excluded = {text.tokens[position].id, *source.padding_ids}
    by_id = {token.id: token for token in candidates if not token.special and token.id not in excluded}
    return [*by_id.values()][:TRIES]


def _reachable_tokens(layers: Iterable[Tensor]) -> Tensor:
    """Mark the tokens that reach each output through the open cells, (n, n), of all layers: boolean (n, n). A position
    keeps the tokens that reached it (residual connection); each layer adds those of its open keys."""
    reached = torch.ones(())  # without layers, everything counts as reached
    for cells in layers:
        paths = cells.float() + torch.eye(len(cells))
        reached = ((paths @ reached if reached.dim() else paths) > 0).float()
    return reached > 0


def _promise(unedited: Record, edit: Mask | None, kind: str, promised: Mask | None) -> tuple[Tensor, str]:
    """Compute on which tokens each output may depend through all layers, boolean (n, n), and describe the promised
    mask: "window (1 before, 0 after), through 2 layers". It is the mask of the `unedited` run (even if the edits switch
    it off) together with the mask of the edits, `edit`; or the mask `promised`, if that is given."""
    layers, names, steps = [], [], [step for step in unedited.steps if step.site.kind == kind]
    for step in steps:
        cells = open_cells(step)
        name = str(step.mask) if isinstance(step.mask, Mask) else "the built-in mask"
        name = "full" if step.mask is None else name
        if kind == "decoder" and not unedited.read_only:  # for a read-only model, the mask is inferred from weights
            causal = Subsequent().grid(*cells.shape)
            shows_future = step.mask is None or (isinstance(step.mask, Tensor) and bool((cells & ~causal).any()))
            cells, name = (causal, "causal") if shows_future else (cells & causal, name)
        cells = cells if edit is None else cells & edit.grid(*cells.shape)
        layers.append(cells if promised is None else promised.grid(*cells.shape))
        names.append(name)
    description = " or ".join(dict.fromkeys(names))
    if promised is not None:
        description = str(promised)
    elif edit is not None and description != str(edit):
        description = str(edit) if description == "full" else f"{description} and {edit}"
    return _reachable_tokens(layers), f"{description}, through {len(steps)} layers" if len(steps) > 1 else description


def masks(step: Step, sentence: int = 0) -> Tensor:
    """Stack the masks of all heads of a step for one sentence, (H, Q, K), without the column of a sink."""
    columns = slice(0, step.shape[3] - step.has_sink)
    heads = [step.may_attend(head, columns=columns, sentence=sentence) for head in range(step.num_heads)]
    return torch.stack(heads).cpu()


def open_cells(step: Step, sentence: int = 0) -> Tensor:
    """Mark the cells that are open in at least one head of a step, (Q, K)."""
    return masks(step, sentence).any(0)
