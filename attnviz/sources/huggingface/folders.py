"""Folders and files that are no model of transformers: each is called by what it is, with a way to make it one."""

import json
import re
from collections.abc import Iterable
from pathlib import Path

from attnviz.core.errors import check_no_picture
from attnviz.sources.huggingface import faults, files

ADAPTER = "adapter_config.json"
CHECKPOINT = re.compile(r"checkpoint-(\d+)")
PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
OF_TRAINER = ("training_args.bin", "optimizer.pt", "scheduler.pt", "scaler.pt")
"""Pickles that `Trainer` writes beside weights."""
OTHERS = {".h5": "TensorFlow", ".msgpack": "Flax", ".onnx": "ONNX", ".gguf": "GGUF"}
"""Weights of other libraries, by the endings of their files."""
IN_PYTHON = "or load it in Python and give that model to attnviz.capture(model)"


def sentence(name: str, folder: Path) -> str:
    """Message about a folder or a file that holds something else than a model, and how it becomes one."""
    if folder.is_file():
        check_no_picture(folder.name)
        return of_files(name, [folder.name], folder.parent, what="The file")
    try:
        names = sorted(path.name for path in folder.iterdir())
        steps = sorted((int(match[1]), file) for file in names if (match := CHECKPOINT.fullmatch(file)))
        steps = [step for _, step in steps if (folder / step / files.CONFIG).is_file()]
    except OSError as error:
        return f"The folder {faults.name(name)} cannot be read: {faults.first(error)}"
    if steps and files.CONFIG not in names:
        listed = ", ".join(steps[:6]) + (", ..." if len(steps) > 6 else "")
        who, last = f"The folder {faults.name(name)}", faults.name(str(Path(name) / steps[-1]))
        return f"{who} holds no model itself, but checkpoints: {listed}. Give one, as in {last}."
    return of_files(name, names, folder)


def of_files(name: str, names: Iterable[str], folder: Path | None = None, what: str = "", class_name: str = "") -> str:
    """Message about files without a model in safetensors.

    Args:
        folder: with the files, if they are here.
        what: what the name is of; "" is a folder, or a model of a hub.
        class_name: of the model, if it is known.
    """
    names = sorted(names)
    who = f"{what or ('The folder' if folder else '')} {faults.name(name)}".strip()
    gguf = next((file for file in names if file.endswith(".gguf")), "")
    pickled = next((file for file in names if file.endswith(PICKLED) and file not in OF_TRAINER), "")
    others = {library for file in names for ending, library in OTHERS.items() if file.endswith(ending)}
    has_config = files.CONFIG in names
    alone = pickled or next((file for file in names if file.endswith(".safetensors")), "")
    if ADAPTER in names:
        return f"{who} {_adapter(name, folder)}"
    if gguf:
        return f"{who} {_gguf(str(Path(name).parent) if what else name, gguf)}"
    if has_config and pickled:
        return f"{who} {_pickled(name, pickled, class_name if class_name.isidentifier() else 'AutoModel')}"
    if others or (alone and not has_config):
        return f"{who} {_foreign(others, alone)}"
    if has_config:
        return f"{who} has a config.json and no model.safetensors. Give a folder that save_pretrained has written."
    lacks = "has no config.json: it holds no model of transformers" if folder else "is no model of transformers"
    return f"{who} {lacks}. Give one that save_pretrained has written."


def _foreign(others: set[str], file: str) -> str:
    """Message about weights of other libraries, or else about a file of weights alone."""
    if others:
        holds = f"holds weights of {' and '.join(sorted(others))} alone, which attnviz does not read"
        return f"{holds}. Choose a version with model.safetensors; transformers before 5 converts such weights."
    holds = f"holds weights ({file}) without config.json, such as a state_dict"
    return f"{holds}. Load it into its model, and write that with model.save_pretrained(folder), {IN_PYTHON}."


def _adapter(name: str, folder: Path | None) -> str:
    base, head = base_of(folder)
    return (
        f"holds an adapter (LoRA) for {faults.name(base)}, not a whole model. Merge it: "
        f'PeftModel.from_pretrained({head}.from_pretrained("{base}"), "{name}")'
        '.merge_and_unload().save_pretrained("merged"), save the tokenizer there, too, and give that folder; or, in '
        "Python, show the model of PEFT by attnviz.load(model, tokenizer)."
    )


def _gguf(place: str, file: str) -> str:
    return (
        "holds weights as GGUF, which attnviz does not read. Convert it, with `pip install gguf`: "
        f'AutoModelForCausalLM.from_pretrained("{place}", gguf_file="{file}").save_pretrained("converted"), '
        "save the tokenizer there in the same way, and give that folder."
    )


def _pickled(name: str, file: str, auto: str) -> str:
    return (
        f"holds its weights as pickle ({file}), which can run code: attnviz does not open it. If you trust it, "
        f'convert it: transformers.{auto}.from_pretrained("{name}").save_pretrained("converted"), save the tokenizer '
        "there, too, and give that folder."
    )


def is_meant(path: Path) -> bool:
    """Whether a name without a slash that is here means this folder or file, and no model of a hub."""
    if path.is_file():
        return path.suffix in (*PICKLED, *OTHERS, ".safetensors")
    if not path.is_dir():
        return False
    names = [file.name for file in path.iterdir()]
    return is_weights(names) or any(map(CHECKPOINT.fullmatch, names))


def is_weights(names: Iterable[str]) -> bool:
    """Whether weights are among files, or an adapter."""
    return any(name == ADAPTER or name.endswith((*PICKLED, *OTHERS, ".safetensors")) for name in names)


HEADS = {
    "SEQ_CLS": "AutoModelForSequenceClassification",
    "SEQ_2_SEQ_LM": "AutoModelForSeq2SeqLM",
    "TOKEN_CLS": "AutoModelForTokenClassification",
    "QUESTION_ANS": "AutoModelForQuestionAnswering",
    "FEATURE_EXTRACTION": "AutoModel",
}
"""Classes of transformers for the tasks that PEFT names."""


def base_of(folder: Path | None) -> tuple[str, str]:
    """The model that an adapter is for, and the class to load it with."""
    base, head = "the base model", "AutoModelForCausalLM"
    try:
        settings = json.loads((folder / ADAPTER).read_text(encoding="utf-8")) if folder else {}
        base = settings.get("base_model_name_or_path") or base
        head = HEADS.get(settings.get("task_type"), head)
    except (OSError, ValueError, AttributeError, TypeError, RecursionError):
        return base, head
    return (base if isinstance(base, str) and len(base) <= 200 else "the base model"), head
