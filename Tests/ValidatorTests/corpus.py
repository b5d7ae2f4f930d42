"""Random events with everything that may go wrong on the way to a provider; the same for the same seed.

Long, empty, Korean, emoji, control characters, names that providers keep for themselves, deep nesting, wrong types,
ids that are none, times far away, lines as long as a line may be.
"""

import datetime
import json
import random
import re

AS_OF = datetime.datetime(2025, 3, 1, 10, tzinfo=datetime.timezone.utc)
AS_OF_MILLISECONDS = int(AS_OF.timestamp() * 1000)

NAMES = (
    "login", "Product Tapped", "session_start", "first_open", "error", "firebase_x", "ga_y", "google_z", "_hidden",
    "gtag.a", "로그인", "로그인 버튼", "a", "9lives", " ", "___", "productName", "HTTPServer", "page_location",
    "page_title", "items", "session_id", "screen_name", "user_id", "time", "token", "ip", "$ignore", "mp_x", "$set",
    "distinct_id", "bucket", "wb_seq", "x_time", "=1+1", "＝x", "'q", "emoji 👩‍👩‍👧‍👦", "new\nline", "tab\t", "nul\0",
    "a;b", "a=b", "back\\slash", "com,ma", 'quote"', "\u202ertl", "]", "[Amplitude] x", "[Amplitude]", "$identify",
    "log", "level", "screen", "sentAt", "messageId", "\x7f", "\u0085", "ﬁ", "İ", "x" * 70, "한" * 50, "WB_ID", "__X",
    "$session_id", "more", "id", "..", "a/b", "previousName",
)
PIECES = (
    "a", "Z", "0", " ", "_", "-", "한", "글", "👩‍👩‍👧‍👦", "🇰🇷", "e\u0301", "\0", "\n", "\r\n", "\t", '"', "\\", ",", ";", "=",
    "'", "＠", "+", "ß", "\x1f", "\x7f", "]", "[", "\u2028", "\ufeff",
)
IDS = ("", "null", "unknown", "0", "-1", "{}", "lmy47d", "anon", "u-1", "u-2", "u-88123", "b5372db0", "한글사용자아이디",
       "00000000-0000-0000-0000-000000000000", "b5372db0-c21e-41e4-8dfc-aa07a5b093db")
LEVELS = ("info", "Error", "debug", "CRITICAL", "trace", "what", 7)


