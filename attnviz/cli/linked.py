"""`attnviz export LINK`: the command that makes the picture of a link copied from the app."""

from collections.abc import Callable, Iterator, Sequence
from urllib.parse import parse_qs, urlsplit

from attnviz.core.errors import InputError, quoted
from attnviz.ui.compare.other import B
from attnviz.ui.heads.forms import ALSO, FORM, LEAST_DRAWN, LESS, SIDE
from attnviz.ui.settings import LINKED
from attnviz.ui.shared import answer, edits, look, parameters, photos, pretrained
from attnviz.ui.shared.examples import LINES, TEXT, by_line, of_model
from attnviz.ui.shared.mask import MASK
from attnviz.ui.shared.pretrained import MODEL
from attnviz.ui.shared.setting import PROBLEMS, State
from attnviz.ui.shared.setting import read as read_link
from attnviz.ui.shared.target import TARGET

PAGES = {"": "export", "overview": "export --form overview", "masks": "export --form mask", "compare": "compare"}
"""Commands that draw the pictures of pages, by the path of the page."""


def arguments(link: str, more: Sequence[str], note: Callable[[str], None]) -> list[str]:
    """The command line that draws what a link shows.

    Args:
        link: an address of the app, or its end: "masks?model=story&mask=causal".
        more: options that were given beside the link; they win.
        note: is given what of the link could not be read.

    Raises:
        InputError: if the link is of a page without a picture of its own, or holds a change that the shell has not.
    """
    parts = urlsplit(link)
    page = parts.path.rsplit("/", 1)[-1]
    page = "" if page == "heads" else page
    command = PAGES.get(page)
    if command is None or not (parts.query or parts.netloc):
        pages = ", ".join(page or "heads" for page in PAGES)
        raise InputError(f"{quoted(link)} is no link to a page with one picture; those are: {pages}.")
    state = read_link(parse_qs(parts.query, keep_blank_values=True), LINKED)
    for problem in state[PROBLEMS]:
        note(problem)
    if state[edits.ADDED] != edits.ADDED.default:
        raise InputError("The shell adds no bias to scores: export this picture in the app.")
    if state[photos.GRAYED]:
        raise InputError("The shell makes no patches gray in a picture: export this picture in the app.")
    if state[LESS] == "neutral":
        raise InputError("The shell asks no neutral question: export this picture in the app.")
    from attnviz.cli import parser, values

    model, name = [*_model(state)], state[photos.PICTURE]
    source = values.source(parser.read(["tokens", "-", *model]))
    file = None if source.reads == "text" or name == photos.NONE else photos.file(source, name)
    text = next(iter(of_model(source).values())) if state[TEXT] is None else state[TEXT]
    pictures = [*_flags(picture=file)]
    if source.reads in ("picture", "sound"):
        text, pictures = str(file), []
    if file and page == "" and state[FORM] is None:
        pictures += _flags(form="picture")
    lines = ["--lines"] if by_line(state.put(LINES, state[LINES]), text) else []
    site = [] if state[look.SITE] is None else _flags(kind=state[look.SITE].kind, layer=state[look.SITE].layer)
    options = [*lines, *pictures, *model, *site, *_answer(state), *_edits(state), *_picture(state, page)]
    return [*command.split(), *options, *more, "--", text]


def _token(state: State) -> Iterator[str]:
    """The token whose attention a text or a picture shows, and whether it is that to it."""
    if state[FORM] not in ("text", "picture", None):
        return
    end = "query" if state[SIDE] == "from" else "key"
    picked = [position for axis, position in sorted(state[look.PINS]) if axis == end]
    if picked:
        yield from _flags(token=picked[0])
    if picked and end == "key":
        yield "--to"


def _flags(**options: object) -> list[str]:
    """Flags with their values; none for an option that is None."""
    pairs = ((name, value) for name, value in options.items() if value is not None)
    return [part for name, value in pairs for part in (f"--{name.replace('_', '-')}", str(value))]


def _model(state: State) -> Iterator[str]:
    name = state[pretrained.HF] if state[MODEL] == "huggingface" and state[pretrained.HF] else state[MODEL]
    yield from _flags(model=name, step=state[look.STEP])
    for setting in parameters.DECLARED:
        if setting in state.chosen and state[setting] != setting.default:
            yield from ("--set", f"{setting.name}={str(state[setting]).lower()}")


def _answer(state: State) -> Iterator[str]:
    if state[answer.CHAT]:
        yield from ("--chat", f"--system={state[answer.SYSTEM]}")
    yield from _flags(continued=answer.ANSWER.encode(state[answer.ANSWER]) or None)


def _edits(state: State) -> Iterator[str]:
    if state[MASK]:
        yield from _flags(mask=state[MASK].text)
    if state[edits.OFF]:
        yield from _flags(off=",".join(map(look.place_text, sorted(state[edits.OFF]))))
    if not state[edits.OWN_MASK]:
        yield "--no-own-mask"
    if state[edits.MASK_CROSS] is False:
        yield "--no-mask-cross"
    scores = state[edits.TUNED]
    yield from _flags(temperature=scores.temperature, score_scale=scores.scale, empty_rows=state[edits.EMPTY])


def _picture(state: State, page: str) -> Iterator[str]:
    yield from _flags(sentence=state[look.SENTENCE])
    yield from _flags(target=state[TARGET] or None)
    if page in ("", "compare"):
        cell = state[look.CELL]
        yield from _flags(head=state[look.SHOW], cell=cell and f"{cell[0]}.{cell[1]}")
    if page in ("", "overview"):
        yield from _flags(domain=look.DOMAINS[state[look.COLORS]])
    if page == "":
        view = state[look.VIEW]
        yield from _flags(special=view.special, pair=view.pair, parts=view.parts or None)
        yield from (flag for flag, is_set in (("--words", view.words), ("--sentences", view.sentences)) if is_set)
        beside = ",".join(map(str, state[ALSO])) or None
        is_lines = state[FORM] == "lines"
        form = {"form": state[FORM], "beside": beside if is_lines else None}
        yield from _flags(**form, least=state[LEAST_DRAWN] if is_lines else None)
        yield from _flags(less=state[LESS] if state[LESS] == "sinks" else None)
        yield from _token(state)
    if page == "compare" and (other := state[B]) and other.what != "untouched":
        name = {"sentence": "with_text"}.get(other.what, f"with_{other.what}")
        value = look.place_text(other.value) if isinstance(other.value, tuple) else other.value
        yield from _flags(**{name: photos.EXAMPLES.get(value, value)})
