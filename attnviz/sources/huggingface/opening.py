"""Facts of a model before its weights are read: its configuration, task, class and tokenizer."""

import json
from dataclasses import dataclass, replace
from inspect import signature
from pathlib import Path
from typing import Any, Literal

from attnviz.core.errors import AttnvizError, InputError
from attnviz.core.record import LabelKind
from attnviz.sources.huggingface import building, checks, embedding, faults, files, mixing

Task = Literal["next", "fill", "labels", "tokens", "write", "vectors", "states", "objects"]
"""Outputs of a model: the next token, what a mask hides, a label of a text, a picture or each token, another text,
vectors of texts, nothing that is shown but its hidden states, or objects in a picture."""

HEADS: tuple[tuple[str, Task, str], ...] = (
    ("FOR_SEQUENCE_CLASSIFICATION_", "labels", "AutoModelForSequenceClassification"),
    ("FOR_NEXT_SENTENCE_PREDICTION_", "labels", "AutoModelForNextSentencePrediction"),
    ("FOR_TOKEN_CLASSIFICATION_", "tokens", "AutoModelForTokenClassification"),
)
"""Tables of transformers with the classes that label, their tasks, and the automatic class of each."""

NEXT_SENTENCE = ("the second text follows the first", "the second text is another one")
"""Labels of models that were trained to tell whether two texts belong together, by their ids."""


def check(folder: Path, name: str) -> "Unweighted":
    """Facts that need no weights. Raises: AttnvizError: if it is known by them that the weights are of no use."""
    with building.quiet():
        return read(folder, name)


@dataclass(frozen=True)
class Unweighted:
    """Facts of a model that need no weights.

    Attributes:
        kind: its class.
        tokenizer: None of a model that reads no text.
        processor: of images, of texts with pictures, or of sounds; None of a model that reads none.
        notes: why it reads no pictures, if it could.
    """

    config: Any
    task: Task
    kind: Any
    tokenizer: Any = None
    processor: Any = None
    notes: tuple[str, ...] = ()


def read(folder: Path, name: str) -> Unweighted:
    """Configuration, task, class and tokenizer or image processor, which need no weights."""
    config = _config(folder, name)
    if of_pictures := picture_class(config):
        return Unweighted(*of_pictures, processor=_processor(folder, name))
    if of_sounds := _sound_class(config):
        tokenizer = _tokenizer(folder, name) if of_sounds[1] == "write" else None
        return Unweighted(*of_sounds, tokenizer=tokenizer, processor=_processor(folder, name, "sounds"))
    task, kind = _class(config, name, embedding.of_folder(folder))
    opened = Unweighted(config, task, kind, tokenizer=_tokenizer(folder, name))
    if not has_senses(config):
        return opened
    try:
        return replace(opened, processor=mixing.processor_of(folder, config))
    except AttnvizError as error:
        return replace(opened, notes=(f"{error}",))


def picture_class(config: Any) -> tuple[Any, Task, Any] | None:
    """Configuration, task and class of a vision model, or of the vision tower of one of texts and pictures."""
    import transformers
    from transformers.models.auto import modeling_auto as names

    class_name = _class_name(config)
    tower = getattr(config, "vision_config", None)
    if tower is not None and config.model_type in names.MODEL_FOR_ZERO_SHOT_IMAGE_CLASSIFICATION_MAPPING_NAMES:
        return tower, "states", transformers.AutoModel._model_mapping.get(type(tower), None)
    model = getattr(transformers, class_name, None) or transformers.AutoModel._model_mapping.get(type(config), None)
    is_of_videos = config.model_type in names.MODEL_FOR_VIDEO_CLASSIFICATION_MAPPING_NAMES
    if is_of_videos or not (isinstance(model, type) and getattr(model, "main_input_name", "") == "pixel_values"):
        return None
    tables = ("IMAGE_CLASSIFICATION", "labels"), ("OBJECT_DETECTION", "objects")
    listed = [
        task
        for table, task in tables
        if class_name in str(getattr(names, f"MODEL_FOR_{table}_MAPPING_NAMES").get(config.model_type))
    ]
    return config, listed[0] if listed else "states", model


def _sound_class(config: Any) -> tuple[Any, Task, Any] | None:
    """Configuration, task and class of a model that hears, and writes at most what it heard."""
    import transformers
    from transformers.models.auto import modeling_auto as names

    class_name = _class_name(config)
    model = getattr(transformers, class_name, None)
    if not (isinstance(model, type) and getattr(model, "main_input_name", "") in ("input_features", "input_values")):
        return None
    if has_senses(config):  # a sound within a text
        return None
    if config.model_type == "whisper":
        return config, "write", transformers.WhisperForConditionalGeneration
    labels = class_name == names.MODEL_FOR_AUDIO_CLASSIFICATION_MAPPING_NAMES.get(config.model_type)
    return config, "labels" if labels else "states", model


