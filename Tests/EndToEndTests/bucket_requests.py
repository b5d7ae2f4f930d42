"""Signed requests to any S3 store, with `hmac` and `urllib` alone: what a test does to a bucket behind Waybill's back."""

import hashlib
import time
import urllib.error
import urllib.parse
import urllib.request
import xml.etree.ElementTree

from buckets import canonical_query, signature


class Answer:
    def __init__(self, answer):
        self.status, self.headers, self.body = answer.status, answer.headers, answer.read()


class BucketRequests:
    """One bucket of a store, as `key` with `secret` may see it."""

    def __init__(self, url, bucket, key, secret, region="us-east-1"):
        self.url, self.bucket, self.key, self.secret, self.region = url, bucket, key, secret, region

    def path(self, key):
        return "/" + urllib.parse.quote(f"{self.bucket}/{key}" if key else self.bucket, safe="/-_.~")

    def signed(self, method, path, query="", body=b"", headers=None):
        """The headers of a request."""
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        digest = hashlib.sha256(body).hexdigest()
        fields = {"host": self.url.partition("://")[2], "x-amz-content-sha256": digest, "x-amz-date": stamp} | (headers or {})
        names = sorted(fields)
        lines = "".join(f"{name}:{fields[name]}\n" for name in names)
        request = "\n".join([method, path, canonical_query(query), lines, ";".join(names), digest])
        scope = f"{stamp[:8]}/{self.region}/s3/aws4_request"
        text = f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
        signed = signature(self.secret, stamp[:8], self.region, text)
        fields["authorization"] = (
            f"AWS4-HMAC-SHA256 Credential={self.key}/{scope},SignedHeaders={';'.join(names)},Signature={signed}")
        # moto reads a form, which is urllib's default, and keeps nothing of it.
        return {**fields, "content-type": "application/octet-stream"}

    def ask(self, method, key="", query="", body=b"", headers=None, timeout=60):
        """One request; returns the answer of any status, and raises OSError if there is none."""
        path = self.path(key)
        made = urllib.request.Request(
            self.url + path + ("?" + canonical_query(query) if query else ""), body or None,
            self.signed(method, path, query, body, headers), method=method)
        try:
            with urllib.request.urlopen(made, timeout=timeout) as answer:
                return Answer(answer)
        except urllib.error.HTTPError as error:
            with error:
                return Answer(error)

    def make(self):
        answer = self.ask("PUT")
        assert answer.status == 200, (answer.status, answer.body)

    def create(self, key, body):
        """PUT if there is none; the status."""
        return self.ask("PUT", key, body=body, headers={"if-none-match": "*"}).status

    def put(self, key, body):
        answer = self.ask("PUT", key, body=body)
        assert answer.status == 200, (key, answer.status, answer.body)

    def get(self, key):
        """The object's bytes; `None` if there is none."""
        answer = self.ask("GET", key)
        assert answer.status in (200, 404), (key, answer.status, answer.body)
        return answer.body if answer.status == 200 else None

    def delete(self, key):
        answer = self.ask("DELETE", key)
        assert answer.status == 204, (key, answer.status, answer.body)

    def keys(self, prefix=""):
        """Every key below a prefix, in the order of the store."""
        found, after = [], ""
        while True:
            query = f"list-type=2&prefix={urllib.parse.quote(prefix, safe='')}"
            query += f"&start-after={urllib.parse.quote(after, safe='')}" if after else ""
            answer = self.ask("GET", query=query)
            assert answer.status == 200, (answer.status, answer.body)
            tree = xml.etree.ElementTree.fromstring(answer.body)
            space = tree.tag.partition("}")[0] + "}" if tree.tag.startswith("{") else ""
            page = [node.findtext(f"{space}Key") for node in tree.iter(f"{space}Contents")]
            found += page
            if tree.findtext(f"{space}IsTruncated") != "true" or not page:
                return found
            after = page[-1]
