"""The door for Waybill's own clients: streams over HTTP, each answered line stored once, whatever is killed in between."""

import base64
import hashlib
import http.client
import json
import os
import random
import socket
import ssl
import threading
import time
import urllib.request
import zlib

from certificates import Authority
from harness import free_port, patience, run, until
from ledger import stored
from peers import proof
from scale import SEED, amount
from test_hostile_principals import PrincipalsTest
from wire import batch, skip


def device():
    """A device's key in base64url, and the name that it proves."""
    key = os.urandom(16)
    return base64.urlsafe_b64encode(key).decode().rstrip("="), hashlib.sha256(key).hexdigest()[:32]


class Client:
    """One client's stream: what its file holds, and requests about it."""

    def __init__(self, door, stream, token, agent="app-1", key=None, bundle="com.example.web"):
        self.door, self.stream, self.content = door, stream, b""
        # How far the door has said that everything is durable.
        self.answered = 0
        self.description = {"stream": stream, "source": "/app", "env": "prod", "bundle": bundle, "format": "waybill"}
        self.headers = {"Authorization": f"Bearer {token}", "Waybill-Agent": agent}
        if key:
            self.headers["Waybill-Key"] = key

    def request(self, method, more="", body=None, **changes):
        """Returns status, headers and the JSON of the answer; raises `OSError` when there is none."""
        headers = {**self.headers, "Waybill-Stream": json.dumps({**self.description, **changes})}
        return self.door.request(method, f"/v1/streams/{self.stream}{more}", body, headers)

    def get(self):
        return self.request("GET")

    def digest(self, offset):
        return proof(self.stream, offset, self.content[:offset][-512:]).split(" ")[1]

    def put(self, raw, offset=None, told=None, frame=None, **changes):
        """Sends a batch of the file's bytes at an offset."""
        offset = len(self.content) - len(raw) if offset is None else offset
        line, payload = frame or batch(self.stream, raw, offset=offset, **changes)
        told = self.digest(offset) if told is None else told
        return self.request("PUT", f"?offset={offset}&proof={told}", line.encode() + b"\n" + payload)

    def seal(self, length=None, told=None):
        length = len(self.content) if length is None else length
        return self.request("POST", f"/seal?proof={told or self.digest(length)}", f"SEAL 1 {length}\n".encode())

    def ship(self, raws, seconds=120):
        """Appends pieces, and ships each until it is answered, as a client that may lose any answer."""
        for raw in raws:
            # For each, however many there are.
            deadline = time.monotonic() + patience(seconds)
            self.content += raw
            while True:
                assert time.monotonic() < deadline, "the stream is not shipped"
                try:
                    status, _, held = self.get()
                    if status != 200:
                        time.sleep(0.02)
                        continue
                    assert held["digest"] == self.digest(held["offset"]), held
                    assert held["offset"] >= self.answered, f"{held} after 200 for {self.answered}"
                    if held["offset"] == len(self.content):
                        break
                    rest = self.content[held["offset"]:]
                    status, _, answer = self.put(rest, held["offset"])
                    if status == 200:
                        assert answer["offset"] >= len(self.content), answer
                        self.answered = answer["offset"]
                        break
                except OSError:
                    time.sleep(0.02)


