"""Buckets for tests: a small S3 server that checks every signature with `hmac` and `hashlib` alone, and moto's.

`SmallStore` shares no code with Waybill and none with an SDK: it computes AWS Signature Version 4 again from what came
over the wire. It can lie, refuse and stumble as a test asks.
"""

import calendar
import email.utils
import hashlib
import hmac
import pathlib
import subprocess
import threading
import time
import urllib.parse
import urllib.request
from xml.sax.saxutils import escape

from harness import Handler, REPOSITORY, Server, free_port, until

KEY, SECRET, REGION = "AKIATESTTESTTESTTEST", "a/very+secret=key/that/never/prints/0123", "eu-test-1"
MOTO = REPOSITORY / ".build" / "python" / "bin" / "moto_server"


class Refusal(Exception):
    def __init__(self, status, code):
        super().__init__(code)
        self.status, self.code = status, code


def canonical_query(query):
    """Names and values as they are on the wire, each encoded again, in order."""
    pairs = [part.partition("=")[::2] for part in query.split("&")] if query else []
    quoted = [tuple(urllib.parse.quote(urllib.parse.unquote(text), safe="-_.~") for text in pair) for pair in pairs]
    return "&".join(f"{name}={value}" for name, value in sorted(quoted))


def signature(secret, date, region, text):
    key = ("AWS4" + secret).encode()
    for part in (date, region, "s3", "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


class Requests(Handler):
    protocol_version = "HTTP/1.1"

    def handle_request(self):
        store = self.server.store
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        with store.lock:
            store.requests.append((self.command, self.path))
            fault = store.fault(self.command, self.path) if store.fault else None
        if self.command == "PUT":
            time.sleep(store.delay)
        try:
            if fault:
                raise Refusal(*fault)
            self.verify(store, body)
            status, headers, answer = self.answer(store, body)
            if self.command == "PUT" and store.lose_answers:
                # It is done, and the sender does not learn of it.
                store.lose_answers -= 1
                raise Refusal(500, "InternalError")
        except Refusal as refusal:
            status, headers = refusal.status, {"x-amz-bucket-region": store.region}
            answer = f"<Error><Code>{refusal.code}</Code><Message>refused</Message></Error>".encode()
        self.send_response_only(status)
        self.send_header("Date", email.utils.formatdate(store.now(), usegmt=True))
        for name, value in headers.items():
            self.send_header(name, value)
        if "Content-Length" not in headers:
            self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer)

    do_GET = do_PUT = do_HEAD = do_DELETE = handle_request

    def verify(self, store, body):
        scheme, _, rest = (self.headers.get("Authorization") or "").partition(" ")
        if scheme != "AWS4-HMAC-SHA256":
            raise Refusal(403, "AccessDenied")
        parts = dict(part.strip().partition("=")[::2] for part in rest.split(","))
        key, date, region, service, end = parts["Credential"].split("/")
        if key != store.key:
            raise Refusal(403, "InvalidAccessKeyId")
        if region != store.region or (service, end) != ("s3", "aws4_request"):
            raise Refusal(400, "AuthorizationHeaderMalformed")
        stamp = self.headers["x-amz-date"]
        names = parts["SignedHeaders"].split(";")
        required = {"host", "x-amz-content-sha256", "x-amz-date"} | {
            name.lower() for name in self.headers if name.lower() in ("if-none-match", "range", "x-amz-security-token")}
        if names != sorted(names) or not required <= set(names):
            raise Refusal(403, "SignatureDoesNotMatch")
        path, _, query = self.path.partition("?")
        fields = "".join(f"{name}:{' '.join(self.headers[name].split())}\n" for name in names)
        digest = self.headers["x-amz-content-sha256"]
        request = "\n".join([self.command, path, canonical_query(query), fields, ";".join(names), digest])
        scope = f"{date}/{region}/s3/aws4_request"
        text = f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
        if not hmac.compare_digest(signature(store.secret, date, region, text), parts["Signature"]):
            raise Refusal(403, "SignatureDoesNotMatch")
        if digest != hashlib.sha256(body).hexdigest():
            raise Refusal(400, "XAmzContentSHA256Mismatch")
        if not stamp.startswith(date) or abs(calendar.timegm(time.strptime(stamp, "%Y%m%dT%H%M%SZ")) - store.now()) > 900:
            raise Refusal(403, "RequestTimeTooSkewed")

    def answer(self, store, body):
        path, _, query = self.path.partition("?")
        # Every reserved byte must have been encoded, or proxies and signers disagree about it.
        if set(path) - set("/-_.~%") - set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"):
            raise Refusal(400, "InvalidURI")
        bucket, _, key = urllib.parse.unquote(path[1:]).partition("/")
        if bucket != store.bucket:
            raise Refusal(404, "NoSuchBucket")
        if self.command in store.forbidden:
            raise Refusal(403, "AccessDenied")
        with store.lock:
            if not key:
                return self.list(store, dict(urllib.parse.parse_qsl(query, keep_blank_values=True)))
            return getattr(self, self.command.lower())(store, key, body)

    def put(self, store, key, body):
        if self.headers.get("If-None-Match") == "*" and key in store.objects and not store.lies:
            raise Refusal(412, "PreconditionFailed")
        store.objects[key] = (body, store.now())
        return 200, {"ETag": '"x"'}, b""

    def head(self, store, key, _):
        if key not in store.objects:
            raise Refusal(404, "NoSuchKey")
        content, modified = store.objects[key]
        return 200, {
            "Content-Length": str(len(content)), "ETag": '"x"',
            "Last-Modified": email.utils.formatdate(modified, usegmt=True)}, b""

    def get(self, store, key, _):
        if key not in store.objects:
            raise Refusal(404, "NoSuchKey")
        content, _ = store.objects[key]
        asked = self.headers.get("Range")
        if not asked:
            return 200, {}, content
        first, last = (int(text) for text in asked.removeprefix("bytes=").split("-"))
        if first >= len(content):
            raise Refusal(416, "InvalidRange")
        piece = content[first:last + 1]
        return 206, {"Content-Range": f"bytes {first}-{first + len(piece) - 1}/{len(content)}"}, piece

    def delete(self, store, key, _):
        store.objects.pop(key, None)
        return 204, {}, b""

    def list(self, store, query):
        prefix, after, delimiter = query.get("prefix", ""), query.get("start-after", ""), query.get("delimiter")
        rows, folders, truncated = [], [], False
        for key in sorted(store.objects, key=str.encode):
            if not key.startswith(prefix) or key.encode() <= after.encode():
                continue
            head, slash, _ = key[len(prefix):].partition("/")
            folder = prefix + head + slash if delimiter and slash else None
            if folder in folders:
                continue
            if len(rows) + len(folders) == store.page:
                truncated = True
                break
            if folder:
                folders.append(folder)
                continue
            content, modified = store.objects[key]
            stamp = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(modified))
            rows.append(
                f"<Contents><Key>{escape(urllib.parse.quote(key, safe='/'))}</Key><LastModified>{stamp}</LastModified>"
                f"<Size>{len(content)}</Size></Contents>")
        rows += [f"<CommonPrefixes><Prefix>{urllib.parse.quote(text, safe='/')}</Prefix></CommonPrefixes>" for text in folders]
        return 200, {}, (
            f"<?xml version='1.0'?><ListBucketResult><IsTruncated>{str(truncated).lower()}</IsTruncated>"
            f"<EncodingType>url</EncodingType>{''.join(rows)}</ListBucketResult>").encode()


