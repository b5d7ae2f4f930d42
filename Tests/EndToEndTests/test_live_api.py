"""What `waybill live` answers, to whom, and that a page misses nothing; and `waybill tap`, the same without a page."""

import http.client
import json
import pathlib
import signal
import socket
import ssl
import subprocess
import threading
import time
import urllib.parse

from certificates import Authority
from harness import binary, failure, free_port, patience, request, run, succeed, until
from ledger import archived, timestamp, utc_now
from test_agent import AgentTest

TOKEN = "a-token-that-is-long-enough"
PROVIDERS = [
    "ga4", "mixpanel", "mixpanel-profiles", "amplitude", "segment", "posthog", "snowplow", "flurry", "csv", "syslog",
    "journald"]


def event(number, **members):
    """One of Waybill's own lines; members that are None are left out."""
    line = {
        "v": 1, "id": f"019550fc-0000-7000-8000-{number:012x}", "ts": timestamp(utc_now()), "kind": "event",
        "name": "tapped", "session": "019550fb-32b4-7000-8000-000000000001", "anon": "b5372db0-c21e-41e4-8dfc-aa07a5b093db",
        "ids": {"ga4": "0a1b2c3d4e5f60718293a4b5c6d7e8f9"}, "app": "1.4.2", "bundle": "com.example.shop", "os": "iOS",
        "env": "prod", "data": {"line": number}, **members}
    return json.dumps({name: value for name, value in line.items() if value is not None}).encode() + b"\n"


class Stream:
    """One event stream, read message by message."""

    def __init__(self, live, query="", cursor=None, token=TOKEN, receive_buffer=None):
        self.socket = socket.socket()
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(patience(10))
        self.socket.connect(("127.0.0.1", live.port))
        head = f"GET /api/stream?{query} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n"
        if cursor:
            head += f"Last-Event-ID: {cursor}\r\n"
        self.socket.sendall((head + "\r\n").encode())
        self.answer = None

    def open(self):
        """Waits for the head."""
        self.answer = http.client.HTTPResponse(self.socket)
        self.answer.begin()
        return self.answer.status

    def messages(self):
        """(event, id, data) for each message, until the connection ends; a stream that continues forever fails."""
        if self.answer is None:
            self.open()
        found, end = {}, time.monotonic() + patience(120)
        while line := self.answer.readline():
            name, _, value = line.decode().rstrip("\n").partition(": ")
            if not name:
                if time.monotonic() > end:
                    raise TimeoutError("the stream has not brought what was waited for")
                if "data" in found:
                    yield found.get("event"), found.get("id"), json.loads(found["data"])
                found = {}
            found[name] = value

    def close(self):
        try:
            self.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.socket.close()


class Live:
    """A `waybill live` that can be killed and started again under the same address."""

    def __init__(self, site, *arguments, receiver=None, token=True, port=None):
        self.site, self.arguments, self.port = site, list(arguments), port or free_port()
        self.receiver = receiver
        if token:
            path = site.root / "live.token"
            path.write_text(TOKEN + "\n")
            path.chmod(0o600)
            self.arguments += ["--token-file", path]
        self.start()

    def start(self):
        receiver = ["--receiver", f"http://127.0.0.1:{self.receiver}"] if self.receiver else []
        self.process = self.site.start(
            "live", "--data", self.site.data, "--listen", f"127.0.0.1:{self.port}", *receiver, *self.arguments,
            log="live.log")
        self.process.until_logged(f"127.0.0.1:{self.port}/")

    def ask(self, path, headers=None, method="GET", body=None, token=TOKEN):
        bearer = {"Authorization": f"Bearer {token}"} if token else {}
        return request(self.port, path, method, body, {**bearer, **(headers or {})})

    def get(self, path, **parameters):
        query = urllib.parse.urlencode(parameters)
        code, _, body = self.ask(f"{path}?{query}" if query else path)
        if code != 200:
            raise AssertionError(f"{path}: {code}: {body.decode()}")
        return json.loads(body)


