"""Pooling of sentence-transformers: one vector per sentence from the vectors of its tokens."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from attnviz.core.display import in_title
from attnviz.core.tokens import Sentence

MODULES, SETTINGS = "modules.json", "config_sentence_transformers.json"
MODES: dict[str, tuple[str, Callable[[Tensor], Tensor]]] = {
    "cls": ("first token", lambda rows: rows[0]),
    "mean": ("mean of tokens", lambda rows: rows.mean(0)),
    "max": ("maximum of tokens", lambda rows: rows.amax(0)),
    "mean_sqrt_len_tokens": ("sum of tokens / √n", lambda rows: rows.sum(0) / len(rows) ** 0.5),
    "weightedmean": ("mean weighted by position", lambda rows: _positions(rows) @ rows / _positions(rows).sum()),
    "lasttoken": ("last token", lambda rows: rows[-1]),
}
"""Modes of pooling: display name, and function from the hidden states of a sentence, (n, d_model), to its vector."""
OLDER = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
"""Modes by their names in older versions, in the order in which the vectors of several modes are joined."""


def _positions(rows: Tensor) -> Tensor:
    return torch.arange(1, len(rows) + 1, dtype=rows.dtype, device=rows.device)


@dataclass(frozen=True)
class Pooling:
    """Pooling of the vectors of tokens into one vector per sentence.

    Attributes:
        modes: keys of `MODES`; the vectors of several modes are concatenated.
        named: whether the folder of the model states the pooling.
        left_out: modules after the pooling that attnviz does not apply, such as "2_Dense": then there are no vectors.
        prompt: text that sentence-transformers puts before each text, such as "query: ".
    """

    modes: tuple[str, ...] = ("mean",)
    named: bool = False
    left_out: tuple[str, ...] = ()
    prompt: str = ""

    def __str__(self) -> str:
        modes = " + ".join(MODES[mode][0] for mode in self.modes)
        prompt = f", prompt {in_title(self.prompt)!r}" if self.prompt else ""
        left_out = f", without {', '.join(self.left_out)}, so no vectors" if self.left_out else ""
        return f"{modes}{prompt}{left_out}"

    def __call__(self, output: Tensor, sentences: tuple[Sentence, ...]) -> Tensor:
        """Pool hidden states (B, n, d_model) into one vector per sentence, (B, d), without the padding."""
        rows = [row[: sentence.length] for row, sentence in zip(output, sentences, strict=True)]
        return torch.stack([torch.cat([MODES[mode][1](row) for mode in self.modes]) for row in rows])


def of_folder(folder: Path) -> Pooling:
    """Read the pooling that the folder of a model or its parent folder states; by default the mean."""
    root = folder if (folder / MODULES).is_file() else folder.parent
    modules = _modules(root)
    if not any(path == folder.name or root == folder for path, kind in modules if kind == "Transformer"):
        return Pooling()
    after = tuple(path for path, kind in modules if kind not in ("Transformer", "Pooling", "Normalize"))
    settings = _read(root / SETTINGS)
    prompts = settings.get("prompts") if isinstance(settings, dict) else None
    prompt = prompts.get(settings.get("default_prompt_name")) if isinstance(prompts, dict) else None
    prompt = prompt if isinstance(prompt, str) else ""
    for path, kind in modules:
        if kind == "Pooling" and isinstance(settings := _read(root / path / "config.json"), dict):
            modes = settings.get("pooling_mode")
            modes = modes or [mode for name, mode in OLDER.items() if settings.get(name)] or "mean"
            modes = (modes,) if isinstance(modes, str) else tuple(modes)
            if all(mode in MODES for mode in modes):
                return Pooling(modes, True, after, prompt)
    return Pooling(left_out=after, prompt=prompt)


def inside(folder: Path) -> Path | None:
    """Subfolder with the model in an older layout, such as "0_Transformer"; None if there is none."""
    for path, kind in _modules(folder):
        if kind == "Transformer" and path and (folder / path / "config.json").is_file():
            return folder / path
    return None


def _modules(folder: Path) -> list[tuple[str, str]]:
    """Folders and class names of the modules of sentence-transformers; empty if the folder does not list any."""
    listed = _read(folder / MODULES)
    modules = [module for module in listed if isinstance(module, dict)] if isinstance(listed, list) else []
    pairs = [(str(module.get("path", "")), str(module.get("type", ""))) for module in modules]
    return [(path, kind.rpartition(".")[2]) for path, kind in pairs if path in ("", Path(path).name)]


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
