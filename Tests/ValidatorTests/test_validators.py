"""The validators themselves: each refuses records that break a limit.

A validator that takes everything would prove nothing. Every case takes a valid record, breaks one rule, and must be
answered with a problem.
"""

import json
import struct
import unittest

from export_harness import PROVIDERS, VECTORS, Invalid, judge, problems_of, validator


def golden(provider, number=0, prefix=""):
    module = validator(provider)
    return module.records((VECTORS / f"{prefix}{provider}.{module.EXTENSION}").read_bytes())[number]


def compact(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def nested(depth):
    value = 1
    for _ in range(depth):
        value = [value]
    return value


class ValidatorTests(unittest.TestCase):
    def refuse(self, provider, record, as_of=None):
        self.assertNotEqual(problems_of(provider, record, as_of), [], f"{provider} takes {record[:300]!r}")

    def take(self, provider, record, as_of=None):
        self.assertEqual(problems_of(provider, record, as_of), [], f"{provider}: {record[:300]!r}")

    def changed(self, provider, change, number=0):
        """A golden record of JSON after a change; first it must be valid."""
        record = golden(provider, number)
        self.take(provider, record)
        value = json.loads(record)
        change(value)
        return compact(value)

    def each(self, provider, changes, number=0):
        for change in changes:
            self.refuse(provider, self.changed(provider, change, number))

    def test_ga4(self):
        params = lambda request: request["events"][0]["params"]  # noqa: E731
        self.each("ga4", [
            lambda r: r.pop("app_instance_id"), lambda r: r.update(app_instance_id="x" * 32),
            lambda r: r.update(user_id="u" * 257), lambda r: r.update(events=r["events"] * 26),
            lambda r: r.update(secret=1), lambda r: r["events"][0].update(name="n" * 41),
            lambda r: r["events"][0].update(name="session_start"), lambda r: r["events"][0].update(name="firebase_x"),
            lambda r: r["events"][0].update(name="로그인"), lambda r: r["events"][0].update(timestamp_micros="1"),
            lambda r: params(r).update({f"p{i}": 1 for i in range(25)}), lambda r: params(r).update(p="x" * 101),
            lambda r: params(r).update(p="👩" * 51), lambda r: params(r).update(p=True), lambda r: params(r).update(p=[]),
            lambda r: params(r).update(ga_x=1), lambda r: params(r).update(engagement_time_msec=0),
            lambda r: params(r).update(page_title="x" * 301), lambda r: params(r).update(items=[{"item_id": "a", "a": {}}]),
            lambda r: params(r).update(items=[{"item_id": "a", **{f"c{i}": 1 for i in range(28)}}]),
            lambda r: params(r).update(items=[{"price": 1}]), lambda r: params(r).update(items="a"),
            lambda r: params(r).update(items=1), lambda r: [params(r).pop("session_id"), params(r).update(session_id="x")],
            lambda r: r.update(user_properties={"first_open_time": {"value": 1, "timestamp_micros": 1}}),
            lambda r: r.update(user_properties={"p" * 25: {"value": 1, "timestamp_micros": 1}}),
            lambda r: r.update(user_properties={"p": {"value": "x" * 37, "timestamp_micros": 1}}),
            lambda r: r.update(user_properties={f"p{i}": {"value": 1, "timestamp_micros": 1} for i in range(26)}),
            lambda r: r.update(consent={"ad_user_data": True, "ad_personalization": "DENIED"}),
        ])
        record = golden("ga4")
        moment = json.loads(record)["events"][0]["timestamp_micros"] // 1000
        self.take("ga4", record, moment + 72 * 3_600_000)
        self.refuse("ga4", record, moment + 72 * 3_600_000 + 1)
        self.refuse("ga4", record.replace(b'"method":"email"', b'"method":1,"method":2'))

    def test_mixpanel(self):
        self.each("mixpanel", [
            lambda e: e.update(event="x" * 256), lambda e: e["properties"].pop("distinct_id"),
            lambda e: e["properties"].update(distinct_id="null"), lambda e: e["properties"].update(time="1"),
            lambda e: e["properties"].update({"$device_id": "d" * 248}),
            lambda e: e["properties"].update({"$device_id": "unknown"}), lambda e: e["properties"].pop("ip"),
            lambda e: e["properties"].update({"$insert_id": "i" * 37}), lambda e: e["properties"].update({"$ignore": 1}),
            lambda e: e["properties"].update(token="t"), lambda e: e["properties"].update(p="한" * 86),
            lambda e: e["properties"].update(p=nested(4)), lambda e: e["properties"].update(p=[1] * 255),
            lambda e: e["properties"].update({"x" * 256: 1}), lambda e: e["properties"].update(mp_x=1),
            lambda e: e["properties"].update({f"p{i}": 1 for i in range(255)}),
        ])
        record = golden("mixpanel")
        moment = json.loads(record)["properties"]["time"]
        self.take("mixpanel", record, moment - 3_600_000)
        self.refuse("mixpanel", record, moment - 3_600_001)
        self.assertNotEqual(validator("mixpanel").check_request(b"{}\n" * 2001), [])

    def test_mixpanel_profiles(self):
        record = golden("mixpanel-profiles")
        self.take("mixpanel-profiles", record)
        for old, new in (
                (b"${MIXPANEL_TOKEN}", b"0123456789abcdef"), (b"u-8812345", b"null"), (b"PREMIUM", b"x" * 256),
                (b'["age_band"]', b'"age_band"'), (b'{"tier":"PREMIUM"}', b"{}"), (b"$unset", b"$delete")):
            self.assertIn(old, record)
            self.refuse("mixpanel-profiles", record.replace(old, new, 1))
        update = b'{"$token":"${MIXPANEL_TOKEN}","$distinct_id":"u-8812345",%s}'
        once, added = update % b'"$set_once":{"a":[1]}', update % b'"$add":{"n":-1.50}'
        self.take("mixpanel-profiles", once)
        self.take("mixpanel-profiles", once + b"," + added)
        for record in (
                added + b"," + once, added + b"," + added, update % b'"$add":{"n":"1"}', update % b'"$add":{}',
                update % b'"$add":{"n":true}', update % b'"$set_once":{"$token":1}', update % b'"$set_once":["a"]',
                update % b'"$set_once":{"a":1},"$add":{"n":1}'):
            self.refuse("mixpanel-profiles", record)
        with self.assertRaises(Invalid):
            validator("mixpanel-profiles").records(b"[{}\n")
        self.assertNotEqual(validator("mixpanel-profiles").check_request(b"[" + b"{}," * 2000 + b"{}]\n"), [])

    def test_amplitude(self):
        self.each("amplitude", [
            lambda e: e.update(event_type="$other"), lambda e: e.update(event_type="[Amplitude] Other"),
            lambda e: e.pop("device_id"), lambda e: e.update(device_id="abcd"), lambda e: e.update(device_id="lmy47d"),
            lambda e: e.update(time=1.5), lambda e: e.update(session_id="x"), lambda e: e.pop("insert_id"),
            lambda e: e["event_properties"].update(p="x" * 1025), lambda e: e["event_properties"].update({"x" * 1025: 1}),
            lambda e: e["event_properties"].update(p=nested(40)), lambda e: e.update(user_properties={}),
            lambda e: e["event_properties"].update({f"p{i}": 1 for i in range(1024)}), lambda e: e.update(secret="x"),
            lambda e: e.update(revenue="1"), lambda e: e.update(price=1, revenue=1), lambda e: e.update(currency="EUR"),
            lambda e: e.update(price=1, quantity=1.5), lambda e: e.update(price=1, quantity=1 << 31), lambda e: e.update(groups={}), lambda e: e.update(groups={"a": 1}),
        ])
        self.each("amplitude", [
            lambda e: e["user_properties"].update({"$append": {"a": 1}}),
            lambda e: e["user_properties"].update({"$add": {"a": "1"}}),
            lambda e: e["user_properties"].update({"$add": {"tier": 1}}),
            lambda e: e["user_properties"].update({"$setOnce": {"tier": 1}}),
            lambda e: e["user_properties"]["$unset"].update(tier="-"),
            lambda e: e["user_properties"].update({"$unset": {"x": None}}),
        ], number=3)
        both = json.loads(golden("amplitude", 3))
        both["user_properties"].update({"$setOnce": {"first": [1]}, "$add": {"visits": -1}})
        self.take("amplitude", compact(both))
        self.assertNotEqual(validator("amplitude").check_request(b"{}\n" * 2001), [])

    def test_segment(self):
        self.each("segment", [
            lambda c: c.update(type="page"), lambda c: c.update(sentAt="2025-03-01T09:14:15.926Z"),
            lambda c: c.pop("anonymousId"), lambda c: c.pop("messageId"), lambda c: c.update(messageId="x" * 101),
            lambda c: c.update(timestamp="2025-03-01 09:14:15"), lambda c: c["properties"].update(p="x" * 32_000),
            lambda c: c.update(name=""), lambda c: c["context"].update(groupId=1), lambda c: c["context"].update(page={}),
            lambda c: c["properties"].update(products=[{"item_id": "a"}]),
        ])
        self.refuse("segment", golden("segment").replace(b'"method":"email"', b'"method":1,"method":2'))
        self.assertNotEqual(validator("segment").check_request(b"{}\n" * 2501), [])
        self.assertNotEqual(validator("segment").check_request(b" " * 500_000 + b"\n"), [])

    def test_posthog(self):
        self.each("posthog", [
            lambda e: e.update(uuid="x"), lambda e: e.update(distinct_id="d" * 201), lambda e: e.update(distinct_id="null"),
            lambda e: e.update(event="$pageview"), lambda e: e.update(event=""), lambda e: e.update(sent_at="x"),
            lambda e: e["properties"].update({"$ip": "1"}), lambda e: e.update(timestamp="2025-02-28T09:14:14.675Z"),
            lambda e: e.update(timestamp="2025-03-02T09:14:14.677Z"),
            lambda e: e["properties"].update({"$session_id": "019550fb-32b4-4000-8000-000000000001"}),
            lambda e: e["properties"].update({"$groups": {}}), lambda e: e["properties"].update({"$groups": {"a": 1}}),
            lambda e: e["properties"].update({"$groups": {"a": "b"}, "$process_person_profile": False}),
        ])
        self.each("posthog", [
            lambda e: e["properties"].update({"$anon_distinct_id": e["distinct_id"]}),
            lambda e: e["properties"]["$set"].update({"$x": 1}), lambda e: e["properties"].update({"$unset": [1]}),
            lambda e: e["properties"].update({"$unset": [""]}), lambda e: e["properties"].update({"$unset": ["$x"]}),
            lambda e: e["properties"].update({"$unset": ["tier"]}), lambda e: e["properties"].update({"$device_id": " "}),
            lambda e: e["properties"].update({"$set_once": {"tier": 1}}), lambda e: e["properties"].update({"$set_once": [1]}),
            lambda e: e["properties"].update({"$set_once": {"$x": 1}}), lambda e: e["properties"].update({"$add": {"a": 1}}),
        ], number=3)
        once = json.loads(golden("posthog", 3))
        once["properties"].update({"$set_once": {"first": [1]}})
        self.take("posthog", compact(once))
        self.assertNotEqual(validator("posthog").check_request(b"{}\n" * 1001), [])

    def test_snowplow(self):
        self.each("snowplow", [
            lambda p: p.update(dtm=1740820455926), lambda p: p.update(stm="1740820455926"), lambda p: p.update(eid="x"),
            lambda p: p.update(duid="d" * 129), lambda p: p.update(uid="u" * 256), lambda p: p.update(ttm="1740820455927"),
            lambda p: p.update(ue_pr="{"), lambda p: p.update(e="pv"), lambda p: p.update(sid="s-1"), lambda p: p.update(aid="a" * (1 << 20)),
            lambda p: p.update(ue_pr=p["ue_pr"].replace("screen_view/", "screen view/")),
            lambda p: p.update(ue_pr=p["ue_pr"].replace('"previousName"', '"id"')),
            lambda p: p.update(ue_pr=p["ue_pr"].replace('"previousName"', '"method"')),
            lambda p: p.update(ue_pr=p["ue_pr"].replace("screen_view/jsonschema/1-0-0", "x/jsonschema/0-0-1")),
        ])
        deep = lambda depth: self.changed("snowplow", lambda p: p.update(ue_pr=p["ue_pr"].replace(  # noqa: E731
            '"productIndex":7', '"productIndex":' + json.dumps(nested(depth)))), 1)
        self.take("snowplow", deep(37))
        self.refuse("snowplow", deep(38))
        snowplow = validator("snowplow")
        self.assertNotEqual(snowplow.check_request(b"{}\n" * 501), [])
        self.assertTrue(snowplow.fits({"a": None, "b": []}, {"a": {"null"}, "b": {"array"}}))
        self.assertFalse(snowplow.fits({"a": None}, {"a": {"string"}}))
        self.assertFalse(snowplow.fits({"c": "x"}, {"a": {"string"}}))

    def test_entities_of_snowplow(self):
        product = {"id": "a", "category": "", "price": 1.25, "currency": "EUR"}
        schema = "iglu:com.snowplowanalytics.snowplow.ecommerce/product/jsonschema/1-0-0"

        def record(data, name=schema, contexts="1-0-0"):
            payload = json.loads(golden("snowplow", 1))
            payload["co"] = compact({
                "schema": f"iglu:com.snowplowanalytics.snowplow/contexts/jsonschema/{contexts}",
                "data": [{"schema": name, "data": data}]}).decode()
            return compact(payload)

        self.take("snowplow", record(product))
        self.take("snowplow", record({"anything": 1}, "iglu:com.example/x/jsonschema/1-0-0"))
        for change in ({"price": 1.255}, {"price": -1}, {"price": "1"}, {"price": 10_000_000}, {"currency": "Euro"},
                       {"quantity": 1.5}, {"item_id": "a"}, {"brand": "x" * 257}, {"id": None}):
            self.refuse("snowplow", record({**product, **change}))
        self.refuse("snowplow", record({"id": "a"}))
        self.refuse("snowplow", record(product, "iglu:com.snowplowanalytics.other/x/jsonschema/1-0-0"))
        self.refuse("snowplow", record(product, "product"))
        self.refuse("snowplow", record(product, contexts="2-0-0"))

    def test_what_providers_refuse_and_validators_once_took(self):
        """Fifteen faulty records: commands, ids that merge strangers, sizes, times, and JSON that strict readers refuse."""
        moment = json.loads(golden("mixpanel"))["properties"]["time"]
        mixpanel = lambda change: self.changed("mixpanel", change)  # noqa: E731
        posthog = lambda change: self.changed("posthog", change)  # noqa: E731
        raw = lambda provider, old, new: golden(provider).replace(old, new, 1)  # noqa: E731
        items = [{"item_id": "a"}] * 201
        faulty = (
            ("mixpanel", mixpanel(lambda e: e.update(event="$merge"))),
            ("mixpanel", mixpanel(lambda e: e.update(event="$identify"))),
            ("mixpanel", mixpanel(lambda e: e.update(event="$create_alias"))),
            ("mixpanel", mixpanel(lambda e: e["properties"].update({"$insert_id": "anonymous"}))),
            ("mixpanel-profiles", raw("mixpanel-profiles", b'{"tier"', b'{"$distinct_id":"u-2","tier"')),
            ("posthog", posthog(lambda e: e.update(distinct_id="   "))),
            ("posthog", posthog(lambda e: e.update(distinct_id="Guest"))),
            ("posthog", posthog(lambda e: e.update(distinct_id="[object Object]"))),
            ("posthog", posthog(lambda e: e["properties"].update(p="x" * 1_000_000))),
            ("posthog", posthog(lambda e: [e["properties"].pop("$session_id"), e.update(timestamp="2025-03-21T09:14:15.926Z")])),
            ("amplitude", raw("amplitude", b'"email"', b"1e400")),
            ("segment", raw("segment", b'"email"', rb'"\ud800"')),
            ("amplitude", raw("amplitude", b'"device_id":"b5372db0', rb'"device_id":"\udfff5372db0')),
            ("ga4", self.changed("ga4", lambda r: r["events"][0]["params"].update(items=items))),
            ("snowplow", raw("snowplow", rb'\"previousName\":\"Splash\"', rb'\"previousName\":\"a\",\"previousName\":\"b\"')),
        )
        self.assertEqual(len(faulty), 15)
        for provider, record in faulty:
            self.assertNotEqual(record, golden(provider))
            self.refuse(provider, record, moment)

    def test_what_no_strict_reader_takes_is_refused_everywhere(self):
        for provider in ("ga4", "mixpanel", "amplitude", "segment", "posthog"):
            record = golden(provider)
            self.assertIn(b'"email"', record)
            self.take(provider, record.replace(b'"email"', rb'"\ud83d\ude00"'))
            self.take(provider, record.replace(b'"email"', b"1" + b"0" * 90))
            for value in (b"1e309", b"-1e400", b"9" * 400, rb'"\ud83d"', rb'"\ude00x"', b'{"a":1,"a":1}', b'[{"a":1,"\\u0061":1}]',
                          rb'{"\ud800":1}', b"NaN", b"Infinity"):
                self.refuse(provider, record.replace(b'"email"', value))

    def test_ids_that_merge_strangers(self):
        for person in ("null", "0", "anonymous", "<nil>", "[]", "$device:null", "$device:"):
            self.refuse("mixpanel", self.changed("mixpanel", lambda e, p=person: e["properties"].update(distinct_id=p)))
        self.take("mixpanel", self.changed("mixpanel", lambda e: e["properties"].update(distinct_id="")))
        self.refuse("mixpanel", self.changed("mixpanel", lambda e: e["properties"].update({"$user_id": "$device:x"})))
        for person in ("ID", "'null'", '"Undefined"', "\u3000", " none ", "NOT_AUTHENTICATED", "None"):
            self.refuse("posthog", self.changed("posthog", lambda e, p=person: e.update(distinct_id=p)))
        for person in ("unknown", "NULL", "nan", "ids", "-1"):
            self.take("posthog", self.changed("posthog", lambda e, p=person: e.update(distinct_id=p)))

    def test_tables(self):
        for provider, old, new in (
                ("csv", b"118", b"=118"), ("csv", b"118", b"118,1"), ("csv", b"screen_view", b'"a"b'),
                ("csv", b"screen_view", b" a"), ("csv", b"2025-", b"25-"), ("csv", b"method=email", b"method"),
                ("csv", b"method=email", b"a=1;a=2"), ("csv", b"method=email", b"a=" + b"x" * 32_767),
                ("csv", b"screen_view", "＝x".encode()), ("csv", b"screen_view", b"a\0"),
                ("flurry", b"1740820455926", b"x"), ("flurry", b"screen_view", b"@x"), ("flurry", b"ko-KR", b"ko,KR"),
                ("flurry", b'""email""', b"1"), ("flurry", b"}", b"")):
            record = golden(provider)
            self.take(provider, record)
            self.assertIn(old, record)
            self.refuse(provider, record.replace(old, new, 1))
            with self.assertRaises(Invalid):
                validator(provider).records(record)  # Without the header.
        self.take("csv", golden("csv", 1))

    def test_syslog(self):
        record = golden("syslog")
        self.take("syslog", record)
        for old, new in (
                (b"<134>", b"<192>"), (b"<134>", b"<034>"), (b">1 ", b">2 "), (b"926Z", b"926+00:00"),
                (b"926Z", b"926z"), (b" - screen_view ", b" - " + b"x" * 33 + b" "), (b"wb@32473", b"wb=32473"),
                (b'"iOS"', b'iOS'), (b'"email"]', b'"email]'), (b'"email"', b'"e"mail"'), (b"d.method", b"d.meth od"),
                (b"d.method", b"d.method" + b"x" * 30), (b'"email"', b'"' + b"x" * 2000 + b'"'),
                (b"] screen_view", b"]screen_view"), (b"] screen_view", b"] a\tb"), (b"] screen_view", "] 한".encode()),
                (b"] screen_view", b"] \xef\xbb\xbfascii"), (b"d.method", b"anon"), (b"email", b"\xff")):
            if old in record:
                self.refuse("syslog", record.replace(old, new, 1))
            else:
                self.assertEqual(old, b'"iOS"')

    def test_journal(self):
        record = golden("journald", 0, "odd-")
        self.take("journald", record)
        for old, new in (
                (b"__REALTIME_TIMESTAMP=", b"REALTIME="), (b"_BOOT_ID", b"BOOT_ID"), (b"PRIORITY=6", b"PRIORITY=8"),
                (b"WB_D_FLAG", b"WB_d_FLAG"), (b"WB_D_FLAG", b"W" * 65), (b"WB_D_FLAG", b"1"), (b"WB_D_FLAG", b"WB_USER"),
                (b"WB_D_FLAG=true", b"WB_D_FLAG=tr\x01ue"), (struct.pack("<Q", 10), struct.pack("<Q", 11)),
                (struct.pack("<Q", 10), struct.pack(">Q", 10)), (b"WB_D_FLAG=true", b"WB_D_FLAG=\xff")):
            self.assertIn(old, record)
            self.refuse("journald", record.replace(old, new, 1))
        with self.assertRaises(Invalid):
            validator("journald").records(record[:-2])

    def test_every_provider_has_cases_here_and_its_worked_example_is_valid(self):
        for provider in PROVIDERS:
            module = validator(provider)
            part = (VECTORS / f"{provider}.{module.EXTENSION}").read_bytes()
            self.assertEqual(judge(provider, part)[2], [], provider)
