"""Requests of strangers at the door: whose bodies cost little until their key is known, and whose connections take no one's place."""

import base64
import gzip
import json
import random
import resource
import socket
import ssl
import time

from certificates import Authority
from harness import until
from scale import SEED
from test_ingest import KEY, DoorTest, track

KEEP = "wk_keep_0003"
TRUNCATE = "wk_truncate_4"
STRANGER = "127.0.0.2"


def compressed(body):
    """Gzip, which the door's bound of inflation lets in."""
    result = gzip.compress(body, 1)
    assert len(body) <= (256 << 10) + 100 * len(result), f"{len(body)} from {len(result)}"
    return result


def padded(dice, number, size):
    """A capture that no compression makes much shorter."""
    return {"event": "bought", "distinct_id": "u-1", "uuid": f"{number:08x}-0000-4000-8000-000000000000",
            "properties": {"n": number, "token": "a field of the app's own", "pad": base64.b64encode(dice.randbytes(size)).decode()}}


class StrangerTest(DoorTest):
    def addresses(self):
        """What is kept of the sender's address, by the event's number."""
        return {line["data"]["n"]: line["data"].get("context", {}).get("ip") for line in self.door.lines()}


class BodyTests(StrangerTest):
    def test_bodies_without_a_known_key_cost_their_address_and_no_other(self):
        self.door.start()
        dice = random.Random(SEED)
        pieces = [b'"' + base64.b64encode(dice.randbytes(30)) + b'",' + b"0," * 1500 for _ in range(1300)]
        body = b'{"a":[' + b"".join(pieces) + b"0]"
        sent = [compressed(body + end) for end in (b"}", b',"api_key":"wk_nobody_1"}')]
        statuses = []
        while 429 not in statuses:
            status, headers, _ = self.door.request("/batch", sent[len(statuses) % 2], address=STRANGER)
            statuses.append(status)
            # Each costs milliseconds, which count twenty times.
            self.assertLess(len(statuses), 2000)
        self.assertEqual(set(statuses), {401, 429})
        self.assertEqual(headers["Retry-After"], "1")
        good = compressed(json.dumps({"batch": [track(1)], "writeKey": KEY}).encode())
        for _ in range(5):
            self.door.request("/batch", sent[0], address=STRANGER)
            self.assertEqual(self.door.request("/v1/b", good)[0], 200)
        until(lambda: self.door.request("/v1/b", good, address=STRANGER)[0] == 200, 30, "the address has time again")

    def test_posthogs_bodies_of_twenty_megabytes_have_their_key_at_the_end(self):
        self.door.configure(limits="  body_kib: 20480\n  memory_mib: 128\n  address_mib: 64\n")
        self.door.start()
        dice = random.Random(SEED)
        for batch, wrap in ((0, bytes), (1, compressed)):
            events = [padded(dice, batch * 8000 + number, 1780) for number in range(8000)]
            body = json.dumps({"historical_migration": False, "batch": events, "sentAt": "2026-11-20T09:00:00Z", "api_key": KEY}).encode()
            self.assertGreater(len(body), 20_000_000)
            status, _, answer = self.door.request("/batch/", wrap(body))
            self.assertEqual((status, json.loads(answer)["stored"]), (200, 8000))
        self.assertEqual(len(self.door.lines()), 16000)

    def test_where_a_key_can_only_be_in_the_head_no_body_is_awaited(self):
        self.door.start()
        for line in (b"POST /v1/events HTTP/1.1", b"GET /v1/pixel.gif?event=a&token=wk_shop_0001 HTTP/1.1"):
            answer = self.door.raw(line + b"\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n")
            self.assertIn(b" 401 ", answer.split(b"\r\n")[0])


