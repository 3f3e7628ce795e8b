"""Models of Hugging Face on their way to the app: found, asked for, fetched, canceled, failed; on 127.0.0.1 alone."""

import shutil
import sys
import threading
import time
from contextlib import nullcontext
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "sources" / "huggingface"))

import fake_hub
from huggingface_hub import constants
from streamlit import config

import attnviz
from attnviz.core import assets, jobs
from attnviz.core.errors import AttnvizError, quoted
from attnviz.sources.huggingface import hub as hubs
from attnviz.sources.huggingface import opening
from attnviz.sources.huggingface import source as sources
from attnviz.ui.shared import arrivals, pretrained, words
from attnviz.ui.shared.arrivals import Arrival, fetch, leave, wait_for

NAME = "tiny/story"
PATIENCE = 60
"""Seconds that a test waits for what must come."""


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    return fake_hub.write(tmp_path_factory.mktemp("models") / "gpt2")


@pytest.fixture(autouse=True)
def nothing_is_on_its_way():
    """No test finds what another has left: every thread has ended, and no model is kept."""
    yield
    for name in [name for name, one in arrivals._arrivals.items()]:
        for session in tuple(arrivals._arrivals[name].sessions):
            leave(session)
    arrivals._arrivals.clear()
    for thread in [thread for thread in threading.enumerate() if thread.name == "attnviz-job"]:
        thread.join(PATIENCE)
        assert not thread.is_alive()
    sources._models.clear()


