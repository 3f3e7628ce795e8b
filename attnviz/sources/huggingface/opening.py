"""Read the configuration of a model before its weights: find its task, class, and tokenizer or processor."""

import json
from dataclasses import dataclass
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any, Literal

from attnviz.core.errors import AttnvizError, InputError, quoted
from attnviz.core.record import LabelKind
from attnviz.sources.huggingface import embedding, faults, files, mixing

Task = Literal["next", "fill", "labels", "tokens", "write", "vectors", "states", "objects"]
"""Tasks of a model; `sources.base.TASKS` describes them."""
TABLES: tuple[tuple[str, Task, str], ...] = (
    ("FOR_SEQUENCE_CLASSIFICATION_", "labels", "AutoModelForSequenceClassification"),
    ("FOR_TOKEN_CLASSIFICATION_", "tokens", "AutoModelForTokenClassification"),
    ("FOR_SEQ_TO_SEQ_CAUSAL_LM_", "write", "AutoModelForSeq2SeqLM"),
    ("FOR_CAUSAL_LM_", "next", "AutoModelForCausalLM"),
    ("FOR_MASKED_LM_", "fill", "AutoModelForMaskedLM"),
    ("FOR_TEXT_ENCODING_", "vectors", "AutoModelForTextEncoding"),
)
"""Tables of transformers with classes that read text, and the task and the automatic class of each table."""
BY_HAND = (
    "load it with transformers, AutoModelForCausalLM.from_pretrained, and show it by attnviz.load(model, tokenizer)"
)
PACKED = "mxfp4"
"""Method of quantization for which transformers can unpack the weights on any device."""
ADD_TOKENIZER = (
    'Add it to the folder: AutoTokenizer.from_pretrained("the model that it was made from").save_pretrained(folder).'
)
MORE_INPUTS = {
    "bbox": "the place of each token on its page (bbox)",
    "xpath_tags_seq": "the place of each token in its web page (xpath_tags_seq)",
}
"""Inputs of some models in addition to the text, by argument; if missing, all tokens get the same default value."""


@dataclass(frozen=True)
class Unweighted:
    """Parts of a model that can be read without its weights.

    Attributes:
        kind: class of the model.
        tokenizer: tokenizer of transformers; None if the model reads no text.
        processor: processor for pictures, texts with pictures, or sounds; None if the model reads only text.
        notes: reason why the model cannot read pictures, if its class can.
    """

    config: Any
    task: Task
    kind: Any
    tokenizer: Any = None
    processor: Any = None
    notes: tuple[str, ...] = ()


def read(folder: Path, name: str) -> Unweighted:
    """Read the configuration, the task, the class, and the tokenizer or processor of a folder.

    Raises:
        AttnvizError: if one of them cannot be used, or if attnviz does not support the input of the model.
    """
    config = configuration(folder, name)
    if of_sense := sense_class(config):
        *facts, sense = of_sense
        tokenizer = _tokenizer(folder, name) if facts[1] == "write" else None
        return Unweighted(*facts, tokenizer=tokenizer, processor=_processor(folder, name, sense))
    task, kind = _task_and_class(config, name, embedding.of_folder(folder))
    tokenizer, processor, notes = _tokenizer(folder, name), None, ()
    if has_senses(config):
        try:
            processor = mixing.processor_of(folder, config)
        except AttnvizError as error:
            notes = (f"{error}",)
    return Unweighted(config, task, kind, tokenizer, processor, notes)


