"""Measure the app with many users at once: `make load`. It prints times and memory, and asserts nothing.

    python tests/benchmarks/load.py [--users 30] [--seconds 60 | --minutes 20] [--every 2] [--shared 0.5] [--public]

It starts the server as `make run` does, with --public as an app for others. Every user opens a link and the menu of
masks, which stays open, and then toggles a head, or a mask, every two seconds, over a websocket and without a browser:
thirty browsers would need the cores themselves. Half of the users look at one text, as a class does, in a model that
predicts words; each of the others has a text of their own and a model of eight heads, so most of their states were
never seen before.

Goals on two cores: of 30 users, 95 of 100 clicks are answered within 2 s; the server's memory stays below 1 GB for what
it keeps (`MOST_BYTES` of attnviz.ui.cache) and 1.5 GB for what runs, with a model like MiniLM and texts of any
length. A public app stays below 1 GB with the processes that it starts, and after the first minutes of a soak its
memory does not grow.
"""

import argparse
import asyncio
import os
import random
import re
import subprocess
import sys
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlencode

import psutil
from measure import machine, table
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ButtonGroup_pb2 import ButtonGroup
from streamlit.proto.Delta_pb2 import Delta
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.asyncio.client import ClientConnection, connect

sys.path.insert(0, str(Path(__file__).parents[1] / "browser"))
import driver

EYES, RULES, MASK = "Active heads", "Rules", "Mask"
"""Labels of the pills, and of the menu in which the rules stand."""
MASKS = 0.25
"""Share of the clicks that toggle a mask; the others toggle a head."""

CLASS = {"model": "story", "text": "The cat sat on the mat because it was tired ."}
OWN = {"model": "scratch:num_heads=8"}
WORDS = "the cat sat on a mat and saw two birds by some old tree near our house when rain came down".split()

LATE = 60.0
"""Seconds after which an answer counts as missing."""

POINTS = 20
"""Numbers of the memory curve."""


@dataclass
class Click:
    """One toggle: seconds to the end of the run, messages and bytes that came, and whether the state was new to all.

    A public server that has no memory left refuses the run.
    """

    seconds: float
    messages: int
    size: int
    new: bool
    refused: bool


