"""The menu Export: Python that makes a picture, and all pictures with the run in one file."""

import io
import zipfile
from functools import cache as once

import numpy as np
import pytest
from test_app import choices, opened

import attnviz
from attnviz import cases, figures, link
from attnviz.analysis.align import Side, beside
from attnviz.analysis.views import View
from attnviz.core.edits import Edits, Site
from attnviz.core.masks import Padding, Painted, Subsequent, Window
from attnviz.core.request import Request
from attnviz.sources.base import Source
from attnviz.studies import gradients
from attnviz.ui import cache, export_menu, pictures, snippet

TEXT = "The cat sat on 'the' mat because it was \"tired\"."
D0, D1 = Site("decoder", 0), Site("decoder", 1)
EDITS = (
    Edits(),
    Edits(mask=Subsequent() & ~Window(1) | Painted(((0, 1), (2, 3)))),
    Edits(mask=Padding((6,)), heads_off={(D0, 1), (D1, 0)}, temperature=0.5, empty_rows="uniform", own_mask=False),
)


def run(edits: Edits = Edits(), model: str = "story", *, source: Source | None = None, **request):
    return cache.record(source or attnviz.load(model), Request(**{"texts": (TEXT,), "edits": edits} | request))


@once
def every() -> dict[str, figures.Figure]:
    """Figures as pages make them."""
    plain, masked, off = map(run, EDITS)
    streamed = cache.with_stream(attnviz.load("story"), plain)
    shapes, words = attnviz.load("shapes"), ("une fille",)
    seen = cache.record(shapes, pictures.with_picture(shapes, Request(("",))))
    early = run(texts=("a girl",), source=attnviz.load("translator", step=0))
    sides = [Side(record, D1, 1) for record in (plain, run(texts=(TEXT.replace("cat", "dog"),)))]
    return {
        "map": figures.head(masked, D1, 1, before=plain, dark=True, selected=(2, 1), cost=None),
        "mean": figures.head(off, D1, "mean", view=View(words=True)),
        "lines": figures.lines(plain, D1, (0, 1), least=0.1, pins=frozenset({("query", 2)})),
        "text": figures.text_strip(off, D0, 0, chosen=3, side="to"),
        "thumbnails": figures.heads(masked, D0, paired=True),
        "words": figures.next_word(off, 3, before=plain),
        "contributions": figures.contributions(streamed, None, 3, minus="the"),
        "difference": figures.difference(beside(*sides), selected=(1, 0)),
        "answer": figures.head(run(answer=(5, 6, 7)), D1, 0),
        "target": figures.head(run(model="translator", texts=("a girl",), targets=words), Site("cross", 0), 1),
        "step": figures.head(early, Site("encoder", 0), 0),
        "picture": figures.patches(seen, seen.sites[0], 1),
    }


NAMES = "map mean lines text thumbnails words contributions difference answer target step picture".split()


@pytest.mark.parametrize("name", NAMES)
def test_python_of_a_picture_makes_just_that_picture(name, tmp_path, monkeypatch):
    """As it is copied: executed, it writes the same file that the menu saves."""
    monkeypatch.chdir(tmp_path)
    figure, scope = every()[name], {}
    exec(snippet.python(figure), scope)

    assert scope["figure"].title == figure.title
    for key, array in figure.arrays.items():
        np.testing.assert_array_equal(scope["figure"].arrays[key], array)
    assert (tmp_path / f"{figure.name}.svg").read_bytes() == attnviz.render(figure, "svg")


def test_a_picture_that_no_line_makes_has_no_python():
    """Gradients, which take a study of their own, and gray patches, whose pixels are in no file."""
    story, plain = attnviz.load("story"), run()
    of_gradients = figures.integrated_gradients(plain, gradients.integrated(story, plain, steps=2))
    shapes = attnviz.load("shapes")
    request = pictures.with_picture(shapes, Request(("",)))
    grayed = request.pictures[0][0].grayed([cache.sentences(shapes, request)[0].tokens[1].box])
    record = cache.record(shapes, Request(("",), pictures=((grayed,),)))

    assert snippet.python(of_gradients) == ""
    assert snippet.python(figures.heads(record, record.sites[0])) == ""


def test_the_archive_of_a_page_holds_its_pictures_and_the_run_that_opens_where_it_was(monkeypatch):
    made = {}

    def download(title, contents, file, mime, **options):
        made[title] = contents()

    app = opened(model="story", layer="d1", head="1", heads_off="d1.0", cell="3.1", text="the dog sat down")
    monkeypatch.setattr(export_menu.st, "download_button", download)
    app.session_state["export heads"] = True
    app.run()
    assert not app.exception
    python = next(block.value for block in app.code if block.language == "python")
    assert 'heads_off={(Site("decoder", 1), 0)}' in python

    with zipfile.ZipFile(io.BytesIO(made["All in one ZIP"])) as archive:
        names = archive.namelist()
        saved = cases.source("case.attn", archive.read("case.attn"))
        page = archive.read("every-head.html")
    assert sum(name.endswith(".svg") for name in names) == 2 + len(saved.record.sites)  # the page shows one of these
    assert page == made["Page to explore"]
    assert saved.record.edits.heads_off == {(D1, 0)}
    view, complaints = link.read(cases.state_of(saved))
    assert complaints == ()
    before = choices(app)
    assert all(view[name] == before[name] for name in ("layer", "head", "cell"))
