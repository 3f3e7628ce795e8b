"""The processes that draw may crash, hang and be killed: other pictures come all the same, and the error is true."""

import io
import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue

import pytest
from examples import some
from pypdf import PdfReader

from attnviz.export import ExportError
from attnviz.export.draw import Worker, Workers

ROOT = Path(__file__).parents[2]
PATIENCE = 60
"""Seconds that a test waits for what must come."""

ON_POSIX = pytest.mark.skipif(os.name != "posix", reason="signals")


def text(word: str, font: str = "sans-serif") -> str:
    """Vega-Lite that draws one word."""
    mark = {"type": "text", "font": font}
    return json.dumps({"data": {"values": [{"a": word}]}, "mark": mark, "encoding": {"text": {"field": "a"}}})


def ask(workers: Workers, word: str, deadline: float = PATIENCE) -> bytes:
    return workers.ask({"kind": "svg", "picture": text(word)}, deadline)


def idle(workers: Workers) -> list[int]:
    """Process numbers of workers without a job."""
    return [worker.pid for worker in workers._idle if worker.pid]


def gone(pid: int) -> bool:
    """Whether a process ends in time."""
    status, end = Path(f"/proc/{pid}/stat"), time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if not status.exists() or status.read_text().rpartition(")")[2].split()[0] == "Z":
            return True
        time.sleep(0.05)
    return False


@pytest.fixture
def workers():
    workers = Workers()
    yield workers
    for worker in workers._idle:
        worker.stop()


@pytest.fixture
def begun(monkeypatch):
    """Every worker to which a job was given, in this order, before the job is sent."""
    begun: Queue[Worker] = Queue()
    running = Worker._running_process

    def watched(self: Worker) -> subprocess.Popen:
        process = running(self)
        begun.put(self)
        return process

    monkeypatch.setattr(Worker, "_running_process", watched)
    return begun


@pytest.fixture
def hanging(workers, begun):
    """Starts a job in which a worker hangs: its process, and the answer that does not come."""
    with ThreadPoolExecutor(1) as pool:

        def start(workers=workers, deadline=PATIENCE):
            ask(workers, "cat")
            pid = begun.get().pid
            os.kill(pid, signal.SIGSTOP)
            answer = pool.submit(ask, workers, "hangs", deadline)
            assert begun.get(timeout=PATIENCE).pid == pid
            return pid, answer

        yield start


@pytest.mark.parametrize("word", some(["\x01", "\x1b", "\uffff"], 1))
def test_a_character_that_ends_the_worker_is_one_sentence_and_the_next_picture_comes(workers, begun, word):
    """vl-convert aborts on it, so nothing is gained by trying again."""
    reason = r"^The picture could not be drawn: vl-convert, which draws it, crashed \(SIGABRT"
    with pytest.raises(ExportError, match=reason):
        ask(workers, word)

    assert begun.qsize() == 1
    assert b"cat" in ask(workers, "cat")


@ON_POSIX
@pytest.mark.parametrize("by", [signal.SIGKILL, signal.SIGTERM])
def test_the_picture_of_a_worker_that_was_killed_is_drawn_by_another(workers, hanging, by):
    """Whether it did nothing then or was drawing: the picture need not have been the reason."""
    pid, answer = hanging()
    os.kill(pid, by)
    os.kill(pid, signal.SIGCONT)
    assert b"hangs" in answer.result(PATIENCE)

    os.kill(idle(workers)[0], by)
    assert b"mat" in ask(workers, "mat")


@ON_POSIX
def test_a_picture_whose_workers_are_killed_again_and_again_is_refused_with_the_signal(workers, monkeypatch):
    """A character is not blamed for it."""
    running = Worker._running_process

    def killed(self: Worker) -> subprocess.Popen:
        process = running(self)
        process.kill()
        return process

    with monkeypatch.context() as patched:
        patched.setattr(Worker, "_running_process", killed)
        with pytest.raises(ExportError, match=r"was killed twice \(SIGKILL\)") as found:
            ask(workers, "mat")

    assert "character" not in str(found.value)
    assert b"sat" in ask(workers, "sat")


@ON_POSIX
def test_a_worker_that_hangs_is_ended_at_the_deadline(workers, hanging):
    pid, answer = hanging(deadline=0.5)
    with pytest.raises(ExportError, match=r"not drawn within 0.5 s: choose a smaller scale"):
        answer.result(PATIENCE)

    assert gone(pid)
    assert b"sat" in ask(workers, "sat")


@ON_POSIX
@pytest.mark.parametrize("most", [1, 2])
def test_a_worker_that_hangs_keeps_others_waiting_only_where_all_hang(hanging, most):
    """Then the picture that waits is not to blame."""
    workers = Workers(most)
    pid, answer = hanging(workers)
    if most == 1:
        with pytest.raises(ExportError, match=r"not drawn within 0.2 s: other pictures were drawn first"):
            ask(workers, "mat", deadline=0.2)
    else:
        assert b"mat" in ask(workers, "mat")
    assert not answer.done()
    os.kill(pid, signal.SIGCONT)
    assert b"hangs" in answer.result(PATIENCE)


def test_a_picture_whose_time_passed_while_others_were_drawn_names_its_limit_and_ends_no_worker(workers):
    """The rest of its time is negative, which means nothing to a reader."""
    ask(workers, "cat")
    pids = idle(workers)

    with pytest.raises(ExportError, match=r"^The picture was not drawn within 1 s: other pictures were drawn first"):
        workers.ask({"kind": "svg", "picture": text("mat")}, 1, begun=time.monotonic() - 37.4)
    assert idle(workers) == pids


@ON_POSIX
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_no_worker_outlives_the_process_that_started_it(end):
    code = (
        "from attnviz.export import draw; import time\n"
        "draw.draw('svg', {'data': {'values': [{}]}, 'mark': 'point'})\n"
        "print(draw.WORKERS._idle[0].pid, flush=True); time.sleep(60)"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, cwd=ROOT, text=True)
    pid = int(parent.stdout.readline())
    parent.send_signal(end)
    parent.communicate()

    assert gone(pid)


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="no /proc here")
def test_a_worker_loads_neither_torch_nor_attnviz(workers):
    """It starts in half a second and is small, because it is run by its path."""
    ask(workers, "cat")
    maps = Path(f"/proc/{idle(workers)[0]}/maps").read_text()

    assert "vl_convert" in maps
    assert "libtorch" not in maps


def test_tokens_are_drawn_on_a_machine_without_fonts(workers, tmp_path, monkeypatch):
    """Without the fonts in assets/fonts, vl-convert draws no token at all there."""
    empty = tmp_path / "fonts"
    empty.mkdir()
    (tmp_path / "fonts.conf").write_text(f'<?xml version="1.0"?><fontconfig><dir>{empty}</dir></fontconfig>')
    monkeypatch.setenv("FONTCONFIG_FILE", str(tmp_path / "fonts.conf"))
    pdf = workers.ask({"kind": "pdf", "picture": text("cat кот γάτα ␣", "Nowhere, monospace")}, PATIENCE)

    assert "cat кот γάτα ␣" in PdfReader(io.BytesIO(pdf)).pages[0].extract_text()
