"""Main functions of attnviz, which the app, the shell and notebooks share."""

import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnviz import sources
from attnviz.core import assets
from attnviz.core.edits import Edits
from attnviz.core.errors import AttnvizError, InputError, did_you_mean, quoted
from attnviz.core.parameters import parameters
from attnviz.core.record import Record, not_finite
from attnviz.core.request import Request
from attnviz.models import trained
from attnviz.sources import base
from attnviz.sources.base import Source
from attnviz.tokenizers import vocabulary

if TYPE_CHECKING:
    from attnviz.export.explore import Page

for _module in pkgutil.iter_modules(sources.__path__):
    import_module(f"{sources.__name__}.{_module.name}")

_pictures_last = sorted(base.CLASSES.items(), key=lambda item: item[1].reads == "picture")
SOURCES = dict(sorted(_pictures_last, key=lambda item: base.PROVENANCES.index(item[1].provenance)))
"""Source classes included in attnviz, by name, in the order of provenances; the app opens with the first one."""

DEFAULT = next(iter(SOURCES))

EXAMPLES = {
    path.stem.replace("-", " "): path
    for folder, ending in (("pictures", "*.*g"), ("sounds", "*.wav"))
    for path in sorted(assets.path(folder).glob(ending))
}
"""Included pictures and sounds, by name."""

OFFERED: dict[str, Source] = {}
"""Sources of this process that `offer` added, by name."""


def offer(source: Source) -> str:
    """Register a source of this process, so that `load` and the app find it by its name; return the name.

    A source with the same name is replaced.

    Raises:
        InputError: if an included model has the name.
    """
    if source.id in SOURCES:
        raise InputError(f"A model that ships with attnviz is called '{source.id}'; give yours another name.")
    OFFERED[source.id] = source
    return source.id


def load(
    name: Any = DEFAULT,
    tokenizer: Any = None,
    *,
    report: Callable[[Any], bool | None] | None = None,
    **settings: object,
) -> Source:
    """Load a source by name: one of `SOURCES` or `OFFERED`, or a model of Hugging Face by its Hub name or folder.

    A model of transformers that is loaded already also becomes a source, with its tokenizer. It may be quantized, in
    half precision, on several devices, with PEFT adapters or remote code; it is not changed.

    Args:
        name: a name, a folder, or a loaded model.
        tokenizer: tokenizer of a loaded model, or its processor if it also reads pictures; for "scratch", a name.
        report: callback with a `sources.huggingface.hub.DownloadProgress`, often during a download (return False to
            cancel it), once when the weights are read, and once when the model is tested.
        settings: `step` (training step) of a trained model; `num_heads`, `seed` and the other fields of
            `sources.scratch.Scratch` for "scratch"; `chat` and `system` of a model of Hugging Face; `title` and
            `adapters` (False: without PEFT adapters) of a loaded model.

    Raises:
        InputError: if there is no such source or setting; the message lists them.
        AttnvizError: if a file of an included model is missing or damaged, or a model of Hugging Face cannot be loaded,
            with the reason.
    """
    if not isinstance(name, str):
        from attnviz.sources.huggingface.models import of_model

        return of_model(name, tokenizer, **settings)
    if tokenizer is not None:  # "scratch" has a setting with this name
        settings["tokenizer"] = tokenizer
    if name in tuple(OFFERED) and not settings:
        return OFFERED[name].current()
    if name not in tuple(SOURCES):
        return _huggingface(name, report, settings)
    options = SOURCES[name].settings()
    if unknown := [setting for setting in settings if setting not in options]:
        hint = f"It has: {', '.join(options)}." if options else "It has none."
        raise InputError(f"The source '{name}' has no setting {quoted(unknown[0])}. {hint}")
    return SOURCES[name].named(name, **settings)


def named_model(text: str) -> tuple[str, dict[str, Any]]:
    """Read the name and settings of a model from a link: "scratch:d_model=32,positions=false"."""
    name, _, settings = text.partition(":")
    if name not in SOURCES:
        return text, {}
    declared = {parameter.name: parameter for parameter in parameters(SOURCES[name])}
    values: dict[str, Any] = {}
    for setting in filter(None, settings.split(",")):
        key, _, value = setting.partition("=")
        if key not in declared:
            raise InputError(f"The model {name} has no {key!r}. It has {', '.join(declared) or 'no settings'}.")
        values[key] = value
        if declared[key].kind == "flag":
            values[key] = value == "true"
        elif declared[key].kind == "number" and value.isdecimal():  # the source refuses any other text
            values[key] = int(value)
    return name, values


def model_text(name: str, values: dict[str, Any]) -> str:
    """Write the name and settings of a model for a link, without settings that have their default."""
    defaults = {parameter.name: parameter.default for parameter in parameters(SOURCES[name])}
    settings = [f"{key}={str(value).lower()}" for key, value in values.items() if value != defaults[key]]
    return f"{name}:{','.join(settings)}" if settings else name


def is_named(source: Source) -> bool:
    """Whether `load` finds a source by name in any process: an included model, or a model of Hugging Face."""
    is_included = type(source) is SOURCES.get(source.id)
    return is_included or (source.facts is not None and source.provenance in base.HUGGING_FACE)


