"""Pictures within a text, by a model's own processor: the ids that it reads, and where each of them stands.

A processor makes tiles of a picture, or patches in groups; the k-th token of a tile is the k-th cell of its grid, row
by row. Where tiles and patches stand is measured on a ramp of colors, see `positions`.
"""

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attnviz.core.display import without_surrogates
from attnviz.core.errors import AttnvizError, InputError
from attnviz.core.places import Box, Picture, grid
from attnviz.core.request import Pictures
from attnviz.core.tokens import Sentence, Token
from attnviz.sources.base import ANSWER
from attnviz.sources.huggingface import chatting, faults, files, positions, reading, tapped
from attnviz.sources.huggingface.loaded import Loaded, ModelFacts
from attnviz.sources.huggingface.positions import Plane

TYPES = ("mm_token_type_ids", "token_type_ids")
"""Inputs that say which tokens are of pictures, or of a prompt that is read at once."""
NO_PICTURES = "it reads no pictures"
"""Beginning of a note that says why."""
UNREAD = ("input_ids", "attention_mask", "labels", *TYPES)
"""Inputs of a processor that are made of a sentence's own tokens instead, or not read."""
PATCHES = "image_grid_thw"
"""Input with the rows and columns of patches, of processors that give patches one by one."""
ANYRES = "LlavaNextProcessor"
"""Class of processors whose tiles make one grid without its padding, each row with an end of its own."""


def processor_of(folder: Path, config: Any) -> Any:
    """The processor of texts and pictures of a folder; None where it has none.

    Raises:
        AttnvizError: if it cannot be used.
    """
    import transformers
    from transformers.models.auto.processing_auto import PROCESSOR_MAPPING_NAMES

    settings = [folder / name for name in (files.PROCESSOR, files.PREPROCESSOR) if (folder / name).is_file()]
    names = [_processor_class(path) for path in settings] + [PROCESSOR_MAPPING_NAMES.get(config.model_type)]
    kind = getattr(transformers, next(filter(None, names), ""), None)
    if not settings or not (isinstance(kind, type) and issubclass(kind, transformers.ProcessorMixin)):
        return None
    try:
        return without_videos(kind).from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except Exception as error:
        raise AttnvizError(f"{NO_PICTURES}: its {kind.__name__} cannot be used: {faults.first(error)}") from None