class LiveTest(AgentTest):
    exports = "csv"

    def setUp(self):
        super().setUp()
        self.metrics = free_port()
        self.receiver = self.start_receiver()

    def start_receiver(self):
        return self.site.receiver("--metrics", f"127.0.0.1:{self.metrics}", exports=self.exports)

    def live(self, *arguments, **options):
        return Live(self.site, *arguments, receiver=self.metrics, **options)

    def ship(self, lines):
        """Ships lines as a finished segment of a spool."""
        self.maker.segment(self.site.spool, lines)
        self.site.once()


class Follower(threading.Thread):
    """A page that opens its stream again, after what it has seen last, until it is told to stop."""

    def __init__(self, live, cursor, query="fields=data.line"):
        super().__init__()
        self.live, self.cursor, self.query = live, cursor, query
        self.lines, self.dropped, self.others, self.openings = [], 0, [], 0
        self.is_stopping, self.stream = False, None

    def run(self):
        while not self.is_stopping:
            try:
                self.stream = Stream(self.live, self.query, self.cursor)
                if self.stream.open() != 200:
                    continue
                self.openings += 1
                for kind, place, data in self.stream.messages():
                    if kind == "rows":
                        self.lines += [int(row["fields"]["data.line"]) for row in data["rows"]]
                        self.dropped += data["dropped"]
                        self.cursor = place
                    elif kind != "status":
                        self.others.append((kind, data))
            except (OSError, http.client.HTTPException, ValueError):
                time.sleep(0.05)

    def stop(self):
        self.is_stopping = True
        if self.stream:
            self.stream.close()
        self.join()


class OnceTests(LiveTest):
    def test_each_event_is_seen_once_across_kills(self):
        """5,000 events pass while `live` and the receiver are killed, twice each: a page sees every one of them once."""
        live = self.live()
        agent = self.site.agent(*self.globbing())
        page = Follower(live, live.get("/api/events")["position"])
        page.start()
        self.addCleanup(page.stop)
        lines = self.maker.foreign(5000)
        for batch in range(50):
            self.append("web.json", lines[batch * 100:(batch + 1) * 100])
            if batch in (12, 37):
                live.process.kill()
                live.start()
            if batch in (24, 37):
                self.receiver.kill()
                self.receiver = self.start_receiver()
            time.sleep(0.02)
        until(lambda: len(page.lines) >= 5000, 60, "all events on the page")
        self.assertGreaterEqual(page.openings, 3)
        page.stop()
        self.assertEqual(sorted(page.lines), list(range(1, 5001)))
        self.assertEqual((page.dropped, page.others), (0, []))
        self.assertEqual(agent.stop(), 0)

    def test_a_page_goes_on_without_the_receiver(self):
        """Without `--receiver`, and while the receiver is away, the journal is followed as far as it is whole."""
        self.ship([event(1), event(2)])
        alone = Live(self.site)
        self.assertEqual([row["name"] for row in alone.get("/api/events")["rows"]], ["tapped", "tapped"])
        self.assertNotIn("agents", alone.get("/api/status"))
        page = Follower(alone, alone.get("/api/events")["position"])
        page.start()
        self.addCleanup(page.stop)
        self.ship([event(3)])
        until(lambda: page.lines == [3], 20, "the new event")
        away = self.live(port=free_port())
        self.receiver.kill()
        self.assertEqual(len(away.get("/api/events")["rows"]), 3)
        self.assertIn("the receiver does not say", away.get("/api/status")["receiver"])
        self.receiver = self.start_receiver()
        until(lambda: away.get("/api/status")["receiver"] is None, 20, "the receiver answers again")


