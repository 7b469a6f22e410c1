"""A headless Chromium, driven over its remote debugging pipe with Python's standard library.

    with Browser(find_browser(), folder) as browser:
        browser.size(1440, 900)
        browser.open("file:///tmp/index.html")
        print(browser.evaluate("document.title"), browser.events)
"""
import base64
import json
import os
import select
import shutil
import subprocess
import time

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
LIMIT = 60  # seconds for an answer
FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--mute-audio",
         "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
         "--host-resolver-rules=MAP * ~NOTFOUND", "--force-color-profile=srgb", "--remote-debugging-pipe")


def find_browser():
    """The path of a Chromium, or None."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """`events`: what the page has reported since the last open(), as (method, params)."""

    def __init__(self, program, folder):
        self.events, self.numbers, self.received, self.session = [], 0, b"", None
        commands, self.commands = os.pipe()
        self.answers, answers = os.pipe()
        flags = [*FLAGS, f"--user-data-dir={folder}/profile"]
        with open(folder / "browser.txt", "wb") as output:
            # Chromium reads commands from descriptor 3 and writes answers to descriptor 4.
            self.process = subprocess.Popen(
                ["bash", "-c", f'exec "$0" "$@" 3<&{commands} 4>&{answers}', program, *flags, "about:blank"],
                pass_fds=(commands, answers), stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                env={**os.environ, "HOME": str(folder)})
        os.close(commands)
        os.close(answers)
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.session = None
        try:
            self.call("Browser.close")
            self.process.wait(LIMIT)
        except (OSError, EOFError, TimeoutError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        os.close(self.commands)
        os.close(self.answers)

    def call(self, method, **params):
        """Sends a command and returns its result. Messages end with a zero byte."""
        self.numbers += 1
        message = {"id": self.numbers, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive(method)
            if answer.get("id") == self.numbers:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]

    def receive(self, what):
        limit = time.monotonic() + LIMIT
        while b"\0" not in self.received:
            if not select.select([self.answers], [], [], max(0, limit - time.monotonic()))[0]:
                raise TimeoutError(f"the browser did not answer {what} within {LIMIT} s")
            part = os.read(self.answers, 1 << 16)
            if not part:
                raise EOFError(f"the browser has ended, and did not answer {what}")
            self.received += part
        text, self.received = self.received.split(b"\0", 1)
        message = json.loads(text)
        if "method" in message:
            self.events.append((message["method"], message["params"]))
        return message

    def size(self, width, height):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def theme(self, name):
        """`name`: light or dark."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def open(self, url):
        self.events.clear()
        self.call("Page.navigate", url=url)
        while not any(method == "Page.loadEventFired" for method, _ in self.events):
            self.receive("Page.navigate")

    def evaluate(self, expression):
        """The value of a JavaScript expression that JSON can hold. Waits for a promise."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def picture(self):
        """What the window shows, as bytes of a PNG file."""
        return base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])

    def pdf(self):
        return base64.b64decode(self.call("Page.printToPDF", preferCSSPageSize=True, printBackground=True)["data"])
