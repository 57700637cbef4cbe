"""A headless Chromium, driven over a pipe by the DevTools protocol. Only the standard library is needed."""

import base64
import json
import os
import shutil
import subprocess
import tempfile
import time

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")


def find():
    """Returns the path of a Chromium, or None."""
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


class Browser:
    """One page in a browser of its own. Use it with `with`."""

    def __init__(self, program):
        self.folder = tempfile.mkdtemp(prefix="headtime-web-")
        to_browser, self.write_end = os.pipe()
        self.read_end, from_browser = os.pipe()

        def pipes():
            # The browser reads commands from descriptor 3 and writes answers to descriptor 4.
            first, second = os.dup(to_browser), os.dup(from_browser)
            os.dup2(first, 3)
            os.dup2(second, 4)

        command = [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        command += ["--no-first-run", "--disable-background-networking", "--remote-debugging-pipe"]
        command += [f"--user-data-dir={self.folder}", "about:blank"]
        self.process = subprocess.Popen(
            command, preexec_fn=pipes, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.close(to_browser)
        os.close(from_browser)
        self.buffer, self.number, self.session, self.problems = b"", 0, None, []
        targets = self.command("Target.getTargets")["targetInfos"]
        page = next(target["targetId"] for target in targets if target["type"] == "page")
        self.session = self.command("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.command(f"{domain}.enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def command(self, method, **parameters):
        """Sends a command and returns its result; errors of the page that come meanwhile are kept."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.write_end, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    def receive(self):
        while b"\0" not in self.buffer:
            part = os.read(self.read_end, 1 << 16)
            if not part:
                raise RuntimeError("the browser has ended")
            self.buffer += part
        line, self.buffer = self.buffer.split(b"\0", 1)
        answer = json.loads(line)
        if answer.get("method") == "Runtime.exceptionThrown":
            self.problems.append(answer["params"]["exceptionDetails"]["exception"].get("description", "?"))
        if answer.get("method") == "Log.entryAdded" and answer["params"]["entry"]["level"] == "error":
            self.problems.append(answer["params"]["entry"]["text"])
        return answer

    def open(self, address):
        self.command("Page.navigate", url=address)

    def look(self, width, height, scheme="light", motion="no-preference"):
        """Sets the size of the screen and the preferences of the reader."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.command("Emulation.setDeviceMetricsOverride", **size)
        features = {"prefers-color-scheme": scheme, "prefers-reduced-motion": motion}
        named = [{"name": name, "value": value} for name, value in features.items()]
        self.command("Emulation.setEmulatedMedia", features=named)

    def value(self, expression):
        """The value of a JavaScript expression in the page."""
        answer = self.command("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def wait_for(self, expression, seconds=60):
        """Waits until an expression is true."""
        until = time.monotonic() + seconds
        while not self.value(expression):
            if time.monotonic() > until:
                raise RuntimeError(f"not true within {seconds} s: {expression}")
            time.sleep(0.1)

    def screenshot(self, file, clip=None):
        """Writes the whole page, not only the visible part, or what lies in (x, y, width, height)."""
        part = {"clip": dict(zip(("x", "y", "width", "height", "scale"), (*clip, 1)))} if clip else {}
        shot = self.command("Page.captureScreenshot", format="png", captureBeyondViewport=True, **part)
        with open(file, "wb") as out:
            out.write(base64.b64decode(shot["data"]))
