"""Sentences about folders and models of a hub that hold no model in safetensors, and how these become one."""

import json
from collections.abc import Iterable
from pathlib import Path

from attnviz.core.errors import check_no_picture
from attnviz.sources.huggingface import faults, files

OF_TRAINER = ("training_args.bin", "optimizer.pt", "scheduler.pt", "scaler.pt")
"""Pickles that `Trainer` writes beside weights."""
HEADS = {
    "SEQ_CLS": "AutoModelForSequenceClassification",
    "SEQ_2_SEQ_LM": "AutoModelForSeq2SeqLM",
    "TOKEN_CLS": "AutoModelForTokenClassification",
    "QUESTION_ANS": "AutoModelForQuestionAnswering",
    "FEATURE_EXTRACTION": "AutoModel",
}
"""Classes of transformers for the tasks that PEFT names."""
ADAPTER = (
    "holds an adapter (LoRA) for {base_name}, not a whole model. Merge it: "
    'PeftModel.from_pretrained({head}.from_pretrained("{base}"), "{name}")'
    '.merge_and_unload().save_pretrained("merged"), save the tokenizer there, too, and give that folder; or, in '
    "Python, show the model of PEFT by attnviz.load(model, tokenizer)."
)
GGUF = (
    "holds weights as GGUF, which attnviz does not read. Convert it, with `pip install gguf`: "
    'AutoModelForCausalLM.from_pretrained("{place}", gguf_file="{file}").save_pretrained("converted"), '
    "save the tokenizer there in the same way, and give that folder."
)
PICKLED = (
    "holds its weights as pickle ({file}), which can run code: attnviz does not open it. If you trust it, "
    'convert it: transformers.{auto}.from_pretrained("{name}").save_pretrained("converted"), save the tokenizer '
    "there, too, and give that folder."
)
FOREIGN = (
    "holds weights of {libraries} alone, which attnviz does not read. Choose a version with model.safetensors; "
    "transformers before 5 converts such weights."
)
STATE_DICT = (
    "holds weights ({file}) without config.json, such as a state_dict. Load it into its model, and write that with "
    "model.save_pretrained(folder), or load it in Python and give that model to attnviz.capture(model)."
)


def of_folder(name: str, folder: Path) -> str:
    """Sentence about a folder or a file that holds something else than a model."""
    if folder.is_file():
        check_no_picture(folder.name)
        return of_files(name, [folder.name], folder.parent, what="The file")
    try:
        names = sorted(path.name for path in folder.iterdir())
        steps = sorted((int(match[1]), file) for file in names if (match := files.CHECKPOINT.fullmatch(file)))
        steps = [step for _, step in steps if (folder / step / files.CONFIG).is_file()]
    except OSError as error:
        return f"The folder {faults.name(name)} cannot be read: {faults.first(error)}"
    if steps and files.CONFIG not in names:
        listed = ", ".join(steps[:6]) + (", ..." if len(steps) > 6 else "")
        who, last = f"The folder {faults.name(name)}", faults.name(str(Path(name) / steps[-1]))
        return f"{who} holds no model itself, but checkpoints: {listed}. Give one, as in {last}."
    return of_files(name, names, folder)


def of_files(name: str, names: Iterable[str], folder: Path | None = None, what: str = "") -> str:
    """Sentence about files without a model in safetensors.

    Args:
        folder: folder with the files, if they are here.
        what: what the name is of; "" is a folder, or a model of a hub.
    """
    names = sorted(names)
    who = f"{what or ('The folder' if folder else '')} {faults.name(name)}".strip()
    gguf = next((file for file in names if file.endswith(".gguf")), "")
    pickled = next((file for file in names if file.endswith(files.PICKLED) and file not in OF_TRAINER), "")
    libraries = {library for file in names for ending, library in files.OTHERS.items() if file.endswith(ending)}
    alone = pickled or next((file for file in names if file.endswith(".safetensors")), "")
    if files.ADAPTER in names:
        base, head = base_of(folder)
        return f"{who} {ADAPTER.format(name=name, base=base, base_name=faults.name(base), head=head)}"
    if gguf:
        return f"{who} {GGUF.format(place=Path(name).parent if what else name, file=gguf)}"
    if files.CONFIG in names and pickled:
        kind = str((_settings(folder, files.CONFIG).get("architectures") or [""])[0])
        return f"{who} {PICKLED.format(name=name, file=pickled, auto=kind if kind.isidentifier() else 'AutoModel')}"
    if libraries:
        return f"{who} {FOREIGN.format(libraries=' and '.join(sorted(libraries)))}"
    if alone and files.CONFIG not in names:
        return f"{who} {STATE_DICT.format(file=alone)}"
    if files.CONFIG in names:
        return f"{who} has a config.json and no model.safetensors. Give a folder that save_pretrained has written."
    lacks = "has no config.json: it holds no model of transformers" if folder else "is no model of transformers"
    return f"{who} {lacks}. Give one that save_pretrained has written."


def base_of(folder: Path | None) -> tuple[str, str]:
    """The model that an adapter is for, and the class to load it with."""
    settings = _settings(folder, files.ADAPTER)
    base, task = settings.get("base_model_name_or_path"), settings.get("task_type")
    base = base if base and isinstance(base, str) and len(base) <= 200 else "the base model"
    return base, HEADS.get(task if isinstance(task, str) else "", "AutoModelForCausalLM")


def _settings(folder: Path | None, file: str) -> dict:
    """Settings of a JSON file of a folder; empty if it cannot be read."""
    try:
        settings = json.loads((folder / file).read_text(encoding="utf-8")) if folder else {}
    except (OSError, ValueError, RecursionError):
        return {}
    return settings if isinstance(settings, dict) else {}
