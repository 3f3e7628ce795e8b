"""Read the configuration of a model before its weights: check its numbers, and find the task, class and tokenizer."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any, Literal

from attnviz.core.amounts import size
from attnviz.core.errors import AttnvizError, InputError, quoted
from attnviz.core.record import LabelKind
from attnviz.sources.huggingface import embedding, faults, files, mixing

Task = Literal["next", "fill", "labels", "tokens", "write", "vectors", "states", "objects"]
"""Tasks of a model; `sources.base.TASKS` describes them."""
HEADS: tuple[tuple[str, Task, str], ...] = (
    ("FOR_SEQUENCE_CLASSIFICATION_", "labels", "AutoModelForSequenceClassification"),
    ("FOR_NEXT_SENTENCE_PREDICTION_", "labels", "AutoModelForNextSentencePrediction"),
    ("FOR_TOKEN_CLASSIFICATION_", "tokens", "AutoModelForTokenClassification"),
)
"""Tables of transformers for classes of classifiers, with the task and the automatic class of each table."""
NEXT_SENTENCE = ("the second text follows the first", "the second text is another one")
"""Labels of models for the prediction of the next sentence, by their ids."""
BY_HAND = (
    "load it with transformers, AutoModelForCausalLM.from_pretrained, and show it by attnviz.load(model, tokenizer)"
)
PACKED = "mxfp4"
"""Method of quantization for which transformers can unpack the weights on any device."""
LONGEST_CONFIG = 2_000_000
"""Largest size of a config.json, in bytes."""
MOST = {"layers": 1_000, "heads": 4_096, "experts": 4_096, "labels": 100_000}
"""Largest numbers of parts of a model. The limit for all other integers is `LARGEST`, or `ROTATION` for the base of
rotary positions."""
LARGEST, ROTATION = 2**31, 10**15
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
    """Read the configuration of a folder, and check that its numbers are plausible.

    Raises:
        InputError: if a number is too large, or if transformers cannot load the model as it is stored.
        AttnvizError: if the file is damaged.
    """
    from transformers import CONFIG_MAPPING, AutoConfig

    settings = _settings(folder / files.CONFIG, f"config.json of {faults.name(name)}")
    kind = settings["model_type"]
    if "quantization_config" in settings and not is_packed(settings):
        raise InputError(f"{faults.name(name)} is quantized; {BY_HAND}, or choose the original.")
    if kind not in CONFIG_MAPPING:
        own = " It would need code of its own, which attnviz does not run." if "auto_map" in settings else ""
        raise InputError(f"{faults.name(name)} is a {faults.name(kind)}, which transformers does not know.{own}")
    try:
        return AutoConfig.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
    except Exception as error:  # wrong settings raise any type of error
        raise AttnvizError(f"config.json of {faults.name(name)} does not fit a {kind}: {faults.first(error)}") from None


def _settings(path: Path, what: str) -> dict[str, Any]:
    """Read the settings of a config.json, and check each number; see `configuration`."""
    try:
        if path.stat().st_size > LONGEST_CONFIG:
            raise InputError(f"{what} has {size(path.stat().st_size)}; {size(LONGEST_CONFIG)} is the most.")
        settings = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(settings, dict) or not isinstance(settings.get("model_type"), str):
            raise InputError(f"{what} does not name its model_type: it is not a model of transformers.")
        listed = settings.get("architectures")
        if not (listed is None or (isinstance(listed, list) and all(isinstance(name, str) for name in listed))):
            raise InputError(f"{what} says 'architectures': {quoted(listed)}; it must be a list of names of classes.")
        for key, number in _numbers(settings):
            most = MOST.get(_counted_part(key), ROTATION if "theta" in key else LARGEST)
            if abs(number) > most:
                raise InputError(f"{what} says {quoted(key)}: {quoted(number)}; the most is {most}. It is not built.")
    except InputError:
        raise
    except (OSError, ValueError, RecursionError):
        raise AttnvizError(f"{what} is missing or damaged; fetch it again.") from None
    return settings


def layers(config: Any) -> int:
    """Largest number of layers in a configuration; 0 if it states none."""
    return max((number for key, number in _numbers(config.to_dict()) if _counted_part(key) == "layers"), default=0)


def is_packed(settings: dict[str, Any]) -> bool:
    """Whether a configuration is for weights of 4 bits that are unpacked when they are loaded, as those of GPT-OSS."""
    quantization = settings.get("quantization_config")
    return isinstance(quantization, dict) and quantization.get("quant_method") == PACKED


def _counted_part(key: str) -> str:
    """Key of `MOST` for a setting: "layers" of n_layer, encoder_layers, num_hidden_layers; "" if it counts none."""
    words = {*key.lower().split("_")}
    if "window" in words:  # max_window_layers of Qwen may exceed the number of layers
        return ""
    return next((part for part in MOST if words & {part, part[:-1]} and words & {"num", "n", part}), "")


def _numbers(value: Any, key: str = "") -> Iterator[tuple[str, int]]:
    """Iterate over all integers in a configuration, each with its key."""
    if isinstance(value, dict | list):
        for inner, item in value.items() if isinstance(value, dict) else ((key, item) for item in value):
            yield from _numbers(item, str(inner))
    elif isinstance(value, int) and not isinstance(value, bool):
        yield key, value


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
    if _class_name(config).endswith("ForNextSentencePrediction"):
        return NEXT_SENTENCE
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
    if _has_encoder_and_decoder(config) and auto is transformers.AutoModel:
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


def _has_encoder_and_decoder(config: Any) -> bool:
    """Whether a model has an encoder and a decoder."""
    return bool(getattr(config, "is_encoder_decoder", False))


def _task(config: Any, pooled: bool) -> tuple[Task | None, Any]:
    """Task of a model, and the automatic class for this task; both are None if the model does not read text.

    Args:
        pooled: whether the folder of the model states the pooling of token vectors.
    """
    import transformers
    from transformers.models.auto import modeling_auto as names

    class_name, kind, among = _class_name(config), config.model_type, partial(_is_listed, config)
    fills = kind in names.MODEL_FOR_MASKED_LM_MAPPING_NAMES and class_name.endswith("ForPreTraining")
    fills = fills and kind not in ("electra", "funnel")  # these were trained to detect replaced tokens
    if has_senses(config):
        reads = among("FOR_IMAGE_TEXT_TO_TEXT_") and not _has_encoder_and_decoder(config)
        return ("next", transformers.AutoModelForImageTextToText) if reads else (None, None)
    if pooled:
        encodes = kind in names.MODEL_FOR_TEXT_ENCODING_MAPPING_NAMES
        return "vectors", transformers.AutoModelForTextEncoding if encodes else transformers.AutoModel
    for table, task, auto in HEADS:
        if among(table):
            return task, getattr(transformers, auto)
    if _has_encoder_and_decoder(config) and (among("FOR_SEQ_TO_SEQ_CAUSAL_LM_") or among("")):
        return "write", transformers.AutoModelForSeq2SeqLM
    if among("FOR_CAUSAL_LM_"):
        return "next", transformers.AutoModelForCausalLM
    if among("FOR_MASKED_LM_") or fills:
        return "fill", transformers.AutoModelForMaskedLM
    if among("FOR_TEXT_ENCODING_"):
        return "vectors", transformers.AutoModelForTextEncoding
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
        return "write" if _has_encoder_and_decoder(config) else "next"
    return task or "states"


def _reads_text(model: type) -> bool:
    """Whether the main input of a model's class is token ids."""
    from transformers import PreTrainedModel

    of_text = issubclass(model, PreTrainedModel) and model.main_input_name == "input_ids"
    return of_text and "input_ids" in signature(model.forward).parameters