def _processor(folder: Path, name: str, sense: str = "pictures") -> Any:
    """The image processor of a folder, or its feature extractor of sounds.

    Raises:
        InputError: if there is none, or it cannot be read.
    """
    import transformers

    auto = {"pictures": "AutoImageProcessor", "sounds": "AutoFeatureExtractor"}[sense]
    if not (folder / files.PREPROCESSOR).is_file():
        what = f"{faults.name(name)} reads {sense} and has no {files.PREPROCESSOR}, which says how they are prepared"
        how = f'{auto}.from_pretrained("the model that it was made from").save_pretrained(folder)'
        raise InputError(f"{what}. Add it to the folder: {how}.")
    try:
        return getattr(transformers, auto).from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except Exception as error:
        what = f"The {files.PREPROCESSOR} of {faults.name(name)} cannot be used"
        raise AttnvizError(f"{what}: {faults.first(error)}") from None


def label_kind(config: Any) -> LabelKind:
    """How the logits of a model that classifies are read, as the pipeline of transformers does.

    A cross-encoder of sentence-transformers with one class names its activation instead.
    """
    activation = (getattr(config, "sentence_transformers", None) or {}).get("activation_fn")
    activation = activation or getattr(config, "sbert_ce_default_activation_function", None) or ""
    if config.problem_type == "regression" or (config.num_labels == 1 and activation.endswith("Identity")):
        return "number"
    return "several" if config.problem_type == "multi_label_classification" else "one"


def labels(config: Any, count: int) -> tuple[str, ...]:
    """The names of the classes of a model that classifies, by their ids."""
    if _class_name(config).endswith("ForNextSentencePrediction"):
        return NEXT_SENTENCE
    names = config.id2label or {}
    return tuple(str(names.get(i, i)) for i in range(count))


def detail(config: Any, task: Task, pooling: embedding.Pooling) -> str:
    """Details of a task, in a few words: how labels are read, how vectors are made, which head is not shown."""
    if task == "vectors":
        return str(pooling) + ("" if pooling.named else ", no pooling named")
    if task == "states":
        return f"the head of {_class_name(config)} is not shown"
    kinds = {"several": "several labels at once", "number": "regression"}
    return kinds.get(label_kind(config), "") if task == "labels" else ""


def _config(folder: Path, name: str) -> Any:
    from transformers import CONFIG_MAPPING, AutoConfig

    settings = checks.config(folder, name)
    kind = settings["model_type"]
    if kind not in CONFIG_MAPPING:
        own = " It would need code of its own, which attnviz does not run." if "auto_map" in settings else ""
        raise InputError(f"{faults.name(name)} is a {faults.name(kind)}, which transformers does not know.{own}")
    try:
        return AutoConfig.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
    except Exception as error:  # whatever a class of transformers makes of odd settings
        raise AttnvizError(f"config.json of {faults.name(name)} does not fit a {kind}: {faults.first(error)}") from None


def _class(config: Any, name: str, pooling: embedding.Pooling) -> tuple[Task, Any]:
    """Task of a model, and its class for that."""
    import transformers

    class_name = _class_name(config)
    task, auto = _task(config, pooling.named)
    model = auto and auto._model_mapping.get(type(config), None)
    if isinstance(model, tuple | list):
        model = next((candidate for candidate in model if candidate.__name__ == class_name), model[0])
    who = f"{faults.name(name)} ({class_name or config.model_type})"
    if model is None or not _reads_text(model):
        raise not_of_text(who)
    if _has_both(config) and auto is transformers.AutoModel:
        raise InputError(f"{who} has a decoder but no head that writes; choose one that has.")
    return task, model


def has_senses(config: Any) -> bool:
    """Whether a model has parts for images or sounds; its first run tells whether it reads text without them."""
    return any(hasattr(config, f"{sense}_config") for sense in ("vision", "audio", "image"))


def not_of_text(who: str) -> InputError:
    why = "does not read text alone, nor pictures alone, so it is not shown by its name"
    return InputError(f"{who} {why}. In Python, attnviz.capture(model) sees a run of it.")


def _class_name(config: Any) -> str:
    """The class that a model was made as, or ""."""
    return str((config.architectures or [""])[0])


def _has_both(config: Any) -> bool:
    """Whether there are an encoder and a decoder."""
    return bool(getattr(config, "is_encoder_decoder", False))


