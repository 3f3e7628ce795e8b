"""All heads of one attention call on a picture: each a small one, with a tint where one position looks."""

from dataclasses import KW_ONLY, dataclass
from functools import cached_property, partial

import numpy as np
from PIL import Image

from attnviz.charts import pixels
from attnviz.charts.mosaic import Head, Mosaic
from attnviz.charts.theme import TINT
from attnviz.core.errors import InputError
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
        return partial(OverlayMosaic, images=self.images, frames=self.frames)

    @cached_property
    def images(self) -> dict[Head, PatchImage]:
        """The large picture of each head."""
        names = ("sentence", "view", "domain", "chosen", "side", "less", "neutral")
        options = {name: getattr(self, name) for name in names}
        heads = range(self.attention_view.step.num_heads)
        return {(self.site, head): PatchImage(self.record, self.site, head, **options) for head in heads}

    @cached_property
    def frames(self) -> list[Frame]:
        """Places of the pictures that are looked at."""
        ends = self.record.texts(self.site, sentence=self.sentence)
        return frames_of(ends[1 if self.side == "from" else 0], 0.0, 0.0)

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

    def _uri(self, head: Head) -> str:
        wide, high = extent(self.frames)
        scale = np.array([self.layout.side / wide, self.layout.height / high])
        picture = np.tile(
            np.array(pixels.rgb(self.style.colors.blocked), float), (self.layout.height, self.layout.side, 1)
        )
        ground, cover = picture.copy(), np.full((*picture.shape[:2], 1), UNREAD)
        for frame in self.frames:
            rows, columns = _pixels(frame, 0.0, 0.0, 1.0, 1.0, scale)
            size = max(1, columns.stop - columns.start), max(1, rows.stop - rows.start)
            if frame.picture is not None:
                picture[rows, columns] = np.asarray(Image.fromarray(frame.picture.pixels.numpy()).resize(size))
        shade, domain = self.images[head].shade, self.images[head].scale
        brightness, frame_of = domain.shade(shade.weights), {box: one for one in self.frames for box in one.boxes}
        for token, bright, colored in zip(shade.ends[1].tokens, brightness, shade.colored, strict=True):
            if (box := token.box) is not None:
                place = _pixels(frame_of[box], box.left, box.top, box.right, box.bottom, scale)
                cover[place] = STRONGEST * bright if colored else 1.0
                ground[place] = pixels.rgb(TINT) if colored else ground[place]
        mixed = picture * (1 - cover) + ground * cover
        if self._is_off(head):
            mixed = np.repeat(mixed.mean(-1, keepdims=True), 3, -1)
        return jpeg_uri(mixed.round().astype(np.uint8))


def extent(frames: list[Frame]) -> tuple[float, float]:
    """Width and height of pictures together."""
    return max(frame.x + frame.width for frame in frames), max(frame.y + frame.height for frame in frames)


def _pixels(frame: Frame, left: float, top: float, right: float, bottom: float, scale: np.ndarray) -> tuple:
    """Rows and columns of a rectangle of a picture."""
    across = np.array([frame.x + left * frame.width, frame.x + right * frame.width]) * scale[0]
    down = np.array([frame.y + top * frame.height, frame.y + bottom * frame.height]) * scale[1]
    return slice(*down.round().astype(int).tolist()), slice(*across.round().astype(int).tolist())