def changed_settings(source: Source) -> dict[str, Any]:
    """Collect the settings of a source that differ from the defaults of `load`; none if `load` cannot find it."""
    if not is_named(source):
        return {}
    default = load(source.id)
    settings = {name: getattr(source, name) for name in type(source).settings()}
    return {name: value for name, value in settings.items() if value != getattr(default, name)}


def _huggingface(name: str, report: Callable[[Any], bool | None] | None, settings: dict[str, object]) -> Source:
    """Load a model of Hugging Face by its name or folder; an error for a name also lists the included models."""
    from attnviz.sources.huggingface.hub import Canceled, is_path
    from attnviz.sources.huggingface.models import by_name
    from attnviz.sources.huggingface.source import HuggingFace

    if unknown := [setting for setting in settings if setting not in HuggingFace.settings()]:
        available = ", ".join(HuggingFace.settings())
        raise InputError(f"A model of Hugging Face has no setting {quoted(unknown[0])}; it has: {available}.")
    try:
        return by_name(name, *([report] if report else []), **settings)
    except Canceled:
        raise
    except AttnvizError as error:
        if is_path(name):
            raise
        included, hint = f"The models that ship with attnviz are: {', '.join(SOURCES)}.", did_you_mean(name, SOURCES)
        message = f"There is no model {quoted(name)}.{hint} {included} {error}" if hint else f"{error} {included}"
        raise type(error)(message) from None


def analyze(
    text: str | Request | Sequence[str | Request],
    source: Source | str = DEFAULT,
    edits: Edits = Edits(),
    *,
    target: str | Sequence[str] | None = None,
    continued: Sequence[int] = (),
    stream: bool = False,
    **settings: object,
) -> Record:
    """Tokenize a text, or several texts as one padded batch, and run a source on them.

    Args:
        text: a text, which may have line breaks, or a list of texts; or a `Request`, such as from `attnviz.picture`.
        source: a source, or the name of a source to load with `settings`.
        edits: changes to the attention.
        target: decoder input of an encoder-decoder instead of its own output, such as the user's translation, without a
            start token; for several texts, a list.
        continued: ids of an answer after the text, such as from `attnviz.generate`.
        stream: whether to record what each part adds to the residual stream, for `attnviz.analysis.contributions`;
            needs a second forward pass.

    Raises:
        InputError: if a text has no tokens, a `target` is given for a model without decoder input, an answer for a
            model that continues no text or for several texts, or the edits name a head that the source does not have.
    """
    request = Request.of(text)
    targets = request.targets if target is None else Request.of(target).texts
    edits = request.edits if edits == Edits() else edits
    request = replace(request, targets=targets, answer=tuple(continued) or request.answer, edits=edits)
    if isinstance(source, str):
        source = load(source, **settings)
    elif settings:
        raise InputError(f"The setting '{next(iter(settings))}' needs the name of a source, not a source.")
    _check_heads(source, request.edits)
    record = source.analyze(request)
    if sentence := not_finite(record):
        record = replace(record, findings=(*record.findings, sentence))
    return source.with_stream(record) if stream else record


LIVE = {
    "story": "the girl near the dogs was happy because",
    "translator": "the black cat sleeps on the red chair .",
    "induction": "red sun cold milk then red sun",
}
"""Included models that can run in a page, with the initial text."""


def live(model: str | Path = "story", text: str | None = None) -> "Page":
    """Make a page that runs a small model in any browser: `attnviz.export.explore.live_page`.

    Args:
        model: one of `LIVE`, or a folder with your own model of `attnviz.models`: weights in safetensors (of several
            files, the last by name), and its input and output words in `vocabulary.json`.
        text: initial text; by default, for your own model, a few of its words.

    Raises:
        AttnvizError: if there is no such model, or it cannot be read.
    """
    from attnviz.charts.theme import CAUTIONS  # imports Altair
    from attnviz.export.explore import live_page

    folder = trained.folder(model) if model in LIVE else Path(model)
    files = sorted(folder.glob(f"*{trained.ENDING}"))
    if not files:
        hint = did_you_mean(str(model), LIVE) or f" Choose {', '.join(LIVE)}, or a folder with a model of your own."
        raise InputError(f"There is no {quoted(str(model))} that runs in a page.{hint}")
    vocabularies = [*vocabulary.read(folder / "vocabulary.json").values()]  # of the input, and of a translation
    if text is None:
        text = LIVE.get(str(model), " ".join(vocabularies[0].words[:6]))
    return live_page(
        files[-1].read_bytes(),
        vocabularies[0].names,
        text,
        writes=vocabularies[1].names if len(vocabularies) > 1 else (),
        name=folder.name,
        about=[CAUTIONS["trained here"]] if model in LIVE else [],
    )


def _check_heads(source: Source, edits: Edits) -> None:
    """Raise InputError if the edits switch off a head that the source does not have."""
    for site, head in sorted(edits.heads_off):
        if site not in source.sites:
            raise InputError(f"'{source.name}' has no {site}. It has: {', '.join(map(str, source.sites))}.")
        if head >= source.heads[site]:
            raise InputError(f"There is no {site.head(head)}; there are {source.heads[site]}, counted from 0.")
