#!/usr/bin/env python3
"""Writes Protocol/vectors/ingest: requests of SDKs, with the lines and faults that they become.

    Tools/ingest_vectors.py             writes the files
    Tools/ingest_vectors.py --check     exit code 1: a file differs

The lines come from waybill_peer/ingest.py, which shares no code with the Swift sources. Run it in the repository's root; its
output is kept under version control.
"""

import base64
import gzip
import json
import pathlib
import sys
import urllib.parse
import zlib

from waybill_peer import ingest

FOLDER = pathlib.Path("Protocol/vectors/ingest")
KEY, BUNDLE, ENV = "wk_test0001", "com.example.shop", "prod"
RECEIVED_AT = 1_795_165_200_000  # 2026-11-20T09:00:00Z
WRITER = "019aa0b4-7a80-7c3e-9f21-5d0c8b1e4f60"
UUID = "0199a1b2-c3d4-7e5f-8a6b-7c8d9e0f1a2b"
SESSION = "0199a1b2-c3d4-7e5f-8a6b-7c8d9e0f1a2c"
AGENT = "Mozilla/5.0 (X11) é"
ADDRESSES = ["192.0.2.9:5678", "[2001:db8::7]:443", "[2001:db8::8]", "::ffff:192.0.2.7", "[::ffff:192.0.2.8]:1", "192.0.2.9:",
             "192.0.2.9:65536", "192.0.2.9:x", "[2001:db8::7", "[192.0.2.1]:80", "fe80::1%eth0", "<script>", "unknown", "192.0.2.01",
             " 192.0.2.1", "2001:db8:0:0:0:0:0:0"]
DEEP = "[" * 58 + "1" + "]" * 58
TOO_DEEP = "[" * 64 + "]" * 64


def text(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


class Rows:
    """The rows of one dialect."""

    def __init__(self, method, path):
        self.method, self.path, self.rows = method, path, []

    def add(self, name, body="", *, method=None, path=None, query="", headers=None, addresses="drop", address="192.0.2.33",
            agent=AGENT, seed=1):
        body = body.encode() if isinstance(body, str) else body
        headers = headers or {}
        context = ingest.Context(
            ingest.Source(KEY, BUNDLE, ENV, addresses), RECEIVED_AT, ingest.kept_address(addresses, address), agent,
            ingest.Random(seed))
        method = method or self.method
        row = {"name": name, "method": method, "path": path or self.path, "query": query, "headers": headers,
               **shown("body", body), "address": address, "addresses": addresses, "user_agent": agent, "seed": seed}
        try:
            reading = ingest.read(method, row["path"], query, headers, body, context)
            row["key"] = reading.key
            row["lines"] = [line(id, number, reading.dialect, rest) for id, number, rest in reading.lines]
            row["faults"] = [{"reason": reason, **shown("event", raw)} for reason, raw in reading.faults]
            if reading.remarks:
                row["remarks"] = reading.remarks
        except ingest.Refused as refused:
            row["refused"] = str(refused)
        self.rows.append(row)

    def batch(self, name, key, events_name, *events, tail="", **options):
        """A list of events; one that is a text stands there as it is."""
        body = ",".join(event if isinstance(event, str) else text(event) for event in events)
        self.add(name, f'{{"{key}":"{KEY}","{events_name}":[{body}]{tail}}}', **options)


def shown(name, data):
    """Bytes as text where they are text."""
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data).decode()}


def line(id, number, dialect, rest):
    return f'{{"v":1,"id":"{id}","writer":"{WRITER}","seq":{number},"via":"{dialect}"' + rest.decode().removesuffix("\n")


def compressed(data):
    """Gzip without a time or a name."""
    return gzip.compress(data.encode() if isinstance(data, str) else data, mtime=0)


def raw_deflated(data):
    stream = zlib.compressobj(9, zlib.DEFLATED, -15)
    return stream.compress(data.encode()) + stream.flush()


def wrappings(rows, body):
    """One body in everything that it may be wrapped into."""
    form = urllib.parse.urlencode({"data": base64.b64encode(body.encode()).decode()})
    rows.add("gzip", compressed(body), headers={"Content-Encoding": "gzip"})
    rows.add("gzip that no header names", compressed(body), headers={"Content-Type": "text/plain"})
    rows.add("two members of gzip", compressed(body[:9]) + compressed(body[9:]), headers={"Content-Encoding": "gzip"})
    rows.add("zlib", zlib.compress(body.encode()), headers={"Content-Encoding": "deflate"})
    rows.add("deflate without a head", raw_deflated(body), headers={"Content-Encoding": "deflate"})
    rows.add("gzip that ends too soon", compressed(body)[:-9], headers={"Content-Encoding": "gzip"})
    rows.add("gzip that is damaged", compressed(body)[:-6] + b"\0" * 6, headers={"Content-Encoding": "gzip"})
    rows.add("an encoding that is not known", body, headers={"Content-Encoding": "br"})
    rows.add("a body that says gzip and is none", body, headers={"Content-Encoding": "gzip"})
    rows.add("base64", base64.b64encode(body.encode()))
    rows.add("base64 of addresses, without padding", base64.urlsafe_b64encode(body.encode()).rstrip(b"="))
    rows.add("base64 on two lines", base64.encodebytes(body.encode()))
    rows.add("a form", form, headers={"Content-Type": "application/x-www-form-urlencoded"})
    rows.add("a form with other members", "ip=1&data=" + urllib.parse.quote(body) + "&verbose=1")
    rows.add("a form whose plus signs are blanks", "data=" + base64.b64encode(body.encode()).decode())
    rows.add("a form in gzip", compressed(form))
    rows.add("a byte order mark", "\ufeff" + body)
    rows.add("white space around it", " \r\n\t" + body + "\n ")


