#!/usr/bin/env python3
"""Writes Protocol/vectors/protocol: messages and batches that every implementation must read, write or refuse.

It implements the protocol only from Protocol/protocol.md and shares no code with the Swift sources. Run it in the
repository's root; its output is kept under version control.
"""

import base64
import hashlib
import json
import pathlib
import struct
import zlib

MAX = 2**53 - 1
ID = "8f14e45fceea167a-00000000000000000001"
HELLO = {"protocol": [1], "agent": "web-01", "instance": "9f3c1a77d2e04b58", "token": "s3cret", "accept": ["zlib"]}
LIMITS = {"line": 1048576, "raw": 2097152, "wire": 2162688, "lines": 65536, "streams": 262144, "idle_ms": 90000}
INCARNATION, START, OLD_START = "5b0c6f2e9a174d38b6e1c07f42a9d813", "c41f09d27be65a30", "0d7e3a915c28f46b"
FLEET = "7d2a40c5e9b1836f04d8fa6e21c97b53"
READY = {"protocol": 1, "receiver": "collector-1", "incarnation": INCARNATION, "start": START, "end": 90201,
         "starts": [[OLD_START, 0], [START, 88000]], "id": "collector-1~" + INCARNATION, "level": "durable",
         "limits": LIMITS, "window": 8388608, "time": 1795165200000}
OPEN = {"stream": ID, "source": "/var/spool/waybill/a.ndjson", "env": "prod", "bundle": "com.example.shop",
        "format": "waybill"}


def text(value):
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"))


def digest(stream, offset, tail):
    """A proof of the bytes directly below the offset."""
    return hashlib.sha256(f"{stream}\n{offset}\n".encode() + tail).hexdigest()[:32] if tail else None


def write(name, rows):
    names = [row["name"] for row in rows]
    assert len(set(names)) == len(names), [name for name in names if names.count(name) > 1]
    path = pathlib.Path("Protocol/vectors/protocol") / name
    path.write_text("".join(json.dumps(row, ensure_ascii=True) + "\n" for row in rows))
    print(f"{path}: {len(rows)}")


# Messages that must be read.

