"""Use cases of attnviz: the app, the shell and notebooks call the same functions."""

import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnviz import sources
from attnviz.core.edits import Edits
from attnviz.core.errors import AttnvizError, InputError, did_you_mean, quoted
from attnviz.core.finite import not_finite
from attnviz.core.record import Record
from attnviz.core.request import Request
from attnviz.core.tokens import Sentence
from attnviz.models import trained
from attnviz.sources import base
from attnviz.sources.base import Source
from attnviz.tokenizers import vocabulary

if TYPE_CHECKING:
    from attnviz.export.explore import Page

for _module in pkgutil.iter_modules(sources.__path__):
    import_module(f"{sources.__name__}.{_module.name}")

SOURCES = dict(
    sorted(
        base.CLASSES.items(), key=lambda item: (base.PROVENANCES.index(item[1].provenance), item[1].reads == "picture")
    )
)
"""Sources that ship with attnviz, by name; the app opens with the first."""

DEFAULT = next(iter(SOURCES))

OFFERED: dict[str, Source] = {}
"""Sources of this process that `offer` put beside these, by their names."""


def offer(source: Source) -> str:
    """Let a source of this process be loaded by its name, and so be chosen in the app; gives that name.

    An older one of that name gives way.

    Raises:
        InputError: if a model that ships with attnviz has that name.
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
    """The source of that name: one of `SOURCES` or `OFFERED`, or a model of Hugging Face by its Hub name or its folder.

    Or the source of a model of transformers that you loaded yourself, with its tokenizer: quantized, with adapters of
    PEFT, on several devices, in half precision or of remote code. It is run as it is, and is afterwards as it was.

    Args:
        name: a name, a folder, or a loaded model.
        tokenizer: of a loaded model, or the processor of one that reads pictures, too; or a name, of "scratch".
        report: called with the `sources.huggingface.hub.DownloadProgress` of a download, which False ends; and
            then once when the weights are read and once when the model is tried.
        settings: `step` of a trained model (after which step of its training); `num_heads`, `seed` and the other fields
            of `sources.scratch.Scratch` for "scratch"; `chat` and `system` of a model of Hugging Face;
            `title` and `adapters` (False: without those of PEFT) of a loaded one.

    Raises:
        InputError: names the sources, or the settings, that there are.
        AttnvizError: names the file if one that ships with attnviz is missing or damaged; says why a model of Hugging
            Face cannot be loaded.
    """
    if not isinstance(name, str):
        from attnviz.sources.huggingface.loaded_model import source_of

        return source_of(name, tokenizer, **settings)
    if tokenizer is not None:  # a setting of random weights is called so, too
        settings["tokenizer"] = tokenizer
    if name in tuple(OFFERED) and not settings:
        return OFFERED[name].current()
    if name not in tuple(SOURCES):
        return _huggingface(name, report, settings)
    options = SOURCES[name].settings()
    if unknown := [setting for setting in settings if setting not in options]:
        has = f"It has: {', '.join(options)}." if options else "It has none."
        raise InputError(f"The source '{name}' has no setting {quoted(unknown[0])}. {has}")
    return SOURCES[name].named(name, **settings)


def is_named(source: Source) -> bool:
    """Whether `load` makes a source by its name in any process: one that ships with attnviz, or one of Hugging Face."""
    return type(source) is SOURCES.get(source.id) or bool(source.facts and source.provenance in base.HUGGING_FACE)


def chosen(source: Source) -> dict[str, Any]:
    """Settings of a source that differ from those that `load` gives by its name."""
    if not is_named(source):
        return {}
    plain = load(source.id)
    settings = {name: getattr(source, name) for name in type(source).settings()}
    return {name: value for name, value in settings.items() if value != getattr(plain, name)}


def _huggingface(name: str, report: Callable[[Any], bool | None] | None, settings: dict[str, object]) -> Source:
    from attnviz.sources.huggingface.hub import Canceled, is_path
    from attnviz.sources.huggingface.sense_models import fetch
    from attnviz.sources.huggingface.source import HuggingFace

    if unknown := [setting for setting in settings if setting not in HuggingFace.settings()]:
        has = ", ".join(HuggingFace.settings())
        raise InputError(f"A model of Hugging Face has no setting {quoted(unknown[0])}; it has: {has}.")
    try:
        return fetch(name, *([report] if report else []), **settings)
    except Canceled:
        raise
    except AttnvizError as error:
        if is_path(name):
            raise
        near, ship = did_you_mean(name, SOURCES), f"The models that ship with attnviz are: {', '.join(SOURCES)}."
        message = f"There is no model {quoted(name)}.{near} {ship} {error}" if near else f"{error} {ship}"
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
    """Cut a text, or several as one padded batch, into tokens and run a source on them.

    Args:
        text: one, line breaks and all, or a list of several; or a `Request`, such as `attnviz.picture` gives.
        source: a source, or the name of one to load with `settings`.
        edits: what to change about the attention.
        target: of an encoder-decoder, what its decoder reads instead of what it writes: a translation of one's own,
            without a start token; of several texts a list.
        continued: ids of the answer that stands behind the text, such as those of `attnviz.generate`.
        stream: whether to keep what is written into the residual stream, too: it costs a second run. It is what
            `attnviz.analysis.contributions` needs.

    Raises:
        InputError: if a text has no tokens, there is a `target` for a model that writes no other text, an answer of a
            model that continues none or to several texts, or the edits name a head that the source does not have.
    """
    request = Request.of(text)
    targets = request.targets if target is None else Request.of(target).texts
    edits = request.edits if edits == Edits() else edits
    request = replace(request, targets=targets, answer=tuple(continued) or request.answer, edits=edits)
    if isinstance(source, str):
        source = load(source, **settings)
    elif settings:
        raise InputError(f"The setting '{next(iter(settings))}' comes too late: the source is made already.")
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
"""Models that ship and run in a page, each with the text with which it opens."""


def live(model: str | Path = "story", text: str | None = None) -> "Page":
    """Write a page that runs a small model in any browser: `attnviz.export.explore.live_page`.

    Args:
        model: one of `LIVE`, or a folder with the weights of your own model of `attnviz.models` in safetensors, of
            several files the last by name, and the words that it reads and writes in `vocabulary.json`.
        text: what stands in its box when the page opens; of your own model a few of its words if not given.

    Raises:
        AttnvizError: if there is no such model, or it cannot be read.
    """
    from attnviz.charts.theme import CAUTIONS  # draws, and so imports Altair
    from attnviz.export.explore import live_page

    folder = trained.folder(model) if model in LIVE else Path(model)
    files = sorted(folder.glob(f"*{trained.ENDING}"))
    if not files:
        hint = did_you_mean(str(model), LIVE) or f" Choose {', '.join(LIVE)}, or a folder with a model of your own."
        raise InputError(f"There is no {quoted(str(model))} that runs in a page.{hint}")
    reads, *writes = vocabulary.read(folder / "vocabulary.json").values()
    return live_page(
        files[-1].read_bytes(),
        reads.names,
        LIVE.get(str(model), " ".join(reads.words[:6])) if text is None else text,
        writes=writes[0].names if writes else (),
        name=folder.name,
        about=[CAUTIONS["trained here"]] if model in LIVE else [],
    )


def predicted(sentence: Sentence) -> list[str]:
    """The token that each position predicts, as in a decoder: the next one, ``<eos>`` after the last, then padding."""
    labels = sentence.labels
    return [*labels[1 : sentence.length], "<eos>", *labels[sentence.length :]]


def _check_heads(source: Source, edits: Edits) -> None:
    for site, head in sorted(edits.heads_off):
        if site not in source.sites:
            raise InputError(f"'{source.name}' has no {site}. It has: {', '.join(map(str, source.sites))}.")
        if head >= source.num_heads:
            raise InputError(f"There is no {site.head(head)}; there are {source.num_heads}, counted from 0.")