def configuration(folder: Path, name: str) -> Any:
    """Read the configuration of a folder.

    Raises:
        InputError: if it names no model of transformers, or transformers cannot load the model as it is stored.
        AttnvizError: if the file is damaged.
    """
    from transformers import CONFIG_MAPPING, AutoConfig

    who = faults.name(name)
    try:
        settings = json.loads((folder / files.CONFIG).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        raise AttnvizError(f"config.json of {who} is missing or damaged; fetch it again.") from None
    kind = settings.get("model_type") if isinstance(settings, dict) else None
    if not isinstance(kind, str):
        raise InputError(f"config.json of {who} does not name its model_type: it is not a model of transformers.")
    listed = settings.get("architectures") or []
    if not (isinstance(listed, list) and all(isinstance(name, str) for name in listed)):
        what = f"config.json of {who} says 'architectures': {quoted(listed)}"
        raise InputError(f"{what}; it must be a list of names of classes.")
    if "quantization_config" in settings and not is_packed(settings):
        raise InputError(f"{who} is quantized; {BY_HAND}, or choose the original.")
    if kind not in CONFIG_MAPPING:
        own = " It would need code of its own, which attnviz does not run." if "auto_map" in settings else ""
        raise InputError(f"{who} is a {faults.name(kind)}, which transformers does not know.{own}")
    try:
        return AutoConfig.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
    except Exception as error:  # wrong settings raise any type of error
        raise AttnvizError(f"config.json of {who} does not fit a {kind}: {faults.first(error)}") from None


def is_packed(settings: dict[str, Any]) -> bool:
    """Whether a configuration is for weights of 4 bits that are unpacked when they are loaded, as those of GPT-OSS."""
    quantization = settings.get("quantization_config")
    return isinstance(quantization, dict) and quantization.get("quant_method") == PACKED


def sense_class(config: Any) -> tuple[Any, Task, Any, str] | None:
    """Configuration, task, class and sense ("pictures" or "sounds") of a model that reads no text; else None.

    For a model such as CLIP, these are of its vision tower. Whisper is included: it writes text but does not read any.
    """
    import transformers
    from transformers.models.auto import modeling_auto as names

    kind, tower = config.model_type, getattr(config, "vision_config", None)
    if tower is not None and kind in names.MODEL_FOR_ZERO_SHOT_IMAGE_CLASSIFICATION_MAPPING_NAMES:
        return tower, "states", transformers.AutoModel._model_mapping.get(type(tower), None), "pictures"
    model = getattr(transformers, _class_name(config), None)
    model = model or transformers.AutoModel._model_mapping.get(type(config), None)
    main_input = getattr(model, "main_input_name", "") if isinstance(model, type) else ""
    if main_input == "pixel_values" and kind not in names.MODEL_FOR_VIDEO_CLASSIFICATION_MAPPING_NAMES:
        sense, tables = "pictures", {"FOR_IMAGE_CLASSIFICATION_": "labels", "FOR_OBJECT_DETECTION_": "objects"}
    elif main_input in ("input_features", "input_values") and not has_senses(config):
        sense, tables = "sounds", {"FOR_AUDIO_CLASSIFICATION_": "labels"}
    else:
        return None
    if kind == "whisper":
        return config, "write", transformers.WhisperForConditionalGeneration, sense
    task = next((task for table, task in tables.items() if _is_listed(config, table)), "states")
    return config, task, model, sense


def _processor(folder: Path, name: str, sense: str) -> Any:
    """Load the image processor of a folder, or its feature extractor for sounds."""
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
    """Kind of labels that a classifier's logits stand for, decided as in the pipelines of transformers.

    A cross-encoder of sentence-transformers with one label states its activation function instead of this kind.
    """
    activation = (getattr(config, "sentence_transformers", None) or {}).get("activation_fn")
    activation = activation or getattr(config, "sbert_ce_default_activation_function", None) or ""
    if config.problem_type == "regression" or (config.num_labels == 1 and activation.endswith("Identity")):
        return "number"
    return "several" if config.problem_type == "multi_label_classification" else "one"


def labels(config: Any, count: int) -> tuple[str, ...]:
    """Names of the labels of a classifier, in the order of their ids."""
    names = config.id2label or {}
    return tuple(str(names.get(i, i)) for i in range(count))


def detail(config: Any, task: Task, pooling: embedding.Pooling) -> str:
    """Detail of a task in a few words: the kind of labels, the pooling of vectors, or the head that is not shown."""
    if task == "vectors":
        return str(pooling) + ("" if pooling.named else ", no pooling named")
    if task == "states":
        return f"the head of {_class_name(config)} is not shown"
    kinds = {"several": "several labels at once", "number": "regression"}
    return kinds.get(label_kind(config), "") if task == "labels" else ""


def _task_and_class(config: Any, name: str, pooling: embedding.Pooling) -> tuple[Task, Any]:
    """Task of a model, and its class for this task; raise InputError if there is none that reads text."""
    import transformers

    class_name = _class_name(config)
    task, auto = _task(config, pooling.named)
    model = auto and auto._model_mapping.get(type(config), None)
    if isinstance(model, tuple | list):
        model = next((candidate for candidate in model if candidate.__name__ == class_name), model[0])
    who = f"{faults.name(name)} ({class_name or config.model_type})"
    if model is None or not _reads_text(model):
        raise not_of_text(who)
    if config.is_encoder_decoder and auto is transformers.AutoModel:
        raise InputError(f"{who} has a decoder but no language modeling head; choose a model with one.")
    return task, model


def has_senses(config: Any) -> bool:
    """Whether a model has parts for images or sounds. Only a first run shows whether it also reads text alone."""
    return any(hasattr(config, f"{sense}_config") for sense in ("vision", "audio", "image"))


def not_of_text(who: str) -> InputError:
    """Make the error for a model that reads neither text alone nor pictures alone."""
    why = "does not read text alone, nor pictures alone, so it is not shown by its name"
    return InputError(f"{who} {why}. In Python, attnviz.capture(model) sees a run of it.")


def without(model: Any) -> tuple[str, ...]:
    """Findings about inputs that a model was trained with in addition to the text, and that attnviz leaves out."""
    arguments, kind = signature(model.forward).parameters, type(model).__name__
    missing = [words for argument, words in MORE_INPUTS.items() if argument in arguments]
    if hasattr(model.config, "type_vocab_sizes"):
        missing.append("the column, the row and the rank of each token in its table (token_type_ids)")
    return tuple(
        f"{kind} also reads {words}, which attnviz leaves out: its numbers are those without it" for words in missing
    )


def _class_name(config: Any) -> str:
    """Name of the class with which a model was saved; "" if the configuration does not state it."""
    return str((config.architectures or [""])[0])


def _is_listed(config: Any, table: str) -> bool:
    """Whether a table of transformers lists the class of a model."""
    from transformers.models.auto import modeling_auto as names

    listed = getattr(names, f"MODEL_{table}MAPPING_NAMES").get(config.model_type)
    return _class_name(config) in ([listed] if isinstance(listed, str) else listed or ())


def _task(config: Any, pooled: bool) -> tuple[Task | None, Any]:
    """Task of a model, and the automatic class for this task; both are None if the model does not read text.

    Args:
        pooled: whether the folder of the model states the pooling of token vectors.
    """
    import transformers
    from transformers.models.auto import modeling_auto as names

    class_name, kind, among = _class_name(config), config.model_type, partial(_is_listed, config)
    if has_senses(config):
        reads = among("FOR_IMAGE_TEXT_TO_TEXT_") and not config.is_encoder_decoder
        return ("next", transformers.AutoModelForImageTextToText) if reads else (None, None)
    if pooled:
        encodes = kind in names.MODEL_FOR_TEXT_ENCODING_MAPPING_NAMES
        return "vectors", transformers.AutoModelForTextEncoding if encodes else transformers.AutoModel
    for table, task, auto in TABLES:
        if among(table):
            return task, getattr(transformers, auto)
    if config.is_encoder_decoder and among(""):
        return "write", transformers.AutoModelForSeq2SeqLM
    is_masked = kind in names.MODEL_FOR_MASKED_LM_MAPPING_NAMES and kind not in ("electra", "funnel")
    if is_masked and class_name.endswith("ForPreTraining"):  # those two were trained to detect replaced tokens
        return "fill", transformers.AutoModelForMaskedLM
    return "vectors" if not class_name or among("") else "states", transformers.AutoModel


def task_of(model: Any, config: Any) -> Task:
    """Task of a loaded model, by its class; for a custom class, by whether the model has output embeddings.

    Raises:
        InputError: if the model does not read text.
    """
    if not _reads_text(type(model)):
        raise not_of_text(type(model).__name__)
    task = _task(config, False)[0]
    if task in (None, "vectors", "states") and model.get_output_embeddings() is not None:
        return "write" if config.is_encoder_decoder else "next"
    return task or "states"


def _reads_text(model: type) -> bool:
    """Whether the main input of a model's class is token ids."""
    from transformers import PreTrainedModel

    of_text = issubclass(model, PreTrainedModel) and model.main_input_name == "input_ids"
    return of_text and "input_ids" in signature(model.forward).parameters


def _tokenizer(folder: Path, name: str) -> Any:
    """Load the tokenizer of a folder with transformers, and try it on a text.

    Raises:
        InputError: if there is none that can be used. Transformers makes an empty vocabulary of missing files.
    """
    import transformers

    names, kind = {path.name for path in folder.iterdir()}, None
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        kind = type(tokenizer)
        problem = "" if tokenizer("A test.")["input_ids"] else "it finds no token in 'A test.'."
    except BaseException as error:  # a tokenizer written in Rust panics past Exception
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        problem = faults.first(error)
    needed = getattr(kind, "vocab_files_names", {})
    missing = [needed[part] for part in ("vocab_file", "merges_file") if part in needed and needed[part] not in names]
    if missing and not any(file == files.FAST or file.endswith((".model", ".spm")) for file in names):
        problem = f"a {kind.__name__} needs {files.FAST} or {' and '.join(missing)}."
    if problem:
        raise InputError(f"{faults.name(name)} has no tokenizer that can be used: {problem} {ADD_TOKENIZER}")
    return tokenizer
