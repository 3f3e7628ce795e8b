"""Does any output depend on what its mask hides? Change one token, run again, and see whose output moved.

test = leak_test(source, source.tokenize(["the cat sat on the mat"]))
test.pairs            # ((3, 7), ...): position 3 saw position 7, and must not
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from attnviz.core.edits import Edits, Site
from attnviz.core.errors import InputError
from attnviz.core.finite import check_finite, odd_rows
from attnviz.core.leaks import MOST, LeakTest, leak_test_function, tolerance
from attnviz.core.masks import Mask
from attnviz.core.record import Record
from attnviz.core.tokens import Sentence, Token
from attnviz.leaks import probes, promise
from attnviz.leaks.look import LeakTarget, look_at, output, tokens
from attnviz.leaks.padding import PaddingTest, padding_test
from attnviz.leaks.probes import Probe
from attnviz.sources.base import Source

PROBE = "The cat sat on the mat"
"""Text for sources that have no example of their own."""


def leak_test(
    source: Source,
    sentences: Sequence[Sentence] | str | None = None,
    edits: Edits = Edits(),
    *,
    site: Site | str | None = None,
    promised: Mask | None = None,
    sentence: int = 0,
    keys: Sequence[int] | None = None,
    most: int = MOST,
    report: Callable[[int, int], object] = lambda done, of: None,
    targets: tuple[Sentence, ...] = (),
) -> LeakTest:
    """Change one token after the other, and compare the output of every position with what it was.

    One token is changed into another of the same sentence. All changed copies run in batches, in which the unchanged
    sentence stands three times: how far these three differ is the noise. What a decoder reads that writes a text of its
    own is held fixed.

    Args:
        sentences: as `source.tokenize` gave them; one of them is tested, with its padding. Or a text; by default what
            the source begins with.
        edits: what is changed about the attention.
        site: what is compared: the output of one attention call (of a model with attention of its own, its weights); or
            with a kind alone the output of all layers: of an "encoder", of a "decoder" when what it reads is changed,
            or of a decoder when what its encoder reads is changed ("cross"). None is the decoder, if there is one.
        promised: the mask that each layer of that kind is to keep. Without it, the model's own with that of the edits,
            also where the edits switch the model's own off; a decoder hides the future whatever its mask says.
        sentence: which one.
        keys: the positions to change; by default all but special tokens.
        most: so many positions may be changed.
        report: is told after each batch how many positions are done, and of how many.
        targets: what a decoder reads in the place of what the model writes, a sentence for each.

    Raises:
        InputError: if there is no such site or token, if there are too many, or if the same input gives two outputs.
        NotFiniteError: if the model gives NaN or infinite numbers, unless the edits ask for them in empty rows.
    """
    chosen = (_sentence(source, sentences, sentence),)
    run_with = replace(edits, mask=promise.alone(edits.mask, sentence))
    before, fixed = _before(source, chosen, run_with, targets[sentence : sentence + 1])
    look = look_at(before, site, source.writes)
    queries, columns = tokens(before, look)
    odd = _odd_rows(before, look, edits)
    changed = fixed[0] if look.kind == "decoder" and fixed else chosen[0]
    places = _places(changed, keys, most)
    own = before if edits == Edits() else source.run(chosen, Edits(), fixed)
    probe = Probe(source, chosen[0], fixed, run_with, look, before)
    moved, noise, masking = probes.run(probe, changed, places, report)
    moved[odd] = torch.nan
    allowed = promise.reach(own, look, run_with, promise.alone(promised, sentence))
    return LeakTest(
        moved=moved,
        promised=allowed,
        noise=noise,
        tolerance=tolerance(noise, torch.float32),
        queries=queries,
        keys=columns,
        where=look.in_words(own),
        promise=promise.in_words(own, look, edits.mask_at(look.kind), promised),
        source=source.name,
        provenance=source.provenance,
        edits=edits,
        text=chosen[0].text,
        notes=_notes(columns, places, moved, allowed, odd, masking),
        findings=own.findings,
    )


def _sentence(source: Source, sentences: Sequence[Sentence] | str | None, number: int) -> Sentence:
    """The sentence to test: of those given, of a text, or of what the source begins with."""
    if sentences is None or isinstance(sentences, str):
        sentences = source.tokenize([sentences or next(iter(source.examples), PROBE)])
    if not 0 <= number < len(sentences):
        raise InputError(f"There is no sentence {number}; there are {len(sentences)}, counted from 0.")
    return sentences[number]


def _odd_rows(before: Record, look: LeakTarget, edits: Edits) -> Tensor:
    """Positions whose output is no number, boolean (Q,): of padding, or where the edits make NaN of empty rows.

    Raises:
        NotFiniteError: if there are others.
    """
    compared, (queries, _) = output(before, look, 0).cpu(), tokens(before, look)
    sentence = before.sentences[0] if look.kind == "encoder" else before.read[0]
    if edits.empty_rows != "nan":
        labels = [token.text for token in queries]
        check_finite(before, compared, sentence.length, labels)
        if look.layer is None and sentence is before.read[0] and before.prediction is not None:
            check_finite(before, before.prediction.logits[0], sentence.length, labels)
    return odd_rows(compared)


def _before(
    source: Source, chosen: tuple[Sentence], edits: Edits, targets: tuple[Sentence, ...]
) -> tuple[Record, tuple[Sentence, ...]]:
    """The run that all others are compared with, and what its decoder is made to read in them, if it writes."""
    before = source.run(chosen, edits, targets)
    if targets:
        return before, targets
    fixed = before.targets if source.writes else ()
    if fixed and all(token.special for token in fixed[0].tokens):  # it wrote nothing: then what it writes untouched
        fixed = source.run(chosen, Edits()).targets
        before = source.run(chosen, edits, fixed)
    return before, fixed


def _places(changed: Sentence, keys: Sequence[int] | None, most: int) -> list[int]:
    """The positions to change: those asked for, or all but special tokens; padding is changed too."""
    count = len(changed.tokens)
    if keys is None:
        places = [i for i, token in enumerate(changed.tokens) if not token.special or i >= changed.length]
    else:
        places = sorted({int(key) for key in keys})
        if places and not 0 <= places[0] <= places[-1] < count:
            wrong = places[0] if places[0] < 0 else places[-1]
            raise InputError(f"There is no position {wrong} to change; there are {count}, counted from 0.")
    if not places:
        raise InputError("There is no token to change but special ones; give another text, or choose which to change.")
    if len(places) > most:
        what = f"A leak test changes one token after the other, at most {most} of them; here are {len(places)}"
        raise InputError(f"{what}. Shorten the text, or choose which to change.")
    return places


def _notes(
    columns: tuple[Token, ...], places: list[int], moved: Tensor, allowed: Tensor, odd: Tensor, masking: set[int]
) -> tuple[str, ...]:
    """Notes on what was left out, and why; and that nothing could be found where nothing is forbidden."""
    chosen, dead = set(places), [place for place in places if moved[~odd, place].isnan().all() and not odd.all()]
    left = [i for i in range(len(columns)) if i not in chosen]
    notes = ["every output may depend on every token, so nothing can leak"] if allowed.all() else []
    if left:
        special = "special tokens are" if all(columns[i].special for i in left) else "some tokens are"
        notes.append(f"{special} left as they are, at position{_list(left)}")
    if masking:
        notes.append(
            f"what stands at position{_list(sorted(masking))} decides the mask itself, so nothing is said of it"
        )
    if dead := [place for place in dead if place not in masking]:
        notes.append(f"what stands at position{_list(dead)} never reaches the model, so nothing can be said of it")
    if odd.any():
        notes.append(
            f"the output at position{_list(odd.nonzero().flatten().tolist())} is no number, so nothing is known of it"
        )
    return tuple(notes)


def _list(places: list[int]) -> str:
    """Ending of "position": " 3", or "s 0 and 7"."""
    *first, last = map(str, places)
    return f"s {', '.join(first)} and {last}" if first else f" {last}"
