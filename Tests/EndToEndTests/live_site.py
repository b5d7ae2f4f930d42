"""A receiver with every provider, `waybill live` over its data, and a browser; and events for them."""

import itertools
import json
import re
import time
import unittest
import urllib.parse

from browser import PROGRAM, Browser, is_installed
from harness import Site, free_port, request, until
from ledger import timestamp, utc_now
from wire import Peer

PROVIDERS = [
    "ga4", "mixpanel", "mixpanel-profiles", "amplitude", "segment", "posthog", "snowplow", "flurry", "csv", "syslog",
    "journald",
]
ROWS = "#rows tr:not(.gap)"
NUMBERS = itertools.count(1)


def identifier(version=7):
    """A UUID that no other event has."""
    time_part = f"{int(time.time() * 1000):012x}"
    return f"{time_part[:8]}-{time_part[8:]}-{version}000-8000-{next(NUMBERS):012x}"


WRITER, SESSION = identifier(), identifier()


def event(name, kind="action", **members):
    """A line as the client library writes it; `members` replaces any, and None leaves one out."""
    line = {
        "v": 1, "id": identifier(), "writer": WRITER, "seq": next(NUMBERS), "ts": timestamp(utc_now()), "up": 250,
        "kind": kind, "name": name, "screen": "Cart", "session": SESSION, "session_n": 7, "user": "u-1",
        "anon": "b5372db0-c21e-41e4-8dfc-aa07a5b093db", "ids": {"ga4": "0a1b2c3d4e5f60718293a4b5c6d7e8f9"},
        "app": "1.4.2", "build": "118", "bundle": "com.example.shop", "os": "iOS", "os_version": "17.0.1",
        "lang": "ko-KR", "tz": 540, "env": "prod", "log": "1.0", **members}
    return json.dumps({key: value for key, value in line.items() if value is not None}, ensure_ascii=False).encode() + b"\n"


def screen(name, previous=None, milliseconds=None, **members):
    return event("screen_view", "screen", screen=name, prev=previous, prev_ms=milliseconds, **members)


class LiveSite(Site):
    """A receiver with every provider, an agent's session with it, and `waybill live` over its data."""

    def __init__(self):
        super().__init__()
        self.metrics, self.live_port = free_port(), free_port()
        self.configuration = self.root / "waybill.yaml"
        exports = "".join(f"    - provider: {name}\n" for name in PROVIDERS)
        self.configuration.write_text(f"receiver:\n  data: {self.data}\n  exports:\n{exports}", encoding="utf-8")
        self.token_file = self.root / "live.token"
        self.token_file.write_text("a-token-of-the-tests-0123456789\n", encoding="utf-8")
        self.token_file.chmod(0o600)
        self.streams = {}
        self.peer = None

    def close(self):
        if self.peer:
            self.peer.close()
        super().close()

    def start_receiver(self):
        process = self.start(
            "receiver", "--config", self.configuration, "--listen", self.address, "--metrics", f"127.0.0.1:{self.metrics}",
            log="receiver.log")
        until(self.is_listening, 30, "the receiver listens")
        self.connect()
        return process

    def connect(self):
        """Greets the receiver as an agent does; its streams continue."""
        self.peer = Peer(self.port)
        assert self.peer.hello("shop-host").startswith("READY ")
        for stream, (number, end, members) in self.streams.items():
            assert self.peer.open(stream, number, **members) == f"AT {number} {end}"

    def start_live(self, port=None, token=True):
        """Starts `waybill live`; returns it and the address with its token, which it prints unless it is from a file."""
        file = ["--token-file", self.token_file] if token else []
        process = self.start(
            "live", "--data", self.data, "--config", self.configuration, "--receiver", f"http://127.0.0.1:{self.metrics}",
            "--listen", f"127.0.0.1:{port or self.live_port}", *file, log="live.log")
        found = until(
            lambda: re.search(r"http://\S+/\S*", process.log()) or not process.is_running, 30, "live prints its address")
        assert process.is_running, process.log()
        return process, found[0] + (f"#t={self.token}" if token else "")

    def send(self, *lines, stream="app", **members):
        """Ships lines; returns when the receiver holds them durably."""
        if stream not in self.streams:
            number = len(self.streams) + 1
            assert self.peer.open(stream, number, **members) == f"AT {number} 0"
            self.streams[stream] = number, 0, members
        number, end, members = self.streams[stream]
        raw = b"".join(lines)
        self.peer.batch(stream, raw, number=number, offset=end)
        self.streams[stream] = number, end + len(raw), members
        assert self.peer.line() == f"ACK {number} {end + len(raw)}"

    @property
    def origin(self):
        return f"http://127.0.0.1:{self.live_port}"

    @property
    def token(self):
        return self.token_file.read_text(encoding="utf-8").strip()

    def ask(self, path, method="GET", body=None, host=None, token=True, **headers):
        """One request, as a script makes it; returns status, headers and body."""
        bearer = {"Authorization": f"Bearer {self.token}"} if token else {}
        return request(self.live_port, path, method, body, {
            "Host": host or f"127.0.0.1:{self.live_port}", **bearer,
            **{name.replace("_", "-"): value for name, value in headers.items()}})

    def json(self, path):
        status, _, content = self.ask(path)
        assert status == 200, (path, status, content)
        return json.loads(content)


class LiveTest(unittest.TestCase):
    """One site and one browser for the tests of a class; each test has a page, and names of events, of its own."""

    @classmethod
    def setUpClass(cls):
        if not is_installed():
            raise unittest.SkipTest(f"there is no {PROGRAM}")
        cls.site = LiveSite()
        cls.addClassCleanup(cls.site.close)
        cls.receiver = cls.site.start_receiver()
        cls.site.send(event("the first event"))
        cls.live, cls.address = cls.site.start_live()
        cls.browser = Browser()
        cls.addClassCleanup(cls.browser.close)
        cls.context = cls.browser.context()

    def setUp(self):
        self.name = f"{self._testMethodName.removeprefix('test_')[:30]} {next(NUMBERS)}"
        self.quiet = True
        self.pages = []
        self.addCleanup(self.check_pages)

    def page(self, hash="", context=None, **look):
        """A page that is signed in, at an address such as `#/q/name:x`."""
        page = self.browser.page(self.address, context or self.context, **look)
        page.until("document.getElementById('state').dataset.state.match(/live|polling/)", "the page follows")
        if hash:
            page.evaluate(f"location.hash = {json.dumps(hash)}")
        self.pages.append(page)
        return page

    def filtered(self, **look):
        """A page that shows this test's events alone."""
        page = self.page(f"#/q/{urllib.parse.quote(self.word)}", **look)
        page.until(f"document.getElementById('filter').value === {json.dumps(self.word)}")
        page.until("document.getElementById('feed-end').innerText.includes('No event matches')", "the filter applies")
        page.until("document.getElementById('state').dataset.state === 'live'", "the page follows")
        return page

    @property
    def word(self):
        return f'name:"{self.name}"'

    def send(self, count=1, **members):
        self.site.send(*(event(f"{self.name} {number}", **members) for number in range(1, count + 1)))

    def shows(self, page, count, selector=ROWS):
        return page.until(f"document.querySelectorAll({json.dumps(selector)}).length === {count}", f"{count} of {selector}")

    def check_pages(self):
        """No page logged an error, threw, or asked any other host; nothing was refused by its policy."""
        for page in self.pages:
            if self.quiet:
                self.assertEqual(page.problems, [])
            others = [url for url in page.requests if not url.startswith((self.site.origin + "/", "data:", "about:"))]
            self.assertEqual(others, [])
            page.close()