class ReportTests(LiveTest):
    def test_reports_are_those_of_the_command(self):
        """The page gets what `waybill report` prints, with a drawing; and none while members are hidden."""
        self.ship([event(number, user=f"u-{number % 3}", data={"line": number}) for number in range(1, 21)])
        until(lambda: len(list(archived(self.site.data))) == 20, 20, "the events are archived")
        live = self.live()
        answer = live.get("/api/report", names="overview,breakdown", event="tapped", by="user")
        drawings = [report.pop("svg") for report in answer["reports"]]
        # One day is no line to draw.
        self.assertIsNone(drawings[0])
        self.assertTrue(drawings[1].startswith("<svg"), drawings[1][:80])
        self.assertNotIn("style=", drawings[1])
        printed = succeed(
            "report", "overview,breakdown", "--data", self.site.data, "--event", "tapped", "--by", "user", "--format",
            "json", "--quiet")
        self.assertEqual(answer, json.loads(printed.stdout))
        self.assertEqual([report["name"] for report in answer["reports"]], ["overview", "breakdown"])
        self.assertLessEqual({"screens", "names"}, {report["name"] for report in live.get("/api/report")["reports"]})
        for query in ["names=overview&colour=red", "names=overview&from=x", "names=funnel"]:
            code, _, body = live.ask(f"/api/report?{query}")
            self.assertEqual(code, 400, body)
        masked = Live(self.site, "--mask", "user")
        code, _, body = masked.ask("/api/report?names=overview")
        self.assertEqual(code, 403)
        self.assertIn(b"waybill report", body)


class AccessTests(LiveTest):
    PATHS = [
        "/api/status", "/api/events", "/api/event?at=1.0", "/api/person?key=x", "/api/names", "/api/refusals",
        "/api/stream", "/api/report"]

    def test_without_the_token_there_is_nothing(self):
        """Every path of the API asks for the token; the page's files, which say nothing, do not."""
        live = self.live()
        for path in self.PATHS:
            for headers in [{}, {"Authorization": "Bearer wrong"}, {"Cookie": f"waybill-{live.port}={TOKEN}"}]:
                code, found, body = live.ask(path, headers, token=None)
                self.assertEqual(code, 401, path)
                self.assertIn(b"token", body)
                self.assertIn("default-src 'none'", found["Content-Security-Policy"])
        for path, kind in [("/", "text/html"), ("/live.js", "text/javascript"), ("/live.css", "text/css")]:
            code, found, body = live.ask(path, token=None)
            self.assertEqual((code, found["Content-Type"].split(";")[0]), (200, kind))
            self.assertEqual(body, (pathlib.Path(__file__).parents[2] / "Sources/Programs/WaybillLive/Page" / {
                "/": "index.html"}.get(path, path[1:])).read_bytes())
            self.assertEqual(live.ask(path, {"If-None-Match": found["ETag"]}, token=None)[0], 304)

    def test_a_session_has_a_cookie_that_lets_in(self):
        """The token of a start is in the printed address; posted, it gives a cookie that scripts cannot read."""
        live = self.live(token=False)
        token = live.process.log().split("#t=")[1].split()[0]
        self.assertGreaterEqual(len(token), 32)
        for body in [b"", b"{}", b'{"token":1}', b'{"token":"wrong"}', b"[]"]:
            self.assertEqual(live.ask("/api/session", method="POST", body=body, token=None)[0], 401, body)
        self.assertEqual(live.ask("/api/session", method="POST", body=b"x" * 5000, token=None)[0], 413)
        body = json.dumps({"token": token})
        code, headers, _ = live.ask("/api/session", method="POST", body=body, token=None)
        self.assertEqual(code, 200)
        cookie = headers["Set-Cookie"]
        self.assertIn("HttpOnly; SameSite=Strict; Path=/", cookie)
        self.assertNotIn(token, cookie)
        own = {"Cookie": cookie.split(";")[0]}
        self.assertEqual(live.ask("/api/status", own, token=None)[0], 200)
        self.assertEqual(live.ask("/api/status", token=token)[0], 200)
        # The next start has another one.
        live.process.kill()
        live.start()
        self.assertEqual(live.ask("/api/status", own, token=None)[0], 401)

    def test_strangers_keep_nobody_out(self):
        """Who holds connections open without a token, in whatever state, gives its place to the next."""
        live = self.live()
        held = []
        self.addCleanup(lambda: [stranger.close() for stranger in held])
        half = b"POST /api/session HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4000\r\n\r\n{"
        unread = b"GET /live.js HTTP/1.1\r\nHost: localhost\r\n\r\n"
        for sent in [b"", half, unread, unread[:-2]]:
            for _ in range(80):
                stranger = socket.socket()
                stranger.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
                stranger.connect(("127.0.0.1", live.port))
                stranger.sendall(sent)
                held.append(stranger)
            self.assertEqual(live.ask("/api/status")[0], 200, sent)

    def test_another_address_needs_tls_and_a_token(self):
        """Outside of the machine nothing is served without both; with them it is, under the names that were given."""
        folder = self.site.root
        (folder / "t").write_text(TOKEN)
        authority = Authority(folder)
        chain, key = authority.issue("live")
        tls = ["--tls-certificate", chain, "--tls-key", key]
        for more in [[], ["--token-file", folder / "t"], tls]:
            self.assertIn("--token-file", failure(64, "live", "--data", self.site.data, "--listen", "0.0.0.0:1", *more))
        live = Live(self.site, *tls, "--host", "live.example.com")
        context = ssl.create_default_context(cafile=str(authority.certificate))
        for host, expected in [("localhost", 200), ("live.example.com", 200), ("evil.example", 421)]:
            connection = http.client.HTTPSConnection("localhost", live.port, context=context, timeout=patience(10))
            connection.request("POST", "/api/session", json.dumps({"token": TOKEN}), {"Host": host})
            answer = connection.getresponse()
            self.assertEqual(answer.status, expected)
            if expected == 200:
                self.assertIn("; Secure", answer.headers["Set-Cookie"])
            connection.close()

    def test_bad_options_are_refused_with_their_remedy(self):
        """A short token, a port in a name, an unknown member, a folder that is no data directory."""
        (self.site.root / "short").write_text("short")
        data = ["--data", self.site.data]
        for arguments, code, text in [
                ([*data, "--token-file", self.site.root / "short"], 78, "fewer than 16 bytes"),
                ([*data, "--host", "a:1"], 64, "without a port"),
                ([*data, "--mask", "ts"], 64, "needs the member"),
                ([*data, "--receiver", "127.0.0.1:1"], 64, "http://HOST:PORT"),
                ([*data, "--listen", "127.0.0.1:1", "--tls-key", "x"], 64, "require each other"),
                (["--data", self.site.root], 66, "has no journal"),
                ([], 64, "name the data directory")]:
            self.assertIn(text, failure(code, "live", *arguments))


