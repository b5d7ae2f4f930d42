"""HTTP servers that answer as each provider documents it, refuse what it would refuse, and fail on purpose.

A server keeps what it took by the key with which the provider finds repetitions. The limits are judged by
`Tools/validators`, which share no code with the exporters.
"""

import base64
import collections
import email.utils
import gzip
import json
import random
import socket
import sys
import threading
import time
import urllib.parse
import zlib

from harness import REPOSITORY, Handler, Server

sys.path.insert(0, str(REPOSITORY / "Tools" / "validators"))
import registry  # noqa: E402

SECRETS = {
    "WAYBILL_GA4_API_SECRET_PROD": "ga4-geheim-77aa", "WAYBILL_GA4_FIREBASE_APP_ID_PROD": "1:1234:ios:5678",
    "WAYBILL_MIXPANEL_PROJECT_ID_PROD": "4711-project", "WAYBILL_MIXPANEL_SERVICE_ACCOUNT_PROD": "robot.4711",
    "WAYBILL_MIXPANEL_SERVICE_SECRET_PROD": "mp-geheim-/+\"x", "WAYBILL_MIXPANEL_TOKEN_PROD": "mp-token-88bb",
    "WAYBILL_AMPLITUDE_API_KEY_PROD": "amp-geheim-99cc", "WAYBILL_SEGMENT_WRITE_KEY_PROD": "seg-geheim-00dd",
    "WAYBILL_POSTHOG_API_KEY_PROD": "phc_geheim_11ee",
}
PATHS = {
    "ga4": "/mp/collect", "mixpanel": "/import", "mixpanel-profiles": "/engage", "amplitude": "/batch",
    "segment": "/v1/batch", "posthog": "/batch/", "snowplow": "/com.snowplowanalytics.snowplow/tp2",
}