class StreamDoor:
    def __init__(self, site, receiver_port, token, more="", tls=None):
        self.site, self.port, self.metrics, self.tls = site, free_port(), free_port(), tls
        (site.root / f"door-{self.port}.token").write_text(token + "\n")
        self.config = site.root / f"ingest-{self.port}.yaml"
        self.config.write_text(
            f"ingest:\n  listen: 127.0.0.1:{self.port}\n  metrics: 127.0.0.1:{self.metrics}\n  spool: {site.root}/door-{self.port}\n"
            f"  quarantine: {site.root}/aside-{self.port}\n  reserve_mib: 0\n"
            f"  keys:\n    - {{key: wk_shop_0001, bundle: com.example.shop}}\n"
            f"  streams:\n    receiver: 127.0.0.1:{receiver_port}\n    agent: door-1\n    token_file: door-{self.port}.token\n"
            f"    agents_file: agents.yaml\n{more}")

    def start(self):
        self.process = self.site.start("ingest", "--config", self.config, log="ingest.log")
        self.process.until_logged("the door is open", 60)
        return self

    def request(self, method, path, body=None, headers=None):
        place = "127.0.0.1", self.port
        connection = (
            http.client.HTTPSConnection(*place, timeout=patience(30), context=self.tls) if self.tls
            else http.client.HTTPConnection(*place, timeout=patience(30)))
        try:
            connection.request(method, path, body=body, headers=headers or {})
            answer = connection.getresponse()
            return answer.status, answer.headers, json.loads(answer.read() or b"{}")
        except http.client.HTTPException as error:
            raise ConnectionError(str(error)) from error
        finally:
            connection.close()

    def get(self, path):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics}{path}", timeout=patience(10)) as answer:
            return answer.read().decode()

    def status(self):
        return json.loads(self.get("/status"))

    def metric(self, name, **labels):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics}/metrics", timeout=patience(10)) as answer:
            text = answer.read().decode()
        wanted = ",".join(f'{key}="{value}"' for key, value in labels.items())
        for line in text.splitlines():
            if line.startswith(f"{name}{{{wanted}}} " if wanted else f"{name} "):
                return float(line.split()[-1])
        return 0.0


class StreamsTest(PrincipalsTest):
    def site_of(self, *entries, more="", receiver="", extra=""):
        """Starts a receiver with these principals, and a door to it."""
        entries = entries or (self.entry("web"), self.entry("rival"), self.entry("phones", "devices: true"))
        self.process = self.receiver(*entries, self.entry("door", "may_forward: true"), extra=extra)
        self.door = StreamDoor(self.site, self.site.port, self.TOKENS["door"], more).start()

    def client(self, stream="s-1", principal="web", **changes):
        return Client(self.door, stream, self.TOKENS[principal], **changes)