@dataclass
class User:
    """One open page. It answers as the browser does: it sends what its pills hold, and which messages it has kept.

    Attributes:
        pills: by their label, of the heads that are on and of masks: the id of the control, that of its fragment, all
            options, and those chosen.
        menus: by their label: the id of the control, that of its fragment, and whether it is open.
        address: the link that the page shows.
        kept: the hashes of the messages of the last runs.
        messages, size: how many came in the last run, and their bytes.
        refused: whether one of them said that there is no memory left.
    """

    link: dict[str, str]
    random: random.Random
    socket: ClientConnection | None = None
    pills: dict[str, tuple[str, str, list[str], list[str]]] = field(default_factory=dict)
    menus: dict[str, tuple[str, str, bool]] = field(default_factory=dict)
    address: str = ""
    kept: deque = field(default_factory=lambda: deque(maxlen=3))
    messages: int = 0
    size: int = 0
    refused: bool = False

    async def open(self, address: str) -> float:
        """Open the page by a link, and then the menu of masks; gives the seconds that the page took."""
        start = time.perf_counter()
        self.socket = await connect(address, subprotocols=["streamlit"], max_size=None, open_timeout=LATE)
        await self._run()
        seconds = time.perf_counter() - start
        if MASK not in self.menus:  # the page was refused
            return seconds
        widget, fragment, _ = self.menus[MASK]
        self.menus[MASK] = widget, fragment, True
        await self._run(fragment)
        return seconds

    async def click(self, seen: set) -> Click:
        """Toggle one head or one mask, or ask for the page again if it was refused."""
        label, fragment = RULES if self.random.random() < MASKS else EYES, ""
        if label in self.pills:
            widget, fragment, options, values = self.pills[label]
            option = self.random.choice(options)
            self.pills[label] = widget, fragment, options, [o for o in options if (o in values) != (o == option)]
        state = self.link["text"], *(tuple(values) for *_, values in self.pills.values())
        new = state not in seen
        seen.add(state)
        start = time.perf_counter()
        await self._run(fragment)
        return Click(time.perf_counter() - start, self.messages, self.size, new, self.refused)

    async def _run(self, fragment: str = "") -> None:
        """Ask for a run, and read until it has ended."""
        asked = BackMsg()
        asked.rerun_script.query_string = self.address or urlencode(self.link)
        asked.rerun_script.fragment_id = fragment
        asked.rerun_script.cached_message_hashes.extend(set().union(*self.kept))
        for widget, _, _, values in self.pills.values():
            asked.rerun_script.widget_states.widgets.add(id=widget).string_array_value.data[:] = values
        for widget, _, is_open in self.menus.values():
            asked.rerun_script.widget_states.widgets.add(id=widget).bool_value = is_open
        self.messages, self.size, self.refused = 0, 0, False
        self.kept.append(set())
        await self.socket.send(asked.SerializeToString())
        async with asyncio.timeout(LATE):
            while not self._ends(await self.socket.recv()):
                pass

    def _ends(self, received: bytes) -> bool:
        """Read one message; return whether the run is over."""
        message = ForwardMsg.FromString(received)
        self.refused |= b"no memory left for another run" in received
        self.messages, self.size = self.messages + 1, self.size + len(received)
        kind = message.WhichOneof("type")
        if kind == "ref_hash" or message.metadata.cacheable:
            self.kept[-1].add(message.ref_hash or message.hash)
        if kind == "delta" and message.delta.new_element.HasField("exception"):
            raise RuntimeError(f"The page shows an exception: {message.delta.new_element.exception.message}")
        if kind == "page_info_changed":
            self.address = message.page_info_changed.query_string
        if kind == "delta":
            self._take(message.delta)
        return kind == "script_finished" and message.script_finished != ForwardMsg.FINISHED_EARLY_FOR_RERUN

    def _take(self, delta: Delta) -> None:
        """Store menus, and pills with their values: those the page set, else those chosen, else the defaults."""
        element, menu, fragment = delta.new_element, delta.add_block.popover, delta.fragment_id
        if menu.id:
            self.menus[menu.label] = menu.id, fragment, menu.open
        if not element.HasField("button_group") or element.button_group.click_mode != ButtonGroup.MULTI_SELECT:
            return
        group = element.button_group
        options = [option.content for option in group.options]
        values = [options[i] for i in group.default]
        if group.set_value:
            values = list(group.raw_values)
        elif group.label in self.pills and self.pills[group.label][0] == group.id:
            values = self.pills[group.label][3]
        self.pills[group.label] = group.id, fragment, options, values


async def act(user: User, until: float, every: float, seen: set, clicks: list[Click]) -> None:
    """Click at random moments until the end."""
    await asyncio.sleep(user.random.uniform(0, every))
    while time.perf_counter() < until:
        start = time.perf_counter()
        clicks.append(await user.click(seen))
        await asyncio.sleep(max(0.0, every * user.random.uniform(0.5, 1.5) - (time.perf_counter() - start)))
    await user.socket.close()


def text_of(number: int) -> str:
    """Return a text of 8 to 40 words that no other user has."""
    drawn = random.Random(number)
    return " ".join(drawn.choice(WORDS) for _ in range(drawn.randint(8, 40)))


async def load(asked: argparse.Namespace, address: str, opened=lambda: None) -> tuple[list[float], list[Click]]:
    """Open all pages, one after the other as people come in; then all click. Gives seconds to open, and the clicks."""
    users = []
    for i in range(asked.users):
        link = CLASS if i < asked.shared * asked.users else OWN | {"text": text_of(i)}
        users.append(User(link, random.Random(i)))
    pages = [await user.open(address) for user in users]
    opened()
    clicks, seen, until = [], set(), time.perf_counter() + asked.seconds
    await asyncio.gather(*(act(user, until, asked.every, seen, clicks) for user in users))
    return pages, clicks


def quantile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, round(share * (len(values) - 1)))]


