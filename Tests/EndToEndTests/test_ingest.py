"""The door: requests of other products' SDKs become lines of spools, durable before the answer, each once."""

import base64
import contextlib
import gzip
import http.client
import json
import pathlib
import random
import re
import shutil
import socket
import subprocess
import threading
import time
import unittest

from certificates import Authority
from harness import REPOSITORY, SiteTest, fill_up, free_port, metric, request, samples, until
from health import ready, shown, until_ready
from scale import SEED, amount

KEY = "wk_shop_0001"
OTHER = "wk_web_0002"


class Door:
    """`waybill ingest` of a site, and requests to it."""

    def __init__(self, site, **options):
        self.site, self.port, self.metrics = site, free_port(), free_port()
        self.spool, self.quarantine = site.root / f"door-{self.port}", site.root / f"quarantine-{self.port}"
        self.configure(**options)
        self.process = None

    def configure(self, limits="", keys=None, line=""):
        keys = keys or [
            f"{{key: {KEY}, bundle: com.example.shop, env: prod}}",
            f"{{key: {OTHER}, bundle: com.example.web, env: dev, origins: ['https://*.example.com'], "
            "dialects: [segment], events_second: 1000, addresses: truncate}"]
        self.config = self.site.root / f"ingest-{self.port}.yaml"
        self.config.write_text(
            f"ingest:\n  listen: 127.0.0.1:{self.port}\n  metrics: 127.0.0.1:{self.metrics}\n  spool: {self.spool}\n"
            f"  quarantine: {self.quarantine}\n  reserve_mib: 0\n{limits}  keys:\n"
            + "".join(f"    - {key}\n" for key in keys) + line)

    def start(self):
        self.process = self.site.start("ingest", "--config", self.config, log="ingest.log")
        self.process.until_logged("the door is open", 60)
        return self

    def request(self, path, body=b"", method="POST", headers=None, address="127.0.0.1"):
        """Returns status, headers and body; `address` is the sender's."""
        return request(self.port, path, method, body, headers, address)

    def batch(self, events, key=KEY, headers=None):
        body = json.dumps({"writeKey": key, "batch": events}).encode()
        status, _, answer = self.request("/v1/b", body, headers={"Content-Type": "text/plain", **(headers or {})})
        return status, json.loads(answer or b"{}")

    def raw(self, data, seconds=60):
        """Sends bytes, and returns what comes until the connection ends."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=seconds) as connection:
            connection.sendall(data)
            received = b""
            try:
                while chunk := connection.recv(65536):
                    received += chunk
            except (ConnectionError, TimeoutError):
                pass
            return received

    def lines(self):
        # The last line may be on its way.
        whole = [path.read_bytes().rpartition(b"\n")[0] for path in sorted(self.spool.glob("*/*.ndjson"))]
        return [json.loads(line) for text in whole for line in text.splitlines()]

    def metric(self, name):
        return metric(f"127.0.0.1:{self.metrics}", name)

    def sample(self, name, **labels):
        text = ",".join(f'{key}="{value}"' for key, value in labels.items())
        return samples(f"127.0.0.1:{self.metrics}", name)[text and f"{{{text}}}"]

    def refused(self, reason):
        return self.sample("waybill_ingest_refused_requests_total", reason=reason)


def track(number, **members):
    return {"type": "track", "event": "bought", "messageId": f"m-{number}", "userId": f"u-{number % 5}",
            "properties": {"n": number}, **members}


class DoorTest(SiteTest):
    def setUp(self):
        super().setUp()
        self.door = Door(self.site)

    def agent(self, *arguments):
        """Ships the door's spools; the door has it keep what it has shipped."""
        config = self.site.root / "agent.yaml"
        config.write_text(
            f"agent: {{name: door, state: {self.site.root}/agent, to: ['127.0.0.1:{self.site.port}'], "
            f"sources: [{{spool: '{self.door.spool}/*'}}]}}\n")
        return self.site.start("agent", "--config", config, *arguments, log="agent.log")

    def archived(self):
        folder = self.site.data / "archive"
        return [json.loads(line) for path in folder.glob("**/part-*.ndjson") for line in path.read_bytes().splitlines()]