def refusals(rows, good):
    """Bodies of which no event can be told from another."""
    for name, body in {
            "no body": "", "white space": " \n", "a word": "nonsense", "a number": "7", "null": "null", "a text": '"a"',
            "a brace": "{", "a body that ends too soon": good[:-1], "a body with more behind it": good + "x",
            "a bracket that closes nothing": good[:-1] + "]}", "a byte order mark alone": "\ufeff"}.items():
        rows.add(name, body)
    rows.add("a key that is no JSON", b'{"\xff":1}')
    rows.add("nested too deep as a whole", '{"a":' * 70 + "1" + "}" * 70)


def keys(rows, body):
    rows.add("the key in the query", body, query=f"writeKey={KEY}")
    rows.add("the key in the query by other names, the first one counts", body, query=f"api_key=b&x&key={KEY}&key=c")
    rows.add("the key in a header", body, headers={"Authorization": "Basic " + base64.b64encode(f"{KEY}:".encode()).decode()})
    rows.add("the key as a bearer", body, headers={"authorization": f"Bearer {KEY}"})
    rows.add("a header that names no key", body, headers={"Authorization": "Basic !"})
    rows.add("the query before the header", body, query="key=%77k_test0001", headers={"Authorization": "Bearer other"})


def segment():
    rows = Rows("POST", "/v1/b")

    def batch(name, *events, **options):
        rows.batch(name, "writeKey", "batch", *events, **options)

    def event(**members):
        return {"type": "track", "event": "bought", "messageId": "m-1", "userId": "u-1", **members}

    context = {"app": {"name": "Shop", "version": "1.4.2", "build": 118}, "os": {"name": "iOS", "version": "17.0"},
               "device": {"model": "iPhone16,2", "type": "ios"}, "locale": "ko-KR", "ip": "198.51.100.7",
               "library": {"name": "analytics.js", "version": "2.1"}, "userAgent": "Safari/605",
               "page": {"path": "/cart", "title": "Cart"}, "campaign": {"name": "x"}, "timezone": "Asia/Seoul"}
    batch("a track call", event(messageId=UUID, anonymousId="a-1", timestamp="2026-11-20T08:59:59.000Z",
                                properties={"b": 1, "a": [2, {"c": None}], "text": "토 \"x\" \\ / \u2028"}, context=context))
    batch("an id in capitals", event(messageId=UUID.upper()))
    batch("an id that is no UUID, one that is a number, one that is empty", event(messageId="가 1"), event(messageId=17),
          event(messageId=1.50), event(messageId=""), event(messageId=None), event(messageId=[1]))
    batch("no message id", {"type": "track", "event": "a", "userId": "u"}, {"type": "track", "event": "b", "userId": "u"},
          seed=2**64 - 1)
    batch("numbers as ids of people", event(userId=7, anonymousId=-1.5e3), event(userId=10**30))
    batch("people without an id", event(userId=""), event(userId=None, anonymousId=""), event(userId=True),
          event(userId=[], anonymousId="a"))
    batch("a user's id at its limit and beyond", event(userId="u" * 256), event(userId="u" * 257), event(userId="토" * 86),
          '{"type":"track","event":"e","userId":"' + "\\u0041" * 256 + '"}', event(userId=int("1" * 256)),
          event(userId=int("1" * 257)))
    batch("an event's name at its limit and beyond", event(event="n" * 255), event(event="n" * 256), event(event="토" * 85),
          event(event="토" * 86), event(event=""), event(event=7), event(event=None))
    batch("escapes stay as they came", '{"type":"track","event":"\\u00e9\\/\\ud83d\\uded2","userId":"\\u0075"}',
          '{"t\\u0079pe":"track","event":"e","userId":"u","properties":{"\\u0061":"\\t"}}')
    batch("surrogates without a partner", '{"type":"track","event":"\\ud800","messageId":"\\udc00x","userId":"\\ud83dx"}')
    batch("a zero character", '{"type":"track","event":"a\\u0000b","userId":"u","messageId":"\\u0000"}')
    batch("numbers that are not floats", '{"type":"track","event":"e","userId":"u","properties":'
          '{"a":1e999999,"b":-0,"c":12345678901234567890123,"d":1.10,"e":1E-7}}')
    batch("keys twice: the first counts for the line, both stay in the fields",
          '{"type":"track","type":"page","event":"e","event":"f","userId":"u","userId":"v","properties":{"a":1,"a":2}}')
    batch("white space in a value", '{"type":"track","event":"e","userId":"u","properties":{"x":[\r\n{"v":1,\n"a" : 2}\t]}}')
    batch("properties that PHP makes", event(properties=[], context=[]), event(properties=None), event(properties={}))
    batch("properties that are none", event(properties="x"), event(properties=[1]), event(properties=0))
    batch("fields called context", event(properties={"context": 1}, context=context), addresses="keep")
    batch("identify", event(type="identify", traits={"plan": "pro", "old": None, "address": {"city": "서울"}}, context=context),
          event(type="identify", traits=None), event(type="identify", traits=[]), event(type="identify"),
          event(type="identify", traits={"": 1, "a": [1, [2]]}))
    batch("traits that are none", event(type="identify", traits=3), event(type="identify", traits=["x"]),
          event(type="group", groupId="g", traits="x"))
    batch("pages and screens", event(type="page", name="Cart", category="shop", properties={"path": "/c", "category": "other"}),
          event(type="page", properties={"name": "N", "path": "/p"}), event(type="page", properties={"path": "/p"}),
          event(type="page", properties={"title": "T"}, context={"page": {"path": "/from-context"}}),
          event(type="page", context={"page": {"title": "T"}}), event(type="screen"), event(type="screen", name="", category=""))
    batch("groups", event(type="group", groupId="g-1", traits={"size": 3, "group_id": "other"}), event(type="group", groupId=5),
          event(type="group"))
    batch("aliases", event(type="alias", previousId="a-1"), event(type="alias", previousId=9), event(type="alias"))
    batch("types", event(type="dance"), event(type=None), event(type=["track"]), {"event": "e", "userId": "u"}, event(batch=[event()]))
    batch("integrations", event(integrations={"All": True, "Mixpanel": False, "Nowhere": False, "Amplitude": True}),
          event(integrations={"All": False, "Mixpanel": True, "Google Analytics 4": {"x": 1}, "PostHog": False}),
          event(integrations={"all": False}), event(integrations={"Segment.io": False, "Actions Amplitude": False}),
          event(integrations=[]), event(integrations={}))
    batch("context", event(context={"app": "Shop", "os": {}, "device": {"model": "m"}, "locale": 7, "userAgent": ""}),
          event(context={"app": {"version": "", "build": 1.5}, "os": {"name": "", "version": 17}}), event(context="x"),
          event(context={"x\ny": {"deep": [[1]]}}))
    batch("a browser's name for itself is cut", event(context={"userAgent": "a" * 511 + "é" * 3}),
          '{"type":"track","event":"e","userId":"u","context":{"userAgent":"\\u0041' + "b" * 511 + '"}}')
    batch("no browser", event(), event(context={"x": 1}), agent=None)
    for policy in ("drop", "truncate", "keep"):
        batch(f"addresses: {policy}", event(), event(context={"ip": "203.0.113.250"}), event(context={"ip": "2001:db8::1"}),
              event(context={"ip": "no address"}), event(context={"ip": ""}), event(context={"ip": "::ffff:1:2:3:4:5"}),
              event(context={"ip": "1.2.3.256"}), event(context={"ip": "2001:DB8:a:b:c:d:e:f"}),
              *[event(context={"ip": ip}) for ip in ADDRESSES], addresses=policy)
    batch("no address of the peer", event(), address=None, addresses="keep")
    for name, sent_at, library in (
            ("a clock an hour behind", "2026-11-20T08:00:00.000Z", "x"), ("a clock a second behind", "2026-11-20T08:59:59Z", "x"),
            ("two seconds are noise", "2026-11-20T08:59:58.000Z", "x"), ("a little more is none", "2026-11-20T08:59:57.999Z", "x"),
            ("a clock an hour ahead", "2026-11-20T10:00:00.000Z", "x"), ("another zone", "2026-11-20T18:00:00+09:00", "x"),
            ("Swift, behind: an hour without a network", "2026-11-20T08:00:00.000Z", "analytics-swift"),
            ("Kotlin, behind", "2026-11-20T08:00:00.000Z", "analytics-kotlin"),
            ("C#, ahead", "2026-11-20T10:00:00.000Z", "Analytics-CSharp"), ("a wrong time of sending", "yesterday", "x"),
            ("a time of sending of no use", 17, "x")):
        batch(name, event(timestamp="2026-11-20T07:59:00.123Z", context={"library": {"name": library}}), event(),
              tail=f',"sentAt":{text(sent_at)}')
    for name, time, sent_at in (
            ("a flat battery: the clock is at 1970", "1970-01-01T00:04:00.000Z", "1970-01-01T00:05:00.000Z"),
            ("a clock that is a hundred years ahead", 4_950_838_740_000, "2126-11-20T09:00:00Z"),
            ("a clock at 1970 that was set before it sent", "1970-01-01T00:04:00.000Z", "2026-11-20T08:59:59Z"),
            ("a clock at 1970 and no time of sending", "1970-01-01T00:04:00.000Z", "never"),
            ("a clock at 1970 in a zone of its own", "1969-12-31T15:04:00.000Z", "1969-12-31T15:05:00Z"),
            ("a clock at 1970 that counts, three weeks after", 1_814_400_000, "1970-01-22T00:01:00Z"),
            ("a clock that reaches 2100 before it sends", "2099-12-31T23:55:00Z", "2100-01-01T00:05:00Z"),
            ("a clock that lost its time before it sent", "2026-11-20T08:59:00Z", "1970-01-01T00:05:00Z"),
            ("a clock that went to 2126 before it sent", "2026-11-20T08:59:00Z", "2126-11-20T09:00:00Z"),
            ("the times of a clock that is never set", "0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z"),
            ("times before 1970", -1, "1970-01-01T00:05:00.000Z")):
        batch(name, event(timestamp=time), event(timestamp=time, context={"library": {"name": "analytics-swift"}}), event(),
              tail=f',"sentAt":{text(sent_at)}')
    batch("an event's own time of sending", event(timestamp="2026-11-20T07:00:00Z", sentAt="2026-11-20T08:00:00Z"),
          tail=',"sentAt":"2026-11-20T09:00:00Z"')
    batch("the original time before the other one", event(originalTimestamp="2026-11-20T07:00:00Z", timestamp="2026-11-20T08:00:00Z"))
    batch("times", *(event(timestamp=time) for time in (
        "2026-11-20T09:00:00.987654321+09:30", "2026-11-20 09:00:00Z", "2026-11-20t09:00:00z", "2026-11-20T09:00:60Z",
        1795165190000, 1795165190000.75, "1795165190000", "2026-11-20", "2026-02-30T00:00:00Z", "2026-11-20T09:00:00", 1795165190,
        "1999-12-31T23:59:59.999Z", "2000-01-01T00:00:00Z", "2099-12-31T23:59:59.999Z", "2100-01-01T00:00:00Z", True, {}, "", None)))
    batch("times in other forms", *(event(timestamp=time) for time in (
        "2026-11-20", "2026-11-20T08:00", "2026-11-20 08:00", "2026-11-20T08:00Z", "2026-11-20T08:00:00", "2026-11-20 08:00:00.5",
        "2026-11-20T08:00:00,25Z", "2026-11-20T08:00:00+09", "2026-11-20 08:00:00 +0900", "2026-11-20 08:00:00 UTC", "2026-11-20 08:00:00 GMT",
        " 2026-11-20T08:00:00Z\n", "Fri, 20 Nov 2026 08:00:00 GMT", "20 Nov 2026 08:00 -0330", "Fri, 5 Nov 2026 08:00:00 UTC",
        1795161600, "1795161600", 1795161600.123456, "1795161600.5", 1795161600000, "1795161600000.", 946684800, 4102444799, 4102444799.9999,
        "", "  ", "\t")))
    batch("a time whose plus sign is escaped", '{"type":"track","event":"e","userId":"u","timestamp":"2026-11-20T18:00:00.5\\u002B09:00"}')
    batch("times that are none", *(event(timestamp=time) for time in (
        "yesterday", "토" * 40, "2026-02-29", "2026-13-01", "2026-11-20T24:00", "2026-11-20T08:60", "2026-11-20T08:00:61Z", "2026-11-20T08:00:00.Z",
        "2026-11-20T8:00", "2026-11-20T", "2026-11-20Z", "2026-11-20T08:00:00+24:00", "2026-11-20T08:00:00+0960", "2026-11-20T08:00:00  Z",
        "2026-11-20T08:00:00 PST", "11/20/2026", "20.11.2026", "Fri, 32 Nov 2026 08:00:00 GMT", "Friday, 20 Nov 2026 08:00:00 GMT",
        "20 Nov 2026 08:00:00", "Fri Nov 20 2026 08:00:00 GMT", "2026-W47-5", 1795161600000000, 123456789012345, "1.7951616e12", "+1795161600", "--1", "-", ".5",
        946684799, 4102444800, 0, -1795161600, "0000-01-01", "0001-01-01T00:00:00+00:01", "9999-12-31T23:59:59-00:01", "١٧٩٥١٦١٦٠٠",
        True, False, [], {"seconds": [1]}, [1, 2])))
    batch("a time that is none, as JSON on two lines", '{"type":"track","event":"e","userId":"u","timestamp":{"a":\n"\\u0001"}}')
    batch("an original time that is none before another one", event(originalTimestamp="x", timestamp="2026-11-20T08:00:00Z"),
          event(originalTimestamp="", timestamp="2026-11-20T08:00:00Z"))
    batch("ids that could be ours", event(messageId="0199a1b2-c3d4-8e5f-8a6b-7c8d9e0f1a2b"),
          event(messageId="0199A1B2-C3D4-8E5F-BA6B-7C8D9E0F1A2B"), event(messageId="0199a1b2-c3d4-8e5f-ca6b-7c8d9e0f1a2b"),
          event(messageId="0199a1b2-c3d4-9e5f-8a6b-7c8d9e0f1a2b"), event(messageId=f"traits {UUID}"), event(messageId="\0traits"))
    batch("traits in the context", event(type="identify", context={"traits": {"plan": "pro"}, "x": 1}),
          event(type="identify", traits={"a": 1}, context={"traits": {"plan": "pro"}}), event(type="identify", traits={}, context={"traits": {"b": 2}}),
          event(type="identify", traits=None, context={"traits": {"c": 3}}), event(type="identify", context={"traits": "x"}),
          event(context={"traits": {"plan": "pro"}}))
    batch("a time that is none once it is corrected", event(timestamp="2000-01-01T00:00:00Z"), tail=',"sentAt":"2099-01-01T00:00:00Z"')
    batch("one faulty event of each kind, and good ones", 1, event(), {"type": "track", "userId": "u"},
          {"type": "track", "event": "e"}, event(type="dance"), event(timestamp="x"), event(type="identify", traits=3), "{}", "[]",
          event(event="good"), tail=" ")
    batch("events that are texts", '"text"', '""', event(), ' "\\u00e9" ')
    batch("events that are no JSON", '{"x":NaN}', event(), '{"x":Infinity,"y":[-Infinity,{"s":"]}"}]}', "NaN", "undefined", "'a'",
          '{"a":1}{"b":2}', '{"x":"\\x41"}', '{"x":"a\nb"}', '{"x":01}', '{"x":1,}', "[1 2]", TOO_DEEP, event(event="last"))
    batch("what is no JSON beside the events", event(), tail=',"sentAt":NaN,"context":{"a":tru}')
    rows.add("bytes that are no UTF-8 in one event",
             b'{"batch":[{"x":"\xff"},{"type":"track","event":"e","userId":"u","messageId":"m"},{"y":"\xed\xa0\x80"}]}')
    batch("lists that cannot be split", event(), tail=",")
    for name, list_text in {"a comma too many": "[1,,2]", "a comma at the end": "[1,]", "brackets that cross": "[{]}",
                            "a quote that is not closed": '[{"a":"b}]', "an end too soon": '[{"a":NaN}'}.items():
        rows.add(name, f'{{"batch":{list_text}}}')
    batch("nested as deep as it may be", f'{{"type":"track","event":"e","userId":"u","properties":{{"x":{DEEP}}}}}')
    batch("nested too deep", f'{{"type":"track","event":"e","userId":"u","properties":{{"x":{TOO_DEEP}}}}}', event())
    batch("too long", event(properties={"x": "y" * 33_000}), event(properties={"x": "y" * 31_000}))
    batch("an empty batch")
    rows.add("a batch that is no list", '{"batch":{"type":"track"}}')
    rows.add("a list as the body", text([event(), 3]))
    for kind in ("track", "identify", "page", "screen", "group", "alias"):
        for path in (f"/v1/{kind}", f"/v1/{kind[0]}/"):
            rows.add(f"a single call at {path}", text({"writeKey": KEY, "event": "e", "userId": "u", "messageId": "m",
                                                       "sentAt": "2026-11-20T08:00:00Z", "timestamp": "2026-11-20T07:00:00Z"}),
                     path=path)
    rows.add("a single call whose body names another type", text(event(type="page")), path="/v1/t")
    rows.add("a single call that is no JSON", f'{{"writeKey":"{KEY}","type":"track","event":"e","userId":"u","properties":{{"x":NaN}}}}',
             path="/v1/t")
    for depth, name in ((62, "as deep as it may be"), (63, "one level too deep")):
        nested = '{"a":' * depth + "1" + "}" * depth
        rows.add(f"a single call whose context is {name}", f'{{"type":"track","event":"e","userId":"u","context":{nested}}}', path="/v1/t")
    for path in ("/v1/batch", "/v1/import"):
        rows.add(f"a batch at {path}", text({"batch": [event()]}), path=path)
    body = text({"batch": [event(event="토?>", properties={"a": "~~~"})], "writeKey": KEY})
    wrappings(rows, body)
    refusals(rows, body)
    keys(rows, text({"batch": [event()]}))
    rows.add("the key in the events that name one", text({"batch": [{"x": 1}, {"properties": {"token": KEY}}, {"token": KEY}]}))
    rows.add("events with several keys", text({"batch": [{"x": 1}, {"properties": {"token": KEY}}, {"token": "other"}]}))
    rows.add("an event with two keys", text({"batch": [{"token": KEY, "api_key": "other"}]}))
    rows.add("two keys of the body", text({"batch": [event()], "writeKey": KEY, "token": "other"}))
    rows.add("a bomb", compressed(" " * (1 << 20)))
    return rows


