"""`GET /metrics`: the format, what is conserved at every moment, and callers that mean no good."""

import re
import socket
import time

from corpus import Corpus
from export_harness import PROVIDERS
from harness import SiteTest, free_port, patience, request, until
from ledger import EventMaker, Ledger

SAMPLE = re.compile(r'([a-z_]+)(?:\{((?:[a-z_]+="(?:[^"\\\n]|\\["\\n])*",?)+)\})? (-?[0-9]+(?:\.[0-9]+)?(?:e-?[0-9]+)?)')
LABEL = re.compile(r'([a-z_]+)="((?:[^"\\]|\\.)*)"')
EXPORTS = ",".join(PROVIDERS)


class Page(dict):
    """(name, labels) → value, of a page that keeps every rule of the text format."""

    def __init__(self, text):
        super().__init__()
        assert text.endswith("\n")
        known = None
        families = set()
        for line in text.splitlines():
            if line.startswith("# HELP "):
                known = line.split(" ", 3)[2]
                assert known not in families, f"{known} comes twice"
                families.add(known)
                assert len(line.split(" ", 3)[3]) > 5, line
            elif line.startswith("# TYPE "):
                _, _, name, kind = line.split(" ")
                assert name == known and kind in ("counter", "gauge", "histogram"), line
                assert (kind == "counter") == name.endswith("_total"), line
            else:
                match = SAMPLE.fullmatch(line)
                assert match, line
                parts = ("_bucket", "_sum", "_count") if kind == "histogram" else ("",)
                assert match[1] in [known + part for part in parts], line
                key = match[1], frozenset(LABEL.findall(match[2] or ""))
                assert key not in self, f"{line} comes twice"
                self[key] = float(match[3])

    def value(self, name, **labels):
        return self[name, frozenset(labels.items())]

    def total(self, name, **labels):
        """The sum over every sample that has these labels."""
        return sum(value for (own, all), value in self.items() if own == name and set(labels.items()) <= all)


def page(port):
    _, headers, body = request(port, "/metrics")
    assert headers["Content-Type"].startswith("text/plain; version=0.0.4")
    return Page(body.decode())


class MetricsTest(SiteTest):
    def setUp(self):
        super().setUp()
        self.metrics = free_port()

    def receiver(self, exports=EXPORTS):
        return self.site.receiver("--metrics", f"127.0.0.1:{self.metrics}", exports=exports)


