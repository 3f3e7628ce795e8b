"""Every page, on a phone and at a desk, in light and in dark: nothing is cut off, nobody is shut out."""

import driver
import pytest

CAT = "compare?model=story&text=The+cat+sat+on+the+mat+because+it+was+tired."
LONG = "+".join(["word"] * 30)
STATES = [
    "",
    "overview?model=translator&form=table",
    "masks?model=scratch&mask=causal+%26+window(2)+|+blocked(6:0)&bias=alibi&cell=3.2",
    "steps?model=scratch&mask=causal&cell=3.1&stage=mask",
    f"{CAT}&b=model%3Dtranslator",
    "learn?chapter=1",
    "overview?model=story&part=Corpus&layer=d1&head=1",
]
"""Links to each page as it opens, or with much on it. A new page has one here."""

MORE = [
    "?model=scratch&form=lines&also=1-2&pins=q1",
    "?model=translator",
    "?model=story&heads_off=d0.0",
    "?model=induction",
    "?model=shapes",
    "?model=translator&layer=e0&head=mean&text=zzz",
    f"?model=scratch&text={LONG}",
    "?model=scratch&mask=causal&heads_off=e0.1&cell=3.1",
    "?model=scratch&form=text",
    "overview?model=translator",
    *(f"overview?model=story&part={part}" for part in ("Contributions", "Logit+lens", "Gradients", "Circuits")),
    "overview?model=translator&part=Rollout",
    "overview?model=story&part=Model+card",
    "overview?model=constructed&part=Corpus",
    "compare?model=story&heads_off=d1.0",
    "masks?model=story",
    f"masks?model=scratch&text={LONG}",
    *(f"masks?model=story&lab={lab}" for lab in ("check", "check+mask", "model")),
    CAT,
    *(f"learn?chapter={chapter}" for chapter in range(2, 13)),
]
"""Those that only `make sweep` opens."""


@pytest.mark.parametrize("paths", [STATES, pytest.param(MORE, marks=pytest.mark.sweep)], ids=["states", "more"])
def test_nothing_is_wider_than_the_page_and_axe_finds_nothing_serious(window, app, paths):
    """In the dark on a phone, where there is least room, and at a desk in light: each is opened on one and resized."""
    page, screens, wrong = window(390, 900, "dark"), [(390, "dark"), (1440, "light")], {}
    for path in paths:
        driver.open_page(page, f"{app}/{path}")
        for width, scheme in screens:
            driver.resize(page, width, 900, scheme)
            driver.settled(page)
            problems = driver.serious(page) + ([] if driver.is_as_wide_as(page, width) else ["too wide"])
            wrong |= {(path, width): problems} if problems else {}
        screens.reverse()

    assert wrong == {}