def posthog():
    rows = Rows("POST", "/batch")

    def batch(name, *events, tail="", **options):
        body = ",".join(event if isinstance(event, str) else text(event) for event in events)
        rows.add(name, f'{{"api_key":"{KEY}","batch":[{body}]{tail}}}', **options)

    def event(properties=None, **members):
        return {"event": "paid", "uuid": UUID, "distinct_id": "u-1", "properties": properties or {}, **members}

    web = {"distinct_id": "d-1", "$device_id": "d-1", "$session_id": SESSION, "$current_url": "https://shop.example.com/a?b",
           "$pathname": "/a", "$os": "Mac OS X", "$os_version": "10.15", "$app_version": "1.4", "$app_build": 118,
           "$device_model": "iPhone16,2", "$locale": "ko-KR", "$raw_user_agent": "Safari/605", "$ip": "203.0.113.250",
           "token": KEY, "$insert_id": "i-1", "$lib": "web", "amount": 3, "$groups": {"company": "c"}}
    rows.add("a list of captures", text([event(web, event="$pageview"), event({**web, "$device_id": "other"}, event="bought")]),
             path="/e", query="compression=base64&ip=1")
    rows.add("one capture", text({"token": KEY, **event(web)}), path="/i/v0/e/")
    rows.add("one capture at another path", text({"api_key": KEY, **event()}), path="/capture/")
    rows.add("a list under data", text({"api_key": KEY, "data": [event(), event(event="second")]}))
    for policy in ("truncate", "keep"):
        batch(f"addresses: {policy}", event(web), event(), event({"$ip": "x"}), addresses=policy)
    batch("people", event(distinct_id="d", properties={"$process_person_profile": False}),
          event({"$is_identified": False, "$anon_distinct_id": "x"}), event({"$device_id": "u-1"}), event({"$device_id": "d-9"}),
          event({"$anon_distinct_id": "a-9", "$device_id": "d-9"}), event(distinct_id=7), event(distinct_id=""),
          event({"distinct_id": "inner"}, distinct_id=None), event({"distinct_id": ""}, distinct_id=None), event(distinct_id=[1]),
          event(distinct_id="u" * 257), event({"$is_identified": False}, distinct_id="u" * 257))
    batch("ids", event(uuid=None, properties={"$insert_id": "i-1"}), event(uuid="", properties={"$insert_id": 17}),
          event(uuid="no uuid"), event(uuid=None), event(uuid=UUID.upper(), properties={"$insert_id": "i-2"}))
    batch("names", event(event=""), event(event=None), event(event="e" * 255), event(event="e" * 256), event(event=3))
    batch("screens", event({"$screen_name": "Home"}, event="$screen"), event({"$pathname": "/p"}, event="$pageview"),
          event({"$current_url": "https://x.example"}, event="$pageview"), event(event="$pageview"))
    batch("identify and set", event({"$anon_distinct_id": "d-1", "$set": {"plan": "pro", "n": None}, "$set_once": {"first": 1, "no": None}},
                                    event="$identify"),
          event({"$set": {"a": 1}, "$unset": ["a", "gone", 3, ""]}, event="$set"), event(event="$identify"),
          {**event(event="$set"), "$set": {"top": 1}, "$set_once": {"t": 2}}, event({"$set": [], "$set_once": "x"}, event="$set"))
    batch("an event that sets traits, too", event({"amount": 3, "$set": {"paid": True}, "$set_once": {"first": 1}}),
          event({"$unset": ["x"]}), event({"$set": {}}), event({"$set": 3}), event({"$unset": "x"}),
          event({"$set": {"a": 1}}, uuid=None, timestamp="2026-11-20T08:00:00Z"), tail=',"sent_at":"2026-11-20T08:30:00Z"')
    batch("groups are nobody", event({"$group_type": "company", "$group_key": "acme", "$group_set": {"n": 5}, "$set": {"a": 1}},
                                     event="$groupidentify", distinct_id="$company_acme"),
          event({"$group_key": 7, "$is_identified": False, "distinct_id": "d", "group_id": "own"}, event="$groupidentify", distinct_id=None),
          event(event="$groupidentify"), event(event="$groupidentify", distinct_id=None))
    batch("aliases", event({"distinct_id": "old-anon", "alias": "u-1"}, event="$create_alias", distinct_id="old-anon"),
          event({"alias": 9, "$device_id": "d", "$is_identified": False, "previous_id": "own"}, event="$create_alias", distinct_id="d"),
          event(event="$create_alias"), event({"alias": ""}, event="$create_alias"), event({"alias": "u" * 257}, event="$create_alias"))
    batch("traits that are set once", event({"$set_once": {"first": 1}}, event="$set_once"))
    batch("times in other forms", event(timestamp="2026-11-20"), event(timestamp=1795161600), event(timestamp="now", offset=5000),
          event({"$set": {"a": 1}}, timestamp="now"), event(timestamp="", offset=5000), event({"$set": {"x": "y" * 33_000}}, timestamp="now"),
          event({"$ignore_sent_at": True}, timestamp="1970-01-01T00:04:00Z"), event(timestamp="1970-01-01T00:04:00Z"),
          tail=',"sent_at":"1970-01-01T00:05:00Z"')
    capture = base64.b64encode(text(event({"token": KEY})).encode()).decode()
    for path in ("/e/", "/capture", "/i/v0/e"):
        rows.add(f"a capture in the query at {path}", method="GET", path=path, query=urllib.parse.urlencode({"data": capture, "ip": 1}))
    rows.add("a capture in the query of a body that is empty", path="/e", query="data=" + urllib.parse.quote(text(event())))
    rows.add("a query without a capture", method="GET", path="/e", query="ip=1")
    rows.add("no capture", method="GET", path="/e")
    batch("an event whose traits are too long is a fault as a whole", event({"amount": 3, "$set": {"x": "y" * 33_000}}), event())
    batch("sessions", event({"$session_id": SESSION.upper()}), event({"$session_id": "no uuid"}), event({"$session_id": UUID[:14] + "4" + UUID[15:]}))
    for name, tail in (("a clock behind", ',"sent_at":"2026-11-20T08:00:00Z"'), ("a clock ahead", ',"sentAt":"2026-11-20T10:00:00+00:00"'),
                       ("a clock that is right", ',"sent_at":"2026-11-20T08:59:59Z"'), ("no time of sending", ',"sent_at":"x"')):
        batch(name, event(timestamp="2026-11-20T07:00:00.5Z"), event({"$ignore_sent_at": True}, timestamp="2026-11-20T07:00:00Z"),
              event(), tail=tail)
    batch("offsets", event(offset=5000), event(offset="1500"), event(offset=-1), event(offset=2_592_000_001), event(offset=1.5),
          event(offset=None), event(offset=5000, timestamp="2026-11-20T07:00:00Z"))
    batch("faults", 1, event(timestamp="x"), event(properties="x"), event(properties=[1]), "null", event(timestamp=946684799999))
    batch("events that are texts", '"text"', '""', event(), "NaN")
    batch("properties that PHP makes", '{"event":"e","distinct_id":"d","properties":[],"uuid":"u"}')
    batch("events that are no JSON", '{"event":"a","properties":{"x":NaN}}', event(), "NaN", '{"x":"\t"}')
    rows.add("a list with an event that is no JSON", f'[{{"x":NaN}},{text(event(web))}, Infinity]', path="/e")
    batch("a browser's name for itself is cut", event({"$raw_user_agent": "a" * 510 + "토"}))
    batch("fields called context", event({"context": {"a": 1}}), addresses="keep")
    batch("surrogates and keys twice", '{"event":"\\ud800","distinct_id":"a","distinct_id":"b","uuid":"u","properties":{"k":1,"k":2,"\\u0024os":"x"}}')
    batch("an empty batch")
    rows.add("an empty list", "[]", path="/e")
    rows.add("batch and data that are no lists", text({"batch": 1, "data": 2, **event()}))
    rows.add("nested batches", text({"batch": [{"batch": [event()]}]}))
    rows.add("Amplitude's body at the same path", text({"api_key": KEY, "events": [{"event_type": "e", "user_id": "u"}]}))
    wrappings(rows, text({"api_key": KEY, "batch": [event({"a": "토?>~"})]}))
    refusals(rows, text([event()]))
    keys(rows, text([event()]))
    rows.add("the key in an event's properties", text([event(), event({"token": KEY})]), path="/e")
    rows.add("a list of events with several keys", text([event({"token": KEY}), event({"token": "other"})]), path="/e")
    field = [event({"token": "of a door", "api_key": "x"}), event({"token": "of another door"})]
    rows.add("fields that are called as keys, and the body's key at its end", text({"batch": field, "api_key": KEY}))
    rows.add("fields that are called as keys beside keys of events",
             text({"batch": [{**item, "api_key": KEY} for item in field]}))
    rows.add("Mixpanel's form", urllib.parse.urlencode(
        {"verbose": 1, "data": text([event({"token": KEY, "a": "토"})]), "ip": 1}), path="/e")
    return rows


