#!/usr/bin/env python3
"""Tests the live web page in a headless Chromium (`make web-test`).

    web-test.py HEADTIME FOLDER

HEADTIME is the program. It serves an emulated drive; clients read and write; a scan runs. Then the page must show the
figures of `headtime status --json`, be usable by keyboard, fit a phone, and follow the reader's preferences. FOLDER
gets screenshots. Without a Chromium, the test is skipped.
"""

import json
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

import browser

VOLUMES = {
    "recorder": "256MiB,deadline=20ms,reserve=25%",
    "database": "1GiB,reserve=40%",
    "backup": "2GiB,limit=50%",
}


class Client:
    """An NBD client of one export: enough of the protocol for reads and writes."""

    def __init__(self, path, export):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        self.read_exact(18)
        name = export.encode()
        option = struct.pack(">IQII", 1, 0x49484156454F5054, 7, 6 + len(name))
        self.socket.sendall(option + struct.pack(">I", len(name)) + name + b"\0\0")
        while True:
            _, _, kind, length = struct.unpack(">QIII", self.read_exact(20))
            content = self.read_exact(length)
            if kind == 1:
                return
            assert kind == 3, f"{export}: {kind} {content}"

    def read_exact(self, count):
        found = b""
        while len(found) < count:
            part = self.socket.recv(count - len(found))
            assert part, "the server closed the connection"
            found += part
        return found

    def request(self, kind, offset, length):
        """Reads (0) or writes (1); returns the error, 0 for none."""
        data = b"\x5a" * length if kind == 1 else b""
        self.socket.sendall(struct.pack(">IHHQQI", 0x25609513, 0, kind, 1, offset, length) + data)
        _, error, _ = struct.unpack(">IIQ", self.read_exact(16))
        if kind == 0 and error == 0:
            self.read_exact(length)
        return error