def _tokenizer(folder: Path, name: str) -> Any:
    """Load the tokenizer of a folder with transformers, fast or written in Python, and try it on a text."""
    import transformers

    files_there, who, broken = {path.name for path in folder.iterdir()}, faults.name(name), ""
    if not files_there & files.TOKENIZER:
        raise InputError(f"{who} has no tokenizer. {ADD_TOKENIZER}")
    try:
        settings = json.loads((folder / files.TOKENIZER_CONFIG).read_text(encoding="utf-8"))
        kind = getattr(transformers, settings["tokenizer_class"], None)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        kind = None
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        kind = type(tokenizer)
        if not tokenizer("A test.")["input_ids"]:
            broken = "finds no token in 'A test.'; it is damaged."
    except BaseException as error:  # a tokenizer written in Rust panics past Exception
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        broken = f"cannot be used: {faults.first(error)}"
    if missing := _missing_file(kind, files_there):
        raise InputError(f"{who} has no tokenizer: a {kind.__name__} needs {missing}. {ADD_TOKENIZER}")
    if broken:
        raise AttnvizError(f"The tokenizer of {who} {broken}")
    return tokenizer


def _missing_file(kind: Any, files_there: set[str]) -> str:
    """Missing file without which transformers would make an empty vocabulary without an error; "" if there is none."""
    if kind is None or files.FAST in files_there:
        return ""
    needed = {*kind.vocab_files_names.values()} & files.VOCABULARIES
    if needed and not files_there & (needed | files.SENTENCEPIECE):
        return " or ".join(sorted(needed))
    both = files.MERGES in needed and not files_there & files.SENTENCEPIECE
    return files.MERGES if both and files.MERGES not in files_there else ""