class RequestTests(StreamsTest):
    def setUp(self):
        super().setUp()
        self.site_of()

    def test_a_stream_from_its_first_byte_to_its_seal(self):
        client = self.client()
        status, headers, ready = self.door.request("GET", "/v1/streams", headers=client.headers)
        self.assertEqual((status, ready["protocol"], ready["limits"]["line"]), (200, 1, 1 << 20))
        named = f"{ready['incarnation']} {ready['start']}"
        status, headers, held = client.get()
        self.assertEqual((status, held["offset"], held["count"], held["digest"], held["sealed"]), (200, 0, 0, "-", False))
        self.assertEqual(headers["Waybill-Receiver"], named)
        raws = [self.made(3), self.made(200)]
        for raw in raws:
            client.content += raw
            status, headers, held = client.put(raw)
            self.assertEqual((status, held["offset"], held["repeated"]), (200, len(client.content), False))
            self.assertEqual((held["count"], held["digest"]), (min(512, len(client.content)), client.digest(held["offset"])))
            self.assertGreater(held["end"], ready["end"])
        status, _, sealed = client.seal()
        self.assertEqual((status, sealed["sealed"], sealed["digest"]), (200, True, client.digest(len(client.content))))
        status, _, held = client.get()
        self.assertEqual((status, held["offset"], held["sealed"]), (200, len(client.content), True))
        self.assertEqual(client.seal()[0], 200, "a repeated seal")
        self.assertEqual(self.door.metric("waybill_ingest_stream_bytes_total"), len(client.content))
        self.assertEqual(self.door.metric("waybill_ingest_stream_requests_total", verb="batch", code="200"), 2)
        self.assert_stored(self.process)

    def test_a_200_is_durable_and_a_repeated_request_stores_nothing(self):
        client = self.client()
        client.content = raw = self.made(8)
        self.assertEqual(client.put(raw)[0], 200)
        self.process.kill()
        self.process = self.site.receiver("--config", self.site.root / "waybill.yaml", exports="none")
        status, _, held = until(lambda: (answer := client.put(raw))[0] == 200 and answer, 20, "the receiver is back")
        self.assertEqual((status, held["offset"], held["repeated"]), (200, len(raw), True))
        self.assertEqual(self.door.metric("waybill_ingest_stream_repeats_total"), 1)
        # A short one after it: its own bytes prove nothing, so its client compares.
        more = b'{"short":true}\n'
        client.content += more
        self.assertEqual(client.put(more)[0], 200)
        status, _, told = client.put(more)
        self.assertEqual((status, told["code"], told["offset"]), (409, "gap", len(client.content)))
        self.assertEqual(told["digest"], client.digest(len(client.content)))
        self.assertEqual(self.process.stop(), 0)
        self.ledger.add([more])
        comparison = self.ledger.compare(stored(self.site.data))
        self.assertTrue(comparison.is_clean, comparison)

    def test_other_bytes_a_gap_and_an_end_are_conflicts(self):
        client = self.client()
        client.content = raw = self.made(8)
        self.assertEqual(client.put(raw)[0], 200)
        # A phone that was cloned, or an app that was put back: equal length, other bytes.
        other = self.client()
        other.content = raw.replace(b"ShoppingList", b"ShoppingLisT")
        status, _, told = other.put(other.content, 0)
        self.assertEqual((status, told["code"], told["offset"]), (409, "differs", len(raw)))
        more = b'{"never":"stored"}\n'
        status, _, told = client.put(more, len(raw), told="0" * 32)
        self.assertEqual((status, told["code"], told["offset"], told["digest"]), (409, "differs", len(raw), client.digest(len(raw))))
        for key in ("cause", "remedy", "count", "end"):
            self.assertIn(key, told)
        status, _, told = client.put(raw, len(raw) + 10, told="0" * 32)
        self.assertEqual((status, told["code"], told["offset"]), (409, "gap", len(raw)))
        self.assertEqual(client.seal(len(raw) - 1, told="0" * 32)[2]["code"], "gap")
        self.assertEqual(client.seal(told="0" * 32)[2]["code"], "differs")
        self.assertEqual(client.seal()[0], 200)
        status, _, told = client.put(raw, len(raw))
        self.assertEqual((status, told["code"], told["sealed"]), (409, "sealed", True))

    def test_skips(self):
        client = self.client()
        client.content = self.made(2)
        self.assertEqual(client.put(client.content)[0], 200)
        offset, torn = len(client.content), b'{"half":'
        client.content += torn
        line = skip(offset, len(torn), "torn-tail", client.content).encode() + b"\n"
        for isRepeated in (False, True):
            status, _, held = client.request("POST", f"/skip?proof={client.digest(offset)}", line)
            self.assertEqual((status, held["offset"], held["repeated"]), (200, len(client.content), isRepeated))
        self.assertEqual(client.seal()[0], 200)
        gone = self.client("s-2")
        status, _, held = gone.request("POST", "/skip", b"SKIP 1 0 4096 truncated -\n")
        self.assertEqual((status, held["offset"], held["count"], held["digest"]), (200, 4096, 0, "-"))
        raw = self.made(2)
        status, _, held = gone.put(raw, 4096, told="-")
        self.assertEqual((status, held["offset"]), (200, 4096 + len(raw)))

    def test_a_bad_frame_is_refused_before_it_is_forwarded(self):
        client = self.client()
        client.content = raw = self.made(4)
        line, payload = batch("s-1", raw)
        bomb = zlib.compress(b" " * (64 << 20))
        cases = [
            (batch("s-1", raw, crc=1), "corrupt", 400),
            (batch("s-2", raw), "corrupt", 400),
            (batch("s-1", raw, lines=3), "corrupt", 400),
            (batch("s-1", raw, raw_count=len(raw) - 1), "corrupt", 400),
            (batch("s-1", raw, payload=bomb, raw_count=2 << 20, lines=1), "corrupt", 400),
            ((line, payload[:-1]), "corrupt", 400),
            (batch("s-1", raw, number=2), "syntax", 400),
            (batch("s-1", raw, raw_count=3 << 20), "limit", 413),
            (batch("s-1", b"x" * (1 << 20) + b"\n"), "too-large", 413),
            (("BATCH 1 0", payload), "syntax", 400),
            (("SEAL 1 5", b""), "syntax", 400),
        ]
        for frame, code, status in cases:
            found, _, told = client.put(raw, 0, frame=frame)
            self.assertEqual((found, told.get("code")), (status, code), frame[0])
        for path, method, code in (("?offset=7", "PUT", "syntax"), ("", "DELETE", "method"), ("/what", "GET", "not-found")):
            found, _, told = client.request(method, path, line.encode() + b"\n" + payload)
            self.assertEqual(told["code"], code, path)
        self.assertEqual(client.request("GET", stream="s-9")[2]["code"], "syntax")
        self.assertEqual(client.request("GET", client={"principal": "rival", "agent": "a", "address": "b"})[2]["code"], "not-allowed")
        self.assertEqual(client.get()[2]["offset"], 0)
        self.assertEqual(client.put(raw)[0], 200)
        self.assert_stored(self.process)

    def test_who_is_let_in(self):
        client = self.client()
        self.assertEqual(client.get()[0], 200)
        client.headers["Authorization"] = "Bearer wrong-0123456789abcdef"
        status, headers, told = client.get()
        self.assertEqual((status, told["code"], headers["WWW-Authenticate"]), (401, "token", "Bearer"))
        del client.headers["Authorization"]
        self.assertEqual(client.get()[0], 401)
        key, name = device()
        phone = self.client(principal="phones", agent=name, key=key)
        self.assertEqual(phone.get()[0], 200)
        del phone.headers["Waybill-Agent"]
        self.assertEqual(phone.get()[0], 200, "a key names its device")
        phone.headers["Waybill-Agent"] = device()[1]
        self.assertEqual(phone.get()[2]["code"], "token")
        status, _, told = self.client(principal="door").get()
        self.assertEqual((status, told["code"]), (403, "not-allowed"), "a door is no client")
        self.assertEqual(self.door.metric("waybill_ingest_refused_agents_total", reason="token"), 2)
        self.assertEqual(self.door.metric("waybill_ingest_refused_agents_total", reason="device"), 1)
        self.assertEqual(self.door.status()["streams"]["refused_agents"], {"token": 2, "device": 1})
        self.door.process.until_logged("the agent's name does not follow from its key")
        lines = [line for line in self.door.process.log().splitlines() if "WB1505" in line]
        self.assertTrue(any("the token is missing or wrong" in line and "127.0.0.1" in line for line in lines), lines)
        for secret in (*self.TOKENS.values(), key, "wrong-0123456789abcdef"):
            self.assertNotIn(secret, self.door.process.log())

    def test_many_refused_clients_are_one_line_of_the_log_a_minute(self):
        began = time.monotonic()
        for number in range(6):
            client = self.client(agent=f"app-{number}")
            client.headers["Authorization"] = "Bearer wrong-0123456789abcdef"
            self.assertEqual(client.get()[0], 401)
        count = self.door.process.log().count("WB1505")
        self.assertGreaterEqual(count, 1)
        self.assertLessEqual(count, 1 + (time.monotonic() - began) // 60)

    def test_a_token_that_is_removed_is_refused_soon(self):
        client, rival = self.client(), self.client("s-2", "rival")
        self.assertEqual((client.get()[0], rival.get()[0]), (200, 200))
        self.write_agents("name: web, tokens: [no-such-file]")
        self.door.process.until_logged("WB1504")
        self.assertEqual(client.get()[0], 200, "the list before stays in force")
        self.write_agents(self.entry("rival"), self.entry("door", "may_forward: true"))
        until(lambda: client.get()[0] == 401, 20, "it is refused")
        # The receiver has read it, too, and let the door connect again.
        until(lambda: rival.get()[0] == 200, 20, "others are let in")

    def test_a_client_goes_on_by_either_way(self):
        """What it began over HTTP it continues over the line protocol, and the other way round."""
        client = self.client(agent="app-1")
        raws = [self.made(3) for _ in range(3)]
        client.content = raws[0]
        self.assertEqual(client.put(raws[0])[0], 200)
        peer = self.peer("web", "app-1")
        self.assertEqual(peer.open("s-1"), f"AT 1 {len(raws[0])}")
        peer.batch("s-1", raws[1], offset=len(raws[0]))
        self.assertEqual(peer.line(), f"ACK 1 {len(raws[0] + raws[1])}")
        client.content = b"".join(raws)
        self.assertEqual(client.put(raws[2])[0], 200)
        # Requests are no sessions; a connection is one.
        other = self.client(agent="app-2")
        self.assertEqual(other.get()[0], 200)
        self.assertEqual(peer.open("s-1"), f"AT 1 {len(client.content)}")
        self.assertEqual((other.get()[0], other.get()[2]["code"]), (409, "in-use"))
        self.assertEqual(client.get()[0], 200)
        self.assert_stored(self.process)


class TLSTests(StreamsTest):
    def test_both_ways_are_encrypted_and_verified(self):
        authority = Authority(self.site.root / "ca")
        chain, key = authority.issue("receiver")
        pair = f"{{certificate: {chain}, key: {key}}}"
        self.process = self.receiver(
            self.entry("web"), self.entry("door", "may_forward: true"), extra=f"  tls: {pair}\n")
        self.door = StreamDoor(
            self.site, self.site.port, self.TOKENS["door"], f"    ca: {authority.certificate}\n  tls: {pair}\n",
            tls=ssl.create_default_context(cafile=authority.certificate)).start()
        client = self.client()
        client.content = raw = self.made(50)
        self.assertEqual(client.put(raw)[0], 200)
        self.assertEqual(client.seal()[2]["digest"], client.digest(len(raw)))
        other = Authority(self.site.root / "other")
        suspicious = StreamDoor(
            self.site, self.site.port, self.TOKENS["door"], f"    ca: {other.certificate}\n").start()
        status, _, told = Client(suspicious, "s-2", self.TOKENS["web"]).get()
        self.assertEqual((status, told["code"]), (503, "unavailable"))
        self.assertIn("tls-untrusted", told["cause"])
        self.assert_stored(self.process)


class DeathTests(StreamsTest):
    def test_the_receiver_and_the_door_are_killed_between_write_and_answer(self):
        self.site_of()
        generator = random.Random(SEED)
        clients = [self.client(f"s-{number}", agent=f"app-{number}") for number in range(4)]
        enough, making, failures = threading.Event(), threading.Lock(), []

        def pieces():
            while not enough.is_set():
                with making:
                    raw = self.made(generator.randrange(1, 400))
                yield raw

        def ship(client):
            try:
                client.ship(pieces())
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=ship, args=(client,)) for client in clients]
        for thread in threads:
            thread.start()
        for death in range(amount("WAYBILL_DOOR_DEATHS", 12, 1000)):
            time.sleep(random.Random(SEED + death).uniform(0.05, 0.4))
            if death % 2:
                self.door.process.kill()
                self.door.start()
            else:
                self.process.kill()
                self.process = self.site.receiver("--config", self.site.root / "waybill.yaml", exports="none")
        enough.set()
        for thread in threads:
            thread.join(patience(120))
        self.assertEqual((failures, [thread.is_alive() for thread in threads]), ([], [False] * 4))
        for client in clients:
            status, _, held = until(lambda: (answer := client.seal())[0] == 200 and answer, 30, "it is sealed")
            self.assertEqual(held["digest"], client.digest(len(client.content)))
        self.assert_stored(self.process)

    def test_an_answer_that_is_lost(self):
        """The client closes its connection once it has sent everything: what it sent is stored once all the same."""
        self.site_of()
        client = self.client()
        for _ in range(20):
            raw = self.made(6)
            offset = len(client.content)
            client.content += raw
            line, payload = batch("s-1", raw, offset=offset)
            body = line.encode() + b"\n" + payload
            head = f"PUT /v1/streams/s-1?offset={offset}&proof={client.digest(offset)} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n"
            head += f"Waybill-Stream: {json.dumps(client.description)}\r\n"
            head += "".join(f"{name}: {value}\r\n" for name, value in client.headers.items())
            with socket.create_connection(("127.0.0.1", self.door.port)) as connection:
                connection.sendall(head.encode() + b"\r\n" + body)
            def shipped():
                status, _, held = client.put(raw, offset)
                return status in (200, 409) and held["offset"] == len(client.content) and held
            held = until(shipped, 20, "the batch is held")
            self.assertEqual(held["digest"], client.digest(held["offset"]))
        self.assert_stored(self.process)

    def test_without_the_receiver_clients_are_asked_to_wait(self):
        self.site_of()
        client = self.client()
        client.content = raw = self.made(2)
        self.process.kill()
        status, headers, told = until(lambda: (answer := client.put(raw))[0] == 503 and answer, 20, "it is away")
        self.assertEqual(told["code"], "unavailable")
        self.assertGreaterEqual(int(headers["Retry-After"]), 1)
        self.assertIn("WB1503", self.door.process.log())
        document = self.door.status()
        streams = document["streams"]
        self.assertEqual((document["health"], streams["connections"]), ("degraded", 0))
        self.assertEqual(document["problems"], ["streams cannot be forwarded: the receiver is away; clients repeat"])
        self.assertTrue(streams["away_reason"])
        self.assertLessEqual(document["started"], streams["away_since"])
        self.assertLessEqual(streams["away_since"], document["time"])
        # Ready, or no balancer would send it the events of SDKs.
        self.assertEqual(self.door.get("/readyz").splitlines(), ["ready", *document["problems"]])
        shown = run("status", f"127.0.0.1:{self.door.metrics}")
        self.assertEqual(shown.returncode, 1, shown.stderr)
        self.assertRegex(shown.stdout.decode(), rf"\nstreams for 127\.0\.0\.1:{self.site.port}: away for ")
        # Events of SDKs are taken as before.
        status, _, _ = self.door.request(
            "POST", "/v1/events?key=wk_shop_0001", b'{"name":"opened","user":"u"}')
        self.assertEqual(status, 200)
        self.process = self.site.receiver("--config", self.site.root / "waybill.yaml", exports="none")
        # To be asked is enough.
        until(lambda: self.door.request("GET", "/v1/streams", headers=client.headers)[0] == 200, 20, "it answers")
        self.assertEqual(self.door.status()["health"], "ok")
        until(lambda: client.put(raw)[0] == 200, 20, "it is back")
        self.door.process.until_logged("streams are forwarded again")
        document = self.door.status()
        self.assertEqual((document["health"], document["problems"]), ("ok", []))
        self.assertEqual(
            document["streams"], {
                "receiver": f"127.0.0.1:{self.site.port}", "connections": 1, "away_since": None, "away_reason": None,
                "refused_agents": {}})
        self.assertEqual(self.door.process.stop(), 0)
        self.assert_stored(self.process)

    def test_a_door_that_may_not_forward(self):
        self.process = self.receiver(self.entry("web"), self.entry("door"))
        self.door = StreamDoor(self.site, self.site.port, self.TOKENS["door"]).start()
        self.assertEqual(self.client().get()[2]["code"], "not-allowed")
        door = StreamDoor(self.site, self.site.port, "another-token-0123456789").start()
        status, _, told = Client(door, "s-1", self.TOKENS["web"]).get()
        self.assertEqual((status, told["code"]), (503, "unavailable"))
        self.assertIn("token", told["cause"])

    def test_a_probe_greets_the_receiver_as_the_door(self):
        self.process = self.receiver(self.entry("web"), self.entry("door", "may_forward: true"))
        def check(door):
            result = run("check", "--probe", door.config)
            return result.returncode, result.stderr.decode()
        good = StreamDoor(self.site, self.site.port, self.TOKENS["door"])
        self.assertEqual(check(good), (0, ""))
        self.process.until_logged("door-1-check~probe")
        for port, token, expected in (
                (self.site.port, "another-token-0123456789", "it refuses this agent (token)"),
                (free_port(), self.TOKENS["door"], "Connection refused")):
            code, said = check(StreamDoor(self.site, port, token))
            self.assertEqual(code, 78, said)
            self.assertIn(f"ingest.streams.receiver: 127.0.0.1:{port}: ", said)
            self.assertIn(expected, said)
            self.assertNotIn(token, said)

    def test_a_receiver_that_says_nothing(self):
        with socket.create_server(("127.0.0.1", 0)) as silent:
            self.write_agents(self.entry("web"), self.entry("door", "may_forward: true"))
            self.door = StreamDoor(self.site, silent.getsockname()[1], self.TOKENS["door"], "    answer_seconds: 1\n").start()
            status, headers, told = self.client().get()
            self.assertEqual((status, told["code"]), (503, "timeout"))
            self.assertIn("Retry-After", headers)


