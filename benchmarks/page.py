"""The web page in Chromium: its first view on a slower processor, a key press in the editor, search
as you type, long lists, the graph, an edit by another program until it is seen, and the heap of a
screen that stays open.

The vault holds 10,000 entities with 30,000 links between them, and a note of 1 MB.
"""

from __future__ import annotations

import os
import random
import signal
import socket
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.report import Figure

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from tests.cli.command_line import CommandLine

_ENTITIES, _LINKS, _SLOWER, _TIMES = 10_000, 3, 4, 40
_ROUNDS, _SAVED = 30, 40  # a second each
_LARGE, _OPEN = "Large.md", "Open.md"
_PATIENCE_MS = 240_000
# When content is first there, in milliseconds since the page was asked for.
_FIRST = """
new MutationObserver((_, self) => {
  if (!document.querySelector('main h1') || document.querySelector('.loading')) return;
  requestAnimationFrame(() => { window.firstView ??= performance.now(); });
  self.disconnect();
}).observe(document, { childList: true, subtree: true });
"""
# From each key to the second frame after it, by which it has been painted.
_KEYS = """() => {
  window.keys = [];
  addEventListener('keydown', (event) => {
    const at = event.timeStamp;
    requestAnimationFrame(() => requestAnimationFrame((now) => window.keys.push(now - at)));
  }, true);
}"""
_FOUND = """() => {
  window.found = [];
  let at = 0;
  document.querySelector('[role=combobox]').addEventListener('input', (event) => {
    at = event.timeStamp;
  }, true);
  new MutationObserver(() => {
    if (at && document.querySelector('#found .snippet')) window.found.push(performance.now() - at);
    at = 0;
  }).observe(document.querySelector('#found'), { childList: true, subtree: true, characterData: true });
}"""  # noqa: E501
_FRAMES = """async (act) => {
  const box = document.querySelector(act === 'scroll' ? '.virtual .body' : 'canvas.graph');
  const times = [];
  let most = 0;
  for (let at = 0; at < 150; at += 1) {
    if (act === 'scroll') box.scrollTop += 900;
    else box.dispatchEvent(at % 3 ? new KeyboardEvent('keydown', { key: at % 2 ? 'ArrowLeft' : 'ArrowUp' })
      : new WheelEvent('wheel', { deltaY: at % 60 < 30 ? -60 : 60, cancelable: true }));
    times.push(await new Promise(requestAnimationFrame));
    most = Math.max(most, document.querySelectorAll('*').length);
  }
  return [times.at(-1) - times[0], times.length - 1, most];
}"""  # noqa: E501