def good():
    rows = []

    def add(name, line, encoded=None, **message):
        row = {"name": name, "line": line, "message": message}
        if encoded is not None:
            row["encoded"] = encoded
        rows.append(row)

    def hello(name, line=None, encoded=None, **changes):
        message = {key: value for key, value in {**HELLO, **changes}.items() if value is not None}
        for last in ("accept", "software", "time"):
            if last in message:
                message[last] = message.pop(last)
        add(name, line or "HELLO " + text(message), encoded, type="HELLO", **message)

    def ready(name, line=None, encoded=None, **changes):
        message = {**READY, **changes}
        message = {key: value for key, value in message.items() if value is not None}
        add(name, line or "READY " + text(message), encoded, type="READY", **message)

    def opening(name, number=1, line=None, encoded=None, **changes):
        message = {key: value for key, value in {**OPEN, **changes}.items() if value is not None}
        add(name, line or f"OPEN {number} " + text(message), encoded, type="OPEN", number=number, **message)

    def plain(name, line, **message):
        add(name, line, None, type=line.split(" ")[0], **message)

    hello("hello")
    hello("hello without a token", token=None)
    hello("hello with an empty token", token="")
    hello("hello of several versions", protocol=[3, 2, 1])
    hello("hello of no version", protocol=[])
    hello("hello with several encodings", accept=["zstd", "zlib"])
    hello("hello with the longest names", agent="a" * 128, instance="0" * 64)
    hello("hello with Korean and an emoji", agent="서울-웹🛒")
    hello("hello of a device", agent=hashlib.sha256(bytes(range(16))).hexdigest()[:32], key="AAECAwQFBgcICQoLDA0ODw")
    hello("hello of the greatest key", key="_" * 21 + "w")
    hello("hello with its software and clock", software="waybill/0.1.0", time=1795165200000)
    hello("hello with any text as its software, and the least clock", software="\u001b[2J 서울", time=0)
    hello("hello with the greatest clock", time=MAX)
    hello("hello whose software and clock are null", "HELLO " + text({**HELLO, "software": None, "time": None}),
          "HELLO " + text(HELLO))
    hello("hello whose key is null", "HELLO " + text({**HELLO, "key": None}), "HELLO " + text(HELLO))
    hello("hello whose token holds an unpaired surrogate", "HELLO " + text(HELLO).replace("s3cret", "\\udc00"),
          "HELLO " + text({**HELLO, "token": "\ufffd"}), token="\ufffd")
    hello("hello with quotes, backslashes and controls", agent='a"b\\c', token="t\u0000\u001f\u007f", line="HELLO "
          + text({**HELLO, "agent": 'a"b\\c'})[:-1].replace('"s3cret"', '"t\\u0000\\u001f\\u007f"') + "}")
    hello("hello whose members come in another order", "HELLO " + text(dict(reversed(HELLO.items()))),
          "HELLO " + text(HELLO))
    hello("hello with unknown members", "HELLO " + text({"x": {"y": [1, None]}, **HELLO, "z": 1.5}),
          "HELLO " + text(HELLO))
    hello("hello with white space", "HELLO " + json.dumps(HELLO) + "  ", "HELLO " + text(HELLO))
    hello("hello whose token is null", "HELLO " + text({**HELLO, "token": None}),
          "HELLO " + text({k: v for k, v in HELLO.items() if k != "token"}), token=None)
    hello("hello with a repeated member: the first counts", "HELLO " + text(HELLO)[:-1] + ',"agent":"other"}',
          "HELLO " + text(HELLO))
    hello("hello with an escaped member name and solidus",
          "HELLO " + text(HELLO).replace('"agent":"web-01"', '"\\u0061gent":"web\\/01"'),
          "HELLO " + text({**HELLO, "agent": "web/01"}), agent="web/01")

    ready("ready")
    ready("ready with the smallest limits", limits={key: 1 for key in LIMITS}, window=1, time=0)
    ready("ready with the largest limits", limits={key: MAX for key in LIMITS}, window=MAX, time=MAX)
    ready("ready of a later version", protocol=2)
    ready("ready of a receiver without a name", receiver="", id="~" + INCARNATION)
    ready("ready of a receiver's first start", starts=[[START, 0]], end=0)
    ready("ready with starts at one position", starts=[[OLD_START, 88000], [START, 88000]], end=88000)
    starts = [[f"{number:016x}", number] for number in range(1, 17)]
    ready("ready with sixteen starts", starts=starts, start=starts[-1][0])
    ready("ready with more starts: the last sixteen count", "READY " + text(
        {**READY, "starts": [[OLD_START, 0], *starts], "start": starts[-1][0]}), "READY " + text(
        {**READY, "starts": starts, "start": starts[-1][0]}), starts=starts, start=starts[-1][0])
    ready("ready with the largest positions", starts=[[START, MAX]], end=MAX)
    members = {}
    for key, value in READY.items():
        members.update({"fleet": FLEET, "level": "stored"} if key == "level" else {key: value})
    ready("ready of a fleet", "READY " + text(members), fleet=FLEET, level="stored")
    ready("ready without a level", "READY " + text({k: v for k, v in READY.items() if k != "level"}),
          "READY " + text(READY))
    ready("ready whose fleet and level are null", "READY " + text({**READY, "fleet": None, "level": None}),
          "READY " + text(READY))
    ready("ready with unknown limits", "READY " + text({**READY, "limits": {**LIMITS, "x": -1}, "y": []}),
          "READY " + text(READY))

    opening("open")
    opening("open of foreign lines", 2, format="ndjson", time="ts", name_="event", line="OPEN 2 " + text(
        {**OPEN, "format": "ndjson", "time": "ts", "name": "event"}))
    rows[-1]["message"]["name"] = rows[-1]["message"].pop("name_")
    opening("open with a time member alone", format="ndjson", time="@timestamp")
    opening("open with all members", format="ndjson", time="ts", name_="event", user="user_id", anonymous="쿠키", line=(
        "OPEN 1 " + text({**OPEN, "format": "ndjson", "time": "ts", "name": "event", "user": "user_id",
                          "anonymous": "쿠키"})))
    rows[-1]["message"]["name"] = rows[-1]["message"].pop("name_")
    opening("open with an anonymous id alone", format="ndjson", anonymous="cookie")
    opening("open with the largest number", MAX)
    opening("open of the shortest id", stream="a")
    opening("open of the longest id", stream="aZ09._:-" * 16)
    opening("open of a development stream", env="dev")
    opening("open of an internal stream", env="internal")
    opening("open with the longest bundle", bundle="b" * 255)
    opening("open with an empty source", source="")
    opening("open with a path beyond ASCII", source="/var/log/장바구니/🛒 é.ndjson")
    opening("open with null members", line="OPEN 1 " + text(
        {**OPEN, "time": None, "name": None, "user": None, "anonymous": None}),
            encoded="OPEN 1 " + text(OPEN))
    opening("open with a newline in its source", source="a\nb", line="OPEN 1 " + text(OPEN).replace(
        OPEN["source"], "a\\nb"), encoded="OPEN 1 " + text(OPEN).replace(OPEN["source"], "a\\u000ab"))

    proof = digest(ID, 16, b'{"a":1}\n{"b":2}\n')
    opening("open with all that an agent knows of a stream", line="OPEN 1 " + text(
        {**OPEN, "from": 16, "by": READY["id"], "proof": proof}), **{"from": 16}, by=READY["id"], proof=proof)
    opening("open from the beginning", **{"from": 0})
    opening("open with null claims", line="OPEN 1 " + text({**OPEN, "from": None, "by": None, "proof": None,
                                                            "client": None}), encoded="OPEN 1 " + text(OPEN))
    client = {"principal": "shop-web", "agent": "browser", "address": "192.0.2.7:51034"}
    opening("open for an agent that a forwarder speaks for", client=client)
    opening("open with unknown members of its client", line="OPEN 1 " + text({**OPEN, "client": {"x": 1, **client}}),
            encoded="OPEN 1 " + text({**OPEN, "client": client}), client=client)
    opening("open whose source holds an unpaired surrogate", line="OPEN 1 " + text({**OPEN, "source": "a\ud83d"}),
            encoded="OPEN 1 " + text({**OPEN, "source": "a\ufffd"}), source="a\ufffd")

    plain("at the beginning", "AT 1 0 0 - 0", number=1, offset=0, count=0, digest=None, end=0)
    plain("at the beginning of a stream in a journal", "AT 1 0 0 - 90201", number=1, offset=0, count=0, digest=None,
          end=90201)
    plain("at with a proof", f"AT 1 16 16 {proof} 88300", number=1, offset=16, count=16, digest=proof, end=88300)
    plain("at the first offset whose proof is of 512 bytes", f"AT 1 512 512 {'0' * 32} 1", number=1, offset=512,
          count=512, digest="0" * 32, end=1)
    plain("at the largest offset", f"AT {MAX} {MAX} 512 {'f' * 32} {MAX}", number=MAX, offset=MAX, count=512,
          digest="f" * 32, end=MAX)
    plain("at after bytes that were given up", "AT 1 4096 0 - 5000", number=1, offset=4096, count=0, digest=None,
          end=5000)
    plain("at some bytes after bytes that were given up", f"AT 1 4103 7 {proof} 5000", number=1, offset=4103, count=7,
          digest=proof, end=5000)
    plain("at some bytes after skipped ones", f"AT 1 4103 512 {proof} 5000 6", number=1, offset=4103, count=512,
          digest=proof, end=5000, skipped=6)
    plain("at after skipped bytes alone", "AT 1 4096 0 - 5000 4096", number=1, offset=4096, count=0, digest=None,
          end=5000, skipped=4096)
    plain("at the largest offset after skipped bytes alone", f"AT {MAX} {MAX} 512 {'f' * 32} {MAX} {MAX}", number=MAX,
          offset=MAX, count=512, digest="f" * 32, end=MAX, skipped=MAX)
    plain("batch", "BATCH 1 0 16 2 24 af4ef970", number=1, offset=0, raw=16, lines=2, wire=24, crc=0xaf4ef970)
    plain("batch of one byte", "BATCH 1 0 1 1 9 00000000", number=1, offset=0, raw=1, lines=1, wire=9, crc=0)
    plain("batch of line ends alone", "BATCH 9 5 3 3 11 ffffffff", number=9, offset=5, raw=3, lines=3, wire=11,
          crc=0xffffffff)
    plain("batch up to the largest offset", f"BATCH 1 {MAX - 2} 2 1 10 0000000a", number=1, offset=MAX - 2, raw=2,
          lines=1, wire=10, crc=10)
    plain("batch with the largest counts", f"BATCH 1 0 {MAX} {MAX} {MAX} 01234567", number=1, offset=0, raw=MAX,
          lines=MAX, wire=MAX, crc=0x01234567)
    plain("ack", "ACK 1 266240 90112", number=1, offset=266240, end=90112)
    plain("ack of nothing", "ACK 7 0 0", number=7, offset=0, end=0)
    for code in ["gap", "corrupt", "too-large", "retry-after", "sealed", "in-use", "prove", "not-allowed"]:
        plain(f"nak {code}", f"NAK 3 4096 {code} what it says", number=3, offset=4096, code=code, text="what it says")
    add("nak without a text", "NAK 3 0 gap", "NAK 3 0 gap ", type="NAK", number=3, offset=0, code="gap", text="")
    plain("nak with an empty text", "NAK 3 0 gap ", number=3, offset=0, code="gap", text="")
    plain("nak with spaces in its text", "NAK 3 0 gap  a  b ", number=3, offset=0, code="gap", text=" a  b ")
    tail = bytes(range(256)) * 2

    for reason in ["too-long", "torn-tail", "held", "elsewhere"]:
        plain(f"skip {reason}", f"SKIP 1 16 1200000 {reason} {base64.b64encode(tail).decode()}", number=1, offset=16,
              length=1200000, reason=reason, tail=tail.hex())
    plain("skip before", f"SKIP 1 16 1200000 before {base64.b64encode(tail).decode()} Collector-1._", number=1, offset=16,
          length=1200000, reason="before", tail=tail.hex(), holder="Collector-1._")
    plain("skip before, of the longest name", f"SKIP 1 0 1 before AA== {'a' * 64}", number=1, offset=0, length=1,
          reason="before", tail="00", holder="a" * 64)
    for count in (1, 511):
        plain(f"skip of a hole of {count} bytes", f"SKIP 1 0 {count} hole {base64.b64encode(bytes(count)).decode()}",
              number=1, offset=0, length=count, reason="hole", tail=bytes(count).hex())
    plain("skip of a sparse hole", f"SKIP 1 16 500000000 hole {base64.b64encode(bytes(512)).decode()}", number=1,
          offset=16, length=500000000, reason="hole", tail=bytes(512).hex())
    plain("skip of a hole whose tail is not NUL, a valid line that is not taken", "SKIP 1 0 5 hole AAAAAAo=", number=1,
          offset=0, length=5, reason="hole", tail="000000000a")
    plain("skip truncated", "SKIP 1 16 1200000 truncated -", number=1, offset=16, length=1200000, reason="truncated",
          tail=None)
    for count in (1, 2, 3, 510, 511):
        plain(f"skip of the first {count} bytes", f"SKIP 1 0 {count} held {base64.b64encode(tail[:count]).decode()}",
              number=1, offset=0, length=count, reason="held", tail=tail[:count].hex())
    whole = base64.b64decode("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
    plain("skip whose tail has the whole alphabet", "SKIP 1 9 39 too-long " + base64.b64encode(
        whole).decode(), number=1, offset=9, length=39, reason="too-long",
        tail=whole.hex())
    plain("skip up to the largest offset", f"SKIP 1 {MAX - 1} 1 truncated -", number=1, offset=MAX - 1, length=1,
          reason="truncated", tail=None)
    plain("seal", "SEAL 1 317", number=1, offset=317)
    plain("seal of an empty stream", "SEAL 1 0", number=1, offset=0)
    plain("sealed", f"SEALED 1 16 {proof} 90201", number=1, count=16, digest=proof, end=90201)
    plain("sealed, an empty stream", "SEALED 1 0 - 90201", number=1, count=0, digest=None, end=90201)
    plain("sealed with skipped bytes", f"SEALED 1 16 {proof} 90201 6", number=1, count=16, digest=proof, end=90201,
          skipped=6)
    plain("sealed with the most skipped bytes", f"SEALED 1 0 - 0 {MAX}", number=1, count=0, digest=None, end=0,
          skipped=MAX)
    plain("stored", "STORED 1 266240", number=1, offset=266240)
    plain("stored nothing", "STORED 7 0", number=7, offset=0)
    counts = [{"stream": ID, "reason": "not-json", "count": 12}, {"stream": "b", "reason": "not-allowed", "count": MAX}]
    plain("note", "NOTE " + text({"quarantined": counts}), quarantined=counts)
    plain("note of nothing", 'NOTE {"quarantined":[]}', quarantined=[])
    refusals = [{"stream": ID, "export": "ga4", "reason": "ga4.no_app_instance_id", "count": 496},
                {"stream": "b", "export": "x-1", "reason": "consent", "count": 0}]
    plain("note of refusals", "NOTE " + text({"quarantined": counts[:1], "refused": refusals}),
          quarantined=counts[:1], refused=refusals)
    add("note with unknown members", "NOTE " + text({"x": 1, "quarantined": [{"y": 2, **counts[0]}]}),
        "NOTE " + text({"quarantined": counts[:1]}), type="NOTE", quarantined=counts[:1])
    plain("ping", "PING 7", value=7)
    plain("ping with the largest number", f"PING {MAX}", value=MAX)
    plain("pong", "PONG 0", value=0)
    plain("wait", "WAIT 5000", value=5000)
    plain("wait no more", "WAIT 0", value=0)
    plain("move", 'MOVE {"receivers":["a.example.com:7000","[2001:db8::7]:7000"]}',
          receivers=["a.example.com:7000", "[2001:db8::7]:7000"])
    plain("move to nowhere", 'MOVE {"receivers":[]}', receivers=[])
    for code in ["syntax", "order", "version", "token", "limit", "timeout", "agent-in-use", "unavailable"]:
        plain(f"err {code}", f"ERR {code} what it says", code=code, text="what it says")
    add("err without a text", "ERR token", "ERR token ", type="ERR", code="token", text="")
    add("err of the longest line", "ERR limit " + "x" * 4085, "ERR limit " + "x" * 512, type="ERR", code="limit",
        text="x" * 4085)
    plain("bye", "BYE")
    write("good.ndjson", rows)


# Lines of journals alone.

def journal():
    rows = []

    def good(name, line, **message):
        rows.append({"name": name, "line": line, "message": {"type": line.split(" ")[0], **message}})

    def bad(name, line, error):
        rows.append({"name": name, "line": line, "error": error})

    good("mark", "MARK 268435700 1795165200000 0b3cfe01", position=268435700, value=1795165200000, crc=0x0b3cfe01)
    good("start", f"START 88000 {START} {INCARNATION}", position=88000, start=START, incarnation=INCARNATION)
    good("the first start", f"START 0 {START} {INCARNATION}", position=0, start=START, incarnation=INCARNATION)
    good("tail", "TAIL 1 eyJhIjoxfQo=", number=1, tail=b'{"a":1}\n'.hex())
    good("the longest tail", "TAIL 1 " + base64.b64encode(bytes(512)).decode(), number=1, tail=bytes(512).hex())
    bad("mark without a checksum", "MARK 1 2", "field-count")
    bad("mark with a sign", "MARK +1 2 00000000", "bad-integer")
    bad("mark whose checksum is no number", "MARK 1 2 zzzzzzzz", "bad-checksum")
    bad("start without an incarnation", f"START 0 {START}", "field-count")
    bad("start with a short id", f"START 0 {START[1:]} {INCARNATION}", "bad-proof")
    bad("start with an incarnation in upper case", f"START 0 {START} {INCARNATION.upper()}", "bad-proof")
    bad("start of no incarnation", f"START 0 {START} -", "bad-proof")
    bad("tail that is not base64", "TAIL 1 eyJhIjoxfQo", "bad-tail")
    bad("tail of 513 bytes", "TAIL 1 " + base64.b64encode(bytes(513)).decode(), "bad-tail")
    bad("tail of no stream", "TAIL 0 eyJhIjoxfQo=", "bad-integer")
    write("journal.ndjson", rows)


# What a receiver shows of a stream.

def proofs():
    rows = []

    def add(name, source, id=ID, given_up=0):
        """`given_up`: the first bytes were skipped with `truncated`."""
        offset = len(source)
        tail = source[given_up:][-512:]
        rows.append({"name": name, "stream": id, "offset": offset, "tail": tail.hex(), "count": len(tail),
                     "digest": digest(id, offset, tail)})

    two = b'{"a":1}\n{"b":2}\n'
    line = b'{"v":1,"id":"0199a1b2-c3d4-7e5f-8a6b-7c8d9e0f1a2b","kind":"action","name":"add_to_cart"}\n'
    add("an empty stream", b"")
    add("the example of the specification", two)
    add("one byte, a line end", b"\n")
    add("another id than the example's", two, "b")
    add("the same id with a colon", two, ID + ":0123456789abcdef")
    add("the longest id", two, "aZ09._:-" * 16)
    add("511 bytes", (line * 6)[:511])
    add("512 bytes", (line * 6)[:512])
    add("513 bytes: the first is not covered", (line * 6)[:513])
    add("the same last 512 bytes at another offset", line * 5 + (line * 6)[:513])
    add("line ends alone", b"\n" * 5000)
    add("bytes that are no UTF-8", bytes(range(256)) * 3)
    add("a last line without its line end", line * 9 + b'{"cut')
    for length in (0, 1, 7, 43, 44, 107, 108, 511, 512, 513, 600):
        add(f"{length} bytes after 4096 that were given up", bytes(4096) + (line * 7)[:length], given_up=4096)
    write("proofs.ndjson", rows)


# Lines that must be refused.

def bad():
    rows = []

    def add(error, lines):
        for name, line in lines.items():
            key = "hex" if isinstance(line, bytes) else "line"
            rows.append({"name": name, key: line.hex() if key == "hex" else line, "error": error})

    def changed(word, base, **changes):
        return word + " " + text({k: v for k, v in {**base, **changes}.items() if v != "absent"})

    batch = "BATCH 1 0 16 2 24 "
    add("empty-line", {"an empty line": ""})
    add("not-ascii", {
        "a carriage return": b"BYE\r", "a tab": b"SEAL\t1\t5", "a NUL": b"SEAL 1 5\0", "a NUL in front": b"\0BYE",
        "a DEL": b"ERR token \x7f", "a byte order mark": b"\xef\xbb\xbfBYE", "Latin-1": b"ERR token caf\xe9",
        "UTF-8 in an object": ("OPEN 1 " + text(OPEN).replace("com.example", "가")).encode(),
        "UTF-8 in a text": "ERR token é".encode(), "an escape sequence": b"ERR token \x1b[31m", "byte FF": b"\xff"})
    add("unknown-message", {
        "a word in lower case": "bye", "a word in mixed case": "Ack 1 2", "a word misspelt": "HELO {}",
        "a word of a later version": "REPLICA 1 2", "HTTP": "GET / HTTP/1.1", "SSH": "SSH-2.0-OpenSSH_9.6",
        "an object alone": "{}", "a space in front": " BYE", "a space alone": " ", "a word with a digit": "ACK1 2",
        "a word that is longer": "BYEBYE", "a word that is shorter": "BY"})
    digits, zeros = "0123456789abcdef" * 2, "0" * 32
    add("field-count", {
        "HELLO without an object": "HELLO", "HELLO with a space alone": "HELLO ", "READY without an object": "READY",
        "HELLO with two spaces": "HELLO  " + text(HELLO), "READY with two spaces": "READY  " + text(READY),
        "OPEN alone": "OPEN", "OPEN without an object": "OPEN 1", "OPEN with a space alone": "OPEN 1 ",
        "OPEN with two spaces": "OPEN 1  " + text(OPEN), "MOVE with two spaces": 'MOVE  {"receivers":[]}',
        "NOTE with two spaces": 'NOTE  {"quarantined":[]}', "NOTE without an object": "NOTE",
        "AT alone": "AT", "AT without an offset": "AT 1", "AT with an empty offset": "AT 1 ",
        "AT without a proof": "AT 1 5", "AT without a digest": "AT 1 0 0", "AT without an end": "AT 1 0 0 -",
        "AT with two spaces": "AT  1 0 0 - 0", "AT with two spaces later": "AT 1  0 0 - 0",
        "AT with a space at its end": "AT 1 0 0 - 0 ", "AT with a field too many": "AT 1 5 0 - 0 5 0",
        "AT with a space behind what was skipped": "AT 1 5 0 - 0 5 ", "AT with two spaces before it": "AT 1 5 0 - 0  5",
        "ACK without an offset": "ACK 1", "ACK without an end": "ACK 1 2", "ACK with a field too many": "ACK 1 2 3 4",
        "BATCH alone": "BATCH", "BATCH without a checksum": batch[:-1], "BATCH with a space at its end":
        batch + "af4ef970 ", "BATCH with a field too many": batch + "af4ef970 1", "NAK without a code": "NAK 1 0",
        "NAK without an offset": "NAK 1", "NAK with an empty code": "NAK 1 0 ", "SKIP without a reason": "SKIP 1 0 5",
        "SKIP without a tail": "SKIP 1 0 5 truncated", "SKIP with an empty tail": "SKIP 1 0 5 too-long ",
        "SKIP with a field too many": "SKIP 1 0 5 truncated - x", "a SKIP of before without a holder":
        "SKIP 1 0 1 before AA==", "a holder with a space": "SKIP 1 0 1 before AA== a b", "an empty holder":
        "SKIP 1 0 1 before AA== ", "SEAL without an offset": "SEAL 1",
        "SEAL with a field too many": "SEAL 1 2 3", "SEALED without a number": "SEALED",
        "SEALED without a proof": "SEALED 1", "SEALED without an end": "SEALED 1 0 -",
        "SEALED with a field too many": "SEALED 1 0 - 2 3 4", "STORED without an offset": "STORED 1",
        "STORED with a field too many": "STORED 1 2 3", "PING without a number": "PING", "PING with a field too many":
        "PING 1 2", "PONG without a number": "PONG", "WAIT without a time": "WAIT", "MOVE without an object": "MOVE",
        "BYE with a space": "BYE ", "BYE with a field": "BYE now", "ERR without a code": "ERR",
        "ERR with an empty code": "ERR "})
    add("bad-integer", {
        "stream number 0": "AT 0 0 0 - 0", "SEALED 0": "SEALED 0 0 - 0", "STORED 0": "STORED 0 0",
        "a number with a leading zero": "SEAL 01 5", "an offset with a leading zero": "SEAL 1 05",
        "two zeros": "SEAL 1 00", "a negative offset": "SEAL 1 -1", "negative zero": "SEAL 1 -0",
        "a plus sign": "SEAL +1 0", "hexadecimal": "SEAL 1 0x10", "an exponent": "SEAL 1 1e3",
        "a fraction": "SEAL 1 1.0", "a thousands separator": "ACK 1 1,000 0", "an underscore": "ACK 1 1_000 0",
        "letters": "SEAL one 5", "an integer above 2^53 - 1": f"SEAL 1 {MAX + 1}", "16 nines":
        "SEAL 1 9999999999999999", "17 digits": "SEAL 1 10000000000000000", "2^64": "SEAL 1 18446744073709551616",
        "2^64 + 5": "SEAL 1 18446744073709551621", "a very long integer": "SEAL 1 " + "9" * 400,
        "a stream number above 2^53 - 1": f"SEAL {MAX + 1} 0", "a negative PING": "PING -1",
        "a PING above 2^53 - 1": f"PING {MAX + 1}", "WAIT with a unit": "WAIT 5s",
        "an AT whose count is -": "AT 1 0 - - 0", "an AT whose count has a leading zero": f"AT 1 16 016 {digits} 0",
        "an AT whose end is negative": "AT 1 0 0 - -1", "an AT whose end is above 2^53 - 1": f"AT 1 0 0 - {MAX + 1}",
        "an AT that skipped nothing": "AT 1 5 0 - 0 0", "an AT that skipped more than there is": "AT 1 5 0 - 0 6",
        "an AT of nothing that skipped a byte": "AT 1 0 0 - 0 1", "an AT whose skipped bytes are -": "AT 1 5 0 - 0 -",
        "an AT that skipped more than 2^53 - 1": f"AT 1 {MAX} 0 - 0 {MAX + 1}", "a SEALED that skipped nothing":
        "SEALED 1 0 - 0 0", "a SEALED whose skipped bytes have a leading zero": "SEALED 1 0 - 0 05",
        "an ACK whose end is -": "ACK 1 0 -", "a SEALED whose end is a word": "SEALED 1 0 - end",
        "SKIP with letters": "SKIP 1 a 5 truncated -", "a SKIP of nothing": "SKIP 1 0 0 truncated -",
        "a SKIP beyond the largest offset": f"SKIP 1 {MAX} 1 truncated -",
        "a batch without bytes": "BATCH 1 0 0 1 8 00000000", "a batch without lines": "BATCH 1 0 5 0 8 00000000",
        "a batch without a payload": "BATCH 1 0 5 1 0 00000000", "a batch with more lines than bytes":
        "BATCH 1 0 5 6 8 00000000", "a batch beyond the largest offset": f"BATCH 1 {MAX} 1 1 9 00000000",
        "a batch on stream 0": "BATCH 0 0 16 2 24 af4ef970"})
    add("bad-proof", {
        "a digest of 31 digits": f"AT 1 16 16 {digits[1:]} 0", "a digest of 33 digits": f"AT 1 16 16 {digits}0 0",
        "a digest in upper case": f"AT 1 16 16 {digits.upper()} 0", "a digest with 0x": f"AT 1 16 16 0x{digits[2:]} 0",
        "a digest of no hexadecimal digits": f"AT 1 16 16 {digits[:-1]}g 0", "a digest of no bytes":
        f"AT 1 16 0 {zeros} 0", "bytes without a digest": "AT 1 16 16 - 0", "a proof of more bytes than there are":
        f"AT 1 16 17 {digits} 0", "a proof of an empty stream": f"AT 1 0 1 {digits} 0", "a proof of 513 bytes":
        f"AT 1 4096 513 {digits} 0", "a digest that is a word": "AT 1 16 16 yes 0",
        "a SEALED with a digest of no bytes": f"SEALED 1 0 {zeros} 0", "a SEALED without a digest": "SEALED 1 16 - 0", "a SEALED with 513 bytes":
        f"SEALED 1 513 {digits} 0"})
    full = base64.b64encode(bytes(512)).decode()
    add("bad-tail", {
        "a tail of truncated": "SKIP 1 0 5 truncated AAAAAAA=", "no tail of too-long": "SKIP 1 0 5 too-long -",
        "no tail of torn-tail": "SKIP 1 0 5 torn-tail -", "no tail of held": "SKIP 1 0 5 held -", "no tail of elsewhere":
        "SKIP 1 0 5 elsewhere -", "no tail of before": "SKIP 1 0 5 before - a", "no tail of a hole": "SKIP 1 0 5 hole -",
        "a hole's tail with a byte too few": "SKIP 1 0 5 hole AAAAAA==",
        "a tail with a byte too few": "SKIP 1 0 5 held AAAAAA==", "a tail with a byte too many":
        "SKIP 1 0 5 held AAAAAAAA", "the skipped bytes alone": "SKIP 1 5 5 held AAAAAAA=",
        "511 bytes of more": "SKIP 1 0 9999 too-long " + base64.b64encode(bytes(511)).decode(),
        "513 bytes": "SKIP 1 0 9999 too-long " + base64.b64encode(bytes(513)).decode(),
        "a tail without padding": "SKIP 1 0 5 held AAAAAAA", "a tail of base64url": "SKIP 1 0 6 held AAAA_-AA",
        "a tail with bits that belong to no byte": "SKIP 1 0 5 held AAAAAAB=", "padding in the middle":
        "SKIP 1 0 6 held AA==AAAA", "padding alone": "SKIP 1 0 1 held ====", "three signs of padding":
        "SKIP 1 0 1 held A===", "too much padding": f"SKIP 1 0 512 held {full}====", "a tail in hexadecimal":
        "SKIP 1 0 5 held 0000000000", "a sign that base64 does not have": "SKIP 1 0 5 held AAAA*AA="})
    add("bad-checksum", {
        "a checksum in upper case": batch + "AF4EF970", "7 digits": batch + "af4ef97", "9 digits": batch + "0af4ef970",
        "a checksum with 0x": batch + "0xaf4ef9", "a digit that is none": batch + "af4ef97g", "a decimal checksum":
        batch + "2941188464", "a signed checksum": batch + "-f4ef970"})
    add("bad-reason", {
        "a reason that is none": "SKIP 1 0 5 because AAAAAAA=", "a reason in upper case":
        "SKIP 1 0 5 TOO-LONG AAAAAAA=", "a reason without its hyphen": "SKIP 1 0 5 toolong AAAAAAA=",
        "a hole in upper case": "SKIP 1 0 5 HOLE AAAAAAA="})
    add("bad-holder", {
        "a holder of 65 bytes": "SKIP 1 0 1 before AA== " + "a" * 65, "a holder with a colon": "SKIP 1 0 1 before AA== a:1",
        "a holder's id": f"SKIP 1 0 1 before AA== a~{INCARNATION}", "a holder with a slash": "SKIP 1 0 1 before AA== a/b",
        "a holder that is escaped": "SKIP 1 0 1 before AA== a%20b"})
    add("bad-code", {
        "a NAK code that is none": "NAK 1 0 nope x", "a NAK code in upper case": "NAK 1 0 GAP x", "a NAK number":
        "NAK 1 0 1 x", "an ERR code that is none": "ERR nope x", "an ERR code in mixed case": "ERR Syntax x",
        "an ERR number": "ERR 16 x", "an ERR code in a NAK": "NAK 1 0 token x", "a NAK code in an ERR": "ERR gap x"})
    add("bad-json", {
        "an open object": "HELLO {", "a comma too many": "HELLO " + text(HELLO)[:-1] + ",}", "an array": "HELLO [1]",
        "a word": "HELLO hello", "a string": 'HELLO "{}"', "null": "READY null", "text behind the object":
        "OPEN 1 " + text(OPEN) + "x", "two objects": "OPEN 1 {}{}", "single quotes": "MOVE {'receivers':[]}",
        "a leading zero": "READY " + text(READY).replace("90000", "090000"), "a bad escape":
        "HELLO " + text(HELLO).replace("web-01", "\\x41"), "a cut escape": 'OPEN 1 {"stream":"\\u00"}',
        "an object nested 65 deep": "HELLO " + '{"a":' * 65 + "1" + "}" * 65})
    for member, values in {
            "protocol": ["absent", 1, "1", ["1"], [-1], [1.0], [MAX + 1], None],
            "agent": ["absent", "", "a" * 129, "가" * 43, 5, None, "a\0", "a\n", "\x1b[2J", "a\x7f", "a\x85",
                      "a\ud800", "\udc00\ud800", "\ufffd"],
            "instance": ["absent", "", "0" * 65, [], "\r", "\ud83d"], "token": [5, {}, True],
            "key": [5, "", "AAECAwQFBgcICQoLDA0OD", "AAECAwQFBgcICQoLDA0ODx", "AAECAwQFBgcICQoLDA0ODw==",
                    "+AECAwQFBgcICQoLDA0ODw"], "accept": ["absent", "zlib", [1], [None]], "software": [5, [], True],
            "time": [-1, 1.5, MAX + 1, "now"]}.items():
        add("bad-member", {f"HELLO whose {member} is {text(value)[:30]}": changed("HELLO", HELLO, **{member: value})
                           for value in values})
    for member, values in {
            "protocol": ["absent", [1], -1, 1.5], "receiver": ["absent", 5, "a\n", "\ud800"],
            "limits": ["absent", [], 5],
            "incarnation": ["absent", 5, "", INCARNATION[1:], INCARNATION.upper(), None],
            "start": ["absent", 5, START[1:], OLD_START, None], "end": ["absent", -1, "90201", 87999, MAX + 1],
            "starts": ["absent", [], {}, [START], [[START]], [[START, 0, 0]], [[START, -1]], [[START, "0"]],
                       [[START.upper(), 0]], [[OLD_START, 5], [START, 4]], [[START, 0], [OLD_START, 5]],
                       [[START, 90202]], None],
            "fleet": [5, "", "eu", FLEET[1:], FLEET.upper()], "level": [5, "", "certain"],
            "window": ["absent", 0, -5, MAX + 1, "8"], "time": ["absent", -1, "now"]}.items():
        add("bad-member", {f"READY whose {member} is {text(value)}": changed("READY", READY, **{member: value})
                           for value in values})
    for member in LIMITS:
        for value in ["absent", 0, "1"]:
            limits = {k: v for k, v in {**LIMITS, member: value}.items() if v != "absent"}
            add("bad-member", {f"READY whose limit {member} is {text(value)}": changed("READY", READY, limits=limits)})
    add("bad-member", {"READY with an exponent": "READY " + text(READY).replace("90000", "9e4")})
    for member, values in {
            "stream": ["absent", 5, None], "source": ["absent", 5], "env": ["absent", "", "production", "Prod"],
            "bundle": ["absent", "", "b" * 256, "com\0", "com\u009f", "com.\udc00", "\ufffd"],
            "format": ["absent", "csv", "NDJSON"], "time": [5, []], "name": [False], "user": [7],
            "anonymous": [{}], "from": ["0", -1, 1.5, MAX + 1],
            "by": [5], "proof": [5, "", "-", "0" * 31, "0" * 33, "A" * 32],
            "client": [5, [], {}, {"principal": "p", "agent": "a"}, {"principal": "p", "agent": "a\n", "address": ""},
                       {"principal": 5, "agent": "a", "address": ""}]}.items():
        add("bad-member", {f"OPEN whose {member} is {text(value)[:44]}": changed("OPEN 1", OPEN, **{member: value})
                           for value in values})
    add("bad-member", {"MOVE without receivers": "MOVE {}", "MOVE to a string": 'MOVE {"receivers":"a:1"}',
                       "MOVE to a number": 'MOVE {"receivers":[1]}', "NOTE of nothing": "NOTE {}"})
    entries = {
        "no object": 5, "no stream": {"reason": "not-json", "count": 1}, "no reason": {"stream": "a", "count": 1},
        "no count": {"stream": "a", "reason": "not-json"},
        "a negative count": {"stream": "a", "reason": "not-json", "count": -1}}
    for what, entry in entries.items():
        add("bad-member", {f"NOTE with an entry of {what}": "NOTE " + text({"quarantined": [entry]})})
    add("bad-member", {"NOTE of refusals by no export":
                       'NOTE {"quarantined":[],"refused":[{"stream":"a","reason":"consent","count":1}]}',
                       "NOTE whose refusals are no array": 'NOTE {"quarantined":[],"refused":5}'})
    add("bad-stream-id", {"NOTE of a bad stream": 'NOTE {"quarantined":[{"stream":"a/b","reason":"x","count":1}]}'})
    add("bad-stream-id", {f"a stream id that is {text(value)[:24]}": changed("OPEN 1", OPEN, stream=value)
                          for value in ["", "a" * 129, "a b", "a/b", "../a", "가", "a\n", "a,b", "a%20"]})
    add("line-too-long", {"a line of 4096 bytes and no end": "ERR limit " + "x" * 4086,
                          "a line of 5000 bytes": "HELLO " + "x" * 4994})
    write("bad.ndjson", rows)


# Batches that must be taken or refused.

def batches():
    rows = []

    def add(name, verdict, held, payload=None, offset=0, id=ID, covered=None, **claims):
        payload = zlib.compress(held, 9) if payload is None else payload
        count = held.count(b"\n") + (0 if held.endswith(b"\n") else 1)
        claim = {"offset": offset, "raw": len(held), "lines": count, "wire": len(payload), **claims}
        head = covered or f"{id} {offset} {claim['raw']} {claim['lines']} {claim['wire']}\n"
        crc = claims.get("crc", zlib.crc32(payload, zlib.crc32(head.encode())))
        line = f"BATCH 1 {offset} {claim['raw']} {claim['lines']} {claim['wire']} {crc:08x}"
        row = {"name": name, "id": id, "line": line, "payload": payload.hex(), "verdict": verdict}
        if verdict == "ok":
            row["raw"] = held.hex()
        rows.append(row)

    two = b'{"a":1}\n{"b":2}\n'
    good = zlib.compress(two, 9)
    raw_deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
    bare = raw_deflate.compress(two) + raw_deflate.flush()
    gzip = zlib.compressobj(9, zlib.DEFLATED, 31)
    zipped = gzip.compress(two) + gzip.flush()
    preset = zlib.compressobj(9, zlib.DEFLATED, 15, 9, 0, b'{"a":')
    preset = preset.compress(two) + preset.flush()
    split = zlib.compressobj(6)
    split = split.compress(two[:8]) + split.flush(zlib.Z_FULL_FLUSH) + split.compress(two[8:]) + split.flush()
    zeros = b"x" * 199999 + b"\n"

    add("the example of the specification", "ok", two)
    for level in (0, 1, 6):
        add(f"the same at level {level}", "ok", two, zlib.compress(two, level))
    add("the same in two flushed blocks", "ok", two, split)
    add("at another offset", "ok", two, offset=4096)
    add("at the largest offset", "ok", two, offset=MAX - 16)
    add("of another stream", "ok", two, id="web-01-fe01-2a-18c3f0-a1b2c3d4e5f60718-0")
    add("of the longest id", "ok", two, id="aZ09._:-" * 16)
    add("one line end", "ok", b"\n")
    add("line ends alone", "ok", b"\n\n\n")
    add("a carriage return before the line end", "ok", b'{"a":1}\r\n')
    add("bytes that are no UTF-8", "ok", bytes(range(256)).replace(b"\n", b"") + b"\n")
    add("a last line without its line end", "ok", b'{"a":1}\n{"b"')
    add("one byte without a line end", "ok", b"x")
    add("a long line that compresses well", "ok", zeros)

    add("a flipped bit in the checksum", "checksum", two, crc=0xaf4ef970 ^ 1)
    add("a flipped bit in the payload", "checksum", two, bytes([*good[:9], good[9] ^ 4, *good[10:]]), crc=0xaf4ef970)
    add("another offset than the checksum covers", "checksum", two, offset=17, crc=0xaf4ef970)
    add("another stream than the checksum covers", "checksum", two, id=ID[:-1] + "2", crc=0xaf4ef970)
    add("another line count than the checksum covers", "checksum", two, lines=1, crc=0xaf4ef970)
    add("another length than the checksum covers", "checksum", two, raw=15, crc=0xaf4ef970)
    add("a checksum that covers the number", "checksum", two, covered="1 0 16 2 24\n")
    add("a checksum that covers no line end", "checksum", two, covered=f"{ID} 0 16 2 24")
    add("a checksum of the payload alone", "checksum", two, crc=zlib.crc32(good))
    add("a checksum of the raw bytes", "checksum", two, crc=zlib.crc32(two))
    add("an Adler-32", "checksum", two, crc=zlib.adler32(two))

    add("a payload that is not compressed", "payload-corrupt", two, two)
    add("deflate without zlib's header", "payload-corrupt", two, bare)
    add("gzip", "payload-corrupt", two, zipped)
    add("a preset dictionary", "payload-corrupt", two, preset)
    add("a wrong Adler-32", "payload-corrupt", two, good[:-4] + struct.pack(">I", zlib.adler32(two) ^ 1))
    add("zeros", "payload-corrupt", two, bytes(24))
    add("a broken block", "payload-corrupt", two, good[:2] + b"\xff" + good[3:])
    add("a payload without its Adler-32", "payload-truncated", two, good[:-4])
    add("a payload without its last byte", "payload-truncated", two, good[:-1])
    add("half a payload", "payload-truncated", two, good[:12])
    add("a zlib header alone", "payload-truncated", two, good[:2])
    add("one byte", "payload-truncated", two, good[:1])
    add("one byte more than declared", "payload-too-long", two, zlib.compress(two + b"\n", 9), raw=16, lines=2)
    add("a bomb", "payload-too-long", two, zlib.compress(bytes(1 << 20), 9))
    add("one byte less than declared", "payload-too-short", two + b"\n", good)
    add("nothing inside", "payload-too-short", two, zlib.compress(b"", 9))
    add("a byte behind the payload", "payload-trailing-bytes", two, good + b"\n")
    add("a second payload behind the first", "payload-trailing-bytes", two, good + good)
    add("one line too few", "line-count", two, lines=1)
    add("one line too many", "line-count", two, lines=3)
    add("a last line without its line end, not counted", "line-count", b'{"a":1}\n{"b"', lines=1)
    add("a last line without its line end, counted twice", "line-count", b'{"a":1}\n{"b"', lines=3)
    add("more than any payload can hold", "ratio", two, raw=24 * 1032 + 1033)
    write("batches.ndjson", rows)


good()
bad()
journal()
proofs()
batches()