class Corpus:
    def __init__(self, seed=1, as_of=AS_OF_MILLISECONDS, days=(-90, 21)):
        self.random = random.Random(seed)
        self.as_of = as_of
        self.days = days
        self.count = 0

    def lines(self, count):
        for _ in range(count):
            yield self.line()

    def line(self):
        """One event of Waybill's own format, without its line feed."""
        self.count += 1
        choose, chance = self.random.choice, self.chance
        offset = self.random.randint(*self.days) * 86_400_000 if chance(5) else 0
        time = self.as_of + offset + self.random.randint(-7_200_000, 5_400_000)
        event = {
            "v": 1, "ts": self.timestamp(time), "name": self.name() if chance(3) else choose(NAMES),
            "env": choose(("dev", "internal", "prod")), "bundle": "com.example" if chance(2) else self.text(60) or "b",
        }
        if not chance(30):
            event["id"] = self.scalar() if chance(20) else f"019550fc-2dfb-7b1c-82d3-{self.count:012x}"
        self.put(event, "kind", ("screen", "action", "event", "user", "user", "meta", "later", 7))
        self.put(event, "user", IDS + (5, self.text(500), "u" * 201))
        self.put(event, "anon", IDS + ("b5372db1-c21e",) * 20 + (None, self.text(400)))
        self.put(event, "ids", ({"ga4": "0a1b2c3d4e5f60718293a4b5c6d7e8f9"},) * 4 + ({"ga4": "short"}, []))
        self.put(event, "writer", ("0195505e-aaaa-7000-8000-0000000000aa", "0195505E-AAAA-7000-8000-0000000000AA", "w"))
        self.put(event, "seq", (self.count, "7", -3, 1.5))
        self.put(event, "up", (self.count, 64_327, -1, 9 * 10**17, "x"))
        self.put(event, "dt", (0, -5, 3077, 1.5, "9"))
        self.put(event, "session", (self.session(time), self.session(time - 90_000_000), "x", 1, self.text(200)))
        self.put(event, "session_n", (7, -1, "7"))
        for key in ("screen", "screen_class", "screen_id", "os", "os_version", "build", "app", "model", "lang", "prev",
                    "country", "user_agent"):
            if chance(2):
                event[key] = self.scalar() if chance(4) else self.text(20)
        self.put(event, "log", ("1.0", "2.13", "0.1", "x", 3))
        self.put(event, "data", (self.object(1), self.object(1), self.object(1), self.scalar()))
        if chance(20) and isinstance(event.get("data"), dict):
            event["name"] = "log"
            event["data"]["level"] = choose(LEVELS)
        self.put(event, "traits", (self.object(1), self.object(1), {}, None))
        if chance(4):
            event["traits_once"] = choose((self.object(1), {}, None))
        if chance(4):
            event["traits_add"] = choose(({"n": 1, "a": -2.5}, self.object(1), 7))
        if chance(8):
            event["providers"] = choose(
                ([], ["ga4", "csv", "segment"], ["mixpanel", "journald", 7], ["posthog", "snowplow"], None, "csv"))
        if chance(8):
            event["consent"] = choose(({"analytics": False}, {"ads": True}, {"ads": False, "analytics": True}))
        if chance(8):
            event["overrides"] = choose((
                {"ga4": {"skip": True}}, {"csv": {"name": self.text(60)}}, {"amplitude": {"name": self.name()}},
                {"mixpanel": {"data": self.object(2)}}, {"posthog": {"data": self.object(2), "name": "$x"}}, {"ga4": 7}))
        if chance(15):
            event["name"] = choose(("purchase", "refund", "in_app_purchase", "add_to_cart", "join_group"))
            event["data"] = self.shop()
        if chance(500):
            event["data"] = {"huge": self.huge()}
        return self.encode(event)

    def extremes(self):
        """Events that every limit of sizes and counts is for, each kind of them once as fields and once as traits."""
        deep = []
        for _ in range(58):
            deep = [deep]
        huge = (
            {f"field{index}": index for index in range(11_000)}, {f"field{index}": "y" * 900 for index in range(1000)},
            {"deep": deep, "list": [1] * 3000, "nested": {f"key{index}": "z" * 300 for index in range(300)}},
            {"long": "한" * 200_000}, {"control": "\x01" * 100_000}, {"quotes": '"\\' * 200_000}, {"x" * 2000: "y" * 2000})
        for members in huge:
            for kind in ("event", "user"):
                self.count += 1
                yield json.dumps({
                    "v": 1, "id": f"019550fc-2dfb-7b1c-82d3-{self.count:012x}", "ts": self.timestamp(self.as_of - 1000),
                    "kind": kind, "name": "extreme", "anon": "b5372db0-c21e-41e4-8dfc-aa07a5b093db", "user": "u-88123",
                    "ids": {"ga4": "0a1b2c3d4e5f60718293a4b5c6d7e8f9"}, "bundle": "com.example.shop", "env": "prod",
                    "screen": "한" * 3000 if kind == "event" else "s", "data" if kind == "event" else "traits": members,
                }, ensure_ascii=False).encode()

    def foreign(self):
        """A line that some other program wrote."""
        self.count += 1
        event = {
            "time": "", "status": 200, "path": self.text(40), "message": self.text(200),
            "level": self.random.choice(LEVELS)}
        if self.chance(2):
            event["event"] = self.name()
        if self.chance(2):
            event.update(self.object(1))
        event.pop("ts", None)
        event["time"] = self.timestamp(self.as_of - self.count % 7_000_000)
        return self.encode(event)

    @staticmethod
    def timestamp(milliseconds):
        time = datetime.datetime.fromtimestamp(milliseconds / 1000, datetime.timezone.utc)
        return time.strftime("%Y-%m-%dT%H:%M:%S.") + f"{milliseconds % 1000:03d}Z"

    @staticmethod
    def session(milliseconds):
        digits = f"{milliseconds:012x}"
        return f"{digits[:8]}-{digits[8:]}-7000-8000-000000000001"

    def encode(self, event):
        text = json.dumps(event, ensure_ascii=self.chance(10), separators=(",", ":") if self.chance(2) else (", ", " : "))
        if self.chance(60):
            text = text.replace('"a', '"\\u0061', 1)
        if self.chance(80):
            # A name that stands twice.
            text = text.replace('"data":{"', '"data":{"twice":1,"twice":2,"', 1)
        if self.chance(40):
            # What a strict reader of JSON refuses, at places of any depth.
            place = self.random.choice([match.start() for match in re.finditer(r'"(?=[^"\\]*" ?:)', text)])
            fault = self.random.choice((
                '"big":1e400,', '"half":"\\ud83d",', '"\\udc00":1,', '"in":{"t":1,"\\u0074":[2]},', '"long":-%s,' % ("9" * 400)))
            text = text[:place] + fault + text[place:]
        return text.encode()

    def shop(self):
        """Revenue, items and groups, most of them as they should be."""
        data = {
            "transaction_id": "T-17", "value": 25.5, "currency": "EUR", "tax": 4.1, "coupon": "SUMMER", "group_id": "acme",
            "items": [{"item_id": "S1", "item_name": self.text(20), "price": 12.75, "quantity": 2, "index": number}
                      for number in range(self.random.choice((0, 1, 3, 201)))]}
        for name in list(data):
            if self.chance(8):
                data[name] = self.random.choice((None, -1, 0.001, 1e300, self.text(500), [1], {}, True))
        if self.chance(8):
            data.update(self.object(1))
        return data

    def chance(self, odds):
        return self.random.randrange(odds) == 0

    def put(self, event, key, values):
        if not self.chance(12):
            event[key] = self.random.choice(values)

    def name(self):
        if not self.chance(6):
            return self.random.choice(NAMES)
        return "n" + "".join(self.random.choice(PIECES) for _ in range(self.random.randint(1, 60)))

    def text(self, limit):
        most = limit if self.chance(5) else min(limit, 9)
        count = limit * 10 if self.chance(200) else self.random.randint(0, most)
        return "".join(self.random.choices(PIECES, k=count))

    def huge(self):
        """Something that must be cut, dropped or refused somewhere."""
        kind = self.random.randrange(5)
        if kind == 0:
            return {f"field{index}": index for index in range(self.random.choice((300, 1200, 11_000)))}
        if kind == 1:
            return ['"\\\n' * 40] * self.random.choice((300, 3000))
        if kind == 2:
            return "한" * self.random.choice((12_000, 40_000, 300_000))
        if kind == 3:
            value = []
            for _ in range(self.random.choice((38, 41, 58))):
                value = [value] if self.chance(2) else {"deep": value}
            return value
        return "\x01" * self.random.choice((6000, 150_000))

    def scalar(self):
        kind = self.random.randrange(8)
        if kind < 5:
            return self.text(150)
        return (None, self.random.choice((True, False)), self.random.choice((0, -17, 1.1, 10**30, 1e300)))[kind - 5]

    def value(self, depth):
        kind = self.random.randrange(10)
        if kind == 0 and depth < 6:
            return self.object(depth + 1)
        if kind == 1 and depth < 6:
            return [12] * 300 if self.chance(40) else [self.value(depth + 1) for _ in range(self.random.randint(0, 4))]
        if kind == 2 and depth < 3:
            return [
                {("item_id" if self.chance(3) else f"custom{index}"): self.scalar() for index in range(self.random.randint(0, 14))}
                for _ in range(self.random.randint(1, 3))]
        return self.scalar()

    def object(self, depth):
        if self.chance(60):
            return {f"field{index}": 1 for index in range(self.random.choice((30, 300, 1100)))}
        return {self.name(): self.value(depth) for _ in range(self.random.randint(0, 8))}