@pytest.fixture
def hub(model, tmp_path, monkeypatch):
    """A hub with one model, and an empty cache."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    for name in ("HF_HUB_OFFLINE", "HF_TOKEN", "ATTNVIZ_MODELS", "ATTNVIZ_MAX_DOWNLOAD"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    fake_hub.without_rest(tmp_path, monkeypatch)
    with fake_hub.running() as (fake, address):
        monkeypatch.setenv("HF_ENDPOINT", address)
        fake.add(NAME, model)
        yield fake


def settled(arrival: Arrival) -> Arrival:
    """When there is nothing to wait for, or something to ask or to say."""
    assert arrival.settled.wait(PATIENCE)
    return arrival


def until(claim) -> None:
    ends = time.monotonic() + PATIENCE
    while not claim():
        assert time.monotonic() < ends
        time.sleep(0.02)


def fetching(hub, *sessions: str) -> Arrival:
    """A download to which sessions said yes, and which stops in the middle of the weights."""
    hub.fault = "hang in a file"
    arrival = settled(wait_for(NAME, sessions[0]))
    for session in sessions:
        wait_for(NAME, session)
        fetch(NAME, session)
    until(lambda: arrival.progress and arrival.progress.done)
    return arrival


def test_a_folder_comes_without_a_question(model):
    """It is found and loaded, and has run once by then, so that no page waits for that."""
    arrival = settled(wait_for(str(model), "a"))

    assert arrival.stage == "here"
    assert arrival.done
    assert arrival.source.loaded.trial.heads
    assert arrival.source.num_heads == 2
    assert wait_for(str(model), "b") is arrival


def test_a_folder_is_listed_only_for_the_session_that_named_it(model):
    """Compare lists the models that are here; where a visitor's folders stand is nobody else's business."""
    wait_for(str(model), "anna").settled.wait(PATIENCE)

    assert arrivals.here("anna") == (str(model),)
    assert arrivals.here("ben") == ()


def test_nothing_is_fetched_before_somebody_said_yes(hub):
    """The question comes with the files and their sizes; only what the hub has was asked."""
    arrival = settled(wait_for(NAME, "a"))

    assert arrival.stage == "asking"
    assert arrival.asks("a")
    assert {file.name: file.size for file in arrival.place.files} == {
        name: len(data) for name, data in hub.files[NAME].items() if name in hubs.files.wanted(hub.files[NAME])
    }
    assert all(path.startswith("/api/models/") for path in hub.paths("GET"))


def test_a_model_is_fetched_and_loaded(hub):
    """Download, reading and trial are told to the end, and the same model is here for whoever comes later."""
    arrival = settled(wait_for(NAME, "a"))
    fetch(NAME, "a")

    assert not arrival.asks("a")
    settled(arrival)
    assert (arrival.stage, arrival.error) == ("here", None)
    assert arrival.progress.what == "trying"
    assert arrival.source.loaded.commit == fake_hub.COMMIT
    assert wait_for(NAME, "b") is arrival


def test_a_load_says_what_is_being_done(monkeypatch):
    """First that it loads, then that it reads, then that it checks the model."""
    sentences = []
    monkeypatch.setattr(pretrained, "large", sentences.append)
    for progress in (None, *(hubs.DownloadProgress(what, 0, 0) for what in ("reading", "trying"))):
        pretrained._tell(Arrival("gpt2", "loading", progress=progress), "loading", nullcontext(), None)

    assert sentences == [line.format(model="gpt2") for line in (words.LOADING, words.READING, words.TRYING)]


def test_a_download_ends_when_the_last_who_said_yes_is_gone(hub):
    """It goes on while there is one; then whoever asks for the model is asked again, and it comes."""
    arrival = fetching(hub, "a", "b")
    leave("a")

    assert arrivals._arrivals[NAME] is arrival
    time.sleep(3 * hubs.EVERY)
    assert not arrival.settled.is_set()

    leave("b")
    settled(arrival)

    assert isinstance(arrival.error, hubs.Canceled)
    assert not arrivals.failed(NAME)
    hub.fault = None
    again = settled(wait_for(NAME, "a"))
    assert again is not arrival
    assert again.stage == "asking"
    fetch(NAME, "a")
    assert settled(again).stage == "here"


def test_who_asks_for_another_model_waits_no_more(hub, model):
    """The download for which nobody waits ends."""
    arrival = fetching(hub, "a")
    other = settled(wait_for(str(model), "a"))

    assert isinstance(settled(arrival).error, hubs.Canceled)
    assert other.stage == "here"


def test_one_download_keeps_nobody_who_has_not_said_yes(hub):
    """Who comes while it goes on is asked, too, and keeps it going only after saying yes."""
    arrival = fetching(hub, "a")

    assert wait_for(NAME, "b") is arrival
    assert arrival.asks("b")
    assert not arrival.asks("a")

    leave("a")

    assert isinstance(settled(arrival).error, hubs.Canceled)


def test_a_download_waits_a_moment_for_a_page_that_is_loaded_again(hub, monkeypatch):
    """The same person comes back as another session, and is not asked again."""
    there = {"before"}
    monkeypatch.setattr(arrivals, "is_connected", lambda session: session in there)
    arrival = fetching(hub, "before")
    there.clear()
    time.sleep(3 * hubs.EVERY)
    there.add("after")

    assert wait_for(NAME, "after") is arrival
    assert not arrival.asks("after")

    monkeypatch.setattr(jobs, "GRACE", 2 * hubs.EVERY)
    there.clear()

    assert isinstance(settled(arrival).error, hubs.Canceled)
    assert wait_for(NAME, "later") is not arrival


def test_a_question_to_which_nobody_is_there_is_forgotten(hub, monkeypatch):
    """Its sizes would grow old."""
    there = {"a"}
    monkeypatch.setattr(arrivals, "is_connected", lambda session: session in there)
    arrival = settled(wait_for(NAME, "a"))

    assert wait_for(NAME, "a") is arrival

    there.clear()

    assert wait_for(NAME, "b") is not arrival


def test_two_sessions_wait_for_one_load(model, monkeypatch):
    """It is loaded once; when one of them leaves, the other still gets it."""
    go_on, loads, load = threading.Event(), [], sources.loading.load

    def loading(place, report, room):
        loads.append(place)
        assert go_on.wait(PATIENCE)
        return load(place, report, room)

    monkeypatch.setattr(sources.loading, "load", loading)
    first, second = wait_for(str(model), "a"), wait_for(str(model), "b")
    until(lambda: first.stage == "loading")
    leave("a")

    assert first is second
    assert first.sessions == {"b"}

    go_on.set()

    assert settled(second).stage == "here"
    assert len(loads) == 1


@pytest.fixture
def stuck(model, tmp_path, monkeypatch):
    """Folders whose tokenizer is never done, as many as models load at once; at the end they are."""
    go_on, read = threading.Event(), opening._tokenizer

    def tokenizer(folder, name):
        if "stuck" in name:
            go_on.wait(PATIENCE)
        return read(folder, name)

    monkeypatch.setattr(opening, "_tokenizer", tokenizer)
    yield [str(shutil.copytree(model, tmp_path / f"stuck-{number}")) for number in range(4)]
    go_on.set()


@pytest.mark.parametrize("is_gone", [False, True], ids=["canceled", "closed tab"])
def test_a_load_that_never_ends_keeps_nobody_waiting(stuck, model, monkeypatch, is_gone):
    """Four of them took the four places for good; the vision model that ships does not even wait for them to leave."""
    monkeypatch.setattr(jobs, "GRACE", 0.1)
    there = {"visitor", *stuck}
    monkeypatch.setattr(arrivals, "is_connected", there.__contains__)
    hanging = [wait_for(name, name) for name in stuck]
    until(lambda: all(arrival.progress and arrival.job.has_turn for arrival in hanging))

    assert attnviz.analyze(attnviz.picture(assets.path("pictures/still-life.jpg")), "shapes").labels

    if is_gone:
        there -= {*stuck}
    else:
        for name in stuck:
            leave(name)

    assert settled(wait_for(str(model), "visitor")).stage == "here"
    assert not any(arrival.settled.is_set() for arrival in hanging)


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [(404, "There is no model 'tiny/story' at 127.0.0.1:"), ("short", "broke off in the middle of 'tiny/story'")],
)
def test_what_cannot_be_had_is_said_in_a_sentence(hub, fault, sentence):
    """At once or after the question; another try asks the hub again."""
    hub.fault = fault
    arrival = settled(wait_for(NAME, "a"))
    fetch(NAME, "a")
    settled(arrival)

    assert arrival.stage == "failed"
    assert isinstance(arrival.error, AttnvizError)
    assert sentence in str(arrival.error)
    assert arrivals.failed(NAME) is wait_for(NAME, "b") is arrival

    hub.fault = None
    arrivals.forget(arrival)

    assert settled(wait_for(NAME, "a")).stage == "asking"


def test_what_failed_is_tried_again_after_a_while(hub, monkeypatch):
    """Not at once: a page that runs often does not ask a hub as often."""
    hub.fault = 500
    arrival = settled(wait_for(NAME, "a"))
    asked = len(hub.asked)

    assert wait_for(NAME, "a") is arrival
    assert len(hub.asked) == asked

    monkeypatch.setattr(arrivals, "RETRY", 0.0)
    hub.fault = None

    assert settled(wait_for(NAME, "a")).stage == "asking"


def test_a_mistake_of_ours_is_a_sentence_too(model, monkeypatch, caplog):
    """The page says what happened and what to send us, the log holds the traceback; no page waits forever."""

    def load(place, report, room):
        raise ZeroDivisionError("a mistake")

    monkeypatch.setattr(sources.loading, "load", load)
    arrival = settled(wait_for(str(model), "a"))

    assert arrival.stage == "failed"
    assert "cannot be loaded: ZeroDivisionError, a mistake (attnviz 0" in str(arrival.error)
    assert str(arrival.error).endswith("Please send us this sentence.")
    assert "a mistake" in caplog.text


def test_only_some_are_remembered(monkeypatch, tmp_path):
    """Of models that failed the oldest are forgotten: names can be anything."""
    monkeypatch.setattr(arrivals, "MOST_FAILED", 3)
    names = [str(tmp_path / f"missing-{i}") for i in range(5)]
    for name in names:
        settled(wait_for(name, "a"))
    wait_for(names[-1], "a")

    assert [name for name in names if arrivals.failed(name)] == names[-3:]


@pytest.fixture
def served(request):
    """The app under some names."""
    before = config.get_option("server.allowedHosts")
    config.set_option("server.allowedHosts", request.param)
    yield
    config.set_option("server.allowedHosts", before)


def refused_folders(tmp_path: Path) -> set[str]:
    """What is said of folders, files and what is not there, without the name."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "config.json").write_text("{")
    (tmp_path / "file.bin").write_bytes(b"1")
    there = [tmp_path / name for name in ("none", "empty", "broken", "file.bin", "none/none")]
    others = "./tests ./none ~nobody/x ~root /root /etc/passwd ../none C:\\x a\\b /\0".split(" ")
    names = [*map(str, there), *others, "/" + "x" * 5000]
    return {str(settled(wait_for(name, "one")).error).replace(quoted(name, 120), "") for name in names}


@pytest.mark.parametrize("served", [["localhost", "attention.example.org"], []], indirect=True)
def test_a_server_that_others_reach_opens_only_models_on_its_list(served, tmp_path, model, hub, monkeypatch):
    """Without a list none but those that ship. A folder is on no list, and nobody is told which folders exist."""
    (said,) = refused_folders(tmp_path)

    assert said == " may not be loaded here. The models of this server are: none."
    assert settled(wait_for(str(model), "one")).stage == "failed"
    assert settled(wait_for(NAME, "one")).stage == "failed"
    assert hub.asked == []

    monkeypatch.setenv("ATTNVIZ_MODELS", NAME)
    arrivals._arrivals.clear()

    assert settled(wait_for(NAME, "one")).stage == "asking"
    assert settled(wait_for(str(model), "one")).stage == "failed"


@pytest.mark.parametrize("served", [["localhost", "127.0.0.1"]], indirect=True)
def test_on_a_machine_of_ones_own_it_is_told_what_is_wrong_with_a_folder(served, tmp_path, model):
    said = refused_folders(tmp_path)

    assert len(said) > 2
    assert not any("may not be loaded here" in sentence for sentence in said)
