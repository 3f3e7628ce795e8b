"""Leak test of a model: change one token at a time, and compare the outputs that must not depend on it.

test = attnviz.leak_test(source, source.tokenize(["the cat sat on the mat"]))
test.pairs            # ((3, 7), ...): position 3 saw position 7, and must not
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace

import torch
from torch import Tensor

from attnviz.check.leaks import MOST, LeakTest, distance, tolerance
from attnviz.core.amounts import counted, plural
from attnviz.core.edits import Edits
from attnviz.core.errors import InputError
from attnviz.core.masks import Mask, Subsequent
from attnviz.core.masks.base import PerText
from attnviz.core.record import Record, Step, check_finite, odd_rows
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
        sentences: result of `source.tokenize`, of which the first is tested, with its padding; or a text; by default
            the first example of the source.
        edits: changes to the attention.
        promised: mask that each layer of the decoder, or of a model without one, should keep. By default the built-in
            mask and the mask of the edits, even if the edits switch the built-in mask off; a decoder always promises to
            hide the future.
        report: function that is called with the number of positions done and the number of all.
        targets: decoder input, one sentence; by default what the model writes.

    Raises:
        InputError: if there is no self-attention, if outputs for the same input differ, or if the tokens change the
            mask and `promised` is not given.
        NotFiniteError: if the model gives NaN or infinite numbers, unless the edits request NaN for empty rows.
    """
    if sentences is None or isinstance(sentences, str):
        sentences = source.tokenize([sentences or next(iter(source.examples), PROBE)])
    acting = replace(edits, mask=edits.mask and edits.mask.of_sentence(0))
    before = source.run(sentences[:1], acting, targets[:1])
    fixed = before.targets if source.writes else ()
    unedited = before if edits == Edits() else source.run(sentences[:1], Edits(), fixed)
    text, kinds = before.read[0], {site.kind for site in before.sites}
    kind = "decoder" if "decoder" in kinds else "encoder"
    if kind not in kinds:
        raise InputError(f"'{source.name}' has no self-attention, so no mask can hide a token of its text.")
    outputs = [before.output[0].cpu(), *([before.prediction.logits[0]] if before.prediction is not None else [])]
    odd = odd_rows(outputs[0])
    for output in outputs if edits.empty_rows != "nan" else ():
        check_finite(before, output, text.length, text.labels)
    usual = [i for i, token in enumerate(text.tokens) if not token.special or i >= text.length]
    if not usual:
        raise InputError("The text has only special tokens, which are not changed; give another text.")
    positions = usual[:: -(-len(usual) // MOST)]
    moved, noise, masking = _change_tokens(source, acting, before, positions, report)
    moved[odd] = torch.nan
    allowed, promise = _promise(unedited, edits.mask_at(kind), kind, promised)
    if masking and promised is None and kind != "decoder":
        message = f"Changing position {masking[0]} changes the mask itself: say what the mask must hide"
        raise InputError(f"{message}, --intent causal or two-way, or promised=Subsequent() in Python.")
    allowed[:, masking] |= torch.ones_like(allowed).tril()[:, masking]
    unchanged = [i for i in range(len(text.tokens)) if i not in positions]
    special = "special tokens are" if all(text.tokens[i].special for i in unchanged) else "some tokens are"
    unused = [i for i in positions if moved[~odd, i].isnan().all() and not odd.all()]
    notes = [] if not allowed.all() else ["every output may depend on every token, so nothing can leak"]
    for places, note in (
        (unchanged, f"{special} left as they are, at {{}}"),
        (masking, "changing {} changes the mask itself, so only the future is judged"),
        (unused, "changing {} moves no output, so nothing is known about it"),
        (odd.nonzero().flatten().tolist(), "the output at {} is not a number, so nothing is known about it"),
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


def _change_tokens(
    source: Source, edits: Edits, before: Record, places: list[int], report: Callable[[int, int], object]
) -> tuple[Tensor, float, list[int]]:
    """Change the token at each position in `places`, of the text that the model (or its decoder) reads, one at a time.

    Returns:
        Change of each output, (n, n), float64, NaN in columns without any change; the noise; and the positions where
        every replacement changed the mask itself, such as a separator between documents.
    """
    sentence, noise, masking = before.read[0], 0.0, []
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

    waiting = [(place, tokens) for place in places if (tokens := _replacements(source, before, place))]
    while waiting:
        batch, waiting, copies = waiting[:batch_size], waiting[batch_size:], []
        for place, replacements in batch:
            token = replace(sentence.tokens[place], id=replacements[0].id, text=replacements[0].text)
            copies.append(replace(sentence, tokens=(*sentence.tokens[:place], token, *sentence.tokens[place + 1 :])))
        half = len(copies) // 2
        (first, first_row), *results = run([sentence, *copies[:half], sentence, *copies[half:], sentence])
        output, again = first.output[first_row], (results.pop(half), results.pop())
        noise = max(noise, *(float(distance(output, record.output[row]).max()) for record, row in again))
        for (place, replacements), (record, row) in zip(batch, results, strict=True):
            pairs = () if record.read_only else zip(first.steps, record.steps, strict=True)
            is_masking = any(not torch.equal(open_cells(a, first_row), open_cells(b, row)) for a, b in pairs)
            if is_masking and len(replacements) > 1:
                waiting.append((place, replacements[1:]))
                continue
            if is_masking:
                masking.append(place)
            column = distance(output, record.output[row]).cpu()
            moved[:, place] = column if column.any() else torch.nan
        report(len(places) - len(waiting), len(places))
    return moved, noise, sorted(masking)


def _replacements(source: Source, before: Record, place: int) -> list[Token]:
    """List replacement tokens for a position: later tokens of the sentence, then earlier ones, then other words, or in
    the text of a decoder its most probable tokens there."""
    (text, *_), prediction, more = before.read, before.prediction, ()
    if source.writes:
        best = prediction.logits[0, max(0, place - 1)].topk(TRIES + 2).indices.tolist()
        more = (Token(prediction.vocabulary[id], id, 0, 0) for id in best)
    else:
        with suppress(InputError):  # the tokenizer of a user may not know these words
            more = source.tokenize(["the a red cat ."])[0].tokens
    others = (*text.tokens[place + 1 : text.length], *text.tokens[:place], *more)
    usual = {token.id: token for token in others if not token.special and token.id not in source.padding_ids}
    usual.pop(text.tokens[place].id, None)
    return [*usual.values()][:TRIES]


def _reachable_tokens(layers: Iterable[Tensor]) -> Tensor:
    """Mark the tokens that reach each output through the open cells, (n, n), of all layers: boolean (n, n).

    A position keeps the tokens that reached it (residual connection); each layer adds those of its open keys.
    """
    tokens = torch.ones(())
    for cells in layers:
        paths = cells.float() + torch.eye(len(cells))
        tokens = ((paths @ tokens if tokens.dim() else paths) > 0).float()
    return tokens > 0


def _promise(unedited: Record, edit: Mask | None, kind: str, promised: Mask | None) -> tuple[Tensor, str]:
    """Compute on which tokens each output may depend through all layers, boolean (n, n), and describe the promised
    mask: "window (1 before, 0 after), through 2 layers".

    Args:
        unedited: run of the model without edits, whose masks are promised even if the edits switch them off.
        edit: mask of the edits for the compared kind.
        promised: mask to promise instead of the masks of the model and the edits.
    """
    cells, names, steps = [], [], [step for step in unedited.steps if step.site.kind == kind]
    for step in steps:
        allowed = open_cells(step)
        name = str(step.mask) if isinstance(step.mask, Mask) else "the built-in mask"
        name = "full" if step.mask is None else name
        if kind == "decoder" and not unedited.read_only:  # for a read-only model, the mask is inferred from weights
            causal = Subsequent().grid(*allowed.shape)
            opens = step.mask is None or (isinstance(step.mask, Tensor) and bool((allowed & ~causal).any()))
            allowed, name = causal if opens else allowed & causal, "causal" if opens else name
        allowed = allowed if edit is None else allowed & edit.grid(*allowed.shape)
        cells.append(allowed if promised is None else promised.grid(*allowed.shape))
        names.append(name)
    named = " or ".join(dict.fromkeys(names))
    if edit is not None and named != str(edit):
        named = str(edit) if named == "full" else f"{named} and {edit}"
    named = named if promised is None else str(promised)
    return _reachable_tokens(cells), f"{named}, through {len(steps)} layers" if len(steps) > 1 else named


def masks(step: Step, sentence: int = 0) -> Tensor:
    """Stack the masks of all heads of a step, (H, Q, K), without a sink."""
    columns = slice(0, step.shape[3] - step.has_sink)
    heads = [step.may_attend(head, columns=columns, sentence=sentence) for head in range(step.num_heads)]
    return torch.stack(heads).cpu()


def open_cells(step: Step, sentence: int = 0) -> Tensor:
    """Mark the cells that are open in at least one head of a step, (Q, K)."""
    return masks(step, sentence).any(0)
