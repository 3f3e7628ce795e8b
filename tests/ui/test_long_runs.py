"""Runs that take longer than a page may wait: estimated, shared, told of, canceled, and refused beyond the budget."""

from dataclasses import replace
from functools import partial
from threading import Event
from types import SimpleNamespace

import pytest
from test_app import button, choices, html, opened

from attnviz import atlas, figures
from attnviz.core import progress
from attnviz.core.edits import Site
from attnviz.core.errors import Canceled
from attnviz.core.record import Record
from attnviz.sources import estimate
from attnviz.sources.scratch import Constructed
from attnviz.studies import ablation
from attnviz.ui import budget, cache, hosts, readout, runs

PATIENCE = 60
"""Seconds that a test waits for what must come."""
TEXT = "the cat sat on the mat again"


@pytest.fixture(autouse=True)
def empty():
    cache.SHARED.clear()
    yield
    cache.SHARED.clear()


@pytest.fixture
def slow(monkeypatch):
    """Make every run long by the estimate and wait for `go`; return `go` and the runs."""
    go, began, made, run = Event(), Event(), [], Constructed.run

    def waits(*args) -> Record:
        made.append(args)
        began.set()
        while not go.wait(0.01):
            progress.tell(0.5)
        return run(*args)

    go.began, go.made = began, made
    monkeypatch.setattr(Constructed, "run", waits)
    monkeypatch.setattr(budget, "SHORT_RUN", 0.0)
    monkeypatch.setattr(runs, "RUN_WAIT", 0.0)
    yield go
    go.set()


def settled() -> None:
    """Wait until no run is going on."""
    for run in runs.JOBS.running:
        assert run.settled.wait(PATIENCE)


def test_a_long_run_shows_how_far_it_is_and_then_the_page(slow):
    app = opened(model="constructed", text=TEXT)

    assert slow.began.wait(PATIENCE)
    assert not app.get("vega_lite_chart")
    (bar,) = app.get("progress")
    assert bar.proto.text.startswith(("Waiting", "decoder layer 0, call 1 of 2"))
    assert "7 tokens" in html(app)

    slow.set()
    settled()
    app.run()

    assert not app.exception
    assert app.get("vega_lite_chart")
    assert not app.get("progress")


def test_a_canceled_run_ends_and_leaves_text_and_state(slow):
    app = opened(model="constructed", text=TEXT, heads_off="d0.1")
    assert slow.began.wait(PATIENCE)
    (run,) = runs.JOBS.running

    app = button(app, "Cancel").click().run()

    assert run.settled.wait(PATIENCE)
    assert isinstance(run.error, Canceled)
    assert "Canceled." in html(app)
    assert app.text_area(key="text").value == TEXT
    assert choices(app)["heads_off"] == {(Site("decoder", 0), 1)}
    assert len(slow.made) == 1

    app.run()
    assert len(slow.made) == 1  # nobody asked for it again

    slow.set()
    button(app, "Run").click().run()
    settled()
    app.run()
    settled()  # what was there before the edit
    app.run()
    assert app.get("vega_lite_chart")


def test_beyond_the_budget_one_sentence_has_the_numbers_and_ways_on(monkeypatch):
    monkeypatch.setattr(estimate, "operations_per_second", lambda: 1e9)
    monkeypatch.setattr(estimate, "USUAL", 0)
    monkeypatch.setattr(budget, "_number", {budget.SECONDS: 0.01, budget.GIGABYTES: 1.0}.__getitem__)

    app = opened(model="constructed", text="the cat sat on the mat " * 50)

    assert "300 tokens: about 1 s and 4.6 MB; this server allows 1 s and 1.0 GB for a run." in html(app)
    assert "attnviz app --seconds N --memory GB" in html(app)
    app = button(app, "Shorten to what fits").click().run()

    assert not app.exception
    assert app.get("vega_lite_chart")
    assert 0 < len(app.text_area(key="text").value.split()) < 300


@pytest.mark.parametrize("name", [budget.SECONDS, budget.GIGABYTES])
@pytest.mark.parametrize("value", ["much", "-1", "inf", "nan"])
def test_a_budget_that_is_no_number_is_one_sentence(name, value, monkeypatch):
    budget._number.cache_clear()
    monkeypatch.setenv(name, value)

    app = opened(model="constructed", text=TEXT)

    assert f"{name} is &#x27;{value}&#x27;; it must be a number above 0" in html(app)
    budget._number.cache_clear()


@pytest.fixture
def public_app(monkeypatch):
    """Make the app public, with its default bounds."""
    monkeypatch.setenv("ATTNVIZ_PUBLIC", "1")
    monkeypatch.setattr(budget, "used_bytes", lambda: 0)  # the process of the tests may have a browser, too
    kept = hosts.public, budget._number
    for function in kept:
        function.cache_clear()
    yield
    monkeypatch.undo()
    for function in kept:
        function.cache_clear()


