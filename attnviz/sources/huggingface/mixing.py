"""Pictures within a text: the ids that a model's own processor makes, and the box of each token in its picture.

A processor cuts a picture into tiles, or into one grid of patches; the k-th token of a tile is the k-th cell of its
grid, row by row. The positions of tiles are measured on a ramp of colors, see `positions`.
"""

import math
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from attnviz.capturing.captured import patches
from attnviz.core.display import without_surrogates
from attnviz.core.errors import AttnvizError, InputError
from attnviz.core.places import Picture
from attnviz.core.request import Pictures
from attnviz.core.tokens import Sentence, Token
from attnviz.sources.base import ANSWER
from attnviz.sources.huggingface import faults, files, positions, reading, tapped
from attnviz.sources.huggingface.loaded import Loaded, ModelFacts

TYPES = ("mm_token_type_ids", "token_type_ids")
"""Inputs with a type for each token, which marks pictures, or a prompt that is read in one step."""
NO_PICTURES = "it reads no pictures"
"""Beginning of a note on why a model reads no pictures."""
UNREAD = ("input_ids", "attention_mask", "labels", *TYPES)
"""Inputs of a processor that attnviz makes from the tokens of a sentence instead, or that no model reads."""
PATCHES = "image_grid_thw"
"""Input with the rows and columns of patches, of processors that give patches one by one."""


def processor_of(folder: Path, config: Any) -> Any:
    """Load the processor of texts and pictures of a folder; None if it has none, AttnvizError if it cannot be used."""
    import transformers
    from transformers.models.auto.processing_auto import PROCESSOR_MAPPING_NAMES

    contents = [files.read_json(folder / name) for name in (files.PROCESSOR, files.PREPROCESSOR)]
    settings = [content for content in contents if isinstance(content, dict)]
    names = [content.get("processor_class") for content in settings] + [PROCESSOR_MAPPING_NAMES.get(config.model_type)]
    class_name = next((name for name in names if isinstance(name, str)), "")
    kind = getattr(transformers, class_name, None)
    if not settings or not (isinstance(kind, type) and issubclass(kind, transformers.ProcessorMixin)):
        return None
    try:
        return without_videos(kind).from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except Exception as error:
        raise AttnvizError(f"{NO_PICTURES}: its {kind.__name__} cannot be used: {faults.first(error)}") from None


def without_videos(kind: Any) -> Any:
    """Derive a class of processors without the part for videos, which needs torchvision."""
    parts = [name for name in kind.get_attributes() if not name.startswith("video")]
    left_out = len(kind.get_attributes()) - len(parts)
    if not left_out:
        return kind

    class WithoutVideos(kind):
        @classmethod
        def get_attributes(cls) -> list[str]:
            return parts

        @classmethod
        def _get_arguments_from_pretrained(cls, *args: Any, **settings: Any) -> list[Any]:
            return [*super()._get_arguments_from_pretrained(*args, **settings), *[None] * left_out]

    WithoutVideos.__name__ = kind.__name__
    return WithoutVideos


def why_none(facts: ModelFacts) -> str:
    """Reason why a model reads text alone here, to put after its name; "" if it reads pictures, too."""
    if facts.tokenizer is not None and facts.processor is not None:
        return f"{NO_PICTURES} here: it computes attention in its own code" if facts.trial.is_captured else ""
    for note in facts.notes:
        if note.startswith(NO_PICTURES):
            return note
    has_tower = any(map(tapped.is_sense, facts.config.sub_configs))
    return f"{NO_PICTURES}: its folder has no {files.PROCESSOR}" if has_tower else "it reads text alone"


def sentences(facts: ModelFacts, texts: list[str], pictures: Pictures, system: str) -> tuple[Sentence, ...]:
    """Tokenize texts with pictures. Each text is a user's turn; without a chat template, it follows its pictures.

    The ids are those of the processor. A token of a picture has its box in the picture, and the position in the text at
    which the picture was inserted. The chat begins with the turn `system` of the system, unless it is "".
    """
    pairs = zip(texts, pictures, strict=True)
    rows = [_sentence(facts, without_surrogates(text), row, system) for text, row in pairs]
    return reading.pad(facts.processor.tokenizer, rows)


def inputs(loaded: Loaded, sentences: tuple[Sentence, ...]) -> dict[str, Tensor]:
    """Make the inputs of a model for the pictures of sentences, without the ids."""
    processor, rows = loaded.processor, [sentence.pictures for sentence in sentences]
    signs = [processor.image_token * len(pictures) for pictures in rows]
    encoded = processor(images=_arrays(rows), text=signs, return_tensors="pt", padding=len(rows) > 1)
    types = {name: _types(encoded, name, sentences, loaded.config.image_token_id) for name in TYPES if name in encoded}
    tensors = {name: value for name, value in encoded.items() if name not in UNREAD and isinstance(value, Tensor)}
    return {
        name: value.to(loaded.device, loaded.dtype if value.is_floating_point() else None)
        for name, value in (tensors | types).items()
    }


def _arrays(pictures: list[tuple[Picture, ...]]) -> list[list[Any]]:
    """Pixels of the pictures of each text, (height, width, 3), as NumPy arrays for a processor."""
    return [[picture.pixels.numpy() for picture in of_text] for of_text in pictures]