class RequestTests(DoorTest):
    def setUp(self):
        super().setUp()
        self.door.start()

    def test_a_batch_is_on_the_disk_when_it_is_answered(self):
        status, answer = self.door.batch([track(1), track(2), {"type": "track"}])
        self.assertEqual((status, answer), (200, {"success": True, "stored": 2, "repeated": 0, "quarantined": 1, "faults": {"no-person": [2]}}))
        lines = self.door.lines()
        self.assertEqual([line["data"]["n"] for line in lines], [1, 2])
        self.assertEqual([line["seq"] for line in lines], [1, 2])
        self.assertEqual(lines[0]["bundle"], "com.example.shop")
        kept = [json.loads(line) for path in self.door.quarantine.glob("*/*.ndjson") for line in path.read_bytes().splitlines()]
        self.assertEqual([(line["event"], line["dialect"]) for line in kept], [('{"type": "track"}', "segment")])

    def test_a_repeated_request_stores_nothing_also_after_a_kill(self):
        self.assertEqual(self.door.batch([track(1), track(2)])[1]["stored"], 2)
        self.assertEqual(self.door.batch([track(2), track(3)])[1], {"success": True, "stored": 1, "repeated": 1, "quarantined": 0})
        self.door.process.kill()
        self.door.start()
        self.assertEqual(self.door.batch([track(1), track(3), track(4)])[1]["repeated"], 2)
        self.assertEqual(sorted(line["data"]["n"] for line in self.door.lines()), [1, 2, 3, 4])

    def test_a_chunked_body_is_read(self):
        body = json.dumps({"writeKey": KEY, **track(1)}).encode()
        chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (body[:7], body[7:])) + b"0\r\n\r\n"
        answer = self.door.raw(b"POST /v1/t HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks)
        self.assertIn(b" 200 ", answer.split(b"\r\n")[0])

    def test_a_path_of_a_library_that_is_not_taken_is_told_so(self):
        for path in ("/track", "/engage", "/com.snowplowanalytics.snowplow/tp2", "/"):
            status, _, answer = self.door.request(path, b"data=e30=")
            self.assertEqual((status, json.loads(answer)["status"]), (404, 0))
            self.assertIn("none of Mixpanel or Snowplow", json.loads(answer)["error"])

    def test_a_capture_in_a_query(self):
        capture = base64.urlsafe_b64encode(json.dumps({"event": "bought", "distinct_id": "u-1", "properties": {"token": KEY}}).encode())
        self.assertEqual(self.door.request(f"/e/?data={capture.decode()}&ip=1", method="GET")[0], 200)
        self.assertEqual([line["name"] for line in self.door.lines()], ["bought"])

    def test_a_pixel(self):
        status, headers, body = self.door.request(f"/v1/pixel.gif?key={KEY}&event=mail_opened&id=mail-7&campaign=a%20b", method="GET")
        self.assertEqual((status, headers["Content-Type"], body[:6]), (200, "image/gif", b"GIF89a"))
        line = self.door.lines()[0]
        self.assertEqual((line["name"], line["data"], line["anon"]), ("mail_opened", {"campaign": "a b"}, "mail-7"))

    def test_settings_name_this_host(self):
        status, _, body = self.door.request(f"/v1/projects/{KEY}/settings", method="GET", headers={"Host": "in.example.com"})
        self.assertEqual(status, 200)
        self.assertEqual(json.loads(body)["integrations"]["Segment.io"], {"apiKey": KEY, "apiHost": "in.example.com/v1"})
        self.assertEqual(self.door.request("/v1/projects/wk_nobody_1/settings", method="GET")[0], 401)

    def test_pages_may_send_with_credentials_from_their_origins(self):
        origin = {"Origin": "https://shop.example.com"}
        status, headers, _ = self.door.request(
            "/v1/b", method="OPTIONS",
            headers={**origin, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type"})
        self.assertEqual(
            (status, headers["Access-Control-Allow-Origin"], headers["Access-Control-Allow-Credentials"],
             headers["Access-Control-Allow-Headers"]), (204, "https://shop.example.com", "true", "content-type"))
        body = json.dumps({"writeKey": OTHER, **track(1)}).encode()
        status, headers, _ = self.door.request("/v1/t", body, headers=origin)
        self.assertEqual((status, headers["Access-Control-Allow-Origin"]), (200, "https://shop.example.com"))
        for bad in ("https://example.com.evil.org", "https://evil.org", "null", "https://a.example.com:444"):
            status, headers, _ = self.door.request("/v1/t", body, headers={"Origin": bad})
            self.assertEqual((status, headers["Access-Control-Allow-Origin"]), (403, None), bad)

    def test_what_is_refused_says_so_and_is_counted(self):
        body = json.dumps({"writeKey": "wk_nobody_1", **track(1)}).encode()
        self.assertEqual(self.door.request("/v1/t", body)[::2], (401, b""))
        self.assertEqual(self.door.request("/v1/t", b'{"type":"track"}')[::2], (401, b""))
        self.assertEqual(self.door.request("/nowhere", b"x")[0], 404)
        status, headers, _ = self.door.request("/v1/t", method="GET")
        self.assertEqual((status, headers["Allow"]), (405, "POST"))
        self.assertEqual(self.door.request(f"/v1/t?writeKey={KEY}", b"{nonsense")[0], 400)
        self.assertEqual(self.door.request(f"/v1/t?writeKey={KEY}", b"{}", headers={"Content-Encoding": "br"})[0], 415)
        self.assertEqual(self.door.request(f"/v1/events?key={OTHER}", b'{"name":"x"}')[0], 403)
        self.assertEqual(self.door.request("/v1/t", b"x" * (5 << 20))[0], 413)
        bomb = gzip.compress(b" " * (64 << 20))
        self.assertEqual(self.door.request(f"/v1/t?writeKey={KEY}", bomb, headers={"Content-Encoding": "gzip"})[0], 413)
        for reason, count in {"not-found": 1, "method": 1, "unknown-key": 1, "no-key": 1, "malformed": 1, "encoding": 1,
                              "dialect": 1, "too-large": 2}.items():
            self.assertEqual(self.door.refused(reason), count, reason)
        self.assertEqual(self.door.lines(), [])

    def test_a_key_for_amplitude_alone_takes_its_bodies_at_both_paths(self):
        self.door.process.stop()
        self.door.configure(keys=[f"{{key: {KEY}, bundle: com.example.shop, env: prod, dialects: [amplitude]}}"])
        self.door.start()
        body = json.dumps({"api_key": KEY, "events": [{"event_type": "bought", "user_id": "u-1"}]})
        for path in ("/2/httpapi", "/batch"):
            status, _, answer = self.door.request(path, body.encode())
            self.assertEqual((status, json.loads(answer)["code"], json.loads(answer)["events_ingested"]), (200, 200, 1), path)
        self.assertEqual([line["via"] for line in self.door.lines()], ["amplitude"] * 2)
        body = json.dumps({"api_key": KEY, "batch": [{"event": "bought", "distinct_id": "u-1"}]})
        self.assertEqual(self.door.request("/batch", body.encode())[0], 403)

    def test_an_image_of_another_page_stores_nothing(self):
        self.door.process.kill()
        self.door.configure(keys=[f"{{key: {KEY}, bundle: com.example.shop, env: prod, origins: ['https://*.example.com']}}"])
        self.door.start()
        path = f"/v1/pixel.gif?key={KEY}&event=seen"
        own, other = "https://www.example.com/cart?x=1", "https://example.org/"
        cases = [({"Referer": own}, 200), ({"Referer": own, "Sec-Fetch-Site": "cross-site"}, 200), ({}, 200),
                 ({"Referer": other}, 403), ({"Referer": other, "Sec-Fetch-Site": "cross-site"}, 403),
                 ({"Sec-Fetch-Site": "cross-site"}, 403), ({"Origin": "https://example.org", "Referer": own}, 403)]
        for headers, expected in cases:
            self.assertEqual(self.door.request(path, None, method="GET", headers=headers)[0], expected, headers)
        self.assertEqual(len(self.door.lines()), sum(expected == 200 for _, expected in cases))


class AbuseTests(DoorTest):
    def test_requests_that_mean_two_things_are_refused(self):
        self.door.start()
        body = json.dumps({"writeKey": KEY, **track(1)}).encode()
        smuggled = (b"POST /v1/t HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
                    b"POST /v1/t HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body)) + body
        for bad in (
                smuggled,
                b"POST /v1/t HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
                b"POST /v1/t HTTP/1.1\nHost: x\nContent-Length: %d\n\n" % len(body) + body,
                b"POST /v1/t HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 200_000 + b"\r\n\r\n",
                b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
                b"GET / HTTP/9.9\r\n\r\n",
                b"POST /v1/t HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n" % len(body) + body + b"\r\n0\r\n\r\n"):
            before = sum(self.door.metric("waybill_ingest_refused_requests_total"))
            self.assertNotIn(b" 200 ", self.door.raw(bad), bad[:80])
            self.assertEqual(sum(self.door.metric("waybill_ingest_refused_requests_total")), before + 1, bad[:80])
        self.assertEqual(self.door.lines(), [])
        self.assertEqual(self.door.batch([track(1)])[0], 200)

    def test_slow_and_silent_senders_are_ended_and_others_are_served(self):
        self.door.configure(limits="  request_seconds: 1\n  idle_seconds: 2\n  connections: 40\n")
        self.door.start()
        slow = []
        for _ in range(30):
            connection = socket.create_connection(("127.0.0.1", self.door.port), timeout=60)
            connection.sendall(b"POST /v1/t HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
            slow.append(connection)
        for number in range(20):
            self.assertEqual(self.door.batch([track(number)])[0], 200)
        for connection in slow:
            self.assertEqual(connection.recv(100), b"")
            connection.close()
        until(lambda: self.door.metric("waybill_ingest_connections") == [0], 20, "all connections are closed")

    def test_heads_that_do_not_end_take_little_memory(self):
        self.door.start()
        self.assertEqual(self.door.batch([track(0)])[0], 200)
        before = self.door.process.resident_mebibytes()
        head = b"GET / HTTP/1.1\r\nHost: x\r\n" + b"".join(b"X-%d: " % number + b"y" * 8000 + b"\r\n" for number in range(240))
        flood = []
        for _ in range(60):
            connection = socket.create_connection(("127.0.0.1", self.door.port), timeout=60)
            # The door ends it meanwhile.
            with contextlib.suppress(ConnectionError):
                connection.sendall(head)
            flood.append(connection)
        self.assertEqual(self.door.batch([track(1)])[0], 200)
        # As they were sent, they have 115 MB.
        self.assertLess(self.door.process.resident_mebibytes() - before, 40)
        for connection in flood:
            connection.close()

    def test_a_gigabyte_in_chunks_takes_little_memory_and_others_are_served(self):
        self.door.start()
        sent = []

        def flood():
            with socket.create_connection(("127.0.0.1", self.door.port), timeout=60) as connection:
                connection.sendall(b"POST /v1/b HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
                chunk = b"100000\r\n" + b" " * (1 << 20) + b"\r\n"
                with contextlib.suppress(ConnectionError):
                    for number in range(1024):
                        connection.sendall(chunk)
                        sent.append(number)

        thread = threading.Thread(target=flood)
        thread.start()
        for number in range(20):
            self.assertEqual(self.door.batch([track(number)])[0], 200)
        thread.join()
        peak = re.search(r"VmHWM:\s+(\d+)", pathlib.Path(f"/proc/{self.door.process.child.pid}/status").read_text())
        self.assertLess(int(peak.group(1)) / 1024, 150)
        self.assertEqual(self.door.metric("waybill_ingest_waiting_bytes"), [0])
        self.assertEqual(len(self.door.lines()), 20)

    def test_requests_of_one_segment_are_answered_one_after_the_other(self):
        self.door.start()
        posts = []
        for number, closing in ((1, b""), (2, b""), (3, b"Connection: close\r\n")):
            body = json.dumps({"writeKey": KEY, **track(number)}).encode()
            posts.append(b"POST /v1/t HTTP/1.1\r\nHost: x\r\n%sContent-Length: %d\r\n\r\n" % (closing, len(body)) + body)
        scripts = b"GET /waybill.js HTTP/1.1\r\nHost: x\r\n\r\n" * 3
        answer = self.door.raw(posts[0] + scripts + posts[1] + posts[2])
        self.assertEqual(answer.count(b"HTTP/1.1 200 "), 6)
        self.assertEqual([line["data"]["n"] for line in self.door.lines()], [1, 2, 3])

    def test_a_peer_that_reads_no_answers_is_ended(self):
        self.door.start()
        with socket.create_connection(("127.0.0.1", self.door.port), timeout=60) as connection:
            requests = b"GET /waybill.js HTTP/1.1\r\nHost: x\r\n\r\n" * 1000
            with self.assertRaises(ConnectionError):
                for _ in range(1000):
                    connection.sendall(requests)
        self.assertEqual(self.door.batch([track(1)])[0], 200)

    def test_a_full_disk_is_503_and_nothing_is_lost(self):
        text = self.door.config.read_text()
        self.door.config.write_text(text.replace("reserve_mib: 0", "reserve_mib: 1000000"))
        self.door.start()
        status, headers, _ = self.door.request("/v1/b", json.dumps({"writeKey": KEY, "batch": [track(1)]}).encode())
        self.assertEqual((status, headers["Retry-After"]), (503, "5"))
        code, lines = ready(self.door.metrics)
        self.assertEqual((code, lines[0]), (503, "not ready"))
        code, lines = shown(f"127.0.0.1:{self.door.metrics}")
        self.assertEqual(code, 2)
        self.assertIn(": down, up", lines[0])
        self.door.process.stop()
        self.door.config.write_text(text)
        self.door.start()
        self.assertEqual(self.door.batch([track(1)])[1]["stored"], 1)

    def test_it_is_ready_again_without_a_request_when_the_disk_has_room(self):
        """What asks whether it is ready sends nothing before."""
        self.door.spool = self.site.mount("small", "2m")
        self.door.configure()
        self.door.start()
        filler = fill_up(self.door.spool)
        self.assertEqual(self.door.batch([track(1)])[0], 503)
        self.assertEqual(ready(self.door.metrics)[0], 503)
        self.assertEqual(list(self.door.spool.glob("*/keep.json")), [], "what was shipped may go")
        filler.unlink()
        until_ready(self.door.metrics)
        self.assertEqual(self.door.batch([track(1)])[1]["stored"], 1)
        self.assertEqual(len(list(self.door.spool.glob("*/keep.json"))), 1)
        self.assertEqual([path.name for path in self.door.spool.glob(".*")], [])


class ProxyTests(DoorTest):
    """The page's proxies, which end HTTP/2 and pass requests on."""

    def setUp(self):
        super().setUp()
        page = (REPOSITORY / "Documentation" / "ingest.md").read_text(encoding="utf-8")
        self.snippets = dict(re.findall(r"```(nginx|haproxy)\n(.*?)```", page, re.DOTALL))
        self.authority = Authority(self.site.root / "tls")
        self.certificate, self.key = self.authority.issue("in.example.com", alternatives="DNS:in.example.com")
        self.port, self.folder = free_port(), self.site.root / "proxy"
        self.folder.mkdir()
        self.door.configure(
            limits="  trusted_proxies: [127.0.0.1]\n",
            keys=[f"{{key: {KEY}, bundle: com.example.shop, env: prod, addresses: keep}}"])
        self.door.start()

    def snippet(self, name, **places):
        text = self.snippets[name]
        for old, new in places.items():
            self.assertIn(old, text)
            text = text.replace(old, str(new))
        return text

    def curl(self, path, *options):
        result = subprocess.run(
            ["curl", "-sS", "--http2", "--cacert", self.authority.certificate, "--interface", "127.0.0.5", "--resolve",
             f"in.example.com:{self.port}:127.0.0.1", "-w", "\n%{http_version} %{http_code}",
             f"https://in.example.com:{self.port}{path}", *options], capture_output=True, text=True, check=False)
        *body, end = result.stdout.splitlines() or [""]
        return end, "".join(body), result.stderr

    def passes(self, command):
        proxy = subprocess.Popen(command, cwd=self.folder)
        self.addCleanup(proxy.wait)
        self.addCleanup(proxy.terminate)
        # Whoever names an address of its own is not believed.
        event = ["-H", "X-Forwarded-For: 192.0.2.1", "-d", json.dumps({"writeKey": KEY, **track(1)})]
        end = until(lambda: (found := self.curl("/v1/t", *event))[0].endswith(" 200") and found[0], 30, "the proxy answers")
        self.assertEqual(end, "2 200")
        self.assertEqual(self.door.lines()[0]["data"]["context"]["ip"], "127.0.0.5")
        end, settings, _ = self.curl(f"/v1/projects/{KEY}/settings")
        self.assertEqual(end, "2 200")
        self.assertRegex(json.loads(settings)["integrations"]["Segment.io"]["apiHost"], r"^in\.example\.com(:\d+)?/v1$")
        self.assertEqual(self.curl("/v1/t", "-d", json.dumps({"writeKey": "wk_nobody_1"}))[0], "2 401")
        # On one connection, many requests at a time.
        paths = [f"https://in.example.com:{self.port}/waybill.js"] * 49
        end = self.curl("/waybill.js", "-o", "/dev/null", *[part for path in paths for part in ("-o", "/dev/null", path)])[0]
        self.assertEqual(end, "2 200")

    @unittest.skipUnless(shutil.which("nginx"), "there is no nginx")
    def test_nginx(self):
        text = self.snippet("nginx", **{
            "127.0.0.1:4380": f"127.0.0.1:{self.door.port}", "listen 443": f"listen 127.0.0.1:{self.port}",
            "/etc/ssl/in.example.com.pem": self.certificate, "/etc/ssl/in.example.com.key": self.key})
        file = self.folder / "nginx.conf"
        file.write_text(
            f"daemon off; pid {self.folder}/pid; error_log {self.folder}/error.log; events {{ }}\n"
            f"http {{ access_log off; client_body_temp_path {self.folder}/body;\n{text}}}\n")
        self.passes(["nginx", "-c", file, "-p", self.folder])

    @unittest.skipUnless(shutil.which("haproxy"), "there is no haproxy")
    def test_haproxy(self):
        both = self.folder / "both"
        both.write_text(self.certificate.read_text() + self.key.read_text())
        file = self.folder / "haproxy.conf"
        file.write_text(self.snippet("haproxy", **{
            "127.0.0.1:4380": f"127.0.0.1:{self.door.port}", "check port 4381": f"check port {self.door.metrics}",
            "bind :443": f"bind 127.0.0.1:{self.port}", "/etc/ssl/in.example.com.both": both}))
        result = subprocess.run(["haproxy", "-c", "-f", file], capture_output=True, text=True, check=False)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.passes(["haproxy", "-f", file])


class WayTests(DoorTest):
    """Door, agent and receiver together."""

    def files(self, pattern):
        return list(self.door.spool.glob(pattern))

    def ship(self):
        """One event, shipped by an agent that keeps nothing of its own accord; the door has ended."""
        receiver = self.site.receiver()
        self.door.start()
        agent = self.site.agent("--spool", f"{self.door.spool}/*")
        self.assertEqual(self.door.batch([track(1)])[1]["stored"], 1)
        self.assertEqual([path.read_text() for path in self.files("*/keep.json")], ['{"seconds":600}\n'])
        self.assertEqual(self.door.process.stop(), 0)
        until(lambda: self.files("*/*.ndjson.shipped-*") and not self.files("*/*.ndjson"), 60, "the segment is shipped")
        return receiver, agent

    def test_a_door_that_starts_again_knows_what_was_shipped(self):
        receiver, agent = self.ship()
        self.door.start()
        self.assertEqual(
            self.door.batch([track(1)])[1], {"success": True, "stored": 0, "repeated": 1, "quarantined": 0})
        until(self.archived, 60, "it is archived")
        self.stop_all(self.door.process, agent, receiver)
        self.assertEqual([line["data"]["n"] for line in self.archived()], [1])

    def test_each_answered_event_arrives_once_whatever_is_killed(self):
        """Kills of the door between write and answer, of agent and receiver; senders repeat until they are answered."""
        dice = random.Random(SEED)
        receiver = self.site.receiver()
        self.door.start()
        agent = self.agent()
        answered, number = set(), 0
        for _ in range(amount("WAYBILL_DOOR_KILLS", 12, 1000)):
            events = [track(number + index) for index in range(dice.randrange(1, 30))]
            number += len(events)
            body = json.dumps({"writeKey": KEY, "batch": events}).encode()
            # Dies while the request is under way, at any point.
            connection = http.client.HTTPConnection("127.0.0.1", self.door.port, timeout=60)
            try:
                connection.request("POST", "/v1/b", body=body)
                time.sleep(dice.choice([0, 0, 0.0005, 0.001, 0.003]))
            except OSError:
                pass
            self.door.process.kill()
            connection.close()
            if dice.random() < 0.3:
                agent.kill()
                agent = self.agent()
            if dice.random() < 0.3:
                receiver.kill()
                receiver = self.site.receiver()
            self.door.start()
            while True:
                try:
                    status, _ = self.door.batch(events)
                except OSError:
                    continue
                if status == 200:
                    break
            answered |= {event["properties"]["n"] for event in events}
        until(lambda: len(self.archived()) >= len(answered), 60, "all events are archived")
        found = sorted(line["data"]["n"] for line in self.archived())
        self.assertEqual(found, sorted(answered))
        self.stop_all(self.door.process, agent, receiver)
