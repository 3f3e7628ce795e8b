"""The files of a model: wanted ones, those that are there, and folders that hold something else than a model."""

import hashlib
import json
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from attnviz.core.errors import AttnvizError, check_no_picture
from attnviz.sources.huggingface import faults

CONFIG, SINGLE, INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"
SHARD = re.compile(r"model-\d{5}-of-\d{5}\.safetensors")
FAST, MERGES, TOKENIZER_CONFIG = "tokenizer.json", "merges.txt", "tokenizer_config.json"
SENTENCEPIECE = frozenset(
    "spiece.model sentencepiece.bpe.model tokenizer.model spm.model sentencepiece.model spm_char.model "
    "source.spm target.spm prophetnet.tokenizer".split()
)
VOCABULARIES = SENTENCEPIECE | frozenset(
    f"{FAST} {MERGES} vocab.txt vocab.json bpe.codes dict.txt target_vocab.json vocab-src.json vocab-tgt.json "
    "emoji.json byte_maps.json entity_vocab.json word_shape.json word_pronunciation.json".split()
)
"""Files from which transformers makes tokenizers: its classes name them."""
TOKENIZER = VOCABULARIES | {TOKENIZER_CONFIG, "special_tokens_map.json", "added_tokens.json"}
PREPROCESSOR, PROCESSOR = "preprocessor_config.json", "processor_config.json"
CHAT_TEMPLATES = frozenset({"chat_template.jinja", "chat_template.json"})
BESIDE = CHAT_TEMPLATES | {CONFIG, PREPROCESSOR, PROCESSOR, "generation_config.json", "modules.json"}
BESIDE |= {"1_Pooling/config.json", "config_sentence_transformers.json"}
LARGEST_TEXT = 100_000_000
"""Bytes of a file that is not weights."""
DIGEST = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


@dataclass(frozen=True)
class File:
    """A file of a model: its size in bytes, and its SHA-256, or the SHA-1 that git gives it."""

    name: str
    size: int
    digest: str

    @property
    def is_weights(self) -> bool:
        return self.name.endswith(".safetensors")


def wanted(names: Iterable[str]) -> tuple[str, ...]:
    """Configuration, tokenizer and one set of safetensors, in this order: no code, no pickle, no second format."""
    names = set(names)
    weights = {SINGLE} & names or {name for name in names if name == INDEX or SHARD.fullmatch(name)}
    small = sorted(names & (TOKENIZER | BESIDE))
    return (*small, *sorted(weights, key=lambda name: (name != INDEX, name)))


def weights(folder: Path) -> tuple[Path, ...]:
    """The files of weights in a folder, as transformers would choose them; empty if there are none.

    Raises:
        AttnvizError: if an index names a file that is not there, or is damaged.
    """
    if (folder / SINGLE).is_file():
        return (folder / SINGLE,)
    if not (folder / INDEX).is_file():
        return ()
    try:
        listed = json.loads((folder / INDEX).read_text(encoding="utf-8"))["weight_map"].values()
        names = sorted(set(listed))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise AttnvizError(f"The list of weights {INDEX} is damaged; fetch it again.") from None
    for name in names:
        if not (isinstance(name, str) and Path(name).name == name and (folder / name).is_file()):
            raise AttnvizError(
                f"The weights {faults.name(name)}, which {INDEX} lists, are not there; fetch them again."
            )
    return tuple(folder / name for name in names)


def whole(folder: Path) -> bool:
    """Whether all that a model needs is in a folder."""
    try:
        return bool(
            (folder / CONFIG).is_file()
            and weights(folder)
            and any((folder / name).is_file() for name in (*TOKENIZER, PREPROCESSOR))
        )
    except AttnvizError:
        return False


def check(
    folder: Path, digests: dict[str, str], model: str, report: Callable[[int], None] = lambda count: None
) -> None:
    """Compare files in the cache with their digests; one that differs is deleted, and said.

    Args:
        digests: of the files by their names; those of other files are taken from where the cache keeps them.
        report: is given how many bytes have been read, now and then.

    Raises:
        AttnvizError: names the files that differ, and says how large they are.
    """
    for path in sorted(folder.iterdir()):
        if not path.is_file():
            continue
        digest = digests.get(path.name) or _kept_as(path).name
        if DIGEST.fullmatch(digest) and not _is(digest, path.resolve(), report):
            forget(path)
            raise AttnvizError(
                f"The file {path.name} of {faults.name(model)} was damaged on its way: its checksum is not the hub's. "
                "It has been deleted; try again."
            )


def forget(path: Path) -> None:
    """Delete a file of the cache, and what it points to."""
    for file in {_kept_as(path), path}:
        with suppress(OSError):
            file.unlink()


def _kept_as(path: Path) -> Path:
    """The file that a file of the cache points to, called by its digest; itself where links cannot be made."""
    return path.parent / path.readlink() if path.is_symlink() else path


def _is(digest: str, path: Path, report: Callable[[int], None]) -> bool:
    stat = path.stat()
    entry = (path, stat.st_size, stat.st_mtime_ns, digest)
    if entry not in _verified:
        algorithm = hashlib.sha256() if len(digest) == 64 else hashlib.sha1(b"blob %d\0" % stat.st_size)
        with path.open("rb") as file:
            while block := file.read(1 << 22):
                algorithm.update(block)
                report(len(block))
        if algorithm.hexdigest() != digest:
            return False
        _verified.add(entry)
    return True


_verified: set[tuple[Path, int, int, str]] = set()
"""Files that this process has read and found right, so that each is read once."""


@lru_cache(maxsize=4)
def sha256(path: Path) -> str:
    """SHA-256 of a file that stays as it is."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


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
        steps = [step for _, step in steps if (folder / step / CONFIG).is_file()]
    except OSError as error:
        return f"The folder {faults.name(name)} cannot be read: {faults.first(error)}"
    if steps and CONFIG not in names:
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
    has_config = CONFIG in names
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