def amplitude():
    rows = Rows("POST", "/2/httpapi")

    def batch(name, *events, **options):
        rows.batch(name, "api_key", "events", *events, **options)

    def event(**members):
        return {"event_type": "paid", "insert_id": "i-1", "user_id": "u-1", "device_id": "d-1", **members}

    full = event(time=1795165190000, app_version="1.4.2", platform="iOS", os_name="ios", os_version="17.0", device_model="iPhone16,2",
                 language="ko", ip="203.0.113.250", session_id=1795165180000, user_agent="Amplitude/1", carrier="c", price=9.5,
                 groups={"company": ["a", "b"]}, event_properties={"a": 1, "토": [True]})
    batch("an event", full)
    for policy in ("truncate", "keep"):
        batch(f"addresses: {policy}", full, event(ip="$remote"), event(), event(ip="x"), event(ip=5), addresses=policy)
    batch("people", event(user_id=None), event(device_id=""), event(user_id=None, device_id=None), event(user_id=5, device_id=6.5),
          event(user_id="u" * 257), event(user_id=None, device_id="d" * 300), event(user_id="", device_id=[1]))
    batch("ids", event(insert_id=UUID), event(insert_id=5), event(insert_id=None), event(insert_id=""))
    batch("names", event(event_type=""), event(event_type=None), event(event_type="e" * 255), event(event_type="e" * 256))
    batch("platform without a system", event(platform="Web"))
    batch("identify", event(event_type="$identify", user_properties={"plain": 1, "$add": {"n": 2}}),
          event(event_type="$identify", user_properties={"$set": {"a": 1, "b": None}, "$setOnce": {"c": 2, "d": None}, "$unset": {"a": "-", "e": "-"},
                                                         "$append": {"f": 1}, "$clearAll": "-"}),
          event(event_type="$identify"), event(event_type="$identify", user_properties={}),
          event(event_type="$identify", user_properties={"plain": 1, "$unset": {"plain": "-", "other": "-"}}))
    batch("an event that sets traits, too", event(user_properties={"$set": {"x": 1}, "$add": {"n": -2.5}}, time=1795165190000),
          event(user_properties={}), event(user_properties=[]), event(user_properties=None),
          tail=',"client_upload_time":"2026-11-20T08:30:00.000Z"')
    batch("operations that have no place", event(event_type="$identify", user_properties={"$clearAll": "-"}),
          event(event_type="$identify", user_properties={"$set": {"a": 1}, "$append": {"l": 1}, "$prepend": {"l": 2}, "$preInsert": {"l": 3},
                                                         "$postInsert": {"l": 4}, "$remove": {"l": 5}}),
          event(user_properties={"plain": 1, "$remove": {"l": 5}}), event(user_properties={"$append": {"l": 1}}, time="now"))
    group = {"groups": {"org": "acme"}, "group_properties": {"$set": {"x": 1}}}
    batch("groups are nobody", {"event_type": "$groupidentify", **group},
          event(event_type="$groupidentify", user_properties={"$set": {"a": 1}, "$clearAll": "-"}, event_properties={"e": 1}, **group))
    batch("a clock at 1970", event(time=240_000), event(time=1_814_400_000), event(time="1970-01-01T00:04:00Z", user_properties={"a": 1}),
          tail=',"client_upload_time":"1970-01-22T00:01:00.000Z"')
    batch("traits that are none", event(event_type="$identify", user_properties="x"), event(user_properties=3),
          event(user_properties={"$add": {"n": "2"}}), event(event_type="$identify", user_properties={"$add": {"n": None}}),
          event(user_properties={"$set": 3, "$add": [], "$unset": ["x"]}))
    batch("properties that are none", event(event_properties="x"), event(event_properties=[]), event(event_properties=[1]))
    batch("fields called context", event(event_properties={"context": 1}, carrier="c"))
    for name, tail in (("a clock behind", ',"client_upload_time":"2026-11-20T08:00:00Z"'), ("a clock ahead", ',"client_upload_time":1795168800000'),
                       ("no time of sending", ',"client_upload_time":"x"')):
        batch(name, event(time=1795161540123), event(), tail=tail)
    batch("times", event(time=1795165190000.5), event(time="1795165190000"), event(time=1795165190), event(time=1.7e300), event(time="x"), event(time=None),
          '{"event_type":"e","user_id":"u","time":1.795165190e12}')
    batch("faults", 1, "null", '""', '"text"', event(event_type=None), event(user_id=None, device_id=None))
    batch("events that are no JSON", '{"event_properties":{"x":NaN}}', event(), "-Infinity")
    batch("a name for itself that is too long", event(user_agent="é" * 257))
    batch("keys twice", '{"event_type":"a","event_type":"b","user_id":"u","user_id":"v","insert_id":"i","event_properties":{"k":1,"k":2}}')
    batch("too long", event(event_properties={"x": "y" * 33_000}), event(user_properties={"x": "y" * 33_000}), event())
    batch("an empty batch")
    rows.add("no events", text({"api_key": KEY}))
    rows.add("events that are no list", text({"api_key": KEY, "events": event()}))
    rows.add("a list", text([event()]))
    wrappings(rows, text({"api_key": KEY, "events": [event(event_properties={"a": "토?>~"})]}))
    refusals(rows, text({"events": [event()]}))
    keys(rows, text({"events": [event()]}))
    return rows


