"""Drives Debian's chromium-headless-shell over its debugging pipe, with the standard library alone.

Messages are JSON, each ended by a NUL byte; the browser reads them from its descriptor 3 and writes to its descriptor 4.
A page notes every request, every error that it logs, every exception, and everything that its policy refused.
"""

import base64
import fcntl
import itertools
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import threading

from harness import patience, until

PROGRAM = "chromium-headless-shell"
ARGUMENTS = [
    "--remote-debugging-pipe", "--disable-gpu", "--hide-scrollbars", "--no-first-run", "--disable-dev-shm-usage",
    "--disable-background-networking", "--disable-component-update", "--disable-extensions", "--force-color-profile=srgb",
    "--disable-lcd-text", "--lang=en", "about:blank",
]
# Keys that have a name: what the browser wants to know of each.
KEYS = {
    "Enter": (13, "\r"), "Escape": (27, None), "Tab": (9, None), "ArrowDown": (40, None), "ArrowUp": (38, None),
    " ": (32, " "),
}


class BrowserError(AssertionError):
    """The browser refused a command, or a script of the page threw."""


def is_installed():
    return shutil.which(PROGRAM) is not None


class Browser:
    """One browser process with a profile of its own; pages of the same context share cookies and storage."""

    def __init__(self):
        self.profile = tempfile.mkdtemp(prefix="waybill-browser-")
        commands, self.commands = self.pipe()
        self.answers, answers = self.pipe()
        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
        self.child = subprocess.Popen(
            [PROGRAM, f"--user-data-dir={self.profile}", *sandbox, *ARGUMENTS], stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, "TZ": "UTC", "LC_ALL": "C.UTF-8"},
            close_fds=False, start_new_session=True, preexec_fn=lambda: self.give(commands, answers))
        os.close(commands)
        os.close(answers)
        self.numbers, self.changed = itertools.count(1), threading.Condition()
        self.results, self.pages, self.is_gone = {}, {}, False
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    @staticmethod
    def pipe():
        """Two ends above the descriptors that the browser wants."""
        ends = os.pipe()
        moved = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in ends]
        for end in ends:
            os.close(end)
        return moved

    @staticmethod
    def give(commands, answers):
        os.dup2(commands, 3)
        os.dup2(answers, 4)

    def read(self):
        text = b""
        while piece := os.read(self.answers, 1 << 20):
            *messages, text = (text + piece).split(b"\0")
            for message in map(json.loads, messages):
                with self.changed:
                    if "id" in message:
                        self.results[message["id"]] = message
                    elif message.get("sessionId") in self.pages:
                        self.pages[message["sessionId"]].note(message["method"], message["params"])
                    self.changed.notify_all()
        with self.changed:
            self.is_gone = True
            self.changed.notify_all()

    def call(self, method, session=None, **parameters):
        """Sends a command and returns its result."""
        number = next(self.numbers)
        message = {"id": number, "method": method, "params": parameters, **({"sessionId": session} if session else {})}
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.commands, data):]
        with self.changed:
            self.changed.wait_for(lambda: number in self.results or self.is_gone, patience(30))
            if number not in self.results:
                raise BrowserError(f"{method}: {'the browser has ended' if self.is_gone else 'no answer'}")
            answer = self.results.pop(number)
        if "error" in answer:
            raise BrowserError(f"{method}: {answer['error']['message']}")
        return answer["result"]

    def context(self):
        """A new set of cookies and of storage, as a private window has."""
        return self.call("Target.createBrowserContext")["browserContextId"]

    def page(self, url=None, context=None, **look):
        """Opens a page, and its address when it has one."""
        own = {"browserContextId": context} if context else {}
        target = self.call("Target.createTarget", url="about:blank", **own)["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, target, session)
        self.pages[session] = page
        for domain in ("Page", "Runtime", "Network", "Log", "Accessibility"):
            page.call(f"{domain}.enable")
        page.look(**look)
        if url:
            page.go(url)
        return page

    def close(self):
        # The browser ends with its pipe; its helpers are in its group.
        os.close(self.commands)
        os.killpg(self.child.pid, signal.SIGKILL)
        self.child.wait()
        self.reader.join()
        os.close(self.answers)
        shutil.rmtree(self.profile, ignore_errors=True)


class Page:
    """A tab: what it shows, and what went wrong in it."""

    def __init__(self, browser, target, session):
        self.browser, self.target, self.session = browser, target, session
        self.problems, self.requests, self.held = [], [], []

    def note(self, method, parameters):
        if method == "Runtime.exceptionThrown":
            details = parameters["exceptionDetails"]
            self.problems.append(details.get("exception", {}).get("description", details["text"]))
        elif method == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            entry = parameters["entry"]
            self.problems.append(f"{entry['source']}: {entry['text']} {entry.get('url', '')}")
        elif method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning", "assert"):
            self.problems.append(f"console: {[part.get('value') for part in parameters['args']]}")
        elif method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        elif method == "Fetch.requestPaused":
            self.held.append(parameters["requestId"])

    def call(self, method, **parameters):
        return self.browser.call(method, self.session, **parameters)

    def go(self, url):
        """Opens an address; returns when the document is there."""
        result = self.call("Page.navigate", url=url)
        if "errorText" in result:
            raise BrowserError(f"{url}: {result['errorText']}")
        self.until("document.readyState === 'complete'", "the page has loaded")

    def evaluate(self, script):
        """The value of an expression in the page, awaited."""
        result = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True, userGesture=True)
        if "exceptionDetails" in result:
            details = result["exceptionDetails"]
            raise BrowserError(details.get("exception", {}).get("description", details["text"]))
        return result["result"].get("value")

    def until(self, script, what=None, seconds=20):
        """Waits until an expression is true, also while another document takes the page's place."""
        def holds():
            try:
                return self.evaluate(f"Boolean({script})")
            except BrowserError as error:
                if "navigated" not in str(error):
                    raise
                return False

        try:
            until(holds, seconds, what or script)
        except AssertionError as error:
            raise AssertionError(f"{error}\nproblems: {self.problems[-5:]}\n{self.text('body')[:1500]}") from None

    def text(self, selector):
        """What an element shows, or an empty text."""
        return self.evaluate(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''")

    def texts(self, selector):
        return self.evaluate(f"[...document.querySelectorAll({json.dumps(selector)})].map((one) => one.innerText)")

    # MARK: Hands

    def click(self, selector):
        """Presses the mouse on the middle of an element that can be seen."""
        self.until(f"document.querySelector({json.dumps(selector)})", f"{selector} is there")
        box = self.evaluate(
            f"(() => {{ const one = document.querySelector({json.dumps(selector)}); one.scrollIntoView({{block: 'nearest'}});"
            " const box = one.getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2]; })()")
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=box[0], y=box[1], button="left", clickCount=1)

    def press(self, key, modifiers=0):
        """Presses a key and lets it go."""
        code, text = KEYS.get(key, (ord(key.upper()[0]), key))
        event = {"key": key, "windowsVirtualKeyCode": code, "modifiers": modifiers}
        self.call("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", **event, **({"text": text} if text else {}))
        self.call("Input.dispatchKeyEvent", type="keyUp", **event)

    def write(self, text):
        """Types a text where the focus is."""
        self.call("Input.insertText", text=text)

    def answer(self, path, body, kind):
        """Answers the next request for a path in place of the server; call `hold` before what asks."""
        until(lambda: self.held, what=f"the page asks for {path}")
        self.call("Fetch.fulfillRequest", requestId=self.held.pop(), responseCode=200,
                  responseHeaders=[{"name": "Content-Type", "value": kind}], body=base64.b64encode(body.encode()).decode())
        self.call("Fetch.disable")

    def hold(self, path):
        """Holds requests for a path until `answer`."""
        self.call("Fetch.enable", patterns=[{"urlPattern": f"*{path}*"}])

    # MARK: Looks

    def look(self, width=1440, height=860, dark=False, reduced=False):
        """The size of the window, and what the system prefers."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
            {"name": "prefers-reduced-motion", "value": "reduce" if reduced else "no-preference"}])

    def screenshot(self, path):
        data = base64.b64decode(self.call("Page.captureScreenshot", format="png", optimizeForSpeed=False)["data"])
        pathlib.Path(path).write_bytes(data)
        return data

    def accessible(self):
        """The accessibility tree that a screen reader gets, as (role, name) of each node that it does not leave out."""
        nodes = self.call("Accessibility.getFullAXTree")["nodes"]
        return [(node["role"]["value"], node.get("name", {}).get("value", "")) for node in nodes
                if not node["ignored"] and "role" in node]

    def hide(self, is_hidden=True):
        """Makes the page what it is in a tab at the back, or brings it to the front."""
        self.evaluate(
            "Object.defineProperty(document, 'hidden', {configurable: true, get: () => %s});"
            "document.dispatchEvent(new Event('visibilitychange'))" % json.dumps(is_hidden))

    def close(self):
        self.browser.call("Target.closeTarget", targetId=self.target)
        self.browser.pages.pop(self.session, None)
