"""A table of hard cases: events at the edges of what the providers take.

Each axis is a list; their products are the cases. All of them run through every provider: what is a limit for one is an
ordinary value for the others. Where a provider's page has a number, `LIMITS` of its validator has it, and says what must
happen at it.
"""

import itertools
import json

from corpus import AS_OF_MILLISECONDS, Corpus
from export_harness import PROVIDERS, validator

ANON = "b5372db0-c21e-41e4-8dfc-aa07a5b093db"
# One UTF-16 unit a byte; three bytes a unit; a character of eleven units; two units a character; escaped in JSON.
FILLS = ("x", "한", "👩‍👩‍👧‍👦", "e\u0301", '"', "\n")
# The numbers of all providers' pages together.
LENGTHS = (24, 36, 40, 48, 64, 99, 100, 128, 200, 255, 256, 300, 400, 420, 1000, 1024, 2048, 4096, 8192, 32_000, 32_767)
COUNTS = (25, 27, 200, 254, 255, 1000, 1024, 10_000)
SIZES = (8192, 32_000, 120_000, 130_000, 450_000, 900_000, 999_999)
DEPTHS = (1, 2, 3, 4, 5, 38, 39, 40, 41, 42, 58)

NAMES = (
    "session_start", "first_open", "error", "screen_view", "user_engagement", "firebase_x", "ga_x", "google_x", "_x",
    "gtag.x", "firebase_conversion", "user_id", "first_open_time", "last_deep_link_referrer", "$identify",
    "$create_alias", "$merge", "$set", "$unset", "$groupidentify", "$pageview", "$screen", "$merge_dangerously",
    "mp_page", "mp_", "$", "$$", "[Amplitude] x", "[Amplitude]", "[amplitude] x", "token", "ip", "time", "bucket",
    "$bucket", "distinct_id", "$distinct_id", "$insert_id", "$ignore", "$token", "$session_id", "$groups", "sentAt",
    "messageId", "userId", "properties", "items", "products", "revenue", "value", "group_id", "", " ", "\t", "\0", "\x7f",
    "한글", "e\u0301", "로그인", "9x", "a.b", "a b", "a/b", "a=b", "a]b", 'a"b', "a\\b", "a;b", "=1", "+1", "-1", "@x", "＝x",
    "'x", "\ufeffx", "\u202ex", "İ", "ﬁ", "__proto__", "constructor", "screen", "screen_class", "wb_seq", "d.x", "WB_ID")
PEOPLE = (
    "anonymous", "Anonymous", "ANONYMOUS", "anon", "guest", "Guest", "nil", "none", "None", "NONE", "null", "Null", "n/a",
    "na", "undefined", "Undefined", "unknown", "<nil>", "0", "00", "-1", "true", "True", "false", "[]", "{}", "NaN", "nan",
    "[object Object]", "lmy47d", "id", "email", "distinct_id", "distinctid", "not_authenticated", "", " ", "   ", "\t\n",
    "\u3000", "\u00a0", "\ufeff", " guest ", "'null'", '"undefined"', '""', "''", "abcd", "abcde", "한글", "한글사용자",
    "👩‍👩‍👧‍👦", "$device:x", "$device:", "00000000-0000-0000-0000-000000000000", "0A1b", "\0", "a\0b", "=1+1", "u" * 201)
# As they stand in a line: JSON, not Python.
NUMBERS = (
    "0", "-0", "1", "-1", "1.0", "0.1", "1e2", "1E+2", "1e-2", "1e308", "1e309", "-1e309", "1e400", "1e-400",
    "1.7976931348623157e308", "1.7976931348623159e308", "5e-324", "9007199254740991", "9007199254740993", "-9007199254740993",
    "18446744073709551615", "18446744073709551616", "9" * 308, "9" * 309, "9" * 400, "0." + "1" * 400, "2147483648",
    "1e1000000000", "123456789012345678901234567890.123456789")
HALVES = (
    r"\ud800", r"\udbff", r"\udc00", r"\udfff", r"\ud800x", r"x\udc00", r"\ud800\ud800", r"\udc00\ud800", r"\ud83d\ude00",
    r"\uD83D\uDE00", r"\ud83d\\ude00", r"\\ud800", r"\ud83d\ud83d\ude00", r"\u0000", r"\ufffe", r"\ufffd", r"\/", r"\u005c")
