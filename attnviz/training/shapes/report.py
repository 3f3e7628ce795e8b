"""The card of the shapes model: what its heads look at on held-out pictures, and what is lost without each."""

import json
from dataclasses import asdict
from typing import Any

from attnviz.models import trained
from attnviz.training.shapes.drawing import CLASSES, RELATIONS, SHAPES
from attnviz.training.shapes.examples import EXAMPLES, file
from attnviz.training.shapes.measure import CLS, REGIONS, Head, Looks, measure, right
from attnviz.training.shapes.recipe import BATCH, RECIPE, SIZES, load, pictures

HELD_OUT = 2
"""Seed of the measured pictures, which the training never draws."""
NAMED = 0.5
"""Share of the weights of a row from which on a head is named after it."""
GOAL = 0.97


def card(number: int) -> dict[str, Any]:
    """Measure the shipped model on so many held-out pictures."""
    model, (scenes, read) = load(), pictures(HELD_OUT, number)
    learning = json.loads((trained.folder("shapes") / "learning.json").read_text(encoding="utf-8"))
    every = measure(model, scenes, read)
    even, complete = every.pop((-1, 0)), right(model, scenes, read)
    without = {head: right(model, scenes, read, head) for head in every}
    findings = [one for head in every for one in _findings(head, every[head], even, complete, without[head], number)]
    of_color = {color: [one for one in findings if one["role"] == f"{color} shape"] for color in ("red", "blue")}
    blind = {
        color: right(model, scenes, read, *((one["layer"], one["heads"][0]) for one in ones), rows=CLS)
        for color, ones in of_color.items()
    }
    opens = min(findings, key=lambda one: one["off"][0])
    measured = [(f"{part}s right, of {number:,} held-out pictures", share, GOAL) for part, share in complete.items()]
    measured += [
        (f"{part}s right with the heads that look at the {color} shape off at [CLS]", share, None)
        for color, shares in blind.items()
        for part, share in shares.items()
    ]
    return {
        "name": "shapes",
        "title": "Shapes",
        "does": "Reads a picture of a red and a blue shape, and says what they are and where the red one is.",
        "made": (
            f"Trained here from random weights: {RECIPE.steps:,} steps of {BATCH} pictures, {learning['minutes']:g}"
            " minutes on one core."
        ),
        "trained_on": (
            f"Pictures of {SIZES.side} x {SIZES.side} pixels, drawn at random: a red and a blue shape"
            f" ({', '.join(SHAPES)}) of changing color, size and tilt, in most a third one in yellow or green, on a"
            " background with noise. No picture comes twice; the measured ones are drawn from another seed."
        ),
        "sizes": {
            "sentences": len(CLASSES),
            "layers": SIZES.num_layers,
            "heads per layer": SIZES.num_heads,
            "numbers for each token (d_model)": SIZES.d_model,
            "patches of a picture": (SIZES.side // SIZES.patch) ** 2,
            "pixels along the side of a patch": SIZES.patch,
            "weights": sum(weight.numel() for weight in model.parameters()),
        },
        "measured": [{"what": what, "value": value, "goal": goal} for what, value, goal in measured],
        "command": "make evidence MODEL=shapes\nmake train MODEL=shapes",
        "findings": findings,
        "heads": [
            {"layer": head[0], "head": head[1], "looks": asdict(every[head]), "off": without[head]} for head in every
        ],
        "even": asdict(even),
        "cannot": [
            f"It knows {len(CLASSES)} sentences and answers with one of them whatever the picture shows.",
            f"It knows four directions ({', '.join(RELATIONS)}): of two shapes on a diagonal it can only guess.",
            "It was trained on flat shapes that do not overlap, one red and one blue; a photo tells it nothing.",
            f"A head is named after what gets {NAMED:.0%} of the weight of a row or more. Off, it is off at every"
            " token, also at those where it looks elsewhere.",
            "Its attention shows how this small model reads drawn shapes, not how vision works in general.",
        ],
        "examples": [file(label) for label in EXAMPLES],
        "opens": {"kind": "encoder", "layer": opens["layer"], "head": opens["heads"][0]},
        "curve": learning["curve"],
        "score": f"sentences right on held-out pictures; any of {len(CLASSES)} by chance gets {1 / len(CLASSES):.1%}",
    }


def _findings(
    head: Head, look: Looks, even: Looks, complete: dict[str, float], without: dict[str, float], number: int
) -> list[dict[str, Any]]:
    """Roles of a head that the numbers carry: each with the share of weight there and what is right without it."""
    shapes = REGIONS[:2]
    roles = [(name, f"from [CLS] at the {name}", look.cls[name], even.cls[name]) for name in shapes]
    roles += [
        ("same shape", "from a patch of either shape at the patches of that shape", look.same, even.same),
        ("other shape", "from a patch of either shape at the patches of the other", look.other, even.other),
        ("nearby patches", "from a patch at itself and the patches around it", look.near, even.near),
    ]
    parts = ", ".join(f"{part}s {share:.1%} ({complete[part]:.1%})" for part, share in without.items())
    return [
        {
            "kind": "encoder",
            "layer": head[0],
            "heads": [head[1]],
            "role": role,
            "does": f"looks {where}",
            "known": (
                f"On {number:,} held-out pictures, {share:.1%} of its weight {where.replace(' at ', ' is on ')}, where"
                f" an even look would put {chance:.1%}. Right with this head off, and with all on in brackets: {parts}."
            ),
            "shares": [share],
            "chance": chance,
            "off": [without["sentence"]],
            "on": complete["sentence"],
        }
        for role, where, share, chance in roles
        if share >= NAMED
    ]