def _types(encoded: Any, name: str, sentences: tuple[Sentence, ...], image: int) -> Tensor:
    """Types 0 or 1 of the tokens, (B, n), as the processor gives them; an answer gets the type that pictures lack."""
    ids, types = encoded["input_ids"].flatten().tolist(), encoded[name].flatten().tolist()
    type_of = dict(zip(ids, types, strict=True))
    rows = [
        [1 - type_of[image] if token.role == ANSWER else type_of.get(token.id, 0) for token in sentence.tokens]
        for sentence in sentences
    ]
    return torch.tensor(rows)


def _sentence(facts: ModelFacts, text: str, pictures: tuple[Picture, ...], system: str) -> Sentence:
    """Tokenize one text with its pictures; see `sentences`."""
    processor, image = facts.processor, facts.config.image_token_id
    tokenizer, sign = processor.tokenizer, processor.image_token
    if sign in text:
        raise InputError(f"The text contains {sign}, which stands for a picture; leave it out.")
    prompt, chat = sign * len(pictures) + text, ""
    turns, render = reading.turns_of(text, system, len(pictures)), partial(reading.render_chat, processor, facts.name)
    if processor.chat_template:
        with suppress(InputError):  # raised if the template takes only texts
            chat = render(turns, add_generation_prompt=True)
    if is_chat := bool(chat) and chat.count(sign) == len(pictures):
        prompt = chat
    added = tokenizer.bos_token is None or not prompt.startswith(tokenizer.bos_token)
    options = {"add_special_tokens": added, "return_text_replacement_offsets": True, "return_tensors": "pt"}
    encoded = processor(images=_arrays([pictures]), text=[prompt], **options)
    _, (short,), *_ = processor.prepare_inputs_layout(images=_arrays([pictures]), text=[prompt])
    replaced, ids = encoded["text_replacement_offsets"][0], encoded["input_ids"][0].tolist()
    full, end = "", 0  # the text in which each picture is replaced by all of its tokens
    for part in replaced:
        full += short[end : part["span"][0]] + part["replacement"]
        end = part["span"][1]
    full += short[end:]
    for tokens in (reading.cut(tokenizer, full, added=False), reading.cut(tokenizer, full)):
        if [token.id for token in tokens] == ids:
            break
    else:  # the tokens have unknown positions in the text: they are shown by name
        tokens = tuple(Token(reading.name_of(tokenizer, id), id, len(full), len(full)) for id in ids)
    tokens = tuple(_in_short_text(token, replaced) for token in tokens)
    if is_chat:
        tokens = reading.with_roles(tokens, short, turns, render)
    image_token, cells_and_pictures = str(tokenizer.convert_ids_to_tokens(image)), []
    for number, (picture, part) in enumerate(zip(pictures, replaced, strict=True)):
        count = part["replacement"].count(image_token)
        cells_and_pictures += [(cell, number) for cell in cells(processor, picture.size, count) or [None] * count]
    tokens, pairs = list(tokens), iter(cells_and_pictures)
    for i, token in enumerate(tokens):
        if token.id == image:
            cell, number = next(pairs)
            has_box = cell is not None and cell.box is not None  # not in the padding around a picture
            box = replace(cell.box, picture=number) if has_box else None
            tokens[i] = replace(token, text=cell.text if cell else token.text, special=not has_box, box=box)
    return Sentence(short, tuple(tokens), len(tokens), pictures)


def _in_short_text(token: Token, replaced: list[dict[str, Any]]) -> Token:
    """Convert the position of a token from the full text to the short text, which has one sign for each picture.

    Args:
        replaced: span of each sign in the short text, and "new_span" of its replacement in the full text.
    """
    surplus = 0  # characters by which the full text before the token is longer
    for sign in replaced:
        (start, end), (full_start, full_end) = sign["span"], sign["new_span"]
        if full_start <= token.start < min(full_end, token.end):
            return replace(token, start=start, end=start, special=True)
        if full_end <= token.start:
            surplus += full_end - full_start - (end - start)
    return replace(token, start=token.start - surplus, end=token.end - surplus)


@lru_cache(maxsize=32)
def cells(processor: Any, size: tuple[int, int], count: int) -> tuple[Token, ...] | None:
    """Tokens of a picture with their names and boxes; None if their boxes are unknown.

    Args:
        size: height and width of the picture.
        count: number of tokens of the picture.
    """

    def process(pixels: Tensor) -> dict[str, Tensor]:
        """Inputs of the model for a text that consists of one picture."""
        return processor(images=[[pixels.numpy()]], text=[processor.image_token], return_tensors="pt")

    sample = process(torch.zeros(*size, 3, dtype=torch.uint8))
    if PATCHES in sample:  # each token is a square group of patches
        rows, columns = sample[PATCHES][0, 1:].tolist()
        side = math.isqrt(rows * columns // count)
        if side * side * count != rows * columns or rows % side or columns % side:
            return None
        return patches(rows // side, columns // side)
    if sample["pixel_values"].dim() < 4:
        return None
    tiles = positions.planes(lambda pixels: process(pixels)["pixel_values"].flatten(0, -4).float(), size)
    if "image_sizes" in sample and len(tiles) > 1:  # the model cuts padding off, and ends each row with a token
        return None
    if not all(math.isfinite(number) for tile in tiles for number in (*tile.across, *tile.down)):
        return None
    has_class_token = getattr(processor, "vision_feature_select_strategy", "") == "full"
    patching = positions.square_patching(count // len(tiles), tiles[0], ("[CLS]",) if has_class_token else ())
    if count % len(tiles) or patching is None:
        return None
    tokens = []
    for number, tile in enumerate(tiles):
        name = f"tile{number}·" if len(tiles) > 1 else ""
        tokens += [replace(token, text=name + token.text) for token in patching.tokens(tile)]
    return tuple(tokens)