class ConservationTests(MetricsTest):
    """received = archived + quarantined + pending; for each export read = exported + refused + held + skipped."""

    def assert_conserved(self, found):
        for name in ("archive", *PROVIDERS):
            read = found.value("waybill_projection_read_lines_total", projection=name)
            kept = found.total("waybill_projection_lines_total", projection=name)
            held = found.total("waybill_projection_held_lines", projection=name)
            self.assertEqual(read, kept + held, name)
            self.assertEqual(found.value("waybill_projection_unaccounted_lines", projection=name), 0, name)

    def until_projected(self, count):
        def is_done():
            found = page(self.metrics)
            self.assert_conserved(found)
            pending = found.total("waybill_projection_pending_bytes")
            return found if pending == 0 and found.total("waybill_received_lines_total") >= count else None
        return until(is_done, 60, "everything is projected")

    def test_nothing_is_unaccounted_for(self):
        corpus = Corpus(seed=5, as_of=int(time.time() * 1000))
        lines = [line + b"\n" for line in corpus.lines(3000)]
        lines += [b"not json\n", b"{}\n", b'{"v":1}\n', b'{"v":1,"v":2}\n', b"\xff\xfe\n", b"[]\n"] * 20
        path = self.site.root / "app.ndjson"
        path.write_bytes(b"".join(lines[:2000]))
        receiver = self.receiver()
        arguments = ("--glob", path, "--env", "prod", "--bundle", "com.example.web")
        self.site.once(*arguments)
        found = self.until_projected(2000)
        for name in ("archive", *PROVIDERS):
            self.assertEqual(found.value("waybill_projection_read_lines_total", projection=name), 2000, name)
        self.assertGreater(found.value("waybill_projection_lines_total", projection="ga4", outcome="exported"), 500)
        self.assertGreater(found.value("waybill_projection_held_lines", projection="mixpanel"), 0)
        # What was read before the kill and had no checkpoint is read again, and counted once.
        with open(path, "ab") as file:
            file.write(b"".join(lines[2000:]))
        self.site.once(*arguments)
        receiver.kill()
        receiver = self.receiver()
        found = self.until_projected(0)
        self.assertEqual(receiver.stop(), 0)
        rest = len(lines) - 2000
        for name in ("archive", *PROVIDERS):
            self.assertLessEqual(found.value("waybill_projection_read_lines_total", projection=name), rest, name)

    def test_every_moment_under_load(self):
        receiver = self.receiver("mixpanel,csv")
        maker, ledger = EventMaker(6), Ledger()
        agent = self.site.agent()
        before = {}
        deadline = time.monotonic() + 4
        while time.monotonic() < deadline:
            maker.spool(self.site.spool, ledger, 200_000)
            found = page(self.metrics)
            for name in ("archive", "mixpanel", "csv"):
                self.assertEqual(found.value("waybill_projection_unaccounted_lines", projection=name), 0)
                read = found.value("waybill_projection_read_lines_total", projection=name)
                self.assertLessEqual(before.get(name, 0), read)
                before[name] = read
        until(lambda: page(self.metrics).total("waybill_projection_read_lines_total") == 3 * ledger.line_count, 30)
        found = page(self.metrics)
        self.assertEqual(found.value("waybill_received_lines_total"), ledger.line_count)
        self.assertEqual(found.value("waybill_received_bytes_total"), ledger.byte_count)
        self.assertEqual(
            found.value("waybill_projection_lines_total", projection="archive", outcome="archived"), ledger.line_count)
        self.assertEqual(
            found.value("waybill_journal_commit_seconds_count"), found.value("waybill_journal_commits_total"))
        self.assertEqual(found.value("waybill_agents"), 1)
        self.assertEqual(found.value("waybill_admission_bytes"), 0)
        self.assertGreater(found.value("process_resident_memory_bytes"), 1 << 20)
        self.assertEqual([agent.stop(), receiver.stop()], [0, 0])


class CallerTests(MetricsTest):
    def answer(self, request):
        with socket.create_connection(("127.0.0.1", self.metrics), 5) as connection:
            connection.settimeout(patience(20))
            answer = b""
            try:
                connection.sendall(request)
                while chunk := connection.recv(65536):
                    answer += chunk
            except ConnectionError:
                pass  # It was closed with something unread.
        return answer

    def test_other_requests(self):
        self.receiver("csv")
        for path, method, status in (("/", "GET", 404), ("/metrics", "POST", 405), ("/metrics/x", "GET", 404)):
            self.assertEqual(request(self.metrics, path, method)[0], status)
        status, headers, body = request(self.metrics, "/metrics", "HEAD")
        self.assertEqual((status, body), (200, b""))
        self.assertGreater(int(headers["Content-Length"]), 1000)
        self.assertEqual(request(self.metrics, "/metrics?x=1")[0], 200)
        for nonsense in (b"HELLO {}\n", b"\0" * 100, b"GET /metrics HTTP/9.9\r\n\r\n"):
            self.assertRegex(self.answer(nonsense + b"\r\n"), rb"^HTTP/1.1 400 |^$")
        once = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"
        self.assertEqual(self.answer(once * 50).count(b"HTTP/1.1 200 OK"), 1)
        self.assertLess(len(self.answer(b"GET /" + b"a" * 1_000_000 + b" HTTP/1.1\r\n\r\n")), 1000)
        page(self.metrics)

    def test_callers_that_say_nothing_hold_nothing_for_long(self):
        receiver = self.receiver("csv")
        before = page(self.metrics).value("process_open_fds")
        idle = [socket.create_connection(("127.0.0.1", self.metrics), 5) for _ in range(200)]
        started = time.monotonic()
        for connection in idle:
            connection.settimeout(patience(20))
            self.assertEqual(connection.recv(1), b"")
            connection.close()
        self.assertLess(time.monotonic() - started, patience(15))
        # Checkpoints open files of their own.
        until(lambda: page(self.metrics).value("process_open_fds") < before + 20)
        self.assertEqual(receiver.stop(), 0)