def _processor_class(path: Path) -> str | None:
    """Class of a processor that a file of settings names."""
    try:
        name = json.loads(path.read_text(encoding="utf-8"))["processor_class"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return name if isinstance(name, str) else None


def without_videos(kind: Any) -> Any:
    """A class of processors without a part for videos, which needs torchvision."""
    parts = [name for name in kind.get_attributes() if not name.startswith("video")]
    left_out = len(kind.get_attributes()) - len(parts)
    if not left_out:
        return kind

    def arguments(cls: Any, *args: Any, **settings: Any) -> list[Any]:
        return [*super(made, cls)._get_arguments_from_pretrained(*args, **settings), *[None] * left_out]

    own = {"get_attributes": lambda cls: parts, "_get_arguments_from_pretrained": arguments}
    made = type(kind.__name__, (kind,), {name: classmethod(method) for name, method in own.items()})
    return made


def why_none(facts: ModelFacts) -> str:
    """Reason why a model reads text alone here, after its name; "" if it reads pictures, too."""
    if facts.tokenizer is None or facts.processor is None:
        note = next((note for note in facts.notes if note.startswith(NO_PICTURES)), "")
        has_tower = any(map(tapped.is_sense, facts.config.sub_configs))
        missing = f"{NO_PICTURES}: its folder has no {files.PROCESSOR}" if has_tower else ""
        return note or missing or "it reads text alone"
    own = f"{NO_PICTURES} here: it computes attention in its own code"
    return own if facts.keeps_own_attention else ""


def sentences(facts: ModelFacts, texts: list[str], pictures: Pictures, system: str) -> tuple[Sentence, ...]:
    """Texts with pictures as a user's turn each, or after the pictures where there is no chat template for them.

    The ids are those of the processor. A token of a picture has its box in it, and stands in the text where its picture
    stands.

    Args:
        system: the system's turn; "" for none.

    Raises:
        InputError: if a text contains what stands for a picture.
    """
    pairs = zip(texts, pictures, strict=True)
    made = [_sentence(facts, without_surrogates(text), shown, system) for text, shown in pairs]
    return reading.padded(facts.processor.tokenizer, made)


def inputs(loaded: Loaded, sentences: tuple[Sentence, ...]) -> dict[str, Tensor]:
    """Inputs of a model for the pictures of sentences, beside the ids."""
    processor, shown = loaded.processor, [sentence.pictures for sentence in sentences]
    signs = [processor.image_token * len(pictures) for pictures in shown]
    read = _processed(processor, signs, shown, padding=len(shown) > 1)
    types = {name: _types(read, name, sentences, loaded.config.image_token_id) for name in TYPES if name in read}
    given = {name: value for name, value in read.items() if name not in UNREAD and isinstance(value, Tensor)}
    return {
        name: value.to(loaded.device, loaded.dtype if value.is_floating_point() else None)
        for name, value in (given | types).items()
    }


def _processed(processor: Any, texts: list[str], pictures: list[tuple[Picture, ...]], **options: Any) -> Any:
    return processor(images=_arrays(pictures), text=texts, return_tensors="pt", **options)


def _arrays(pictures: list[tuple[Picture, ...]]) -> list[list[Any]]:
    return [[picture.pixels.numpy() for picture in row] for row in pictures]


def _types(read: Any, name: str, sentences: tuple[Sentence, ...], image: int) -> Tensor:
    """Types of tokens as the processor gives them; what the model wrote has another type than pictures."""
    of_id = dict(zip(read["input_ids"].flatten().tolist(), read[name].flatten().tolist(), strict=True))
    rows = [
        [1 - of_id[image] if token.role == ANSWER else of_id.get(token.id, 0) for token in sentence.tokens]
        for sentence in sentences
    ]
    return torch.tensor(rows)


def _sentence(facts: ModelFacts, text: str, pictures: tuple[Picture, ...], system: str) -> Sentence:
    processor, image = facts.processor, facts.config.image_token_id
    tokenizer, sign = processor.tokenizer, processor.image_token
    if sign in text:
        raise InputError(f"The text contains {sign}, which stands for a picture; leave it out.")
    prompt, turns = _prompt(facts, text, len(pictures), system)
    added = tokenizer.bos_token is None or not prompt.startswith(tokenizer.bos_token)
    options = {"add_special_tokens": added, "return_text_replacement_offsets": True}
    read = _processed(processor, [prompt], [pictures], **options)
    _, (shown,), *_ = processor.prepare_inputs_layout(images=_arrays([pictures]), text=[prompt])
    replaced = read["text_replacement_offsets"][0]
    ids, whole = read["input_ids"][0].tolist(), _expanded(shown, replaced)
    for pieces in (reading.pieces(tokenizer, whole), reading.pieces(tokenizer, whole, added=True)):
        if [piece.id for piece in pieces] == ids:
            break
    else:  # their places are unknown: tokens are shown by their names
        pieces = tuple(Token(reading.name_of(tokenizer, id), id, len(whole), len(whole)) for id in ids)
    pieces = tuple(_moved(piece, replaced) for piece in pieces)
    if turns:
        places = list(chatting.places(*turns, shown))
        pieces = tuple(chatting.in_turn(piece, places) for piece in pieces)
    tokens = tuple(_placed(processor, pieces, image, pictures, _counts(replaced, processor, facts)))
    return Sentence(shown, tokens, len(tokens), pictures)


def _prompt(facts: ModelFacts, text: str, count: int, system: str) -> tuple[str, tuple[Any, Any] | None]:
    """The text that a processor is given, and the turns of a chat with the function that writes the first of them."""
    processor = facts.processor
    turns = [{"role": "system", "content": system}] if system else []
    turns.append({"role": "user", "content": text})
    blocks = [[{"type": "text", "text": turn["content"]}] for turn in turns]
    blocks[-1] = [*[{"type": "image"}] * count, *blocks[-1]]
    chat = [{"role": turn["role"], "content": block} for turn, block in zip(turns, blocks, strict=True)]

    def written(turns: int, **options: bool) -> str:
        return chatting.rendered(processor, facts.name, chat[:turns], **options)

    if chatting.has_template(processor):
        try:
            prompt = written(len(chat), add_generation_prompt=True)
        except Exception:  # a template of texts alone
            prompt = ""
        if prompt.count(processor.image_token) == count:
            return prompt, (written, turns)
    return processor.image_token * count + text, None


def _expanded(text: str, replaced: list[dict[str, Any]]) -> str:
    """The text with all the tokens of its pictures."""
    ends = [0, *(each["span"][1] for each in replaced)]
    between = [text[end : each["span"][0]] for end, each in zip(ends, replaced, strict=False)]
    parts = (part + each["replacement"] for part, each in zip(between, replaced, strict=True))
    return "".join(parts) + text[ends[-1] :]


def _moved(token: Token, replaced: list[dict[str, Any]]) -> Token:
    """A token of the expanded text at its place in the text."""
    inside = next((each for each in replaced if each["new_span"][0] <= token.start < each["new_span"][1]), None)
    if inside is not None and token.end > token.start:
        return replace(token, start=inside["span"][0], end=inside["span"][0], special=True)
    longer = sum(
        each["new_span"][1] - each["new_span"][0] - (each["span"][1] - each["span"][0])
        for each in replaced
        if each["new_span"][1] <= token.start
    )
    return replace(token, start=token.start - longer, end=token.end - longer)


def _counts(replaced: list[dict[str, Any]], processor: Any, facts: ModelFacts) -> list[int]:
    """Tokens of each picture."""
    sign = str(processor.tokenizer.convert_ids_to_tokens(facts.config.image_token_id))
    return [each["replacement"].count(sign) for each in replaced]


def _placed(
    processor: Any, tokens: tuple[Token, ...], image: int, pictures: tuple[Picture, ...], counts: list[int]
) -> Iterator[Token]:
    """Tokens, those of pictures with their boxes."""
    of_pictures = [cells(processor, each.size, count) for each, count in zip(pictures, counts, strict=True)]
    ends, position = [*accumulate(counts)], 0
    for token in tokens:
        if token.id != image:
            yield token
            continue
        number = next(i for i, end in enumerate(ends) if position < end)
        placed, local = of_pictures[number], position - ends[number] + counts[number]
        position += 1
        cell = Cell(token.text, None) if placed is None else placed[local]
        box = cell.box and replace(cell.box, picture=number)
        yield replace(token, text=cell.name, special=box is None, box=box)


class Cell(NamedTuple):
    """The name of a token of a picture, and its place; None where it stands for no part of the picture."""

    name: str
    box: Box | None


@lru_cache(maxsize=32)
def cells(processor: Any, size: tuple[int, int], count: int) -> tuple[Cell, ...] | None:
    """The tokens of a picture alone; None where they cannot be placed.

    Args:
        size: height and width of the picture.
        count: how many tokens it has.
    """

    def process(pixels: Tensor) -> dict[str, Tensor]:
        return processor(images=[[pixels.numpy()]], text=[processor.image_token], return_tensors="pt")

    sample = process(torch.zeros(*size, 3, dtype=torch.uint8))
    if PATCHES in sample:
        rows, columns = sample[PATCHES][0, 1:].tolist()
        return _merged(lambda pixels: _colors(process(pixels)["pixel_values"]), size, rows, columns, count)
    if sample["pixel_values"].dim() < 4:
        return None
    maps = positions.planes(lambda pixels: process(pixels)["pixel_values"].flatten(0, -4).float(), size)
    if not all(math.isfinite(number) for pixels in maps for number in (*pixels.across, *pixels.down)):
        return None
    if type(processor).__name__ == ANYRES:
        result = _anyres(maps, processor.patch_size, count)
    else:
        result = _tiles(maps, count, getattr(processor, "vision_feature_select_strategy", "") == "full")
    return result if result and len(result) == count else None


def _colors(patches: Tensor) -> Tensor:
    """Mean of each channel of flat patches (n, C · T · p · p), as tiles (1, C, 1, n)."""
    return patches.float().unflatten(1, (3, -1)).mean(-1).T[None, :, None]


def _merged(colors: Any, size: tuple[int, int], rows: int, columns: int, count: int) -> tuple[Cell, ...] | None:
    """Cells of so many consecutive patches each as make the count, by their mean color."""
    side = math.isqrt(rows * columns // count)
    if side * side * count != rows * columns or rows % side or columns % side:
        return None
    rows, columns = rows // side, columns // side
    centers = positions.centers(colors, size)[0, :, 0].unflatten(1, (count, -1)).mean(-1)
    places = [(math.floor(y * rows), math.floor(x * columns)) for x, y in centers.T.tolist()]
    boxes = grid(rows, columns)
    if sorted(places) != [(row, column) for row in range(rows) for column in range(columns)]:
        return None
    return tuple(Cell(f"row{row}·col{column}", boxes[row * columns + column]) for row, column in places)


def _tiles(maps: list[Plane], count: int, has_class: bool) -> tuple[Cell, ...] | None:
    """Cells of tiles that have as many each."""
    each, rest = divmod(count, len(maps))
    patching = positions.square_patching(each, maps[0], ("[CLS]",) if has_class else ())
    if rest or patching is None:
        return None
    names = [f"tile{number}·" if len(maps) > 1 else "" for number in range(len(maps))]
    return tuple(
        Cell(name + token.text, token.box)
        for name, pixels in zip(names, maps, strict=True)
        for token in patching.tokens(pixels)
    )


def _anyres(maps: list[Plane], stride: int, count: int) -> tuple[Cell, ...] | None:
    """Cells of the whole picture, then those of its tiles side by side, each row with an end.

    Rows or columns of padding are left out on both sides alike; the count says how many.
    """
    whole, *tiles = maps
    rows, columns = whole.height // stride, whole.width // stride
    first = tuple(
        Cell(f"whole·row{row}·col{column}", whole.box(*_edges(row, column, stride)))
        for row in range(rows)
        for column in range(columns)
    )
    if not tiles:
        return (*first, Cell("[newline]", None))
    tops = [round(_offset(tile.down, tile.height) * 100) for tile in tiles]
    across = tops.count(tops[0])
    high, wide = len(tiles) // across * rows, across * columns
    rest = count - len(first)
    above = max(0.0, -tiles[0].down[1] / tiles[0].down[0]) > max(0.0, -tiles[0].across[1] / tiles[0].across[0])
    shown = (rest // (wide + 1), wide) if above else (high, rest // high - 1)
    cut = high - shown[0], wide - shown[1]
    if shown[0] * (shown[1] + 1) != rest or any(part < 0 or part % 2 for part in cut):
        return None

    def row_of(row: int) -> Iterator[Cell]:
        for column in range(cut[1] // 2, wide - cut[1] // 2):
            tile = tiles[row // rows * across + column // columns]
            yield Cell(f"row{row}·col{column}", tile.box(*_edges(row % rows, column % columns, stride)))
        yield Cell("[newline]", None)

    return (*first, *(cell for row in range(cut[0] // 2, high - cut[0] // 2) for cell in row_of(row)))


def _offset(line: tuple[float, float], side: int) -> float:
    """Center of a tile on an axis, in its own sides."""
    return line[1] / (line[0] * side)


def _edges(row: int, column: int, side: int) -> tuple[int, int, int, int]:
    """Left, top, right and bottom of a cell, in pixels."""
    return column * side, row * side, (column + 1) * side, (row + 1) * side
