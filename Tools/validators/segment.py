"""Segment's HTTP tracking API: one call a line, one part the `batch` of a request.

Repository segmentio/segment-docs: server/http-api/index.md, rate-limits.md, spec/common.md.
"""

from common import TIME, is_text, lines as records, members, parse, units

EXTENSION = "ndjson"
SPECIFIC = {"screen": ["name", "properties"], "track": ["event", "properties"], "identify": ["traits"]}


def check(record, as_of=None):
    call = parse(record)
    kind = call.get("type")
    if kind not in SPECIFIC:
        return [f"type {kind!r}"]
    # No `sentAt`: Segment would move the event by its age.
    problems = members(
        call, ["type", "messageId", "timestamp", "context"] + SPECIFIC[kind], ["anonymousId", "userId"])
    if len(record) >= 32_000:
        problems.append("32 KB or more")
    if not call.get("userId") and not call.get("anonymousId"):
        problems.append("neither userId nor anonymousId")
    for name in ("userId", "anonymousId", "event", "name"):
        if name in call and (not is_text(call[name]) or not call[name]):
            problems.append(name)
    if not 1 <= units(call.get("messageId", "")) <= 100:
        problems.append("messageId")
    if not TIME.fullmatch(call.get("timestamp", "")):
        problems.append("timestamp")
    properties = call.get("traits" if kind == "identify" else "properties", {})
    if len(properties) > 10_000 or properties.repeats:
        problems.append("more than 10 000 properties, or one twice")
    if call["context"].get("library") != {"name": "waybill", "version": "1"}:
        problems.append("context.library")
    return problems


def event_count(record):
    return 1


def check_request(part):
    body = len(part) + len('{"batch":[],"writeKey":""}') + 64
    problems = ["more than 2500 calls"] if part.count(b"\n") > 2500 else []
    return problems + (["more than 500 KB"] if body > 500_000 else [])
