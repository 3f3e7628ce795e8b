"""What a link names and the model has not."""

from attnviz.sources.base import Source
from attnviz.ui.heads.forms import ALSO
from attnviz.ui.heads.link import encode_also
from attnviz.ui.shared import state, written
from attnviz.ui.shared.editing import OFF
from attnviz.ui.shared.looking import SHOW, SITE, STEP

CHECKED = state.kept("link checked", False, of="link")


def drop(source: Source) -> None:
    """Once for each link, when its model is known: let go of what is not there, and say so."""
    if state.get(CHECKED):
        return
    state.put(CHECKED, True)
    sites, heads = source.sites, source.num_heads
    there = f"the model has {', '.join(map(str, sites))} with {heads} head(s) each, counted from 0"
    off, place, head, also, step = (state.get(setting) for setting in (OFF, SITE, SHOW, ALSO, STEP))
    if missing := frozenset((site, head) for site, head in off if site not in sites or head >= heads):
        state.drop(OFF, off - missing, written.encode_heads(missing)[:40], there)
    if place is not None and place not in sites:
        state.drop(SITE, None, written.encode_site(place), there)
    if isinstance(head, int) and head >= heads:
        state.drop(SHOW, None, str(head), there)
    if beyond := tuple(head for head in also if head >= heads):
        state.drop(ALSO, tuple(head for head in also if head < heads), encode_also(beyond)[:40], there)
    steps = source.steps
    if step is not None and step not in steps:
        kept = ", ".join(map(str, steps)) or "none"
        state.drop(STEP, None, str(step), f"of the steps of its training these are kept: {kept}")
