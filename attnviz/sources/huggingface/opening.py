"""Read the configuration of a model before its weights: find its task, class, and tokenizer or processor."""

from inspect import signature
from pathlib import Path
from typing import Any

from attnviz.core.errors import AttnvizError, InputError
from attnviz.core.record import LabelKind
from attnviz.sources.huggingface import embedding, faults, files, mixing
from attnviz.sources.huggingface.loaded import ModelParts, Task

TABLES: tuple[tuple[str, Task, str], ...] = (
    ("FOR_SEQUENCE_CLASSIFICATION_", "labels", "AutoModelForSequenceClassification"),
    ("FOR_TOKEN_CLASSIFICATION_", "tokens", "AutoModelForTokenClassification"),
    ("FOR_SEQ_TO_SEQ_CAUSAL_LM_", "write", "AutoModelForSeq2SeqLM"),
    ("FOR_CAUSAL_LM_", "next", "AutoModelForCausalLM"),
    ("FOR_MASKED_LM_", "fill", "AutoModelForMaskedLM"),
    ("FOR_TEXT_ENCODING_", "vectors", "AutoModelForTextEncoding"),
)
"""Tables of transformers with classes that read text, and the task and the automatic class of each table."""
PLACES = "the place of each token on its page (bbox)"
MORE_INPUTS = {
    "layoutlm": PLACES,
    "layoutlmv3": PLACES,
    "lilt": PLACES,
    "markuplm": "the place of each token in its web page (xpath_tags_seq)",
    "tapas": "the column, the row and the rank of each token in its table (token_type_ids)",
}
"""Inputs in addition to the text, by type of model; attnviz leaves them out, so all tokens get the same default."""
PACKED = {"quant_method": "mxfp4"}
"""Quantization of GPT-OSS: weights of 4 bits that are unpacked when they are loaded."""
SAFE = {"local_files_only": True, "trust_remote_code": False}
"""Options of `from_pretrained`, so that it asks no hub and runs no code of a model."""


def read(folder: Path, name: str) -> ModelParts:
    """Read the configuration, the task, the class, and the tokenizer or processor of a folder."""
    import transformers

    config, pooling = configuration(folder, name), embedding.of_folder(folder)
    if sense_parts := sense_class(config):
        config, task, kind, sense = sense_parts
        tokenizer = _tokenizer(folder, name) if task == "write" else None
        processor = _processor(folder, name, sense)
        return ModelParts(config=config, task=task, kind=kind, tokenizer=tokenizer, processor=processor)
    task, auto = _task(config, pooling.named)
    kind = auto and auto._model_mapping.get(type(config), None)
    if isinstance(kind, tuple | list):
        kind = next((candidate for candidate in kind if candidate.__name__ == class_name(config)), kind[0])
    who = f"{faults.name(name)} ({class_name(config) or config.model_type})"
    if kind is None or not _reads_text(kind):
        raise not_of_text(who)
    if config.is_encoder_decoder and auto is transformers.AutoModel:
        raise InputError(f"{who} has a decoder but no language modeling head; choose a model with one.")
    parts = {"tokenizer": _tokenizer(folder, name), "pooling": pooling}
    if has_senses(config):
        try:
            parts["processor"] = mixing.processor_of(folder, config)
        except AttnvizError as error:
            parts["notes"] = (f"{error}",)
    return ModelParts(config=config, task=task, kind=kind, **parts)


def configuration(folder: Path, name: str) -> Any:
    """Read the configuration of a folder; raise InputError if it is damaged or attnviz cannot load such a model."""
    from transformers import CONFIG_MAPPING, AutoConfig

    who, settings = faults.name(name), files.read_json(folder / files.CONFIG)
    settings = settings if isinstance(settings, dict) else {}
    quantization = settings.get("quantization_config", PACKED)
    if not (isinstance(quantization, dict) and quantization.get("quant_method") == PACKED["quant_method"]):
        by_hand = "Load it with transformers, and show it by attnviz.load(model, tokenizer), or choose the original"
        raise InputError(f"{who} is quantized. {by_hand}.")
    if (kind := str(settings.get("model_type"))) not in CONFIG_MAPPING:
        if "auto_map" in settings:
            raise InputError(f"{who} is a {faults.name(kind)}: it needs code of its own, which attnviz does not run.")
        what = f"config.json of {who} is missing, damaged, or names no model that transformers knows"
        raise InputError(f"{what}: model_type is {faults.name(kind)}.")
    try:
        return AutoConfig.from_pretrained(folder, **SAFE)
    except Exception as error:  # wrong settings raise any type of error
        raise InputError(f"config.json of {who} does not fit a {kind}: {faults.first(error)}") from None


def sense_class(config: Any) -> tuple[Any, Task, Any, str] | None:
    """Configuration, task, class and sense ("pictures" or "sounds") of a model that reads no text; else None.

    For a model such as CLIP, these are of its vision tower. Whisper is included: it writes text but does not read any.
    """
    import transformers
    from transformers.models.auto import modeling_auto as names

    kind, tower = config.model_type, getattr(config, "vision_config", None)
    if tower is not None and kind in names.MODEL_FOR_ZERO_SHOT_IMAGE_CLASSIFICATION_MAPPING_NAMES:
        return tower, "states", transformers.AutoModel._model_mapping.get(type(tower), None), "pictures"
    model = getattr(transformers, class_name(config), None)
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
        return getattr(transformers, auto).from_pretrained(folder, **SAFE)
    except Exception as error:
        what = f"The {files.PREPROCESSOR} of {faults.name(name)} cannot be used"
        raise AttnvizError(f"{what}: {faults.first(error)}") from None