class RequestTests(StrangerTest):
    """RFC 9110 and RFC 9112."""

    def first(self, request):
        return self.door.raw(request).split(b"\r\n")[0]

    def test_a_host_is_named_once(self):
        self.door.start()
        for hosts, expected in ((b"", b" 400 "), (b"Host: a\r\nHost: b\r\n", b" 400 "), (b"host: a\r\n", b" 200 ")):
            self.assertIn(expected, self.first(b"GET /waybill.js HTTP/1.1\r\n" + hosts + b"Connection: close\r\n\r\n"))
        self.assertIn(b" 200 ", self.first(b"GET /waybill.js HTTP/1.0\r\n\r\n"))

    def test_the_head_of_the_script_can_be_asked_for(self):
        self.door.start()
        _, whole, body = self.door.request("/waybill.js", None, method="GET")
        status, headers, nothing = self.door.request("/waybill.js", None, method="HEAD")
        self.assertEqual((status, nothing), (200, b""))
        self.assertEqual(int(headers["Content-Length"]), len(body))
        self.assertEqual(headers["Content-Type"], whole["Content-Type"])
        # Nothing follows its answer on the connection but the next one.
        asked = b"HEAD /waybill.js HTTP/1.1\r\nHost: x\r\n\r\nHEAD /nowhere HTTP/1.1\r\nHost: x\r\n\r\n"
        answers = self.door.raw(asked).split(b"\r\n\r\n")
        self.assertEqual([answer[:12] for answer in answers], [b"HTTP/1.1 200", b"HTTP/1.1 404", b""])

    def test_who_closes_the_own_side_gets_the_answer(self):
        self.door.start()
        body = json.dumps({"writeKey": KEY, **track(1)}).encode()
        for sent, count in ((body, 1), (body[:-1], 0)):
            with socket.create_connection(("127.0.0.1", self.door.port), timeout=60) as connection:
                connection.sendall(b"POST /v1/t HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + sent)
                connection.shutdown(socket.SHUT_WR)
                answer = b""
                while chunk := connection.recv(65536):
                    answer += chunk
            self.assertEqual(answer.count(b"HTTP/1.1 200 "), count)
        until(lambda: self.door.metric("waybill_ingest_connections") == [0], 20, "the connections are closed")

    def test_plain_http_at_the_port_of_https_is_answered_in_http(self):
        authority = Authority(self.site.root / "tls")
        certificate, key = authority.issue("door")
        self.door.configure(limits=f"  tls: {{certificate: {certificate}, key: {key}}}\n")
        self.door.start()
        answer = self.door.raw(b"GET /waybill.js HTTP/1.1\r\nHost: x\r\n\r\n")
        self.assertTrue(answer.startswith(b"HTTP/1.1 400 Bad Request\r\n"), answer)
        self.assertIn(b"https://", answer.split(b"\r\n\r\n")[1])
        for ciphers, is_taken in (("ECDHE+AESGCM", True), ("ECDHE-ECDSA-AES128-SHA", False), ("AES128-SHA", False)):
            context = ssl.create_default_context(cafile=authority.certificate)
            context.check_hostname, context.maximum_version = False, ssl.TLSVersion.TLSv1_2
            context.set_ciphers(ciphers + ":@SECLEVEL=0")
            with socket.create_connection(("127.0.0.1", self.door.port), timeout=60) as connection:
                try:
                    context.wrap_socket(connection).close()
                    self.assertTrue(is_taken, ciphers)
                except ssl.SSLError:
                    self.assertFalse(is_taken, ciphers)


class AddressTests(StrangerTest):
    KEYS = [f"{{key: {KEEP}, bundle: com.example.a, env: prod, addresses: keep}}",
            f"{{key: {TRUNCATE}, bundle: com.example.b, env: prod, addresses: truncate}}"]

    def test_version_4_at_a_listener_of_both_versions_is_version_4(self):
        self.door.configure(limits="  address_connections: 3\n", keys=self.KEYS)
        text = self.door.config.read_text()
        self.door.config.write_text(text.replace(f"listen: 127.0.0.1:{self.door.port}", f'listen: "[::]:{self.door.port}"'))
        self.door.start()
        self.assertEqual(self.door.batch([track(1)], key=KEEP)[0], 200)
        self.assertEqual(self.door.batch([track(2)], key=TRUNCATE)[0], 200)
        self.assertEqual(self.addresses(), {1: "127.0.0.1", 2: "127.0.0.0"})
        # Each address has its own connections.
        silent = [socket.create_connection(("127.0.0.1", self.door.port), 60, (f"127.0.0.{number}", 0)) for number in (2, 3) for _ in range(3)]
        until(lambda: self.door.metric("waybill_ingest_connections")[0] >= 6, 20, "all are there")
        for connection in silent:
            connection.setblocking(False)
            with self.assertRaises(BlockingIOError):
                connection.recv(1)
            connection.close()


class FileTests(StrangerTest):
    """A process that may open few files."""

    def start(self, limit):
        self.door.process = self.site.start(
            "ingest", "--config", self.door.config, log="ingest.log", within=["prlimit", f"--nofile={limit}"])
        self.door.process.until_logged("the door is open", 60)

    def silent(self, count):
        connections = []
        for _ in range(count):
            connections.append(socket.create_connection(("127.0.0.1", self.door.port), timeout=60))
            self.addCleanup(connections[-1].close)
        return connections

    def test_the_limit_is_raised_and_connections_are_clipped_to_it(self):
        self.start("128:256")
        self.assertEqual(resource.prlimit(self.door.process.child.pid, resource.RLIMIT_NOFILE), (256, 256))
        self.door.process.until_logged("fewer connections are taken than ingest.connections")
        self.silent(400)
        for number in range(5):
            until(lambda number=number: self.door.batch([track(number)])[0] == 200, 20, "an event is stored")
        self.assertLess(self.door.metric("waybill_ingest_connections")[0], 200)
        self.door.process.kill()
        self.door.configure(limits="  connections: 2000\n")
        self.start("128:4096")
        self.assertGreater(resource.prlimit(self.door.process.child.pid, resource.RLIMIT_NOFILE)[0], 2000)
        self.assertNotIn("fewer connections", self.door.process.log())

    def test_the_longest_silent_connection_ends_when_no_file_is_left(self):
        self.door.start()
        self.assertEqual(self.door.batch([track(0)])[0], 200)
        first = self.silent(20)
        until(lambda: self.door.metric("waybill_ingest_connections")[0] >= 20, 20, "they are accepted")
        began = time.monotonic()
        # Fewer than the door counted on at its start.
        limit = int(self.door.metric("process_open_fds")[0]) + 10
        resource.prlimit(self.door.process.child.pid, resource.RLIMIT_NOFILE, (limit, limit))
        self.silent(60)
        self.assertEqual(first[0].recv(1), b"")
        for number in range(1, 6):
            until(lambda number=number: self.door.batch([track(number)])[0] == 200, 20, "an event is stored")
        count = self.door.process.log().count("no file is left for another connection")
        self.assertTrue(1 <= count <= 1 + (time.monotonic() - began) // 60, count)
        self.assertGreater(sum(self.door.metric("waybill_ingest_ended_connections_total")), 0)