class SmallStore:
    """A bucket at an address of its own."""

    def __init__(self, bucket="events"):
        self.bucket, self.key, self.secret, self.region = bucket, KEY, SECRET, REGION
        self.objects, self.requests, self.lock = {}, [], threading.RLock()
        self.lies, self.forbidden, self.page, self.offset, self.fault, self.lose_answers = False, (), 1000, 0, None, 0
        # Seconds that each PUT takes.
        self.delay = 0
        self.server = Server(Requests, store=self)
        self.url, self.close = self.server.url, self.server.close

    def now(self):
        return time.time() + self.offset


class Moto:
    """moto's server: another implementation of S3, which checks no signature."""

    def __init__(self, log: pathlib.Path, host="127.0.0.1"):
        port = free_port()
        self.url, self.log = f"http://{host}:{port}", open(log, "wb")
        self.process = subprocess.Popen(
            [MOTO, "-H", host, "-p", str(port)], stdout=self.log, stderr=subprocess.STDOUT)
        until(self.is_up, 60, "moto")

    def is_up(self):
        try:
            return urllib.request.urlopen(self.url + "/moto-api/", timeout=5).status == 200
        except OSError:
            return False

    def make(self, bucket):
        request = urllib.request.Request(f"{self.url}/{bucket}", method="PUT", headers={
            "Authorization": f"AWS4-HMAC-SHA256 Credential={KEY}/20260101/us-east-1/s3/aws4_request"})
        urllib.request.urlopen(request, timeout=20).close()

    def close(self):
        self.process.kill()
        self.process.wait()
        self.log.close()
