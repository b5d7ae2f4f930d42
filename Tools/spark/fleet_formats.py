"""Keys and documents of a fleet's bucket (Protocol/formats/{fleet,archive}.md). Nothing here does input or output."""

import datetime
import json
import re
import zlib

Json = dict[str, object]
DAY_FOLDER = re.compile(r"archive/env=([^/]+)/bundle=([^/]+)/date=(\d{4}-\d\d-\d\d)")


class Damage(Exception):
    """Bytes that are not what their format says."""


# MARK: Keys

def day_folder(key: str) -> tuple[str, str, str] | None:
    """Environment, bundle (as in the path) and day of a key below `archive/`."""
    match = DAY_FOLDER.match(key)
    return (match[1], match[2], match[3]) if match else None


def component(value: str) -> str:
    """A value as a component of a path (archive.md, section 2)."""
    data, written = value.encode(), ""
    for index, byte in enumerate(data):
        if len(written) >= 100:
            digest = 0xCBF29CE484222325
            for each in data:
                digest = (digest ^ each) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
            return f"{written}%~{digest:016x}"
        character = chr(byte)
        stays = re.match(r"[A-Za-z0-9-]", character) or (character in "._" and index > 0)
        written += character if stays else f"%{byte:02X}"
    return written


def days_between(first: str, last: str) -> list[str]:
    start, end = datetime.date.fromisoformat(first), datetime.date.fromisoformat(last)
    return [(start + datetime.timedelta(number)).isoformat() for number in range((end - start).days + 1)]


# MARK: Documents

def checked_document(text: bytes) -> Json:
    """A manifest or a round; its last member is the CRC-32 of the bytes before it and its comma."""
    try:
        document = json.loads(text)
    except ValueError:
        raise Damage("is not JSON") from None
    if not isinstance(document, dict):
        raise Damage("is not an object")
    if "crc32" in document:
        covered, _, _ = text.rpartition(b',"crc32":')
        if f"{zlib.crc32(covered):08x}" != document["crc32"]:
            raise Damage("has another checksum")
    return document


def document_text(members: Json) -> bytes:
    """The reverse of `checked_document`."""
    covered = json.dumps(
        {name: value for name, value in members.items() if name != "crc32"}, separators=(",", ":"),
        ensure_ascii=False).encode()[:-1]
    return covered + f',"crc32":"{zlib.crc32(covered):08x}"}}\n'.encode()