class StreamTests(LiveTest):

    def test_there_are_sixteen_streams(self):
        """A seventeenth is told why it is not served, questions still are, and one that ends makes room."""
        live = self.live()
        streams = [Stream(live) for _ in range(16)]
        self.addCleanup(lambda: [stream.close() for stream in streams])
        self.assertEqual([stream.open() for stream in streams], [200] * 16)
        late = Stream(live)
        self.assertEqual(late.open(), 503)
        self.assertIn(b"16 pages", late.answer.read())
        self.assertEqual(live.ask("/api/status")[0], 200)
        streams.pop().close()

        def is_open():
            stream = Stream(live)
            code = stream.open()
            stream.close()
            return code == 200

        until(is_open, 20, "a stream ended, and there is room")

    def test_nothing_is_read_while_nobody_looks(self):
        """Without a stream the process takes no time and reads nothing, whatever arrives."""
        live = self.live()
        live.get("/api/events")
        io = pathlib.Path(f"/proc/{live.process.child.pid}/io")

        def counters():
            fields = pathlib.Path(f"/proc/{live.process.child.pid}/stat").read_text().rsplit(")", 1)[1].split()
            return io.read_text().splitlines()[0], int(fields[11]) + int(fields[12])

        until(lambda: (before := counters()) and (time.sleep(1), counters())[1] == before, 20, "it rests")
        before = counters()
        self.ship([event(number) for number in range(500)])
        time.sleep(1)
        self.assertEqual(counters(), before)
        self.assertEqual(live.get("/api/events", limit=1)["rows"][0]["id"][-3:], "1f3")


