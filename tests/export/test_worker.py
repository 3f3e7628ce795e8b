"""The process that draws may crash, hang and be killed: the next picture comes all the same."""

import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import altair as alt
import pandas as pd
import pytest
from pypdf import PdfReader

from attnviz.export import ExportError, drawing, render, spec
from attnviz.export.drawing import Worker

ROOT = Path(__file__).parents[2]
ON_POSIX = pytest.mark.skipif(os.name != "posix", reason="signals")


def text(word: str, font: str = "sans-serif") -> str:
    """Vega-Lite that draws one word."""
    mark = {"type": "text", "font": font}
    return json.dumps({"data": {"values": [{"a": word}]}, "mark": mark, "encoding": {"text": {"field": "a"}}})


def ask(worker: Worker, word: str, deadline: float = 20.0) -> bytes:
    return worker.ask({"what": "svg", "picture": text(word)}, deadline)


def alive(pid: int) -> bool:
    status = Path(f"/proc/{pid}/stat")
    return status.exists() and status.read_text().rpartition(")")[2].split()[0] != "Z"


def gone(pid: int, seconds: float = 10) -> bool:
    end = time.monotonic() + seconds
    while alive(pid) and time.monotonic() < end:
        time.sleep(0.05)
    return not alive(pid)


@pytest.fixture
def worker():
    worker = Worker()
    yield worker
    worker._stop()


@pytest.mark.parametrize("word", ["\x01", "\x1b", "\uffff"])
def test_a_character_that_ends_the_worker_is_one_sentence_and_the_next_picture_comes(worker, word):
    """vl-convert aborts on it."""
    with pytest.raises(ExportError, match=r"^The picture could not be drawn: the program that draws stopped"):
        ask(worker, word)

    assert b"cat" in ask(worker, "cat")


def test_a_picture_that_is_none_is_one_sentence_and_the_worker_stays(worker):
    ask(worker, "cat")
    before = worker.pid

    with pytest.raises(ExportError, match=r"^The picture could not be drawn: [^\n]+\.$"):
        worker.ask({"what": "svg", "picture": '{"mark": "nonsense"}'}, 20)
    assert b"cat" in ask(worker, "cat")
    assert worker.pid == before


@ON_POSIX
def test_a_worker_that_was_killed_is_started_anew(worker):
    ask(worker, "cat")
    os.kill(worker.pid, signal.SIGKILL)
    while worker.pid:
        time.sleep(0.01)

    assert b"mat" in ask(worker, "mat")


@ON_POSIX
def test_a_worker_that_hangs_is_ended_at_the_deadline(worker):
    ask(worker, "cat")
    hanging = worker.pid
    os.kill(hanging, signal.SIGSTOP)
    begin = time.monotonic()

    with pytest.raises(ExportError, match=r"not drawn within 0.5 s"):
        ask(worker, "mat", deadline=0.5)
    assert time.monotonic() - begin < 2
    assert gone(hanging)
    assert b"sat" in ask(worker, "sat")


@ON_POSIX
def test_waiting_for_another_thread_counts(worker):
    ask(worker, "cat")
    os.kill(worker.pid, signal.SIGSTOP)
    with ThreadPoolExecutor(2) as pool:
        answers = [pool.submit(ask, worker, word, 0.5) for word in ("the", "mat")]
        assert all(isinstance(answer.exception(), ExportError) for answer in answers)

    assert b"sat" in ask(worker, "sat")


def test_many_threads_each_get_their_own_picture(worker):
    words = [f"token{i}" for i in range(40)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda word: ask(worker, word), words))

    assert all(f">{word}<".encode() in svg for word, svg in zip(words, found, strict=True))


@ON_POSIX
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_no_worker_outlives_the_process_that_started_it(end):
    code = (
        "from attnviz.export import drawing; import time, sys\n"
        'drawing.draw(\'svg\', \'{"data":{"values":[{}]},"mark":"point"}\')\n'
        "print(drawing.THE_WORKER.pid, flush=True); time.sleep(60)"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, cwd=ROOT, text=True)
    pid = int(parent.stdout.readline())
    assert alive(pid)
    parent.send_signal(end)
    parent.communicate()

    assert gone(pid)


@ON_POSIX
def test_a_worker_that_nobody_refers_to_ends(worker):
    other = Worker()
    ask(other, "cat")
    pid = other.pid
    del other

    assert gone(pid)


@ON_POSIX
def test_the_worker_loads_neither_torch_nor_attnviz(worker):
    """It starts in half a second and is small, because it is run by its path."""
    ask(worker, "cat")
    maps = Path(f"/proc/{worker.pid}/maps")
    if not maps.exists():
        pytest.skip("no /proc here")

    assert "vl_convert" in maps.read_text()
    assert "libtorch" not in maps.read_text()


def test_tokens_are_drawn_on_a_machine_without_fonts(worker, tmp_path, monkeypatch):
    """Without the font in assets/fonts, vl-convert draws no token at all there."""
    empty = tmp_path / "fonts"
    empty.mkdir()
    (tmp_path / "fonts.conf").write_text(f'<?xml version="1.0"?><fontconfig><dir>{empty}</dir></fontconfig>')
    monkeypatch.setenv("FONTCONFIG_FILE", str(tmp_path / "fonts.conf"))
    pdf = worker.ask({"what": "pdf", "picture": text("cat кот γάτα ␣", "Nowhere, monospace")}, 20)

    assert "cat кот γάτα ␣" in PdfReader(io.BytesIO(pdf)).pages[0].extract_text()


def test_a_chart_keeps_its_data_while_another_thread_turns_altairs_switches():
    """Streamlit does this for every chart it draws."""
    chart = alt.Chart(pd.DataFrame({"token": ["cat"]})).mark_text().encode(text="token:N")
    alt.data_transformers.register("nothing", lambda data: {"name": "taken away"})
    done = threading.Event()

    def turn():
        while not done.is_set():
            with alt.theme.enable("none"), alt.data_transformers.enable("nothing"):
                time.sleep(0.0005)

    thread = threading.Thread(target=turn)
    thread.start()
    try:
        found = {
            spec.to_json(spec.of(type("Figure", (), {"chart": chart, "title": "", "description": ""})))
            for _ in range(50)
        }
    finally:
        done.set()
        thread.join()
        alt.data_transformers.register("nothing", None)

    assert len(found) == 1
    assert '"cat"' in found.pop()


@ON_POSIX
def test_the_app_survives_a_text_that_was_not_cleaned(figure, monkeypatch):
    """If the cleaning ever misses a character, one export fails and nothing else."""
    monkeypatch.setattr(spec, "clean", lambda value: value)
    bad = alt.Chart(pd.DataFrame({"token": ["\x01"]})).mark_text().encode(text="token:N")
    with pytest.raises(ExportError, match="A character it cannot draw"):
        render(bad, "png")
    monkeypatch.undo()

    assert render(figure, "png").startswith(b"\x89PNG")


def test_warming_up_starts_the_worker_in_the_background():
    drawing.THE_WORKER._stop()
    drawing.warm()
    end = time.monotonic() + 20
    while not drawing.THE_WORKER.pid and time.monotonic() < end:
        time.sleep(0.05)

    assert drawing.THE_WORKER.pid
