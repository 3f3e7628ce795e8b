"""All heads on the picture: each a small one, with a tint where one position looks."""

import base64
import io
import itertools

import numpy as np
import pytest
from pictures import data
from PIL import Image
from seeing import PICTURE, Sees, seen_by

import attnviz
from attnviz import figures
from attnviz.charts import pixels
from attnviz.charts.theme import TINT
from attnviz.core.edits import Site

SITE, CHOSEN = Site("encoder", 0), 8


@pytest.fixture(scope="module")
def record():
    """Of a picture of 3 x 5 patches, with one position before them."""
    return seen_by(Sees(), PICTURE).record(places=(3, 5), image=PICTURE)


def test_each_thumbnail_has_the_more_tint_the_more_attention_a_patch_gets(record):
    """In the order of the weights, patch by patch: as a share of the way from the picture to the tint there."""
    figure = figures.overlays(record, SITE, chosen=CHOSEN)
    layout = figure.mosaic.layout
    whole = Image.fromarray((PICTURE.permute(1, 2, 0).numpy() * 255).astype(np.uint8))
    whole, tint = np.asarray(whole.resize((layout.side, layout.height)), float), pixels.rgb(TINT)
    for head, row in enumerate(data(figure.chart, "heads")):
        image = Image.open(io.BytesIO(base64.b64decode(row["uri"].partition(",")[2])))
        assert image.size == (layout.side, layout.height)
        shown, weights = (
            np.abs(np.asarray(image, float) - whole).sum(-1) / np.abs(tint - whole).sum(-1),
            record.step(SITE).weights(head)[CHOSEN, 1:].numpy(),
        )
        rows, columns = (
            np.linspace(0, side, count + 1).astype(int) for side, count in zip(shown.shape, (3, 5), strict=True)
        )
        parts = [
            shown[a + 2 : b - 2, c + 2 : d - 2].mean()
            for a, b in itertools.pairwise(rows)
            for c, d in itertools.pairwise(columns)
        ]
        clear = [(i, j) for i in range(15) for j in range(15) if weights[i] > weights[j] + 0.3 * weights.max()]
        assert clear
        assert all(parts[i] > parts[j] for i, j in clear)


def test_a_click_on_a_thumbnail_selects_its_head(record):
    rows = data(figures.overlays(record, SITE, chosen=CHOSEN).chart, "heads")

    assert [(row["kind"], row["layer"], row["head"]) for row in rows] == [("encoder", 0, head) for head in range(3)]


@pytest.mark.parametrize("format", ["png", "svg", "pdf", "html", "json", "npz", "csv"])
def test_they_are_exported_in_every_format(record, format):
    assert attnviz.render(figures.overlays(record, SITE, chosen=CHOSEN, dark=True), format)
