"""A still life of a vase and three fruits, rendered from signed distances.

Points are (N, 3): x to the right, y up, z towards the camera, in decimeters. Each ray is followed to the nearest
surface; its light comes from a window above left, with a soft shadow, and from the sky.
"""

import torch
from PIL import Image
from torch import Tensor
from torch.nn.functional import normalize

WIDTH, HEIGHT, FINER = 384, 288, 2
"""Pixels of the picture, and rays along each side of a pixel."""
EYE, AIM, ZOOM = (0.2, 2.5, 7.2), (0.22, 0.98, 0.0), 3.3
WINDOW = (-0.62, 0.66, 0.42)
BACK = -2.6
"""Place of the wall on the z axis."""


def _bell(value: Tensor, width: float) -> Tensor:
    return torch.exp(-((value / width) ** 2))


def _pores(p: Tensor, frequency: float) -> Tensor:
    return torch.sin(p * frequency).prod(1) * 0.003


def _vase(point: Tensor) -> Tensor:
    p = point - torch.tensor([-0.95, 0.0, -0.55])
    height, out = p[:, 1].clamp(0, 2.5) / 2.5, torch.hypot(p[:, 0], p[:, 2])
    belly = 0.34 + 0.47 * _bell(height - 0.36, 0.26) - 0.16 * _bell(height - 0.83, 0.12)
    outside = torch.maximum((out - belly - 0.1 * _bell(height - 1, 0.035)) * 0.6, (p[:, 1] - 1.25).abs() - 1.25)
    hollow = torch.maximum((out - belly + 0.07) * 0.6, 1.4 - p[:, 1])
    return torch.maximum(outside, -hollow)


def _orange(point: Tensor) -> Tensor:
    p = point - torch.tensor([0.42, 0.6, 0.05])
    return (p * torch.tensor([1, 1.04, 1])).norm(dim=1) - 0.6 + _pores(p, 40)


def _apple(point: Tensor) -> Tensor:
    p = point - torch.tensor([1.62, 0.54, -0.5])
    dent = 0.17 * _bell(torch.hypot(p[:, 0], p[:, 2]), 0.2) * (p[:, 1] > 0)
    return ((p * torch.tensor([1, 1.08, 1])).norm(dim=1) - 0.6 + dent + 0.05 * (-p[:, 1]).clamp(min=0)) * 0.7


def _stem(point: Tensor) -> Tensor:
    p = point - torch.tensor([1.62, 0.88, -0.5])
    bent = p - torch.tensor([0.35, 0.0, 0.1]) * p[:, 1:2].clamp(min=0) ** 2
    return torch.maximum(torch.hypot(bent[:, 0], bent[:, 2]) - 0.028, (p[:, 1] - 0.18).abs() - 0.2) * 0.7


def _lemon(point: Tensor) -> Tensor:
    p = point - torch.tensor([-0.42, 0.36, 1.05])
    along = 0.94 * p[:, 0] + 0.34 * p[:, 2]
    across = torch.hypot(p[:, 1], 0.94 * p[:, 2] - 0.34 * p[:, 0])
    share = (along / 0.58).clamp(-1, 1) ** 2
    radius = 0.37 * (1 - share).clamp(min=1e-4).sqrt() * (1 - 0.14 * share) + 0.055 * _bell(along.abs() - 0.55, 0.09)
    return torch.maximum((across - radius + _pores(p, 26)) * 0.55, along.abs() - 0.66)


def _table(point: Tensor) -> Tensor:
    return point[:, 1]


def _wall(point: Tensor) -> Tensor:
    return point[:, 2] - BACK


THINGS = (_table, _wall, _vase, _orange, _apple, _stem, _lemon)
COLORS = (
    (0.4, 0.2, 0.09), (0.52, 0.54, 0.5), (0.07, 0.17, 0.46), (0.95, 0.27, 0.01), (0.36, 0.56, 0.07), (0.16, 0.09, 0.04),
    (0.93, 0.7, 0.06),
)  # fmt: skip
GLOSS = (0.0, 0.0, 0.75, 0.25, 0.45, 0.0, 0.25)


def distance(point: Tensor) -> Tensor:
    """Distance from the nearest surface, (N,); a lower bound where the surface is curved."""
    return torch.stack([thing(point) for thing in THINGS]).amin(0)


def follow(start: Tensor, direction: Tensor, steps: int = 110) -> Tensor:
    """Length of each ray until it meets a surface, at most 14."""
    length = torch.zeros(len(start))
    moving = torch.arange(len(start))
    for _ in range(steps):
        step = distance(start[moving] + direction[moving] * length[moving, None])
        length[moving] += step
        moving = moving[(step > 1e-3) & (length[moving] < 14)]
    return length


