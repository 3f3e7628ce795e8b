"""Pooling of sentence-transformers: one vector per sentence from the vectors of its tokens."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from attnviz.core.display import in_title
from attnviz.core.tokens import Sentence
from attnviz.sources.huggingface import files

MODULES, SETTINGS = "modules.json", "config_sentence_transformers.json"
MODES: dict[str, tuple[str, Callable[[Tensor], Tensor]]] = {
    "cls": ("first token", lambda rows: rows[0]),
    "mean": ("mean of tokens", lambda rows: rows.mean(0)),
    "max": ("maximum of tokens", lambda rows: rows.amax(0)),
    "lasttoken": ("last token", lambda rows: rows[-1]),
}
"""Modes of pooling: display name, and function from the hidden states of a sentence, (n, d_model), to its vector."""


@dataclass(frozen=True)
class Pooling:
    """Pooling of the vectors of tokens into one vector per sentence.

    Attributes:
        mode: key of `MODES`.
        named: whether the folder of the model states the pooling.
        left_out: modules that attnviz does not apply, such as "2_Dense"; if there are any, attnviz gives no vectors.
        prompt: text that sentence-transformers puts before each text, such as "query: ".
    """

    mode: str = "mean"
    named: bool = False
    left_out: tuple[str, ...] = ()
    prompt: str = ""

    def __str__(self) -> str:
        prompt = f", prompt {in_title(self.prompt)!r}" if self.prompt else ""
        left_out = f", without {', '.join(self.left_out)}, so no vectors" if self.left_out else ""
        return f"{MODES[self.mode][0]}{prompt}{left_out}"

    def __call__(self, output: Tensor, sentences: tuple[Sentence, ...]) -> Tensor:
        """Pool hidden states (B, n, d_model) into one vector per sentence, (B, d_model), without the padding."""
        rows = [row[: sentence.length] for row, sentence in zip(output, sentences, strict=True)]
        return torch.stack([MODES[self.mode][1](row) for row in rows])


def of_folder(folder: Path) -> Pooling:
    """Read the pooling that a folder of sentence-transformers states; the mean if it states none."""
    listed = files.read_json(folder / MODULES)
    classes = {}  # of the modules, by the name of their folder
    for module in listed if isinstance(listed, list) else []:
        if isinstance(module, dict):
            classes[Path(str(module.get("path", ""))).name] = str(module.get("type", "")).rpartition(".")[2]
    left_out = tuple(path for path, name in classes.items() if name not in ("Transformer", "Pooling", "Normalize"))
    settings = files.read_json(folder / SETTINGS)
    prompts = settings.get("prompts") if isinstance(settings, dict) else None
    prompt = prompts.get(settings.get("default_prompt_name")) if isinstance(prompts, dict) else None
    prompt = prompt if isinstance(prompt, str) else ""
    path = next((path for path, name in classes.items() if name == "Pooling"), None)
    pooling = None if path is None else files.read_json(folder / path / "config.json")
    if not isinstance(pooling, dict):
        return Pooling(left_out=left_out, prompt=prompt)
    # older versions have a flag for each mode, such as "pooling_mode_cls_token"
    flags = [name for name, value in pooling.items() if name.startswith("pooling_mode_") and value]
    older = [flag.removeprefix("pooling_mode_").removesuffix("s").removesuffix("_token") for flag in flags]
    modes = pooling.get("pooling_mode") or older or "mean"
    mode = modes if isinstance(modes, str) else "+".join(map(str, modes))
    if mode not in MODES:
        return Pooling("mean", named=True, left_out=(path, *left_out), prompt=prompt)
    return Pooling(mode, named=True, left_out=left_out, prompt=prompt)
