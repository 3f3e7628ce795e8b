"""One click in a real page, from the press to everything painted, and where the time goes."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from playwright.sync_api import Page

WIRE = """
(() => {
    // Note when something is said to the server and when it answers, and how much.
    window.wire = {asked: [], answered: []};
    window.WebSocket = class extends WebSocket {
        constructor(...of) {
            super(...of);
            this.addEventListener('message', ({data}) =>
                window.wire.answered.push([performance.now(), data.byteLength ?? data.size]));
        }
        send(data) {
            window.wire.asked.push(performance.now());
            super.send(data);
        }
    };
})();
"""
CLICK = """
async ([selector, nth]) => {
    // Press, and note when each picture's marks change and are painted; over after half a second without a change.
    const redrawn = new Set();
    let first = null, last = null, busy = 0;
    const ofMarks = node => (node.closest ? node : node.parentElement)?.closest('.marks');
    const drawn = change => ofMarks(change.target)
        ?? [...change.addedNodes].map(n => n.querySelector?.('.marks') ?? ofMarks(n)).find(Boolean);
    const observer = new MutationObserver(changes => {
        const boxes = changes.map(drawn).filter(Boolean).map(marks => marks.closest('[class*="st-key-picture"]'));
        if (!boxes.length) return;
        boxes.forEach(box => redrawn.add(box?.className.match(/st-key-picture-(\\w+)/)[1] ?? '?'));
        busy += 1;
        requestAnimationFrame(() => setTimeout(() => {
            busy -= 1;
            last = performance.now() - start;
            first ??= last;
        }));
    });
    observer.observe(document.body, {subtree: true, childList: true, attributes: true, characterData: true});
    window.wire.asked.length = window.wire.answered.length = 0;
    const control = document.querySelectorAll(selector)[nth];
    const {left, top, width, height} = control.getBoundingClientRect();
    const at = {clientX: left + width / 2, clientY: top + height / 2}, start = performance.now();
    control.dispatchEvent(new MouseEvent('click', {bubbles: true, cancelable: true, view: window, ...at}));
    return await new Promise(resolve => {
        const wait = setInterval(() => {
            const now = performance.now() - start;
            if (busy || (now < 8000 && (last === null || now - last < 500))) return;
            clearInterval(wait);
            observer.disconnect();
            const {asked, answered} = window.wire, until = answered.filter(([at]) => at - start <= last);
            resolve(last === null ? null : {
                first, last,
                server: until.length ? until.at(-1)[0] - asked[0] : 0,
                messages: answered.length,
                bytes: answered.reduce((sum, [, size]) => sum + size, 0),
                redrawn: [...redrawn].sort().join(' '),
            });
        }, 20);
    });
}
"""


@dataclass(frozen=True)
class Click:
    """Cost of one click.

    Attributes:
        first, last: milliseconds until the first and the last picture was painted.
        server: milliseconds from the first question to the last answer that was painted.
        messages, bytes: of all answers.
        redrawn: the pictures that changed.
    """

    first: float
    last: float
    server: float
    messages: int
    bytes: int
    redrawn: str


def click(page: Page, selector: str, nth: int = 0) -> Click:
    """Click one of the elements that a selector matches.

    Raises:
        RuntimeError: if no picture changes within eight seconds.
    """
    seen = page.evaluate(CLICK, [selector, nth])
    if seen is None:
        raise RuntimeError(f"A click on {selector} ({nth}) changed no picture.")
    return Click(**seen)


COLUMNS = ["first", "all painted", "p95", "bare page", "ratio", "until answered", "messages", "kB", "redrawn"]


def row(ours: Sequence[Click], bare: Sequence[Click]) -> list[str]:
    """Medians of clicks, and how many times the bare page's they are."""

    def middle(name: str, clicks: Sequence[Click] = ours) -> float:
        return median(getattr(click, name) for click in clicks)

    last, least = middle("last"), middle("last", bare)
    times = [middle("first"), last, sorted(click.last for click in ours)[int(0.95 * (len(ours) - 1))], least]
    cells = [f"{time:.0f} ms" for time in times]
    cells += [f"{last / least:.2f}", f"{middle('server'):.0f} ms", f"{middle('messages'):.0f}"]
    return [*cells, f"{middle('bytes') / 1e3:.1f}", ours[0].redrawn]
