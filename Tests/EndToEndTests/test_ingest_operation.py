"""The door in operation: reloads that lose nothing, and senders that take no room from others."""

import base64
import contextlib
import http.client
import json
import signal
import socket
import ssl
import threading
import time

from certificates import Authority, install
from harness import check_metrics, run, samples, succeed, until
from health import ask
from test_ingest import KEY, OTHER, DoorTest, track

NEW = "wk_new_00003"


def entry(key, bundle="com.example.shop", more=""):
    return f"{{key: {key}, bundle: {bundle}, env: prod{more}}}"


def send(connection, number, key=KEY, headers=None):
    """Sends an event on a connection that stays; returns the status."""
    connection.request("POST", "/v1/t", json.dumps({"writeKey": key, **track(number)}), headers or {})
    answer = connection.getresponse()
    answer.read()
    return answer.status


class ReloadTest(DoorTest):
    def reload(self, *texts):
        """Reloads, and waits for that and for what the log says of it."""
        count = sum(self.reloads())
        self.door.process.child.send_signal(signal.SIGHUP)
        until(lambda: sum(self.reloads()) > count, 20, "the reload is counted")
        for text in texts:
            self.door.process.until_logged(text)

    def reloads(self):
        found = samples(f"127.0.0.1:{self.door.metrics}", "waybill_reloads_total")
        return [found[f'{{outcome="{outcome}"}}'] for outcome in ("taken", "partial", "refused")]


