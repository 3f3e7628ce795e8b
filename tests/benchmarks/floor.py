"""What a click costs where no server works: the messages of each click, recorded and sent again, and what is left.

Time of processors, as other programs do not show in it: that of the server and that of the tab, which renders. What the
tab takes for the recorded messages alone is the least that a click can take here, whatever the app does.
"""

import json
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from subprocess import DEVNULL
from urllib.parse import urlencode

import streamlit
import uvicorn
from clicks import WIRE, click
from measure import machine, table
from playwright.sync_api import Browser
from starlette.applications import Starlette
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles

import app

sys.path.insert(0, str(Path(__file__).parents[1] / "browser"))
import driver

LENGTHS = (16, 64, 256, 512)
ROUNDS = 10


class Recorded:
    """A server that answers each click with the messages that it has, and does nothing else."""

    def __init__(self, opening: list[bytes], config: dict):
        self.due, self._port = opening, driver.free_port()
        routes = [
            Route("/_stcore/health", lambda _: PlainTextResponse("ok")),
            Route("/_stcore/host-config", lambda _: JSONResponse(config)),
            WebSocketRoute("/_stcore/stream", self._answer),
            Route("/cells/{name}", lambda _: JSONResponse([])),
            Mount("/", StaticFiles(directory=Path(streamlit.__file__).parent / "static", html=True)),
        ]
        options = uvicorn.Config(Starlette(routes=routes), port=self._port, log_level="error")
        self._server = uvicorn.Server(options)
        self._thread = threading.Thread(target=self._server.run, daemon=True)

    async def _answer(self, socket) -> None:
        await socket.accept(subprotocol="streamlit")
        while (await socket.receive())["type"] != "websocket.disconnect":
            due, self.due = self.due, []
            for message in due:
                await socket.send_bytes(message)

    @contextmanager
    def running(self) -> Iterator[str]:
        self._thread.start()
        while not self._server.started:
            time.sleep(0.01)
        yield f"http://127.0.0.1:{self._port}"
        self._server.should_exit = True
        self._thread.join()


class Tab:
    """A page, the time that its thread took, and that of its server."""

    def __init__(self, browser: Browser, address: str, server: int | None = None):
        self.page = browser.new_page(viewport=app.VIEWPORT)
        self._clock = server and (~server << 3) | 2  # of all threads of a process, as Linux numbers these clocks
        self.received: list[bytes] = []
        self.page.on("websocket", lambda wire: wire.on("framereceived", lambda one: self.received.append(one)))
        self.page.add_init_script(WIRE)
        self.page.goto(address)
        self.page.wait_for_selector("[class*=st-key-picture] .marks", timeout=120_000)
        driver.settled(self.page)
        self._wire = self.page.context.new_cdp_session(self.page)
        self._wire.send("Performance.enable", {"timeDomain": "threadTicks"})
        self.took: list[tuple[float, float, float]] = []

    def press(self, selector: str, nth: int, counts: bool) -> list[bytes]:
        """Click, note the milliseconds to everything painted, of the tab and of the server; gives what was received."""
        self.page.bring_to_front()
        known, before = len(self.received), self._times()
        if counts:
            done = click(self.page, selector, nth)
            tab, server = (after - one for after, one in zip(self._times(), before, strict=True))
            self.took.append((done.last, tab, server))
        else:
            self.page.locator(selector).nth(nth).evaluate("control => control.click()")
            driver.settled(self.page)
            self.page.wait_for_timeout(500)
        return self.received[known:]

    def _times(self) -> tuple[float, float]:
        metrics = {one["name"]: one["value"] for one in self._wire.send("Performance.getMetrics")["metrics"]}
        return metrics["TaskDuration"] * 1e3, time.clock_gettime(self._clock) * 1e3 if self._clock else 0.0


def script(what: str) -> Iterator[tuple[str, int, bool]]:
    """Clicks to states that were never seen: what to press, and whether it is one that counts."""
    if what == "mask":
        yield ".st-key-mask-menu button", 0, False
    if what == "knob":
        yield "text=Try changes", 0, False
    for i in range(ROUNDS + 2):
        if what == "knob":  # of the page Steps, as `app.knobs` turns them
            yield app.KNOB, (1, 3, 4)[app.gray(i, 3)], False
            yield app.KNOB, 0, i > 1
            continue
        yield app.EYE, app.gray(i, 8), what == "head" and i > 1
        if what == "mask":
            yield app.MASK, 0, i > 1


def measured(browser: Browser, ours: tuple[str, int], bare: tuple[str, int], n: int, what: str) -> Iterator[list[str]]:
    """Clicks on a page, on a bare one, and on the page whose messages are sent again."""
    query = urlencode({"model": "scratch", "num_heads": "8", "text": f"{what} {app.sentence(n - 1)}"})
    path = f"steps?mask=subsequent&stage=softmax&{query}" if what == "knob" else f"?{query}"
    page, floor = Tab(browser, f"{ours[0]}/{path}", ours[1]), Tab(browser, *bare)
    opening, answers = list(page.received), []
    for i, pressed in enumerate(script(what)):
        answers.append(page.press(*pressed))
        floor.press(app.SEED, i + 1, pressed[2])
    page.page.close()
    config = json.load(urllib.request.urlopen(f"{ours[0]}/_stcore/host-config"))
    again = Recorded(opening, config)
    with again.running() as address:
        tab = Tab(browser, f"{address}/{path.removeprefix('steps')}")
        for pressed, again.due in zip(script(what), answers, strict=True):
            tab.press(*pressed)
        tab.page.close()
    floor.page.close()
    for name, one in (("page", page), ("recorded", tab), ("bare page", floor)):
        last, thread, server = (median(times) for times in zip(*one.took, strict=True))
        yield [f"{n}", what, name, f"{last:.0f} ms", f"{thread:.0f} ms", f"{server:.0f} ms" if server else "none"]


def main(lengths: tuple[int, ...] = LENGTHS) -> None:
    print(machine())
    servers = [(driver.free_port(), script) for script in ("app.py", app.BARE)]
    running = [(f"http://127.0.0.1:{port}", driver.start_app(port, DEVNULL, script)) for port, script in servers]
    try:
        with driver.chromium() as browser:
            ours, bare = ((address, process.pid) for address, process in running)
            clicks = [(n, what) for n in lengths for what in ("head", "mask", *["knob"] * (n < 64))]
            rows = [row for click in clicks for row in measured(browser, ours, bare, *click)]
            table("A click, with its server and without", ["tokens", "what", "", "painted", "tab", "server"], rows)
    finally:
        for _, process in running:
            process.terminate()


if __name__ == "__main__":
    main(tuple(map(int, sys.argv[1:])) or LENGTHS)