def memory(pid: int, name: str) -> float:
    """Return the memory that a process uses (VmRSS) or used at most (VmHWM), in MB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(rf"{name}:\s*(\d+)", status)[1]) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--users", type=int, default=30)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--every", type=float, default=2, help="seconds between the clicks of one user, on average")
    parser.add_argument("--shared", type=float, default=0.5, help="share of the users who look at one text")
    parser.add_argument("--minutes", type=float, help="in place of --seconds, for a soak")
    parser.add_argument("--public", action="store_true", help="measure an app for others: attnviz app --public")
    asked = parser.parse_args()
    if asked.minutes:
        asked.seconds = 60 * asked.minutes
    if asked.public:
        os.environ["ATTNVIZ_PUBLIC"] = "1"
    print(f"{asked.users} users, each a click every {asked.every:g} s. {machine()}")
    port = driver.free_port()
    process = driver.start_app(port, subprocess.DEVNULL)
    began, curve = [], Curve(process.pid, asked.seconds / POINTS)
    try:
        time.sleep(8)  # what a server does once
        before = memory(process.pid, "VmRSS")
        address = f"ws://127.0.0.1:{port}/_stcore/stream"

        def opened() -> None:
            began.append(cpu(process.pid))
            curve.start()

        pages, clicks = asyncio.run(load(asked, address, opened))
        used = cpu(process.pid) - began[0]
        peak, after = memory(process.pid, "VmHWM"), memory(process.pid, "VmRSS")
    finally:
        curve.ended.set()
        process.terminate()
        process.wait(timeout=20)
    report(pages, clicks)
    print(
        f"\nServer: {before:,.0f} MB before, {after:,.0f} MB after, {peak:,.0f} MB at most; "
        f"{1e3 * used / len(clicks):.0f} ms of processor time per click; "
        f"{sum(click.refused for click in clicks)} runs refused for memory. {machine()}"
    )
    numbers = " ".join(f"{megabytes:.0f}" for megabytes in curve.points)
    print(f"With what it starts, MB at most in each {curve.every:g} s: {numbers}")


class Curve(threading.Thread):
    """Memory of a process and of those that it has started, in MB: the most in each stretch of time."""

    def __init__(self, pid: int, every: float):
        super().__init__(daemon=True)
        self.process, self.every = psutil.Process(pid), every
        self.points: list[float] = []
        self.ended = threading.Event()

    def run(self) -> None:
        begun = time.monotonic()
        while not self.ended.wait(min(1.0, self.every / 2)):
            place = int((time.monotonic() - begun) / self.every)
            self.points += [0.0] * (place + 1 - len(self.points))
            self.points[place] = max(self.points[place], self._now())

    def _now(self) -> float:
        try:
            processes = (self.process, *self.process.children(recursive=True))
            return sum(process.memory_info().rss for process in processes) / 2**20
        except psutil.Error:  # one of them has just ended
            return 0.0


def cpu(pid: int) -> float:
    """Seconds of processor time that a process has used."""
    parts = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(parts[11]) + int(parts[12])) / 100


def report(pages: list[float], clicks: list[Click]) -> None:
    """A row for all pages, for all clicks, for those to states never seen before, and for the others."""
    rows = [["page opened", f"{len(pages)}", *_quantiles(pages), "", ""]]
    new, known = ([click for click in clicks if click.new == new] for new in (True, False))
    for name, some in (("click", clicks), ("to a new state", new), ("to a known state", known)):
        if some:
            messages = sum(click.messages for click in some) / len(some)
            size = sum(click.size for click in some) / len(some)
            times = _quantiles([click.seconds for click in some])
            rows.append([name, f"{len(some)}", *times, f"{messages:.0f}", f"{size / 1e3:.0f} kB"])
    table("From a click to the end of its run", ["what", "times", "p50", "p95", "max", "messages", "size"], rows)


def _quantiles(values: list[float]) -> list[str]:
    return [f"{quantile(values, share):.2f} s" for share in (0.5, 0.95, 1)]


if __name__ == "__main__":
    main()
