"""systemd's journal export format: fields, and an empty line after each entry.

https://systemd.io/JOURNAL_EXPORT_FORMATS/; systemd.journal-fields(7),
https://www.freedesktop.org/software/systemd/man/latest/systemd.journal-fields.html.
"""

import re
import struct

from common import Invalid

EXTENSION = "export"
NAME = re.compile(rb"(?:__|_)?[A-Z][A-Z0-9_]*")


def fields(part, at):
    """Names and values of the entry at a position, and where the next one begins."""
    found = []
    while True:
        end = part.find(b"\n", at)
        if end < 0:
            raise Invalid("an entry does not end")
        if end == at:
            return found, at + 1
        equals = part.find(b"=", at, end)
        if equals >= 0:
            found.append((part[at:equals], part[equals + 1:end], True))
            at = end + 1
            continue
        if end + 9 > len(part):
            raise Invalid("a length is cut off")
        length = struct.unpack("<Q", part[end + 1:end + 9])[0]
        value_end = end + 9 + length
        if part[value_end:value_end + 1] != b"\n":
            raise Invalid("a value is not as long as it says")
        found.append((part[at:end], part[end + 9:value_end], False))
        at = value_end + 1


def records(part):
    found, at = [], 0
    while at < len(part):
        _, end = fields(part, at)
        found.append(part[at:end])
        at = end
    return found


def check(record, as_of=None):
    found, end = fields(record, 0)
    problems = [] if end == len(record) else ["more than an entry"]
    first = dict((name, value) for name, value, _ in reversed(found))
    if len(found) >= 1024:
        problems.append("more fields than journal-remote takes")
    if not found or found[0][0] != b"__REALTIME_TIMESTAMP" or not re.fullmatch(rb"\d{15,17}", found[0][1]):
        problems.append("__REALTIME_TIMESTAMP")
    if (b"__MONOTONIC_TIMESTAMP" in first) != (b"_BOOT_ID" in first):
        problems.append("a monotonic time without its boot")
    if not re.fullmatch(rb"[0-9a-f]{32}", first.get(b"_BOOT_ID", b"0" * 32)):
        problems.append("_BOOT_ID")
    if not first.get(b"MESSAGE") or not re.fullmatch(rb"[0-7]", first.get(b"PRIORITY", b"")):
        problems.append("MESSAGE or PRIORITY")
    if b"WB_USER" in first:
        problems.append("the user is named")
    for name, value, is_line in found:
        if len(name) > 64 or not NAME.fullmatch(name):
            problems.append(f"name {name!r}")
        if is_line and any(byte < 0x20 and byte != 0x09 or byte == 0x7F for byte in value):
            problems.append(f"{name!r} holds control characters on a line")
        try:
            value.decode("utf-8")
        except UnicodeDecodeError:
            problems.append(f"{name!r} is not UTF-8")
    return problems


def event_count(record):
    return 1


def check_request(part):
    return []