def page(folder: Path) -> Iterator[Figure]:
    """All figures of the page."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415  only here, and slow to import

    from tests.api.test_app_browser import CHROMIUM, FLAGS  # noqa: PLC0415  where Chromium is

    command_line, url = _daemon(folder)
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
            yield from _first_view(browser, url)
            one = browser.new_page(viewport={"width": 1440, "height": 900})
            one.set_default_timeout(_PATIENCE_MS)
            yield from _typing(one, url)
            yield from _searching(one, url)
            yield from _lists(one, url)
            yield from _following(one, url, command_line.vault / _OPEN)
            yield from _staying(one, url, command_line.vault)
            browser.close()
    finally:
        for pid in command_line.started():
            os.kill(pid, signal.SIGKILL)


def _daemon(folder: Path) -> tuple[CommandLine, str]:
    """A daemon on the vault; its address."""
    from tests.cli.command_line import CommandLine  # noqa: PLC0415  only here

    environ = {"PARACHUTE_AGENT_BACKEND": "offline"}
    command_line = CommandLine(
        home=folder / "home", vault=folder / "vault", folder=folder, environ=environ
    )
    command_line.does("init", str(command_line.vault))
    chance = random.Random(14)  # noqa: S311  the same vault each time
    people = command_line.vault / "Brain/entities/people"
    people.mkdir(parents=True)
    for at in range(_ENTITIES):
        links = "".join(f"- [[person-{chance.randrange(_ENTITIES)}]]\n" for _ in range(_LINKS))
        text = f"# Person {at}\n\nGrows beans in garden {at % 97}.\n\n## Relationships\n\n{links}"
        (people / f"person-{at}.md").write_text(text)
    line = "A line of a long note about beans, peas and a few carrots.\n"
    (command_line.vault / _LARGE).write_text("# Large\n\n" + line * (1_000_000 // len(line)))
    (command_line.vault / _OPEN).write_text("# Open\n\nBefore.\n")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command_line.does("start", "--port", str(port))
    for name in ("daily", "brain"):
        command_line.does(
            "modules", "install", f"parachute://{name}", "--trust", "trusted", "--yes"
        )
    return command_line, f"http://127.0.0.1:{port}"


def _first_view(browser: Browser, url: str) -> Iterator[Figure]:
    """Cold, with nothing kept, and warm, with all files of the page kept; the middle of five."""
    seen: dict[str, list[float]] = {"cold": [], "warm": []}
    for _ in range(5):
        context = browser.new_context()
        one = context.new_page()
        one.set_default_timeout(_PATIENCE_MS)
        one.add_init_script(_FIRST)
        context.new_cdp_session(one).send("Emulation.setCPUThrottlingRate", {"rate": _SLOWER})
        for took in seen.values():
            one.goto("about:blank")
            one.goto(f"{url}/#/journal")
            _wait(one, "Boolean(window.firstView)")
            took.append(one.evaluate("window.firstView"))
        context.close()
    for kind, bound in (("cold", 700), ("warm", 300)):
        value = statistics.median(seen[kind])
        yield _ms(f"first view, {kind} cache, {_SLOWER}x slower processor", value, bound)


def _typing(one: Page, url: str) -> Iterator[Figure]:
    one.goto(f"{url}/#/vault/{_LARGE}?view=edit")
    one.locator(".cm-content").click()
    one.evaluate(_KEYS)
    for _ in range(_TIMES):
        one.keyboard.press("x")
        one.wait_for_timeout(60)  # as a fast typist does
    _wait(one, f"window.keys.length >= {_TIMES}")
    yield _ms("key press to screen in a note of 1 MB, p95", _p95(one.evaluate("window.keys")), 50)


def _searching(one: Page, url: str) -> Iterator[Figure]:
    one.goto(f"{url}/#/vault")
    one.keyboard.press("Control+k")
    one.locator("#found").wait_for()
    one.evaluate(_FOUND)
    box = one.get_by_role("combobox", name="Search or go to…")
    times = 0
    for word in ("garden 17", "person 4711", "beans"):
        box.fill("")
        for letter in word:
            box.press(letter)
            one.wait_for_timeout(350)
            times += 1
    took = one.evaluate("window.found")
    note = f"{len(took)} of {times} keys changed what was listed"
    yield _ms("search as you type, 10,000 notes, p95", _p95(took), 100, note)


def _lists(one: Page, url: str) -> Iterator[Figure]:
    one.goto(f"{url}/#/brain")
    one.locator(".virtual .line a").first.wait_for()
    took, frames, most = one.evaluate(_FRAMES, "scroll")
    yield _frame("10,000 entities scrolled, a frame", took / frames)
    yield Figure(name="elements in the page meanwhile", value=most, unit="", bound=1_500)
    began = time.perf_counter()
    one.goto(f"{url}/#/brain/graph?most={_ENTITIES}")
    one.locator("canvas.graph").wait_for()
    yield _ms("graph of 10,000 and 30,000, asked for", (time.perf_counter() - began) * 1_000, None)
    one.locator("canvas.graph[data-settled=true]").wait_for()
    yield _ms("the same, at rest", (time.perf_counter() - began) * 1_000, None)
    took, frames, _ = one.evaluate(_FRAMES, "pan")
    yield _frame("the same, panned and zoomed, a frame", took / frames)


def _following(one: Page, url: str, note: Path) -> Iterator[Figure]:
    """An edit by another program until the open page shows it."""
    one.goto(f"{url}/#/vault/{_OPEN}")
    one.get_by_text("Before.").wait_for()
    took = []
    for at in range(_TIMES):
        word = f"Change{at}end"
        seen = one.evaluate_handle(
            """(word) => ({ done: new Promise((resolve) => {
              const look = () => (document.querySelector('.markdown')?.textContent.includes(word)
                ? resolve(Date.now()) : requestAnimationFrame(look));
              look();
            }) })""",
            word,
        )
        began = time.time()
        fresh = note.with_suffix(".new")
        fresh.write_text(f"# Open\n\n{word}\n")
        fresh.replace(note)
        took.append(seen.evaluate("(seen) => seen.done") - began * 1_000)
    yield _ms("an edit by another program to the open page, p95", _p95(took), 150)


def _staying(one: Page, url: str, vault: Path) -> Iterator[Figure]:
    """The heap, after a collection, while the watch graph is live and notes are saved."""
    one.goto(f"{url}/#/watches")
    one.get_by_role("heading", level=1).first.wait_for()
    debugger = one.context.new_cdp_session(one)
    debugger.send("Performance.enable")
    heaps = []
    for at in range(_ROUNDS):
        for note in range(_SAVED):
            (vault / f"Saved {note}.md").write_text(f"# Saved\n\nFor the time {at}.\n")
            one.wait_for_timeout(1_000 / _SAVED)
        debugger.send("HeapProfiler.collectGarbage")
        reported = {
            one["name"]: one["value"] for one in debugger.send("Performance.getMetrics")["metrics"]
        }
        heaps.append(reported["JSHeapUsedSize"] / 1e6)
    said = f"{_SAVED * _ROUNDS:,} saves; MB at first {heaps[0]:.1f}, at last {heaps[-1]:.1f}"
    third = heaps[_ROUNDS // 3]
    yield Figure(
        name="growth of the heap after the first third",
        value=heaps[-1] - third,
        unit="MB",
        bound=1,
        note=said,
    )


def _wait(one: Page, condition: str) -> None:
    """Until it holds; asked by the debugger, since the page's policy stops Playwright's own way."""
    while not one.evaluate(condition):
        one.wait_for_timeout(50)


def _p95(values: list[float]) -> float:
    return statistics.quantiles(values, n=20)[-1]


def _ms(name: str, value: float, bound: float | None, note: str = "") -> Figure:
    return Figure(name=name, value=value, unit="ms", bound=bound, note=note)


def _frame(name: str, value: float) -> Figure:
    return _ms(name, value, 20, f"{1_000 / value:.0f} frames a second")