def shadow(point: Tensor, light: Tensor, softness: float = 9.0) -> Tensor:
    """Share of the window that a point sees: rays that pass near a surface lose a part."""
    open_share, length, moving = torch.ones(len(point)), torch.full((len(point),), 0.03), torch.arange(len(point))
    for _ in range(44):
        free = distance(point[moving] + light * length[moving, None])
        open_share[moving] = torch.minimum(open_share[moving], 0.5 + 0.5 * softness * free / length[moving])
        length[moving] += free.clamp(0.02, 0.25)
        moving = moving[(open_share[moving] > 0) & (length[moving] < 5)]
    share = open_share.clamp(0, 1)
    return share * share * (3 - 2 * share)


def normal(point: Tensor) -> Tensor:
    """Direction away from the nearest surface, by differences."""
    moves = torch.eye(3) * 2e-3
    return normalize(torch.stack([distance(point + move) - distance(point - move) for move in moves], 1), dim=1)


def grain(point: Tensor) -> Tensor:
    """Brightness of the table's wood, (N,): rings, stretched along x, in boards."""
    board = (point[:, 2] / 1.1).floor()
    rings = torch.sin(7 * torch.sin(point[:, 0] * 0.5 + board * 2.3) + point[:, 2] * 19 + board * 5)
    fine = torch.sin(point[:, 2] * 90 + 3 * torch.sin(point[:, 0] * 2.1 + board))
    gap = _bell(((point[:, 2] / 1.1) % 1 - 0.5).abs() - 0.5, 0.012)
    return (1 + 0.13 * rings + 0.05 * fine + 0.1 * torch.sin(board * 4.7)) * (1 - 0.6 * gap)


def shade(start: Tensor, direction: Tensor, bounce: bool = True) -> Tensor:
    """Color that each ray brings, (N, 3), not yet limited to 1; shiny surfaces mirror their surroundings once."""
    point = start + direction * follow(start, direction)[:, None]
    thing = torch.stack([thing(point) for thing in THINGS]).argmin(0)
    color, up, light = torch.tensor(COLORS)[thing], normal(point), normalize(torch.tensor(WINDOW), dim=0)
    color[thing == 0] *= grain(point[thing == 0])[:, None]
    bands = ((point[:, 1] - 1.62).abs() < 0.05) | ((point[:, 1] - 0.42).abs() < 0.05)
    color[(thing == 2) & bands] = torch.tensor([0.75, 0.72, 0.6])
    lit = (up @ light).clamp(min=0)
    lit[lit > 0] *= shadow((point + up * 0.02)[lit > 0], light)
    near = sum((reach - distance(point + up * reach)) / 2**i for i, reach in enumerate((0.08, 0.2, 0.4, 0.7)))
    sky = (1 - 0.75 * near).clamp(0.15, 1) * (0.6 + 0.4 * up[:, 1])
    falloff = torch.exp(-0.05 * ((point - torch.tensor([-0.6, 1.0, 0.0])) ** 2).sum(1)).clamp(0.25, 1)
    warm, cool = torch.tensor([2.6, 2.35, 2.0]), torch.tensor([0.3, 0.36, 0.46])
    picture = color * (lit[:, None] * warm + sky[:, None] * cool) * falloff[:, None]
    mirrored = direction - 2 * (direction * up).sum(1, keepdim=True) * up
    gloss = torch.tensor(GLOSS)[thing]
    highlight = (mirrored @ light).clamp(min=0) ** 60 * lit.clamp(max=1) * gloss * 1.6
    picture += highlight[:, None]
    shiny = gloss > 0
    if bounce:
        facing = 1 + (direction[shiny] * up[shiny]).sum(1, keepdim=True)
        share = gloss[shiny, None] * (0.05 + 0.6 * facing.clamp(0, 1) ** 4)
        picture[shiny] += share * shade(point[shiny] + up[shiny] * 0.02, mirrored[shiny], bounce=False)
    return picture


def render() -> Image.Image:
    """Render the picture; some minutes on one core."""
    eye, aim = torch.tensor(EYE), torch.tensor(AIM)
    ahead = normalize(aim - eye, dim=0)
    right = normalize(torch.linalg.cross(ahead, torch.tensor([0.0, 1.0, 0.0])), dim=0)
    above = torch.linalg.cross(right, ahead)
    x = ((torch.arange(WIDTH * FINER) + 0.5) / FINER - WIDTH / 2) / HEIGHT * 2
    y = -((torch.arange(HEIGHT * FINER) + 0.5) / FINER - HEIGHT / 2) / HEIGHT * 2
    rows = []
    for block in y.split(32):
        ray = normalize(ahead * ZOOM + right * x[:, None] + above * block[:, None, None], dim=2).flatten(0, 1)
        rows.append(shade(eye.expand_as(ray), ray))
    light = torch.cat(rows).view(HEIGHT, FINER, WIDTH, FINER, 3).mean((1, 3))
    film = light * (2.51 * light + 0.03) / (light * (2.43 * light + 0.59) + 0.14)  # ACES, as Narkowicz 2015 fits it
    return Image.fromarray((film.clamp(0, 1) ** (1 / 2.2) * 255).round().byte().numpy())