class ReloadTests(ReloadTest):
    def test_keys_come_go_and_change_on_connections_that_stay(self):
        self.door.configure(keys=[entry(KEY), entry(OTHER, "com.example.web")])
        self.door.start()
        connection = http.client.HTTPConnection("127.0.0.1", self.door.port, timeout=60)
        self.addCleanup(connection.close)
        numbers = iter(range(100))
        def status(key, **headers):
            return send(connection, next(numbers), key, headers)
        self.assertEqual([status(KEY), status(OTHER), status(NEW)], [200, 200, 401])
        stays = connection.sock
        self.door.configure(keys=[entry(KEY, more=", origins: ['https://shop.example.com']"), entry(NEW, "com.example.new")])
        self.reload(f"ingest.keys[{NEW}]: absent -> present", f"ingest.keys[{OTHER}]: present -> absent",
                    f"ingest.keys[{KEY}].origins:")
        self.assertEqual(
            [status(KEY), status(NEW), status(OTHER), status(KEY, Origin="https://evil.org")], [200, 200, 401, 403])
        self.assertIs(connection.sock, stays)
        self.assertEqual(self.reloads(), [1, 0, 0])
        self.assertEqual(len(list(self.door.spool.glob("com.example.new-prod/*.ndjson"))), 1)
        self.reload("nothing changed")

    def test_a_request_that_is_under_way_when_its_key_goes_is_stored(self):
        self.door.configure(keys=[entry(KEY), entry(OTHER, "com.example.web")])
        self.door.start()
        waiting = []
        for path, key in ((f"/v1/t?writeKey={OTHER}", None), ("/v1/t", OTHER)):
            body = json.dumps({**({"writeKey": key} if key else {}), **track(len(waiting))}).encode()
            connection = socket.create_connection(("127.0.0.1", self.door.port), timeout=60)
            self.addCleanup(connection.close)
            connection.sendall(b"POST %s HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n" % (path.encode(), len(body)))
            # The head is read: it was answered.
            self.assertIn(b" 100 ", connection.recv(1000))
            connection.sendall(body[:9])
            waiting.append((connection, body[9:]))
        self.door.configure(keys=[entry(KEY)])
        self.reload()
        for connection, rest in waiting:
            connection.sendall(rest)
            self.assertIn(b" 200 ", connection.recv(1000))
        self.assertEqual(self.door.batch([track(9)], key=OTHER)[0], 401)

    def test_no_request_is_lost_while_keys_change(self):
        self.door.configure(keys=[entry(KEY)])
        self.door.start()
        answers, ends = [], threading.Event()
        def send(start):
            connection = http.client.HTTPConnection("127.0.0.1", self.door.port, timeout=60)
            number = start
            while not ends.is_set():
                connection.request("POST", "/v1/t", json.dumps({"writeKey": KEY, **track(number)}))
                answer = connection.getresponse()
                answer.read()
                answers.append((number, answer.status))
                number += 1
            connection.close()
        senders = [threading.Thread(target=send, args=(index * 1_000_000,)) for index in range(3)]
        for sender in senders:
            sender.start()
        with contextlib.ExitStack() as stack:
            stack.callback(lambda: [sender.join() for sender in senders])
            stack.callback(ends.set)
            for turn in range(10):
                self.door.configure(
                    keys=[entry(KEY, more=f", events_second: {1_000_000 + turn}"), *([entry(NEW)] if turn % 2 else [])])
                self.reload()
        self.assertEqual({status for _, status in answers}, {200})
        self.assertEqual(sorted(line["data"]["n"] for line in self.door.lines()), sorted(number for number, _ in answers))

    def test_a_faulty_file_changes_nothing_and_says_so(self):
        self.door.configure(keys=[entry(KEY)])
        self.door.start()
        good = self.door.config.read_text()
        for bad in (good.replace("bundle:", "bundel:"), "ingest: [", good.replace("  keys:", "  tls: {certificate: nope.pem}\n  keys:")):
            self.door.config.write_text(bad)
            self.reload("the new configuration is refused", "line ")
            self.assertEqual(self.door.batch([track(1)])[0], 200)
        self.assertEqual(self.reloads(), [0, 0, 3])
        self.door.config.write_text(good)
        self.reload()
        self.assertEqual(self.reloads(), [1, 0, 3])

    def test_a_renewed_certificate_is_served_after_a_reload_and_without_one(self):
        authority = Authority(self.site.root / "tls")
        served = self.site.root / "door.pem", self.site.root / "door.key"
        def renew(name):
            found = authority.issue(name)
            install(found, *served)
            return found[0].read_text().strip()
        first = renew("first")
        self.door.configure(limits=f"  tls: {{certificate: {served[0]}, key: {served[1]}}}\n", keys=[entry(KEY)])
        self.door.start()
        def present():
            return ssl.get_server_certificate(("127.0.0.1", self.door.port)).strip()
        self.assertEqual(present(), first)
        connection = http.client.HTTPSConnection(
            "127.0.0.1", self.door.port, timeout=60, context=ssl.create_default_context(cafile=authority.certificate))
        self.addCleanup(connection.close)
        self.assertEqual(send(connection, 1), 200)
        stays = connection.sock
        second = renew("second")
        self.reload()
        self.assertEqual(present(), second)
        third = renew("third")
        until(lambda: present() == third, 30, "the third certificate is served")
        self.assertEqual(send(connection, 2), 200)
        self.assertIs(connection.sock, stays)
        expiry = self.door.metric("waybill_tls_certificate_expiry_seconds")
        self.assertGreater(expiry[0], time.time())