class HostileTests(StreamsTest):
    """A hostile device beside an honest one: bounded, counted, and the honest one is unaffected."""

    def setUp(self):
        super().setUp()
        self.site_of(self.entry("phones", "devices: true"), self.entry("web"), more="    connections: 4\n")
        self.devices = [device(), device()]

    def phone(self, index, stream="s-1"):
        key, name = self.devices[index]
        return self.client(stream, "phones", agent=name, key=key)

    def test_anothers_stream_is_out_of_reach(self):
        honest, hostile = self.phone(0), self.phone(1)
        honest.content = raw = self.made(4)
        self.assertEqual(honest.put(raw)[0], 200)
        # The same id is another stream.
        self.assertEqual(hostile.get()[2]["offset"], 0)
        hostile.content = b'{"forged":true}\n'
        self.assertEqual(hostile.put(hostile.content)[0], 200)
        self.assertEqual(hostile.seal()[0], 200)
        # With the other's name, without its key.
        hostile.headers["Waybill-Agent"] = self.devices[0][1]
        self.assertEqual(hostile.get()[2]["code"], "token")
        self.assertEqual(self.door.metric("waybill_ingest_refused_agents_total", reason="device"), 1)
        more = self.made(4)
        honest.content += more
        self.assertEqual(honest.put(more)[0], 200)
        self.assertEqual(honest.seal()[2]["digest"], honest.digest(len(honest.content)))
        self.assertEqual(self.process.stop(), 0)
        lines = [line for line in stored(self.site.data) if line != b'{"forged":true}\n']
        self.assertTrue(self.ledger.compare(lines).is_clean)

    def test_floods_of_bad_frames_and_of_requests_hold_up_nobody(self):
        honest, ends = self.phone(0), threading.Event()
        bad = batch("s-1", b"{}\n" * 60_000, crc=1)

        def flood():
            hostile, turn = self.phone(1), 0
            while not ends.is_set():
                turn += 1
                try:
                    hostile.put(b"x", 0, frame=bad) if turn % 2 else hostile.get()
                except OSError:
                    pass

        def trickle():
            while not ends.is_set():
                with socket.create_connection(("127.0.0.1", self.door.port)) as connection:
                    connection.sendall(b"PUT /v1/streams/s-1?offset=0 HTTP/1.1\r\nHost: x\r\nContent-Length: 2000000\r\n" + "".join(
                        f"{name}: {value}\r\n" for name, value in self.phone(1).headers.items()).encode() + b"\r\n")
                    ends.wait(0.2)

        threads = [threading.Thread(target=flood) for _ in range(12)] + [threading.Thread(target=trickle) for _ in range(8)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(30):
                raw = self.made(20)
                honest.content += raw
                status, _, held = honest.put(raw)
                self.assertEqual((status, held.get("offset")), (200, len(honest.content)), held)
        finally:
            ends.set()
            for thread in threads:
                thread.join(patience(60))
        self.assertGreater(self.door.metric("waybill_ingest_stream_refusals_total", reason="busy")
                           + self.door.metric("waybill_ingest_stream_refusals_total", reason="corrupt"), 0)
        self.assertLessEqual(self.door.metric("waybill_ingest_receiver_connections"), 4)
        self.assertEqual(honest.seal()[0], 200)
        self.assert_stored(self.process)

    def test_a_device_that_is_too_fast_is_refused_and_others_are_not(self):
        self.door.process.stop()
        self.process.stop()
        self.site_of(
            self.entry("phones", "devices: true, quotas: {agent_kib_second: 16}"), self.entry("web"),
            more="    connections: 1\n")
        hostile, honest, codes = self.phone(1, "s-2"), self.phone(0), []
        for number in range(6):
            raw = b'{"n":%d,"x":"%s"}\n' % (number, b"z" * 12_000)
            hostile.content += raw
            status, _, told = hostile.put(raw)
            codes.append(told.get("code"))
            if status != 200:
                hostile.content = hostile.content[:-len(raw)]
                small = self.made(1)
                honest.content += small
                self.assertEqual(honest.put(small)[0], 200, "one connection for both, and the other is not paused")
        self.assertIn("retry-after", codes)
        self.assertGreater(self.metric("waybill_limited_total")['{limit="bytes-a-second"}'], 0)