def label_kind(config: Any) -> LabelKind:
    """Kind of labels that a classifier's logits stand for, decided as in the pipelines of transformers.

    A cross-encoder of sentence-transformers with one label states its activation function instead of this kind.
    """
    newer = (getattr(config, "sentence_transformers", None) or {}).get("activation_fn")
    older = getattr(config, "sbert_ce_default_activation_function", None)
    activation = newer or older or ""
    if config.problem_type == "regression" or (config.num_labels == 1 and activation.endswith("Identity")):
        return "number"
    return "several" if config.problem_type == "multi_label_classification" else "one"


def labels(config: Any, count: int) -> tuple[str, ...]:
    """Names of the labels of a classifier, in the order of their ids."""
    return tuple(str((config.id2label or {}).get(i, i)) for i in range(count))


def has_senses(config: Any) -> bool:
    """Whether a model has parts for images or sounds. Only a first run shows whether it also reads text alone."""
    return any(hasattr(config, f"{sense}_config") for sense in ("vision", "audio", "image"))


def not_of_text(who: str) -> InputError:
    """Make the error for a model that reads neither text alone nor pictures alone."""
    why = "does not read text alone, nor pictures alone, so it is not shown by its name"
    return InputError(f"{who} {why}. In Python, attnviz.capture(model) sees a run of it.")


def class_name(config: Any) -> str:
    """Name of the class with which a model was saved; "" if the configuration does not state it."""
    names = config.architectures if isinstance(config.architectures, list) else []
    return names[0] if names and isinstance(names[0], str) else ""


def _is_listed(config: Any, table: str) -> bool:
    """Whether a table of transformers lists the class of a model."""
    from transformers.models.auto import modeling_auto as names

    listed = getattr(names, f"MODEL_{table}MAPPING_NAMES").get(config.model_type)
    return class_name(config) in ([listed] if isinstance(listed, str) else listed or ())


def _task(config: Any, pooled: bool) -> tuple[Task | None, Any]:
    """Task of a model, and the automatic class for this task; both are None if the model does not read text.

    If the folder of the model states a pooling of token vectors (`pooled`), its task is "vectors".
    """
    import transformers
    from transformers.models.auto import modeling_auto as names

    name, kind = class_name(config), config.model_type
    if has_senses(config):
        reads = _is_listed(config, "FOR_IMAGE_TEXT_TO_TEXT_") and not config.is_encoder_decoder
        return ("next", transformers.AutoModelForImageTextToText) if reads else (None, None)
    if pooled:
        encodes = kind in names.MODEL_FOR_TEXT_ENCODING_MAPPING_NAMES
        return "vectors", transformers.AutoModelForTextEncoding if encodes else transformers.AutoModel
    for table, task, auto in TABLES:
        if _is_listed(config, table):
            return task, getattr(transformers, auto)
    is_plain = _is_listed(config, "")
    if config.is_encoder_decoder and is_plain:
        return "write", transformers.AutoModelForSeq2SeqLM
    is_masked = kind in names.MODEL_FOR_MASKED_LM_MAPPING_NAMES and kind not in ("electra", "funnel")
    if is_masked and name.endswith("ForPreTraining"):  # ELECTRA and Funnel were trained to detect replaced tokens
        return "fill", transformers.AutoModelForMaskedLM
    return "vectors" if is_plain or not name else "states", transformers.AutoModel


def task_of(model: Any, config: Any) -> Task:
    """Task of a loaded model, by its class; for a custom class, by whether the model has output embeddings."""
    if not _reads_text(type(model)):
        raise not_of_text(type(model).__name__)
    task = _task(config, False)[0]
    if task in (None, "vectors", "states") and model.get_output_embeddings() is not None:
        return "write" if config.is_encoder_decoder else "next"
    return task or "states"


def _reads_text(model: type) -> bool:
    """Whether the main input of a model's class is token ids."""
    return getattr(model, "main_input_name", "") == "input_ids" and "input_ids" in signature(model.forward).parameters


def _tokenizer(folder: Path, name: str) -> Any:
    """Load the tokenizer of a folder; raise InputError if it cannot be used.

    If its files are missing, transformers makes one with an empty vocabulary.
    """
    import transformers

    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **SAFE)
        words = len(tokenizer) - len({*tokenizer.all_special_ids})
        is_empty = words <= 2 or not tokenizer("A test.")["input_ids"]  # T5's still has a blank without its files
        problem = "its vocabulary is empty." if is_empty else ""
    except BaseException as error:
        if not faults.is_failure(error):
            raise
        problem = faults.first(error)
    if problem:
        add = 'AutoTokenizer.from_pretrained("the model that it was made from").save_pretrained(folder)'
        what = f"{faults.name(name)} has no tokenizer that can be used: {problem}"
        raise InputError(f"{what} Add it to the folder: {add}.")
    return tokenizer