def _task(config: Any, pooled: bool) -> tuple[Task | None, Any]:
    """Task of a model, and the automatic class for that; None twice if it does not read text.

    Args:
        pooled: its folder says how a vector of a sentence is made.
    """
    import transformers
    from transformers.models.auto import modeling_auto as names

    class_name, kind = _class_name(config), config.model_type

    def among(table: str) -> bool:
        listed = getattr(names, f"MODEL_{table}MAPPING_NAMES").get(kind)
        return class_name in ([listed] if isinstance(listed, str) else listed or ())

    fills = kind in names.MODEL_FOR_MASKED_LM_MAPPING_NAMES and class_name.endswith("ForPreTraining")
    fills = fills and kind not in ("electra", "funnel")  # which tell replaced tokens
    if has_senses(config):
        reads = among("FOR_IMAGE_TEXT_TO_TEXT_") and not _has_both(config)
        return ("next", transformers.AutoModelForImageTextToText) if reads else (None, None)
    if pooled:
        encodes = kind in names.MODEL_FOR_TEXT_ENCODING_MAPPING_NAMES
        return "vectors", transformers.AutoModelForTextEncoding if encodes else transformers.AutoModel
    for table, task, auto in HEADS:
        if among(table):
            return task, getattr(transformers, auto)
    if _has_both(config) and (among("FOR_SEQ_TO_SEQ_CAUSAL_LM_") or among("")):
        return "write", transformers.AutoModelForSeq2SeqLM
    if among("FOR_CAUSAL_LM_"):
        return "next", transformers.AutoModelForCausalLM
    if among("FOR_MASKED_LM_") or fills:
        return "fill", transformers.AutoModelForMaskedLM
    if among("FOR_TEXT_ENCODING_"):
        return "vectors", transformers.AutoModelForTextEncoding
    return "vectors" if not class_name or among("") else "states", transformers.AutoModel


def task_of(model: Any, config: Any) -> Task:
    """Task of a model that was loaded, by its class; of code of its own, by whether it has scores of words.

    Raises:
        InputError: if it does not read text.
    """
    if not _reads_text(type(model)):
        raise not_of_text(type(model).__name__)
    task = _task(config, False)[0]
    writes = model.get_output_embeddings() is not None
    if task in (None, "vectors", "states") and writes:
        return "write" if _has_both(config) else "next"
    return task or "states"


def _reads_text(model: type) -> bool:
    """Whether a class is called with the numbers of tokens."""
    from transformers import PreTrainedModel

    of_text = issubclass(model, PreTrainedModel) and model.main_input_name == "input_ids"
    return of_text and "input_ids" in signature(model.forward).parameters


def _tokenizer(folder: Path, name: str) -> Any:
    """The tokenizer as transformers makes it, a fast one or one written in Python, tried once.

    Raises:
        InputError: if there is none, or a file that it is made from is missing.
        AttnvizError: if it cannot be read.
    """
    from transformers import AutoTokenizer

    files_there = {path.name for path in folder.iterdir()}
    if not files_there & files.TOKENIZER:
        raise InputError(f"{faults.name(name)} has no tokenizer. {ADD_TOKENIZER}")
    kind = _tokenizer_class(folder)
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        kind = type(tokenizer)
        pieces = tokenizer("A test.")["input_ids"]
    except BaseException as error:  # a tokenizer written in Rust panics past Exception
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        if missing := _missing(kind, files_there):
            raise _without_tokenizer(name, kind, missing) from None
        raise AttnvizError(f"The tokenizer of {faults.name(name)} cannot be used: {faults.first(error)}") from None
    if missing := _missing(kind, files_there):
        raise _without_tokenizer(name, kind, missing)
    if not pieces:
        raise AttnvizError(f"The tokenizer of {faults.name(name)} finds no token in 'A test.'; it is damaged.")
    return tokenizer


ADD_TOKENIZER = (
    'Add it to the folder: AutoTokenizer.from_pretrained("the model that it was made from").save_pretrained(folder).'
)


def _without_tokenizer(name: str, kind: type, missing: str) -> InputError:
    return InputError(f"{faults.name(name)} has no tokenizer: a {kind.__name__} needs {missing}. {ADD_TOKENIZER}")


def _tokenizer_class(folder: Path) -> Any:
    """The class that a folder names for its tokenizer; None if it names none that transformers has."""
    import transformers

    try:
        named = json.loads((folder / files.TOKENIZER_CONFIG).read_text(encoding="utf-8"))["tokenizer_class"]
        return getattr(transformers, named, None)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _missing(kind: Any, files_there: set[str]) -> str:
    """A file without which transformers makes an empty vocabulary in silence; "" if none is missing."""
    if kind is None or files.FAST in files_there:
        return ""
    needed = {*kind.vocab_files_names.values()} & files.VOCABULARIES
    if needed and not files_there & (needed | files.SENTENCEPIECE):
        return " or ".join(sorted(needed))
    both = files.MERGES in needed and not files_there & files.SENTENCEPIECE
    return files.MERGES if both and files.MERGES not in files_there else ""