HOUR = 3_600_000
TIMES = tuple(
    edge * HOUR + step
    for edge in (-24 * 365, -24 * 21, -73, -72, -48, -24, -1, 0, 1, 2, 23, 24, 25, 24 * 20) for step in (-1, 0, 1))
CLOCKS = (
    "2025-03-01T09:14:15.926Z", "2025-03-01T18:14:15.926+09:00", "2025-03-01t09:14:15z", "2025-03-01T09:14:15.9264999Z",
    "2025-03-01T09:14:15,926Z", "2024-12-31T23:59:60Z", "2025-02-28T24:00:00Z", "2025-03-01T09:14:15-12:00",
    "2025-03-01T09:14:15.000+14:00", "2000-01-01T00:00:00Z", "2099-12-31T23:59:59.999Z")

# What a provider's page limits, from its validator: where in the event, how many, in which unit, and what happens to one
# more. `cut`: its text is not whole; `gone`: the field is not there; `refused`: there is no record.
LIMITS = {name: getattr(validator(name), "LIMITS", ()) for name in PROVIDERS}


def length(text, unit):
    return len(text.encode("utf-16-le")) // 2 if unit == "unit" else len(text.encode())


def filled(fill, count, unit="unit"):
    """Text of that many units: whole characters, then `x`."""
    text = fill * (count // length(fill, unit))
    return text + "x" * (count - length(text, unit))


class Case:
    """One event, and what a provider must make of it."""

    def __init__(self, what, members, raw=(), expected=None, probe=None):
        # `raw`: texts in the line and what stands for them in the end. `expected`: provider, and `whole`, `cut`, `gone` or
        # `refused` for `probe`, a text that its record then has or has not.
        self.what, self.members, self.raw, self.expected, self.probe = what, members, raw, expected, probe

    def line(self, number):
        event = {
            "v": 1, "id": f"019550fc-2dfb-7b1c-82d3-{number:012x}", "writer": "0195505e-aaaa-7000-8000-0000000000aa",
            "seq": number, "ts": Corpus.timestamp(AS_OF_MILLISECONDS - 60_000), "kind": "event", "name": "tap",
            "user": "u-88123", "anon": ANON, "ids": {"ga4": f"{number:032x}"}, "bundle": "com.example.shop", "env": "prod"}
        event.update(self.members)
        text = json.dumps(event, ensure_ascii=False)
        for old, new in self.raw:
            if old not in text:
                raise AssertionError(f"{self.what}: {old} is not in the line")
            text = text.replace(old, new)
        return text.encode("utf-8", "surrogatepass")


def member(place, text):
    """An event's members with a text at a place."""
    places = {
        "name": {"name": text}, "key": {"data": {text: 1}}, "value": {"data": {"v": text}},
        "nested": {"data": {"o": {"k": [text]}}}, "inner": {"data": {"o": {text: 1}}},
        "trait": {"kind": "user", "traits": {"t": text}}, "property": {"kind": "user", "traits": {text: "v"}},
        "once": {"kind": "user", "traits": {}, "traits_once": {text: text}},
        "added": {"kind": "user", "traits": {}, "traits_add": {text: 1}},
        "unset": {"kind": "user", "traits": {text: None}}, "user": {"user": text}, "anon": {"anon": text}, "id": {"id": text},
        "known": {"kind": "user", "user": text, "traits": {"a": 1}}, "device": {"anon": text, "user": None},
        "screen": {"kind": "screen", "screen": text, "data": {"a": 1}}, "os": {"os": text}, "session": {"session": text},
        "item": {"name": "purchase", "data": {"items": [{"item_id": text, "price": 1}], "currency": "EUR"}},
        "product": {"data": {"items": [{text: 1}]}}, "group": {"data": {"group_id": text}},
        "override": {"overrides": {name: {"name": text} for name in LIMITS}},
        "bundle": {"bundle": text or "b"}, "log": {"log": text}, "currency": {"name": "purchase", "data": {
            "value": 1, "currency": text, "transaction_id": text, "items": [{"item_id": "a", "price": 1}]}},
    }
    return places.get(place) or {"data": {place: text}}


def edges():
    """Every length and count, one less and one more."""
    for place, count, fill, step in itertools.product(
            ("name", "key", "value", "trait", "once", "added", "user", "screen", "item"), LENGTHS, ("x", "한"), (-1, 0, 1)):
        text = filled(fill, count + step)
        yield Case(f"{place} of {count + step} {fill}", member(place, text))
    for count, step in itertools.product(COUNTS, (-1, 0, 1)):
        fields = {f"f{index}": index for index in range(count + step)}
        yield Case(f"{count + step} fields", {"data": fields})
        yield Case(f"{count + step} traits", {"kind": "user", "traits": fields})
        yield Case(f"{count + step} traits set once", {"kind": "user", "traits": {}, "traits_once": fields})
        yield Case(f"{count + step} traits added to", {"kind": "user", "traits": {}, "traits_add": fields})
        yield Case(f"{count + step} names removed", {"kind": "user", "traits": dict.fromkeys(fields)})
        yield Case(f"{count + step} members inside", {"data": {"o": fields}})
        yield Case(f"{count + step} elements", {"data": {"l": list(fields.values())}})
        yield Case(f"{count + step} items", {"data": {"items": [{"item_id": name} for name in fields]}})
        yield Case(f"{count + step} members of an item", {"data": {"items": [fields]}})
    for size, kind in itertools.product(SIZES, ("value", "trait", "once", "added", "screen", "fields", "os", "unset")):
        if kind == "fields":
            fields = {f"f{index}": "y" * 250 for index in range(size // 260)}
            yield Case(f"fields of {size}", {"data": fields})
        else:
            yield Case(f"{kind} of {size}", member(kind, "z" * size))


def limits(provider):
    """The provider's own limits, with what must happen at each."""
    for place, count, unit, outcome in LIMITS[provider]:
        for step, fill in itertools.product((-1, 0, 1), FILLS if unit == "unit" else ("x", "한")):
            if unit == "count":
                if fill != "x" and step:
                    continue
                yield counted(provider, place, count + step, outcome if step > 0 else "whole")
                continue
            # A name or id of other letters is another rule's, as is an id that is blank.
            if place in ("key", "id") and fill != "x" or place in ("user", "anon") and not fill.strip():
                continue
            text = filled(fill, count + step, unit)
            probe = "x" * (count + step) if place in ("key", "id") else None
            yield Case(
                f"{provider}: {place} of {count + step} {fill}", member(place, text), (),
                (provider, outcome if step > 0 else "whole"), probe or text)


def counted(provider, place, count, outcome):
    fields = {f"f{index}": index for index in range(count)}
    members = {
        "fields": {"data": fields}, "list": {"data": {"l": [f"f{index}" for index in range(count)]}},
        "items": {"data": {"items": [{"item_id": f"f{index}"} for index in range(count)]}},
        "item": {"data": {"items": [{"item_id": "i", **fields}]}}}[place]
    return Case(f"{provider}: {count} of {place}", members, (), (provider, outcome), f'"f{count - 1}"')


def names():
    for name, place in itertools.product(
            NAMES, ("name", "key", "inner", "property", "once", "added", "unset", "product", "override", "value", "log")):
        if place == "name" and not name:
            continue
        yield Case(f"{place} {name!r}", member(place, name))
    for first, second in itertools.combinations(("a_b", "aB", "A_B", "a b", "$a", "x_$a", "a_b_"), 2):
        yield Case(f"{first!r} and {second!r}", {"data": {first: 1, second: 2}})
        yield Case(f"traits {first!r} and {second!r}", {"kind": "user", "traits": {first: 1, second: None}})
        yield Case(f"changes of {first!r} and {second!r}", {
            "kind": "user", "traits": {first: 1}, "traits_once": {first: 2, second: 3}, "traits_add": {first: 4, second: 5}})


def people():
    for text, place in itertools.product(PEOPLE, ("user", "anon", "known", "device", "id", "group", "session")):
        yield Case(f"{place} {text!r}", member(place, text))
    for text, user in itertools.product(PEOPLE[::3], (None, "null", "guest")):
        yield Case(f"{user!r} on {text!r}", {"user": user, "anon": text})


def numbers():
    for number, place in itertools.product(NUMBERS, range(12)):
        members, marked = ({"data": {"n": "@"}}, {"data": {"o": {"k": ["@"]}}}, {"kind": "user", "traits": {"n": "@"}},
                           {"user": "@"}, {"seq": "@"}, {"dt": "@"}, {"name": "purchase", "data": {
                               "value": "@", "currency": "EUR", "transaction_id": "t"}},
                           {"name": "refund", "data": {"value": "@", "currency": "EUR", "transaction_id": "t"}},
                           {"data": {"items": [{"item_id": "a", "price": "@", "quantity": "@"}], "currency": "EUR"}},
                           {"overrides": {name: {"data": {"n": "@"}} for name in LIMITS}},
                           {"kind": "user", "traits": {}, "traits_add": {"n": "@", "m": 1}},
                           {"kind": "user", "traits": {}, "traits_once": {"n": "@"}})[place], '"@"'
        yield Case(f"number {number[:24]} at {place}", members, ((marked, number),))


def halves():
    for half, place in itertools.product(
            HALVES, ("name", "key", "value", "nested", "inner", "trait", "property", "once", "added", "unset", "user", "anon",
                     "screen", "item", "group", "override", "bundle", "os", "currency")):
        yield Case(f"{half} in {place}", member(place, "@@"), (("@@", half),))


def nestings():
    for depth, kind, place in itertools.product(DEPTHS, ("list", "object", "both"), ("data", "traits", "wide")):
        value = 1
        for level in range(depth):
            value = [value] if kind == "list" or kind == "both" and level % 2 else {"d": value}
        members = {"kind": "user", "traits": {"v": value}} if place == "traits" else {"data": {"v": value}}
        if place == "wide":
            members["data"]["w"] = [value] * 3
        yield Case(f"{kind} {depth} deep in {place}", members)


def repeats():
    """Members written twice, with other values, and spelled in another way."""
    for other, spelling in itertools.product(("2", "null", '"x"', "[1]", '{"a":1,"a":2}'), ("t", r"\u0074")):
        pair = f'"t":1,"{spelling}":{other}'
        for place, members in (
                ("fields", {"data": {"@": 1}}), ("inside", {"data": {"o": {"@": 1}}}), ("in a list", {"data": {"l": [{"@": 1}]}}),
                ("an item", {"data": {"items": [{"@": 1}]}}), ("traits", {"kind": "user", "traits": {"@": 1}}),
                ("consent", {"consent": {"@": 1}}), ("an override", {"overrides": {n: {"data": {"@": 1}} for n in LIMITS}})):
            yield Case(f"twice in {place}: {pair}", members, (('"@": 1', pair),))
    for name in ("user", "anon", "id", "data", "name", "kind", "ids", "bundle"):
        yield Case(f"{name} twice", {}, (('"v": 1', f'"v": 1, "{name}": "first"'),) if name not in ("data", "ids") else
                   (('"v": 1', f'"v": 1, "{name}": {{"a": 1}}, "{name}": {{"a": 2}}'),))
    long = "k" * 1100
    for provider_limit in (255, 1024):
        inner = {long[:provider_limit + extra]: extra for extra in range(4)}
        yield Case(f"names alike up to {provider_limit}", {"data": {"o": inner, **inner}})
        yield Case(f"traits alike up to {provider_limit}", {"kind": "user", "traits": {"o": inner, **inner}})


def times():
    for offset, kind in itertools.product(TIMES, ("event", "screen", "user")):
        members = {"ts": Corpus.timestamp(AS_OF_MILLISECONDS + offset), "kind": kind, "traits": {"a": 1}}
        yield Case(f"{kind} at {offset} ms", members)
        yield Case(f"{kind} at {offset} ms in a session", {**members, "session": Corpus.session(AS_OF_MILLISECONDS - 1000)})
    for clock in CLOCKS:
        yield Case(f"at {clock}", {"ts": clock})


def shops():
    """Revenue, items and groups in every combination."""
    items = ([], [{}], [{"item_id": "a"}], [{"item_id": "a", "price": 1.5, "quantity": 2, "index": 0}], [1],
             [{"item_name": "한", "price": 0.001}], [{"item_id": "a", "price": 9_999_999, "quantity": 10_000_000}] * 3,
             [{"item_id": "x" * 5000, "item_brand": "y" * 300, "price": 1}], [{"item_id": "a", "deep": {}}], None)
    for name, value, item, currency in itertools.product(
            ("purchase", "refund", "in_app_purchase", "view_item"), (None, 0, -5, 12.5, 12.345, "12"), items,
            ("EUR", "Euro", None)):
        data = {"value": value, "items": item, "currency": currency, "transaction_id": "T", "coupon": "c" * 120,
                "tax": 0.1, "price": 3, "quantity": 2, "group_id": "acme"}
        yield Case(f"{name} {value} {item} {currency}"[:90], {"name": name, "data": {
            key: part for key, part in data.items() if part is not None}})


def cases(provider):
    """All cases for a provider; the first are its own limits."""
    yield from limits(provider)
    for table in (edges, names, people, numbers, halves, nestings, repeats, times, shops):
        yield from table()
