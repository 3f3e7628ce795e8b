"""Every page, on a phone and at a desk, in light and in dark: nothing is cut off, nobody is shut out."""

import driver
import pytest
from examples import sweeps

MINILM = "model=huggingface&hf=all-MiniLM-L6-v2"
CAT = "compare?model=story&text=The+cat+sat+on+the+mat+because+it+was+tired."
STATES = [
    "",
    "overview?model=translator&form=Table",
    "masks?model=scratch&mask=subsequent.prefix-3.not-window-1.off-padding-5-7.painted-6_0&added=alibi&cell=3.5",
    "steps?model=scratch&mask=subsequent&cell=3.1&stage=mask",
    f"{CAT}&b=model-translator",
    "model",
    "learn",
    "overview?model=story&panel=Over+a+corpus&layer=d1&head=1",
]
"""Links to each page as it opens, or with much on it. A new page has one here."""

MORE = [
    "?model=scratch&as=lines&also=1-2&pins=q1",
    "masks?model=scratch&tab=Conventions",
    "?model=translator",
    "?model=story&heads_off=d0.0",
    "?model=induction",
    "?layer=e0&head=mean&text=zzz",
    f"?model=scratch&text={'+'.join(['word'] * 30)}",
    "?model=scratch&mask=subsequent&heads_off=e0.1&cell=3.1",
    "?model=scratch&as=text",
    f"?heads_off=e5.11&layer=e5&head=11&{MINILM}",
    "overview?model=translator",
    f"?{MINILM}&text={'+'.join(['The cat sat on the mat.'.replace(' ', '+')] * 22)}",
    "overview?model=translator&panel=Rollout",
    "overview?model=translator&panel=Contributions",
    "overview?model=story&panel=Switch-off+test",
    "overview?model=constructed&panel=Over+a+corpus",
    "overview?model=story&panel=Contributions&lens=layers&lens-row=1",
    "overview?model=induction&panel=Contributions&lens=head",
    "compare?model=story&heads_off=d1.0",
    "masks",
    f"masks?model=scratch&text={'+'.join(['word'] * 30)}",
    *(f"masks?model=scratch&tab=Check&checked={one}" for one in ("this+model", "this+mask", "a+file")),
    CAT,
    "model?model=induction",
    f"model?{MINILM}",
    *(f"learn?chapter={chapter}" for chapter in range(2, 13)),
]
"""Those that only `make sweep` opens."""


@pytest.mark.parametrize("paths", [STATES, pytest.param(MORE, marks=pytest.mark.sweep)], ids=["states", "more"])
def test_nothing_is_wider_than_the_page_and_axe_finds_nothing_serious(window, server, paths):
    """Dark on a phone, where there is least room; at a desk, in light, test_toolbar looks at every page.

    In a sweep each is seen on both: every other one is opened narrow and widened, the rest the other way.
    """
    page, screens, wrong = window(390, 900, "dark"), [(390, "dark"), (1440, "light")][: 1 + sweeps()], {}
    for path in paths:
        driver.open_page(page, f"{server}/{path}")
        for width, scheme in screens:
            driver.resize(page, width, 900, scheme)
            driver.settled(page)
            found = driver.serious(page) + ([] if driver.is_as_wide_as(page, width) else ["too wide"])
            wrong |= {(path, width): found} if found else {}
        screens.reverse()

    assert wrong == {}