def native():
    rows = Rows("POST", "/v1/events")

    def lines(name, *events, **options):
        rows.add(name, "".join((event if isinstance(event, str) else text(event)) + "\n" for event in events),
                 query=f"key={KEY}", **options)

    def event(**members):
        return {"name": "bought", "id": UUID, "user": "u-1", **members}

    lines("an event", event(ts="2026-11-20T18:00:00.5+09:00", kind="action", data={"b": 1, "a": {"deep": [{"er": [1]}]}}, anon="a", log="1.10"))
    lines("the least", {"name": "e"}, {"name": "f"})
    lines("what the key and the host decide", event(
        v=1, writer="w", seq=7, via="segment", env="dev", bundle="evil", up=1, dt=2), event(v=2), event(v="1"), event(v=None))
    lines("every member", {
        "v": 1, "id": UUID, "ts": "2026-11-20T08:00:00.000Z", "ts_client": "2026-11-20T07:00:00.000Z", "kind": "screen", "name": "screen_view",
        "screen": "", "screen_class": "C", "screen_id": "1", "prev": "P", "prev_ms": 2**53 - 1, "session": SESSION, "session_n": 0, "user": "u",
        "anon": "a", "ids": {"ga4": "x"}, "app": "1", "build": "2", "os": "iOS", "os_version": "", "model": "", "lang": "ko", "country": "KR",
        "user_agent": "x", "tz": -1440, "log": "1", "data": {}, "providers": [], "overrides": {"ga4": {"skip": True}, "csv": {"name": "n", "data": {"a": 1}}},
        "consent": {"analytics": True, "ads": False, "other": True}, "sample_rate": 0.5, "unknown": [1], "up": 5})
    lines("a user event", event(kind="user", traits={"a": None, "b": [1]}, traits_once={"c": 1}, traits_add={"n": 1.5}))
    lines("members that are null are not there", event(user=None, anon=None, data=None, kind=None, ts=None, traits=None, unknown=None))
    lines("numbers as ids of people", event(user=17, anon=-1.5))
    lines("times in other forms", event(ts="2026-11-20 08:00"), event(ts=1795161600), event(ts="now", ts_client="2026-11-20T07:00:00.000Z"),
          event(ts=""), event(ts="1970-01-01T00:00:00Z", ts_client=5), event(ts="now", data={"x": "y" * 33_000}), event(ts_client="토" * 21))
    bad = {"user": ["", "u" * 257, [], True, int("1" * 257)], "anon": ["", {}], "session": [UUID[:14] + "4" + UUID[15:], SESSION.upper(), 5],
           "ids": [{"ga4": 5}, []], "app": ["", 1], "os": [""], "log": [1.1], "screen": [5], "lang": [False], "country": ["kr", "KOR"],
           "user_agent": ["é" * 257], "tz": [1441, 1.5, "540"], "prev_ms": [-1, 2**53], "session_n": [1e3, "1"], "data": [[], "x"],
           "providers": ["ga4", [""], [5]], "overrides": [{"ga4": {}}, {"ga4": {"skip": False}}, {"ga4": {"other": 1}}, {"ga4": 1}, {"ga4": {"name": ""}}, []],
           "consent": [{"analytics": True}, {"analytics": True, "ads": "no"}], "sample_rate": [0, 1.5, "1", -1], "kind": ["click", 5, "Event"],
           "ts_client": ["토" * 22, 5], "ts": ["yesterday", 17, True], "name": ["", 5, "n" * 256]}
    for member, values in bad.items():
        lines(f"{member} that is none", *(event(**{member: value}) for value in values), event())
    lines("traits that are none", event(traits=[]), event(traits_once={"a": None}), event(traits_add={"a": "1"}), event(kind="user"),
          event(kind="user", traits=None))
    lines("kinds that lack something", event(kind="screen"), event(kind="meta"), event(kind="meta", name="wb.x"))
    lines("keys twice", '{"name":"a","name":"b","user":"u","user":5,"data":{"k":1,"k":2},"data":3,"user":null,"id":"x","\\u0075ser":"w","other":1,"other":2}',
          '{"user":null,"name":"a","user":"second"}')
    lines("lines that are no events", "nonsense", "[1]", "{}", "7", '{"name":"a","data":{"x":NaN}}', '{"name":"a"', event(), '{"name":"a"} {"name":"b"}')
    lines("nested", f'{{"name":"e","data":{{"x":{DEEP}}}}}', f'{{"name":"e","data":{{"x":{TOO_DEEP}}}}}')
    lines("surrogates and escapes", '{"name":"\\ud800\\u00e9","user":"\\u0041","id":"\\udc00"}')
    lines("too long", event(data={"x": "y" * 33_000}), event(data={"x": "y" * 31_000}))
    rows.add("empty lines, carriage returns and marks", '\ufeff{"name":"a","id":"1"}\r\n\n \t\r\n\ufeff{"name":"b","id":"2"}\n{"name":"c","id":"3"}', query=f"key={KEY}")
    rows.add("bytes that are no UTF-8", b'{"name":"\xff"}\n{"name":"a","id":"1"}\n\xef\xbb\xbf', query=f"key={KEY}")
    rows.add("no body", "", query=f"key={KEY}")
    rows.add("gzip", compressed(text(event()) + "\n" + text(event(id="2"))), headers={"Content-Encoding": "gzip"}, query=f"key={KEY}")
    rows.add("base64 is no event", base64.b64encode(text(event()).encode()), query=f"key={KEY}")
    keys(rows, text(event()))
    rows.add("no key", text({"writeKey": KEY, **event()}))
    return rows