def test_a_public_server_without_memory_lets_go_of_what_it_keeps_and_then_refuses_runs(public_app, monkeypatch):
    """The memory released may be enough."""
    used, freed = [0], [0]
    monkeypatch.setattr(budget, "used_bytes", lambda: used[0])
    monkeypatch.setattr(budget, "give_back", lambda: used.__setitem__(0, used[0] - freed[0]))
    opened(model="constructed", text=TEXT)
    before = cache.SHARED.bytes
    used[0] = 1_000_000_000
    monkeypatch.setattr(budget, "SECONDS_BETWEEN", 0.0)

    app = opened(model="constructed", text=f"{TEXT} the mat")

    assert "no memory left for another run" in html(app)
    assert not app.exception
    assert cache.SHARED.bytes < before

    freed[0] = 500_000_000
    app = opened(model="constructed", text=f"{TEXT} the mat")

    assert "no memory left for another run" not in html(app)
    assert app.get("vega_lite_chart")


def test_a_visitor_has_so_many_seconds_of_long_runs_in_a_minute(slow, public_app, monkeypatch):
    """A run that goes on is counted once."""
    now, cost = [1000.0], budget.cost
    monkeypatch.setattr(budget, "cost", lambda *args: replace(cost(*args), seconds=9.0))
    monkeypatch.setattr(runs, "time", SimpleNamespace(monotonic=lambda: now[0]))
    slow.set()

    def after(app):
        settled()
        return app.run()

    app = after(after(opened(model="constructed", text=f"{TEXT} minute")))
    for more in ("again", "again again"):
        now[0] += 10
        app = after(app.text_area(key="text").set_value(f"{TEXT} minute {more}").run())

    assert "You started long runs of 20 s within a minute, the limit of this server; try again in 40 s." in html(app)
    assert not app.exception

    now[0] += 60
    app = after(after(app.run()))

    assert app.get("vega_lite_chart")


@pytest.fixture
def costly(monkeypatch):
    """Make every map take a second by the estimate, so that a job draws it; return the setter of the budget."""
    maps = estimate.of_maps

    def given(*args, **window) -> estimate.Estimate:
        found = maps(*args, **window)
        return replace(found, seconds=float(found.maps))

    monkeypatch.setattr(estimate, "of_maps", given)
    monkeypatch.setattr(budget, "SHORT_DRAWING", 0.5)
    allowed = {budget.SECONDS: 120.0, budget.GIGABYTES: 2.0}
    monkeypatch.setattr(budget, "_number", allowed.__getitem__)
    return partial(allowed.__setitem__, budget.SECONDS)


def test_on_heads_the_map_is_there_before_all_others_are_and_says_how_far_they_are(costly, monkeypatch):
    """They can be canceled, and then they are asked for again; the map stays."""
    go, began, drawn = Event(), Event(), readout.screen

    def waits(figure):
        if isinstance(figure, figures.heads):
            began.set()
            while not go.wait(0.01):
                progress.tell(0.5)
        return drawn(figure)

    monkeypatch.setattr(readout, "screen", waits)
    monkeypatch.setattr(runs, "PICTURE_WAIT", 2.0)
    monkeypatch.setattr(estimate, "of_maps", lambda *args, **_: estimate.Estimate(7, float((*args, 1)[1] > 1), 0, 0, 4))

    app = opened(model="constructed", text=TEXT)

    assert began.wait(PATIENCE)
    (run,) = runs.JOBS.running
    assert len(app.get("vega_lite_chart")) == 1
    (bar,) = app.get("progress")
    assert bar.proto.text == "4 maps · 12%"

    app = button(app, "Cancel").click().run()
    assert run.settled.wait(PATIENCE)
    assert isinstance(run.error, Canceled)
    assert "Canceled. 4 maps of 7 tokens" in html(app)

    go.set()
    app = button(app, "Run").click().run()
    settled()
    app.run()
    assert not app.get("progress")
    assert len(app.get("vega_lite_chart")) == 2


@pytest.mark.parametrize(
    ("link", "module", "name", "said"),
    [({"sort": "output"}, ablation, "sweep", "1 of 8 heads"), ({"part": "Corpus"}, atlas, "of_texts", "1 of 50 texts")],
)
def test_what_is_measured_of_all_heads_says_how_far_it_is_and_can_be_canceled(link, module, name, said, monkeypatch):
    """It is told of and ended as runs are, begins again when asked to, and then is there."""
    go, measure, calls = Event(), getattr(module, name), []
    of = int(said.split()[2])

    def waits(*args, **named) -> object:
        report = named.get("report") or args[3]
        calls.append(name)
        while not go.wait(0.01):
            report(1, of)
        return measure(*args, **named)

    monkeypatch.setattr(module, name, waits)
    monkeypatch.setattr(runs, "PICTURE_WAIT", 0.2)
    app = opened("Overview", model="constructed", text=TEXT, **link)
    (bar,) = app.get("progress")
    assert bar.proto.text == said
    (run,) = runs.JOBS.running

    button(app, "Cancel").click().run()

    assert run.settled.wait(PATIENCE)
    assert isinstance(run.error, Canceled)
    assert "Canceled." in html(app)
    app.run()
    assert len(calls) == 1

    go.set()
    button(app, "Run").click().run()
    settled()
    app.run()
    assert not app.exception
    assert app.get("vega_lite_chart")
    assert "Canceled." not in html(app)
    assert len(calls) == 2
