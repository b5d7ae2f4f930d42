"""A bucket through boto3: reads, lists, and creates objects that no one else has created.

Credentials come from the environment: the variables AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, or
those that name a web identity or a container's role. None is an option, and none is printed.
"""

import dataclasses
import hashlib
import os
import pathlib
import random
import time
from collections.abc import Iterator

CHUNK = 1 << 20
OBJECT_MAX = 5 << 30
METHODS = ("env", "assume-role-with-web-identity", "container-role")
CONFLICTS_MAX = 10


class Different(Exception):
    """An object exists and has other bytes than it should."""


@dataclasses.dataclass(frozen=True)
class Address:
    """`s3://bucket/prefix` at a store; sent to the executors, which connect themselves."""

    bucket: str
    prefix: str
    endpoint: str | None
    region: str | None

    @classmethod
    def parse(cls, url: str, endpoint: str | None, region: str | None) -> "Address":
        scheme, _, rest = url.partition("://")
        bucket, _, prefix = rest.partition("/")
        if scheme != "s3" or not bucket:
            raise ValueError(f"{url} is not s3://bucket/prefix")
        return cls(bucket, prefix.strip("/"), endpoint, region)


class Bucket:
    """The objects below a prefix; keys are relative to it."""

    def __init__(self, address: Address):
        import botocore.session
        from botocore.config import Config

        session = botocore.session.get_session()
        resolver = session.get_component("credential_provider")
        resolver.providers = [provider for provider in resolver.providers if provider.METHOD in METHODS]
        if session.get_credentials() is None:
            raise PermissionError("there are no credentials for the bucket in the environment")
        region = address.region or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or "us-east-1"
        options = Config(
            retries={"mode": "standard", "max_attempts": 8}, connect_timeout=20, read_timeout=120,
            request_checksum_calculation="when_required", response_checksum_validation="when_required",
            s3={"addressing_style": "path" if address.endpoint else "auto"})
        self.client = session.create_client("s3", region_name=region, endpoint_url=address.endpoint, config=options)
        self.name, self.prefix = address.bucket, f"{address.prefix}/" if address.prefix else ""

    def list(self, folder: str) -> Iterator[tuple[str, int]]:
        """Keys and sizes of all objects below a folder."""
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=self.name, Prefix=self.prefix + folder)
        for page in pages:
            for row in page.get("Contents", []):
                yield row["Key"][len(self.prefix):], row["Size"]

    def read(self, key: str) -> bytes | None:
        """A small object; `None` if there is none."""
        body = self.open(key)
        if body is None:
            return None
        with body:
            return body.read()

    def open(self, key: str):
        """A stream of an object's bytes; `None` if there is none."""
        from botocore.exceptions import ClientError

        try:
            return self.client.get_object(Bucket=self.name, Key=self.prefix + key)["Body"]
        except ClientError as error:
            if error.response["Error"]["Code"] in ("NoSuchKey", "404"):
                return None
            raise

    def fetch(self, key: str, path: pathlib.Path) -> tuple[int, str] | None:
        """Writes an object into a file, a chunk at a time; returns its size and SHA-256."""
        body = self.open(key)
        if body is None:
            return None
        digest, count = hashlib.sha256(), 0
        with body, open(path, "wb") as file:
            for chunk in body.iter_chunks(CHUNK):
                digest.update(chunk)
                count += len(chunk)
                file.write(chunk)
        return count, digest.hexdigest()

    def digest(self, key: str) -> str | None:
        body = self.open(key)
        if body is None:
            return None
        digest = hashlib.sha256()
        with body:
            for chunk in body.iter_chunks(CHUNK):
                digest.update(chunk)
        return digest.hexdigest()

    def create(self, key: str, content: bytes | pathlib.Path, sha256: str) -> bool:
        """Creates an object; `False` if it is there with the same bytes.

        - An attempt whose answer was lost finds its own object, and so is done.
        - Another attempt at the same moment is answered with a conflict, and asked again.
        """
        from botocore.exceptions import ClientError

        for attempt in range(CONFLICTS_MAX):
            try:
                if isinstance(content, bytes):
                    self.put(key, content)
                else:
                    if content.stat().st_size > OBJECT_MAX:
                        raise OSError(f"{content.name} is larger than a PUT may be")
                    with open(content, "rb") as file:
                        self.put(key, file)
                return True
            except ClientError as error:
                status = error.response["ResponseMetadata"]["HTTPStatusCode"]
                if status == 412:
                    break
                if status != 409 or attempt == CONFLICTS_MAX - 1:
                    raise
                time.sleep(random.uniform(0, 0.1 * 2**attempt))
        if self.digest(key) != sha256:
            raise Different(f"{self.prefix}{key} exists and has other bytes")
        return False

    def put(self, key: str, body) -> None:
        self.client.put_object(Bucket=self.name, Key=self.prefix + key, Body=body, IfNoneMatch="*")
