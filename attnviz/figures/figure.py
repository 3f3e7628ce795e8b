"""Names, titles and arrays that figures of records share."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from attnviz.analysis.sentences import quoted, quoted_token
from attnviz.analysis.views import View
from attnviz.charts.style import Style
from attnviz.charts.theme import CAUTIONS
from attnviz.core.amounts import digits
from attnviz.core.display import file_stem, visible_text, without_surrogates
from attnviz.core.edits import Edits, Site
from attnviz.core.record import Record


def text_array(texts: Sequence[str]) -> np.ndarray:
    """Texts as NumPy can hold them: it takes a null at the end of one for padding."""
    return np.array([without_surrogates(text).replace("\0", "␀") for text in texts], dtype=np.str_)


def number_arrays(table: pd.DataFrame) -> dict[str, np.ndarray]:
    """The columns of numbers of a table."""
    numbers = table.select_dtypes("number")
    return {name: column.to_numpy(dtype=float, na_value=float("nan")) for name, column in numbers.items()}


MOST_NAMED = 3
"""Rows of a table named in words, at most."""


def largest(table: pd.DataFrame) -> str:
    """The rows whose last number is largest, as a sentence."""
    column = [*table.select_dtypes("number")][-1]
    rows = table.dropna(subset=column).sort_values(column, key=abs, ascending=False, kind="stable")[:MOST_NAMED]
    named = []
    for row in rows.to_dict("records"):
        number = digits(row.pop(column))
        columns = {"query": "query_token", "key": "key_token", "position": "token"}
        tokens = {name: row.pop(token) for name, token in columns.items() if {name, token} <= {*row}}
        is_head = {"kind", "layer", "head"} <= {*row}
        head = [Site(row.pop("kind"), row.pop("layer")).head(row.pop("head"))] if is_head else []
        places = (f"{name.replace('_', ' ')} {_called(value, tokens.get(name))}" for name, value in row.items())
        named.append(f"{number} ({', '.join([*head, *places])})")
    return f"Largest {column.replace('_', ' ')}: {', '.join(named)}." if named else "It has no numbers."


def _called(place: object, token: str | None) -> str:
    """A text in quotes; a position with the token that stands there."""
    if token is not None:
        return quoted_token(token, place)
    return quoted(place) if isinstance(place, str) else str(place)


def stem(record: Record, *what: object, sentence: int = 0, view: View = View()) -> str:
    """The name of a figure of a record: its source, what is shown, its text, and what was changed."""
    text = record.sentences[sentence].text
    return file_stem(record.source, *what, text, end=edited(record.edits, view))


def edited(edits: Edits, view: View = View()) -> str:
    """Edits and view in short, for a file's name: "causal off 0.2 temperature 0.5"."""
    places = ((site.layer if site.kind == "encoder" else site, head) for site, head in sorted(edits.heads_off))
    parts = [] if edits.own_mask else ["no own mask"]
    parts += [] if edits.mask is None else [str(edits.mask)]
    parts += ["off " + " ".join(f"{place}.{head}" for place, head in places)] if edits.heads_off else []
    parts += [f"take {str(take).removesuffix(f'-{take.text}')}" for take in edits.taken]
    parts += [f"{what.removesuffix(' rows')} {value}" for what, value in edits.phrases()]
    return " ".join([*parts, *filter(None, [view.in_short()])])


def titled(title: str, record: Record) -> str:
    return " · ".join(part for part in (title, *subtitles(record)) if part)


LONGEST_TEXT = 160
"""Code points of a text under a title."""


def subtitles(record: Record, style: Style = Style(), sentence: int | None = None) -> list[str]:
    """Origin of the weights, and edits; a screen says that elsewhere.

    Args:
        sentence: whose text is said, too, where nothing else of the picture does.
    """
    changed = () if style.on_screen else record.edits.in_words()
    precision = f"kept as {record.precision}" if record.precision else ""
    text = "" if sentence is None or style.on_screen else record.sentences[sentence].text
    read = f"text: “{visible_text(text, LONGEST_TEXT).replace('␣', ' ')}”" if text else ""
    return [CAUTIONS.get(record.provenance, ""), precision, f"changed: {', '.join(changed)}" if changed else "", read]