class ShareTests(DoorTest):
    """One address, one key, or many addresses that send slowly: others are served."""

    def connect(self, address):
        connection = socket.create_connection(("127.0.0.1", self.door.port), timeout=60, source_address=(address, 0))
        self.addCleanup(connection.close)
        return connection

    def begin(self, address, length, sent, path="/v1/t"):
        """Begins a request of a length, and sends a part of its body."""
        connection = self.connect(address)
        connection.sendall(b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (path.encode(), length))
        with contextlib.suppress(ConnectionError):
            connection.sendall(b" " * sent)
        return connection

    def waiting(self):
        return self.door.metric("waybill_ingest_waiting_bytes")[0]

    def test_a_key_in_the_head_is_judged_before_the_body_comes(self):
        self.door.start()
        basic = base64.b64encode(b"wk_nobody_1:").decode()
        for path, headers, code in (
                ("/v1/t?writeKey=wk_nobody_1", "", 401), ("/v1/events?key=wk_nobody_1", "", 401),
                ("/v1/b", f"Authorization: Basic {basic}\r\n", 401), ("/v1/b", "Authorization: Bearer wk_nobody_1\r\n", 401),
                (f"/v1/t?writeKey={OTHER}", "Origin: https://evil.org\r\n", 403)):
            with self.connect("127.0.0.1") as connection:
                connection.sendall(f"POST {path} HTTP/1.1\r\nHost: x\r\n{headers}Content-Length: 4000000\r\n\r\n".encode())
                self.assertIn(f" {code} ".encode(), connection.recv(1000), path)
        self.assertEqual((self.door.refused("unknown-key"), self.door.refused("origin")), (4, 1))

    def test_a_large_body_without_pace_is_ended(self):
        self.door.configure(limits="  request_seconds: 3600\n  body_kib_second: 1024\n", keys=[entry(KEY)])
        self.door.start()
        small = self.begin("127.0.0.2", 1 << 20, 1 << 10)
        large = self.begin("127.0.0.3", 1 << 20, 128 << 10)
        self.assertEqual(large.recv(1000), b"")
        self.assertEqual(self.door.refused("slow"), 1)
        # A small one may wait for its network.
        small.setblocking(False)
        self.assertRaises(BlockingIOError, small.recv, 1000)

    def test_one_address_ends_its_own_connections(self):
        self.door.configure(limits="  connections: 50\n  address_connections: 5\n", keys=[entry(KEY)])
        self.door.start()
        connection = http.client.HTTPConnection("127.0.0.1", self.door.port, timeout=60)
        self.addCleanup(connection.close)
        self.assertEqual(send(connection, 1), 200)
        stays = connection.sock
        many = [self.connect("127.0.0.2") for _ in range(100)]
        until(lambda: self.door.metric("waybill_ingest_ended_connections_total") == [95, 0, 0], 30, "95 connections ended")
        self.assertEqual(send(connection, 2), 200)
        self.assertIs(connection.sock, stays)
        served = 0
        for number, one in enumerate(many):
            body = json.dumps({"writeKey": KEY, **track(10 + number)}).encode()
            with contextlib.suppress(ConnectionError):
                one.sendall(b"POST /v1/t HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
                served += b" 200 " in one.recv(1000)
        self.assertEqual(served, 5)


class SourceTests(DoorTest):
    def test_what_an_event_was_sent_as_is_in_its_line_and_can_be_asked_for(self):
        receiver = self.site.receiver()
        self.door.start()
        self.assertEqual(self.door.batch([track(1), track(2)])[0], 200)
        self.assertEqual(self.door.request(f"/v1/events?key={KEY}", b'{"name":"opened","user":"u-1"}')[0], 200)
        self.assertEqual([line["via"] for line in self.door.lines()], ["segment", "segment", "native"])
        self.assertEqual(self.door.process.stop(), 0)
        succeed(
            "agent", "--state", self.site.root / "door-agent", "--to", self.site.address, "--spool", f"{self.door.spool}/*",
            "--once")
        for words, count in (("via:segment", 2), ("via:native", 1), ("-via:*", 0), ("via:posthog", 0)):
            found = run("tap", "--data", self.site.data, "--once", "--", words)
            self.assertEqual((found.returncode, len(found.stdout.splitlines())), (0, count), (words, found.stderr))
        self.assertEqual(receiver.stop(), 0)


class StatusTests(DoorTest):
    """What an operator asks."""

    def get(self, path):
        return ask(self.door.metrics, path)[::2]

    def test_a_door_says_how_it_is_and_what_came_by_each_key(self):
        self.door.start()
        self.door.batch([track(1), track(2), {"type": "track"}])
        self.door.batch([track(2)])
        self.door.request(f"/v1/events?key={OTHER}", b'{"name":"x"}')
        self.assertEqual(self.get("/livez")[0], 200)
        self.assertEqual(self.get("/readyz"), (200, "ready\n"))
        document = json.loads(self.get("/status")[1])
        self.assertEqual(
            [document[name] for name in ("part", "name", "health", "lines", "repeated", "quarantined", "faults")],
            ["ingest", f"127.0.0.1:{self.door.port}", "ok", 2, 1, 1, {"no-person": 1}])
        shop, web = document["keys"]
        self.assertEqual(
            [shop[name] for name in ("key", "bundle", "env", "stored", "repeated", "quarantined", "refused")],
            [KEY, "com.example.shop", "prod", 2, 1, 1, {}])
        self.assertLess(abs(shop["last"] - document["time"]), 60_000)
        self.assertEqual([web[name] for name in ("key", "stored", "refused", "last")], [OTHER, 0, {"dialect": 1}, None])
        result = run("status", f"127.0.0.1:{self.door.metrics}")
        shown = result.stdout.decode()
        self.assertEqual((result.returncode, result.stderr), (0, b""))
        self.assertRegex(shown, r"^ingest 127\.0\.0\.1:\d+ \(waybill/\S+\) at 127\.0\.0\.1:\d+: ok, up \d+ s\n2 events stored since the start, 1 repeated, 1 in the quarantine, ")
        self.assertRegex(shown, rf"KEY +APP +ENV +STORED .*\n{KEY} +com\.example\.shop +prod +2 +1 +1 +0 +\d+ s ago")
        self.assertRegex(shown, rf"\n{OTHER} .* 1 +- +dialect 1\n")

    def test_promtool_has_nothing_to_say_about_the_metrics(self):
        self.door.start()
        self.door.batch([track(1)])
        text = check_metrics(self, f"127.0.0.1:{self.door.metrics}")
        self.assertIn("\nwaybill_build_info", text)
        for private in ("wk_", "com.example", "127.0.0.1"):
            self.assertNotIn(private, text)

    def test_check_finds_what_a_start_would(self):
        authority = Authority(self.site.root / "tls")
        good, late = authority.issue("good", days=("-1", "60")), authority.issue("late", days=("-2", "-1"))
        file = self.site.root / "check.yaml"
        def check(more, *options, listen="127.0.0.1:4380"):
            file.write_text(
                f"ingest:\n  listen: {listen}\n  spool: {self.site.root}/s\n  quarantine: {self.site.root}/q\n{more}"
                f"  keys: [{entry(KEY)}]\n")
            result = run("check", *options, file)
            return result.returncode, result.stderr.decode()
        self.assertEqual(check(f"  tls: {{certificate: {good[0]}, key: {good[1]}}}\n"), (0, ""))
        for more, code, said in (
                (f"  tls: {{certificate: {late[0]}, key: {late[1]}}}\n", 78, "ingest.tls.certificate: expired at"),
                (f"  tls: {{certificate: {good[0]}, key: {late[1]}}}\n", 78, "do not belong together"),
                (f"  tls: {{certificate: {good[0]}, key: nothing.pem}}\n", 78, "the door's private key"),
                ("  metrics: 127.0.0.1:4380\n", 78, "ingest.metrics: 127.0.0.1:4380 is also the address of ingest.listen"),
                ("  status_token_file: nowhere\n", 78, "ingest.status_token_file:"),
                ("  body_kib: 16384\n  address_mib: 8\n", 78, "ingest.address_mib: has no room for one body")):
            found = check(more)
            self.assertEqual(found[0], code, found)
            self.assertIn(said, found[1])
        code, said = check("", listen="0.0.0.0:4380")
        self.assertEqual(code, 0)
        self.assertIn("warning: ", said)
        self.assertIn("without TLS", said)
        self.assertEqual(check("  trusted_proxies: [10.0.0.0/8]\n", listen="0.0.0.0:4380"), (0, ""))
        code, said = check("  group: no-such-group\n", "--probe")
        self.assertEqual(code, 78)
        self.assertIn("ingest.group: no-such-group is not a group of this machine", said)