def compact(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def secret(name):
    return SECRETS[f"WAYBILL_{name}_PROD"]


def key(provider, record):
    """With what the provider finds a repetition; for those that find none, the whole record."""
    if provider == "mixpanel":
        properties = record["properties"]
        return (record["event"], properties["time"], properties["distinct_id"], properties["$insert_id"])
    if provider == "amplitude":
        return (record["insert_id"], record["device_id"])
    return record.get({"segment": "messageId", "posthog": "uuid", "snowplow": "eid"}.get(provider)) or compact(record)


def is_poison(provider, record):
    """Records that the server refuses though they keep to the documented rules: about one in forty."""
    return zlib.crc32(repr(key(provider, record)).encode()) % 41 == 0


class Failure(Exception):
    """An answer that is no 200."""

    def __init__(self, status, body, headers=None):
        super().__init__(status)
        self.status, self.body, self.headers = status, body, headers or {}


class Posts(Handler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self):
        self.server.provider.serve(self)


class FalseProvider:
    """One provider on a loopback port.

    `faults` are names of methods `fault_…`, each chosen with the chance `chance`; none any more after `fault_count`.
    """

    def __init__(self, provider, faults=(), chance=0.4, fault_count=60, seed=1, poison=True):
        self.provider, self.faults, self.chance, self.fault_count = provider, list(faults), chance, fault_count
        self.random, self.poison = random.Random(seed), poison
        self.lock = threading.Lock()
        self.taken = collections.Counter()
        self.order, self.complaints, self.requests, self.times = [], [], [], []
        self.seen_faults = collections.Counter()
        self.script = []
        self.http = Server(Posts, provider=self)
        self.address = self.http.url

    def close(self):
        self.http.close()

    # What comes in

    def serve(self, handler):
        with self.lock:
            self.requests.append(handler.path)
            self.times.append(time.monotonic())
            fault = self.script.pop(0) if self.script else self.choose_fault()
        if fault:
            self.seen_faults[fault] += 1
            if getattr(self, "fault_" + fault)(handler):
                return
        self.answer(handler, *self.take(handler))

    def choose_fault(self):
        if not self.faults or self.fault_count <= 0 or self.random.random() > self.chance:
            return None
        self.fault_count -= 1
        return self.random.choice(self.faults)

    def take(self, handler):
        """Judges a whole request and keeps its records; returns status, body and headers."""
        body = self.read(handler)
        try:
            with self.lock:
                return self.judge(handler, body)
        except Failure as failure:
            return failure.status, failure.body, failure.headers

    @staticmethod
    def read(handler):
        body = handler.rfile.read(int(handler.headers["Content-Length"]))
        if len(body) < int(handler.headers["Content-Length"]):
            raise ConnectionError("the other side is gone")
        return gzip.decompress(body) if handler.headers.get("Content-Encoding") == "gzip" else body

    @staticmethod
    def answer(handler, status, body, headers=None):
        handler.send_response(status)
        for name, value in {**(headers or {}), "Content-Length": str(len(body))}.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(body)

    def judge(self, handler, body):
        url = urllib.parse.urlsplit(handler.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        if url.path == "/debug" + PATHS["ga4"] and self.provider == "ga4":
            return self.debug(json.loads(body))
        if url.path != PATHS[self.provider]:
            raise Failure(404, b"not found")
        records = getattr(self, "read_" + self.provider.replace("-", "_"))(handler, query, body)
        for record in records:
            for problem in registry.problems_of(self.provider, self.exported(record)):
                self.complaints.append(f"{problem}: {compact(record)[:200]}")
        return getattr(self, "judge_" + self.provider.replace("-", "_"))(records)

    def exported(self, record):
        """As it stands in a part, for the validators."""
        if self.provider == "mixpanel-profiles":
            return compact({**record, "$token": "${MIXPANEL_TOKEN}"}).encode()
        return compact(record).encode()

    def keep(self, records):
        for record in records:
            self.taken[key(self.provider, record)] += 1
            self.order.append(key(self.provider, record))

    def poisoned(self, records):
        return [index for index, record in enumerate(records) if self.poison and is_poison(self.provider, record)]

    def refuse_login(self, shown):
        # Some providers repeat what they were sent; it must not end in a log.
        raise Failure(401, json.dumps({"error": f"bad credentials {shown}"}).encode())

    # Each provider

    def read_ga4(self, handler, query, body):
        if query.get("api_secret") != secret("GA4_API_SECRET") or "firebase_app_id" not in query:
            # The real one says 2xx to this as well.
            return []
        return [json.loads(body)]

    def judge_ga4(self, records):
        self.keep(records)
        return 204, b"", None

    def debug(self, record):
        messages = []
        if is_poison("ga4", record):
            messages = [{"fieldPath": "events.params", "description": f"bad {secret('GA4_API_SECRET')}", "validationCode": "VALUE_INVALID"}]
        return 200, json.dumps({"validationMessages": messages}).encode(), None

    def read_mixpanel(self, handler, query, body):
        login = base64.b64decode(handler.headers.get("Authorization", "").removeprefix("Basic ")).decode()
        if login != f"{secret('MIXPANEL_SERVICE_ACCOUNT')}:{secret('MIXPANEL_SERVICE_SECRET')}":
            self.refuse_login(login)
        if query != {"strict": "1", "project_id": secret("MIXPANEL_PROJECT_ID")}:
            raise Failure(400, b'{"error":"project_id"}')
        if handler.headers["Content-Type"] != "application/x-ndjson":
            raise Failure(400, b'{"error":"content type"}')
        records = [json.loads(line) for line in body.splitlines()]
        if len(records) > 2000 or len(body) > 10_000_000:
            raise Failure(413, b"too large")
        return records

    def judge_mixpanel(self, records):
        bad = set(self.poisoned(records))
        self.keep(record for index, record in enumerate(records) if index not in bad)
        if not bad:
            return 200, json.dumps({"code": 200, "num_records_imported": len(records), "status": "OK"}).encode(), None
        failed = [
            {"index": index, "insert_id": records[index]["properties"]["$insert_id"], "field": "properties.time",
             "message": f"'properties.time' is invalid for {secret('MIXPANEL_SERVICE_SECRET')}"} for index in sorted(bad)]
        answer = {"code": 400, "error": "some data points in the request failed validation", "failed_records": failed,
                  "num_records_imported": len(records) - len(bad), "status": "Bad Request"}
        return 400, json.dumps(answer).encode(), None

    def read_mixpanel_profiles(self, handler, query, body):
        if query != {"strict": "1", "verbose": "1", "ip": "0"}:
            raise Failure(400, b'{"error":"query"}')
        updates = json.loads(body)
        for update in updates:
            if update["$token"] != secret("MIXPANEL_TOKEN"):
                self.refuse_login(update["$token"])
        return updates

    def judge_mixpanel_profiles(self, updates):
        bad = set(self.poisoned(updates))
        self.keep(update for index, update in enumerate(updates) if index not in bad)
        if not bad:
            return 200, b'{"error":null,"status":1}', None
        failed = [{"index": index, "$distinct_id": updates[index]["$distinct_id"], "field": "$set", "message": "bad"} for index in sorted(bad)]
        return 400, json.dumps({"code": 400, "error": "some data points", "failed_records": failed}).encode(), None

    def read_amplitude(self, handler, query, body):
        request = json.loads(body)
        if request["api_key"] != secret("AMPLITUDE_API_KEY"):
            raise Failure(400, json.dumps({"code": 400, "error": f"Invalid API key: {request['api_key']}"}).encode())
        if request["options"] != {"min_id_length": 5} or len(request["events"]) > 2000 or len(body) > 20_000_000:
            raise Failure(413, b'{"code":413,"error":"Payload too large"}')
        return request["events"]

    def judge_amplitude(self, events):
        bad = self.poisoned(events)
        if bad:
            answer = {"code": 400, "error": "Request missing required field",
                      "events_with_invalid_fields": {"time": bad[::2]}, "events_with_missing_fields": {"event_type": bad[1::2]},
                      "silenced_events": bad[:1]}
            return 400, json.dumps(answer).encode(), None
        self.keep(events)
        return 200, json.dumps({"code": 200, "events_ingested": len(events)}).encode(), None

    def read_segment(self, handler, query, body):
        request = json.loads(body)
        if request["writeKey"] != secret("SEGMENT_WRITE_KEY"):
            self.refuse_login(request["writeKey"])
        if "sentAt" in request or len(body) > 500_000:
            raise Failure(400, b'{"error":"Exceed payload limit"}')
        return request["batch"][:2500]

    def judge_segment(self, calls):
        if self.poisoned(calls):
            return 400, b'{"success":false,"message":"Malformed request"}', None
        self.keep(calls)
        return 200, b'{"success":true}', None

    def read_posthog(self, handler, query, body):
        request = json.loads(body)
        if request["api_key"] != secret("POSTHOG_API_KEY"):
            self.refuse_login(request["api_key"])
        if not isinstance(request["historical_migration"], bool) or len(body) >= 20_000_000:
            raise Failure(413, b"too large")
        return request["batch"]

    def judge_posthog(self, events):
        if self.poisoned(events):
            return 400, b"missing distinct_id", None
        self.keep(events)
        return 200, b'{"status":"Ok"}', None

    def read_snowplow(self, handler, query, body):
        if len(body) > 2 << 20:
            raise Failure(413, b"")
        return json.loads(body)["data"]

    def judge_snowplow(self, payloads):
        self.keep(payloads)
        return 200, b"ok", None

    # Failures

    def fault_error(self, handler):
        self.read(handler)
        self.answer(handler, 500, b"<html>oops</html>")
        return True

    def fault_unavailable(self, handler):
        self.read(handler)
        self.answer(handler, 503, b"", {"Retry-After": "0"})
        return True

    def fault_limit(self, handler):
        self.read(handler)
        date = email.utils.formatdate(time.time(), usegmt=True)
        self.answer(handler, 429, b'{"code":429}', {"Retry-After": self.random.choice(["0", date])})
        return True

    def fault_throttle(self, handler):
        """Amplitude: some events of the request have to wait, and nothing of it is taken."""
        count = len(json.loads(self.read(handler))["events"])
        some = sorted(self.random.sample(range(count), min(count, 3)))
        answer = {"code": 429, "error": "Too many requests", "eps_threshold": 1000, "throttled_events": some}
        self.answer(handler, 429, json.dumps(answer).encode(), {"Retry-After": "0"})
        return True

    def fault_too_large(self, handler):
        body = self.read(handler)
        if len(body) < 4000:
            self.answer(handler, 503, b"")
        else:
            self.answer(handler, 413, b"too large")
        return True

    def fault_cut_before(self, handler):
        """Reads half of the request and hangs up."""
        handler.rfile.read(int(handler.headers["Content-Length"]) // 2)
        self.hang_up(handler)
        return True

    def fault_cut_after(self, handler):
        """Takes the request and hangs up without an answer."""
        self.take(handler)
        self.hang_up(handler)
        return True

    def fault_cut_answer(self, handler):
        """Takes the request and hangs up in the middle of the answer."""
        status, body, _ = self.take(handler)
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(body) + 100))
        handler.end_headers()
        handler.wfile.write(body)
        handler.wfile.flush()
        self.hang_up(handler)
        return True

    def fault_silence(self, handler):
        """Takes the request and says nothing until the other side has given up."""
        self.take(handler)
        handler.connection.settimeout(20)
        try:
            handler.connection.recv(1)
        except OSError:
            pass
        self.hang_up(handler)
        return True

    def fault_slow(self, handler):
        time.sleep(0.15)
        return False

    @staticmethod
    def hang_up(handler):
        handler.close_connection = True
        handler.connection.shutdown(socket.SHUT_RDWR)
