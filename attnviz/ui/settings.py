"""Every setting that a link holds, by its name: each is declared by the feature that it belongs to."""

from attnviz.ui.compare import other, taking
from attnviz.ui.heads import forms
from attnviz.ui.learn import museum, progress, scenes
from attnviz.ui.masks import checking, compose, conventions, lab, leaks
from attnviz.ui.masks import page as masks
from attnviz.ui.overview import atlases, contributions, corpus, gradients, heads, lens, numbers, reach, tables
from attnviz.ui.overview import examples as over_corpus
from attnviz.ui.overview import page as overview
from attnviz.ui.shared import answer, edits, examples, look, mask, parameters, photos, pretrained, says, target, zoom
from attnviz.ui.shared.setting import Setting
from attnviz.ui.steps import rail

FEATURES = (
    *(pretrained, parameters, examples, target, photos, answer, look, zoom, mask, edits, says),
    *(
        forms,
        heads,
        numbers,
        reach,
        contributions,
        gradients,
        overview,
        lens,
        tables,
        atlases,
        corpus,
        over_corpus,
        lab,
        masks,
        conventions,
        leaks,
        checking,
        compose,
        rail,
        other,
        taking,
        progress,
        scenes,
        museum,
    ),
)
"""The modules that declare settings, in the order of the controls."""

_declared = (value for feature in FEATURES for value in vars(feature).values())
_flat = (item for value in _declared for item in (value if isinstance(value, tuple) else (value,)))

_linked = [setting for setting in _flat if isinstance(setting, Setting) and setting.encode]

LINKED: dict[str, Setting] = {name: setting for setting in _linked for name in (setting.name, *setting.former)}
"""Settings by what links call them, or called them before."""
