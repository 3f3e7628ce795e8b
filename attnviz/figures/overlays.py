"""All heads of one attention call on a picture: each a small one, with a tint where one position looks."""

from dataclasses import KW_ONLY, dataclass
from functools import cached_property, partial

import numpy as np
from PIL import Image

from attnviz.charts import pixels
from attnviz.charts.mosaic import Head, Mosaic
from attnviz.charts.theme import TINT
from attnviz.core.errors import InputError
from attnviz.core.places import Box
from attnviz.core.record import Record
from attnviz.figures.heads import AllHeads
from attnviz.figures.patches import STRONGEST, UNREAD, Frame, PatchImage, frames_of, jpeg_uri


@dataclass(frozen=True, eq=False)
class AllOverlays(AllHeads):
    """Thumbnails of all heads of a site on the picture; a click selects one as in `AllHeads`.

    Attributes:
        chosen: position of the token whose attention is shown.
        side: "from" it, a query, or "to" it, a key.
        less, neutral: as of `PatchImage`.

    Raises:
        InputError: if the tokens at the other end stand in no picture.
    """

    _: KW_ONLY
    chosen: int
    side: str = "from"
    less: str = ""
    neutral: Record | None = None

    def __post_init__(self):
        if not self.frames:
            what = "keys" if self.side == "from" else "queries"
            raise InputError(f"The {what} of {self.site} stand in no picture, so that no patch of it can be bright.")

    @property
    def make(self) -> partial:
        names = ("sentence", "view", "domain", "chosen", "side", "less", "neutral")
        options = {name: getattr(self, name) for name in names}
        heads = range(self.attention_view.step.num_heads)
        images = {(self.site, head): PatchImage(self.record, self.site, head, **options) for head in heads}
        return partial(OverlayMosaic, images=images, frames=self.frames)

    @cached_property
    def frames(self) -> list[Frame]:
        """Places of the pictures that are looked at."""
        return frames_of(self.record.texts(self.site, sentence=self.sentence)[1 if self.side == "from" else 0])

    @property
    def ratio(self) -> float:
        wide, high = extent(self.frames)
        return high / wide


@dataclass(frozen=True, eq=False, kw_only=True)
class OverlayMosaic(Mosaic):
    """Thumbnails that are pictures under a tint, the stronger the larger the weight, as a share of each head's largest.

    Attributes:
        images: of each head the large picture.
        frames: places of the pictures.
    """

    images: dict[Head, PatchImage]
    frames: list[Frame]

    @property
    def _ramp(self) -> None:
        return None

    @cached_property
    def _picture(self) -> np.ndarray:
        """The pictures on a gray ground, (height, side, 3)."""
        picture = np.empty((self.layout.height, self.layout.side, 3))
        picture[:] = pixels.rgb(self.style.colors.blocked)
        for frame in self.frames:
            whole = picture[self._part(frame, Box(0, 0, 1, 1))]
            if frame.picture is not None and whole.size:
                whole[:] = Image.fromarray(frame.picture.pixels.numpy()).resize(whole.shape[1::-1])
        return picture

    def _part(self, frame: Frame, box: Box) -> tuple[slice, slice]:
        """Rows and columns of a rectangle of a picture."""
        wide, high = extent(self.frames)
        across, down = self.layout.side / wide, self.layout.height / high
        columns = (round((frame.x + end * frame.width) * across) for end in (box.left, box.right))
        rows = (round((frame.y + end * frame.height) * down) for end in (box.top, box.bottom))
        return slice(*rows), slice(*columns)

    def _uri(self, head: Head) -> str:
        gray, tint = (np.array(pixels.rgb(color), float) for color in (self.style.colors.blocked, TINT))
        shade, scale = self.images[head].shade, self.images[head].scale
        covers = np.where(shade.colored, STRONGEST * scale.shade(shade.weights), np.nan).tolist()
        cover_of = dict(zip([token.box for token in shade.ends[1].tokens], covers, strict=True))
        mixed = UNREAD * gray + (1 - UNREAD) * self._picture
        for frame in self.frames:
            for box in frame.boxes:
                place, cover = self._part(frame, box), cover_of.get(box, np.nan)
                mixed[place] = gray if np.isnan(cover) else (1 - cover) * self._picture[place] + cover * tint
        if self._is_off(head):
            mixed[:] = mixed.mean(-1, keepdims=True)
        return jpeg_uri(mixed.round().astype(np.uint8))


def extent(frames: list[Frame]) -> tuple[float, float]:
    """Width and height of pictures together."""
    return max(frame.x + frame.width for frame in frames), max(frame.y + frame.height for frame in frames)