def load(path, export, kind, length, count, step):
    client = Client(path, export)
    for nth in range(count):
        size = 64 << 20
        assert client.request(kind, nth * step % size // 4096 * 4096, length) == 0
    client.socket.sendall(struct.pack(">IHHQQI", 0x25609513, 0, 2, 1, 0, 0))
    client.socket.close()


def leaves(value, path=""):
    """Every leaf of a JSON value, by its path."""
    if isinstance(value, (dict, list)):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        return {name: leaf for key, inner in items for name, leaf in leaves(inner, f"{path}.{key}").items()}
    return {path.lstrip("."): value}


def shown_as(value, text):
    """Whether the page may show this figure as this text."""
    if value is None or value == "":
        return text == "–"
    if isinstance(value, bool):
        return text == ("yes" if value else "no")
    if isinstance(value, (int, float)):
        return abs(float(text) - value) <= 0.0005 + 1e-9 * abs(value)
    return text == value


def check_figures(page, ask):
    """The page's figures are those of `status` before or after it was read; only time goes on."""
    for _ in range(20):
        before = leaves(ask())
        page.wait_for(f"events.at(-1).status.uptime_seconds > {before['uptime_seconds']}")
        figures = page.value(
            "Object.fromEntries([...document.querySelectorAll('[data-figure]')].map(e => [e.dataset.figure, e.innerText]))"
        )
        after = leaves(ask())
        if {**before, "uptime_seconds": 0} != {**after, "uptime_seconds": 0}:
            continue  # something still changes
        assert set(figures) == set(after), set(figures) ^ set(after)
        wrong = {
            name: (text, after[name])
            for name, text in figures.items()
            if name != "uptime_seconds" and not shown_as(after[name], text)
        }
        assert not wrong, wrong
        uptime = float(figures["uptime_seconds"])
        assert before["uptime_seconds"] - 0.001 <= uptime <= after["uptime_seconds"] + 0.001
        return len(figures)
    raise AssertionError("the server's figures never stood still")


def check_use(page):
    """Names for screen readers, the keyboard, and drawings that are not empty."""
    nameless = "[...document.querySelectorAll('canvas[role], [role=region], button, progress')].filter(e => !(e.getAttribute('aria-label') || e.getAttribute('aria-labelledby') || e.innerText))"
    assert page.value(f"{nameless}.length") == 0, page.value(f"{nameless}.map(e => e.outerHTML)")
    assert page.value("[...document.querySelectorAll('th')].every(e => e.scope)"), "a header without a scope"
    drawn = """[...document.querySelectorAll('canvas')].filter(e => {
        const all = e.getContext('2d').getImageData(0, 0, e.width, e.height).data;
        return new Set(new Uint32Array(all.buffer)).size < 2; }).length"""
    assert page.value(drawn) == 0, "an empty drawing"
    page.value("document.getElementById('stack').focus()")
    for key in ("ArrowLeft", "ArrowLeft"):
        page.command("Input.dispatchKeyEvent", type="keyDown", key=key)
    readout = page.value("document.getElementById('readout').innerText")
    assert "s ago: " in readout and "database" in readout, readout
    page.command("Input.dispatchKeyEvent", type="keyDown", key="Escape")
    assert page.value("cursor === null")
    page.value("document.getElementById('pause').click()")
    assert page.value("document.getElementById('pause').getAttribute('aria-pressed')") == "true"
    page.value("document.getElementById('pause').click()")


def check_looks(page, folder):
    """Fits each width in both color schemes; moves only if the reader does not mind."""
    papers = set()
    for width in (390, 1280):
        for scheme in ("light", "dark"):
            page.look(width, 900, scheme, "reduce")
            seen = page.value("events.length")
            page.wait_for(f"events.length > {seen} || events.length > 100")
            assert page.value("document.documentElement.scrollWidth") <= width, f"wider than {width}"
            rows = "[...document.querySelectorAll('#tables tr')].map(e => e.offsetHeight)"
            assert page.value(f"Math.max(...{rows})") <= 140, "a row of the figures is taller than six lines"
            papers.add(page.value("getComputedStyle(document.body).backgroundColor"))
            page.screenshot(os.path.join(folder, f"{width}-{scheme}.png"))
    assert len(papers) == 2, papers
    assert page.value("calm.matches")


def main(program, folder):
    found = browser.find()
    if not found:
        print("skipped: the test of the web page, since Chromium is not installed (apt-get install chromium)")
        return
    os.makedirs(folder, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="headtime-web-") as scratch:
        path, control = f"{scratch}/nbd.sock", f"{scratch}/control"
        command = [program, "serve", "--drive", f"emulated:atlas10k?backing={scratch}/drive.img"]
        command += ["--listen", f"unix:{path}", "--control", control, "--web", "127.0.0.1:0", "--json"]
        for name, settings in VOLUMES.items():
            command += ["--volume", f"{name}={settings}"]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            address = json.loads("".join(iter(server.stdout.readline, "}\n")) + "}")["web"]

            def headtime(*arguments):
                done = subprocess.run([program, *arguments, "--control", control], check=True, stdout=subprocess.PIPE)
                return done.stdout

            with browser.Browser(found) as page:
                page.look(1280, 900)
                page.open(address)
                page.wait_for("document.getElementById('connection')?.innerText === 'live'")
                loads = [("recorder", 1, 65536, 1500, 65536), ("database", 0, 8192, 1500, 10_000_019)]
                loads += [("backup", 0, 262144, 600, 262144)]
                threads = [threading.Thread(target=load, args=(path, *of)) for of in loads]
                for thread in threads:
                    thread.start()
                headtime("scan", "start", "recorder", "--task", "scrub")
                page.wait_for("events.some(e => e.platter.heads.length > 10)")
                page.wait_for("document.querySelectorAll('#waits tbody tr').length === 3")
                check_looks(page, folder)
                for thread in threads:
                    thread.join()
                check_use(page)
                assert page.value("events.at(-1).platter.tracks"), "the emulated drive's tracks are known"
                page.wait_for("events.at(-1).status.scans[0]?.state === 'complete'", 240)
                count = check_figures(page, lambda: json.loads(headtime("status", "--json")))
                server.send_signal(signal.SIGTERM)
                page.wait_for("document.getElementById('connection').innerText.includes('the server has stopped')")
                assert server.wait(60) == 0, "the server did not end cleanly"
                problems = [text for text in page.problems if "ERR_CONNECTION_REFUSED" not in text]
                assert not problems, problems
        finally:
            server.kill()
    print(f"web page: {count} figures equal those of `headtime status --json`; screenshots in {folder}")


if __name__ == "__main__":
    main(*sys.argv[1:])