def pixel():
    rows = Rows("GET", "/v1/pixel.gif")
    for name, query in {
            "an event": f"key={KEY}&event=mail_opened&id=mail-7&user=u-1&anon=a-1&ts=2026-11-20T08:00:00Z&campaign=a%20b+c",
            "nobody": f"writeKey={KEY}&event=open", "an id alone": f"api_key={KEY}&event=open&id={UUID}", "no event": f"key={KEY}&id=1",
            "names twice": "event=a&event=b&x=1&x=2&user=u&user=v", "escapes that are none": "event=%zz%&x=%E2%82&y=%e2%82%ac&%00=%22",
            "parts without a value": "event=a&b&c=&=d&&=", "too many": "event=a&" + "&".join(f"p{number}={number}" for number in range(80)),
            "a time of milliseconds": "event=a&ts=1795165190000", "a time that is none": "event=a&ts=now", "no query": "",
            "a name that is too long": "event=" + "n" * 256, "a field called context": "event=a&context=c"}.items():
        rows.add(name, query=query)
    for policy in ("truncate", "keep"):
        rows.add(f"addresses: {policy}", query="event=a&user=u", addresses=policy, address="2001:db8:1:2::3")
        rows.add(f"addresses of version 4 in version 6: {policy}", query="event=a&user=u", addresses=policy, address="::ffff:192.0.2.33")
    rows.add("a field called token is no key", query="event=a&token=wk_other001")
    return rows


DIALECTS = {"segment": segment, "posthog": posthog, "amplitude": amplitude, "native": native, "pixel": pixel}


def files():
    """The text of each file, by its name."""
    made = {}
    for dialect, rows in DIALECTS.items():
        rows = rows().rows
        names = [row["name"] for row in rows]
        assert len(set(names)) == len(names), [name for name in names if names.count(name) > 1]
        made[f"{dialect}.ndjson"] = "".join(json.dumps(row, ensure_ascii=True) + "\n" for row in rows)
    return made


def main():
    different = 0
    for name, content in files().items():
        path = FOLDER / name
        if "--check" in sys.argv:
            if path.read_text(encoding="ascii") != content:
                print(f"{path} differs: run Tools/ingest_vectors.py")
                different = 1
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="ascii")
        print(f"{path}: {content.count(chr(10))} requests")
    return different


if __name__ == "__main__":
    sys.exit(main())