class OutcomeTests(LiveTest):
    exports = ",".join(PROVIDERS)

    SHAPES = [
        {}, {"kind": "screen", "name": "screen_view", "screen": "Cart", "prev": "Home", "prev_ms": 1200},
        {"kind": "user", "name": "set_user", "user": "u-7", "traits": {"tier": "gold", "age": None}},
        {"ids": None}, {"id": None}, {"id": "not-a-uuid"}, {"user": "anonymous"}, {"consent": {"analytics": False}},
        {"providers": ["csv"]}, {"overrides": {"ga4": {"skip": True}, "mixpanel": {"name": "Other"}}},
        {"name": "a" * 60, "data": {"x": "y" * 300, "nested": {"a": [1, {"b": 2.50}]}, "=cmd": "=1+1"}},
        {"ts": "2026-01-01T00:00:00.000Z"}, {"ts": "2027-01-01T00:00:00.000Z"}, {"anon": None, "user": None},
        {"env": "dev"}, {"kind": "meta", "name": "wb.dropped"}, {"name": "토스터 <b>", "data": {"큰": 12.50}},
    ]

    def transformed(self, provider, line, received):
        dead = self.site.root / "dead.ndjson"
        dead.write_bytes(b"")
        as_of = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(received // 1000)) + f".{received % 1000:03d}Z"
        result = run("transform", "--provider", provider, "--as-of", as_of, "--dead", dead, stdin=line)
        counts = json.loads(result.stderr.decode().splitlines()[-1])
        letters = [json.loads(letter) for letter in dead.read_bytes().splitlines()]
        return result.stdout, counts, letters

    def test_outcomes_are_those_of_transform(self):
        """For every provider the record, or the reason with its field, is what `waybill transform` makes of the line."""
        lines = [event(number, **members) for number, members in enumerate(self.SHAPES)]
        self.ship(lines)
        exports = self.site.data / "exports"
        until(lambda: {path.name for path in exports.glob("*")} >= set(PROVIDERS), 60, "every export has begun")
        live = self.live()
        rows = live.get("/api/events")["rows"][::-1]
        self.assertEqual(len(rows), len(lines))
        empty = {provider: run("transform", "--provider", provider).stdout for provider in PROVIDERS}
        kinds = set()
        for line, row in zip(lines, rows):
            found = live.get("/api/event", at=row["at"])
            self.assertEqual(found["raw"].encode(), line.rstrip(b"\n"))
            self.assertEqual([one["provider"] for one in found["outcomes"]], PROVIDERS)
            for one in found["outcomes"]:
                provider = one["provider"]
                output, counts, letters = self.transformed(provider, line, row["received"])
                what = f"{provider}: {line}: {one}"
                kinds.add(one["outcome"])
                self.assertEqual(counts[one["outcome"]], 1, what)
                if one["outcome"] == "exported":
                    record = output.removeprefix(empty[provider])
                    if provider == "mixpanel-profiles":
                        # A file of these is one list.
                        record = output.strip().removeprefix(b"[").removesuffix(b"]").strip()
                    self.assertEqual(one["record"].encode(), record.removesuffix(b"\n").removesuffix(b"\r"), what)
                    self.assertEqual(one["changes"], counts["fixed"], what)
                if one["outcome"] == "refused":
                    self.assertEqual(
                        [one["reason"], one["detail"], one.get("field")],
                        [letters[0]["reason"], letters[0]["detail"], letters[0]["field"]], what)
                    self.assertEqual(row["refused"][provider], one["reason"])
            refused = {one["provider"] for one in found["outcomes"] if one["outcome"] == "refused"}
            self.assertEqual(set(row["refused"]), refused)
        self.assertLessEqual({"exported", "refused", "skipped"}, kinds)
        self.assertTrue(all(entry["rows"] for entry in live.get("/api/refusals") or [{"rows": []}]))
        # The filter knows them as well.
        for provider in ["ga4", "mixpanel"]:
            expected = [row["at"] for row in rows if provider in row["refused"]]
            self.assertEqual([row["at"] for row in live.get("/api/events", q=f"refused:{provider}")["rows"]][::-1], expected)
            self.assertTrue(expected)


class TapTests(LiveTest):
    def tap(self, *arguments, **options):
        result = run("tap", "--data", self.site.data, "--receiver", f"http://127.0.0.1:{self.metrics}", *arguments, **options)
        return result.returncode, [json.loads(line) for line in result.stdout.splitlines()], result.stderr.decode()

    def test_once_prints_what_is_there_and_ends(self):
        """--once needs no kill; --limit ends after so many; the filter is that of the page."""
        self.ship([event(1, name="login"), event(2), event(3, name="login")])
        code, rows, errors = self.tap("--once")
        self.assertEqual((code, [row["id"][-1] for row in rows], errors), (0, ["1", "2", "3"], ""))
        self.assertEqual(rows[0]["event"]["data"], {"line": 1})
        self.assertEqual([row["id"][-1] for row in self.tap("--once", "--limit", 1, "name:login")[1]], ["1"])
        self.assertEqual([row["id"][-1] for row in self.tap("--once", "--", "-name:login")[1]], ["2"])
        self.assertEqual(self.tap("--once", "name:none")[:2], (0, []))
        _, rows, _ = self.tap("--once", "--limit", 1, "--explain", "--exports", "ga4,csv")
        self.assertEqual([one["outcome"] for one in rows[0]["outcomes"]], ["exported", "exported"])
        _, rows, _ = self.tap("--once", "--limit", 1, "--mask", "id")
        self.assertTrue(rows[0]["id"].startswith("masked-"))
        code, _, errors = self.tap("colour:red")
        self.assertEqual(code, 64)
        self.assertIn("there is nothing called", errors)

    def following(self, *arguments, **options):
        child = subprocess.Popen(
            [binary(), "tap", "--data", self.site.data, "--receiver", f"http://127.0.0.1:{self.metrics}", *arguments],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
        self.addCleanup(child.stderr.close)
        self.addCleanup(child.stdout.close)
        self.addCleanup(child.kill)
        return child

    def test_it_follows_until_it_has_enough(self):
        """Without --once it prints what comes, and --limit ends it."""
        self.ship([event(1)])
        child = self.following("--kept", "--limit", "3")
        self.assertEqual(json.loads(child.stdout.readline())["id"][-1], "1")
        self.ship([event(2), event(3), event(4)])
        self.assertEqual([json.loads(line)["id"][-1] for line in child.stdout], ["2", "3"])
        self.assertEqual(child.wait(patience(20)), 0)

    def test_an_interrupt_and_a_closed_pipe_end_it(self):
        """SIGINT ends it with 0; so does the end of whoever reads its lines. Neither says anything."""
        self.ship([event(1)])
        child = self.following("--kept")
        child.stdout.readline()
        child.send_signal(signal.SIGINT)
        self.assertEqual(child.wait(patience(20)), 0)
        self.assertEqual(child.stderr.read(), b"")
        child = self.following("--kept")
        child.stdout.readline()
        child.stdout.close()
        self.ship([event(2)])
        self.assertEqual(child.wait(patience(20)), 0)
        self.assertEqual(child.stderr.read(), b"")

    def test_a_receiver_that_is_away_is_named(self):
        """The journal is read as far as it is whole, and standard error says why."""
        self.ship([event(1)])
        self.assertEqual(self.receiver.stop(), 0)
        code, rows, errors = self.tap("--once")
        self.assertEqual((code, len(rows)), (0, 1))
        self.assertIn("the receiver does not say", errors)
