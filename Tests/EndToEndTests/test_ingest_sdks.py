"""Other products' own SDKs against the door: their events arrive, traits too, and nothing twice when they repeat."""

import json
import os
import subprocess

from harness import REPOSITORY, SiteTest, until
from test_ingest import KEY, Door

PYTHON = REPOSITORY / ".build" / "python" / "bin" / "python"


class SDKTests(SiteTest):
    def setUp(self):
        super().setUp()
        self.door = Door(self.site).start()

    def program(self, text, module, key=KEY):
        """Runs a program of an SDK's user; skips without the SDK."""
        if subprocess.run([PYTHON, "-c", f"import {module}"], capture_output=True, check=False).returncode:
            self.skipTest(f"{module} is not installed")
        done = subprocess.run(
            [PYTHON, "-c", text], capture_output=True, timeout=240, check=False, text=True,
            env={**os.environ, "DOOR": f"http://127.0.0.1:{self.door.port}", "KEY": key})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def by_name(self):
        lines = {}
        for line in self.door.lines():
            lines.setdefault(line["name"], []).append(line)
        return lines

    def test_segments_python_library(self):
        self.program("""
import os, segment.analytics as analytics
analytics.write_key, analytics.host = os.environ["KEY"], os.environ["DOOR"]
analytics.on_error = lambda error, items: print("error", error)
analytics.identify("u-1", {"plan": "pro"})
for n in range(250):
    analytics.track("u-1", "bought", {"n": n})
analytics.page("u-1", "Docs", "Python", {"url": "http://segment.com"})
analytics.group("u-1", "g-1", {"seats": 3})
analytics.flush()
analytics.shutdown()
""", "segment.analytics")
        lines = self.by_name()
        self.assertEqual(sorted(line["data"]["n"] for line in lines["bought"]), list(range(250)))
        self.assertEqual(lines["set_user"][0]["traits"], {"plan": "pro"})
        self.assertEqual(lines["screen_view"][0]["screen"], "Python")
        self.assertEqual(lines["$group"][0]["data"]["group_id"], "g-1")

    def test_posthogs_python_library(self):
        self.program("""
import os
from posthog import Posthog
client = Posthog(os.environ["KEY"], host=os.environ["DOOR"], disable_geoip=True)
for n in range(120):
    client.capture("bought", distinct_id="u-1", properties={"n": n})
client.set(distinct_id="u-1", properties={"plan": "pro"})
client.set_once(distinct_id="u-1", properties={"first": 1})
client.group_identify("company", "acme", {"seats": 3})
client.alias(previous_id="old-anon", distinct_id="u-1")
client.shutdown()
""", "posthog")
        lines = self.by_name()
        self.assertEqual(sorted(line["data"]["n"] for line in lines["bought"]), list(range(120)))
        self.assertEqual({line["user"] for line in lines["bought"]}, {"u-1"})
        self.assertEqual(lines["set_user"][0]["traits"]["plan"], "pro")
        self.assertEqual(lines["set_user"][1]["traits_once"]["first"], 1)
        self.assertNotIn("user", lines["$group"][0])
        self.assertEqual((lines["$group"][0]["data"]["group_id"], lines["$group"][0]["data"]["$group_set"]), ("acme", {"seats": 3}))
        self.assertEqual((lines["$alias"][0]["user"], lines["$alias"][0]["data"]["previous_id"]), ("u-1", "old-anon"))
        self.assertEqual({line.get("user") for group in lines.values() for line in group}, {"u-1", None})

    def test_a_door_that_is_asked_too_much_makes_amplitudes_python_library_wait(self):
        """Its storage says how long each event waits, so that the test need not."""
        self.door.process.stop()
        self.door.configure(keys=[f"{{key: {KEY}, bundle: com.example.shop, env: prod, events_second: 1}}"])
        self.door.start()
        said = self.program("""
import json, os
from amplitude import Amplitude, BaseEvent
from amplitude.http_client import HttpClient
from amplitude.utils import current_milliseconds
client = Amplitude(os.environ["KEY"])
workers = client._Amplitude__timeline.plugins[next(kind for kind in client._Amplitude__timeline.plugins if kind.name == "DESTINATION")][0].workers
workers.start = lambda: None
events = [BaseEvent(event_type="bought", user_id="u-1", event_properties={"n": n}) for n in range(400)]
refused = None
while refused is None:
    answer = HttpClient.post(os.environ["DOOR"] + "/2/httpapi", workers.get_payload(events))
    refused = answer if answer.code != 200 else None
before = current_milliseconds()
workers.response_processor.process_response(refused, events)
print(json.dumps([refused.code, len(workers.storage.buffer_data), min(at for at, _ in workers.storage.buffer_data) - before >= 30000]))
""", "amplitude")
        self.assertEqual(json.loads(said.splitlines()[-1]), [429, 400, True])

    def test_amplitudes_python_library(self):
        self.program("""
import os
from amplitude import Amplitude, BaseEvent, Identify, EventOptions
client = Amplitude(os.environ["KEY"])
client.configuration.server_url = os.environ["DOOR"] + "/2/httpapi"
client.configuration.flush_interval_millis = 100
for n in range(60):
    client.track(BaseEvent(event_type="bought", user_id="u-1", event_properties={"n": n}))
identify = Identify()
identify.set("plan", "pro")
client.identify(identify, EventOptions(user_id="u-1"))
identify = Identify()
identify.set("seats", 3)
client.group_identify("org", "acme", identify)
for future in client.flush():
    if future: future.result()
client.shutdown()
""", "amplitude")
        until(lambda: sum(map(len, self.by_name().values())) >= 62, 20, "the events")
        lines = self.by_name()
        self.assertNotIn("user", lines["$group"][0])
        self.assertEqual(lines["$group"][0]["data"]["context"]["groups"], {"org": "acme"})
        self.assertEqual(sorted(line["data"]["n"] for line in lines["bought"]), list(range(60)))
        self.assertEqual(lines["set_user"][0]["traits"]["plan"], "pro")

    def test_none_of_twenty_thousand_events_of_a_library_is_lost_at_a_door_with_keys_alone(self):
        """At the speed of the library: its own queue is the only thing that it waits for."""
        keys = {"segment.analytics": "wk_segment_1", "posthog": "wk_posthog_1", "amplitude": "wk_amplitude_1"}
        self.door.process.stop()
        self.door.configure(keys=[f"{{key: {key}, bundle: com.example.shop, env: prod}}" for key in keys.values()])
        self.door.start()
        for name, program in {
            "segment.analytics": """
import os, time, segment.analytics as analytics
analytics.write_key, analytics.host = os.environ["KEY"], os.environ["DOOR"]
analytics.on_error = lambda error, items: print("error", error)
for n in range(20_000):
    while not analytics.track("u-1", "bought", {"n": n, "sender": "segment.analytics"})[0]:
        time.sleep(0.01)
analytics.flush()
analytics.shutdown()
""",
            "posthog": """
import os, time
from posthog import Posthog
client = Posthog(
    os.environ["KEY"], host=os.environ["DOOR"], disable_geoip=True, on_error=lambda error, items: print("error", error))
for n in range(20_000):
    while client.queue.qsize() >= 9_000:
        time.sleep(0.01)
    client.capture("bought", distinct_id="u-1", properties={"n": n, "sender": "posthog"})
client.shutdown()
""",
            "amplitude": """
import os, time
from amplitude import Amplitude, BaseEvent
answers = []
client = Amplitude(os.environ["KEY"])
client.configuration.server_url = os.environ["DOOR"] + "/2/httpapi"
client.configuration.flush_interval_millis = 100
client.configuration.callback = lambda event, code, message: answers.append(code)
for n in range(20_000):
    client.track(BaseEvent(event_type="bought", user_id="u-1", event_properties={"n": n, "sender": "amplitude"}))
while len(answers) < 20_000:
    client.flush()
    time.sleep(0.05)
print("error" if set(answers) != {200} else "")
client.shutdown()
""",
        }.items():
            with self.subTest(name):
                self.assertNotIn("error", self.program(program, name, keys[name]))
                found = [line["data"]["n"] for lines in self.by_name().values() for line in lines if line["data"]["sender"] == name]
                self.assertEqual(sorted(found), list(range(20_000)))

    def test_curl(self):
        url = f"http://127.0.0.1:{self.door.port}/v1/events"
        done = subprocess.run(
            ["curl", "-sS", "-u", f"{KEY}:", url, "-d", '{"name":"bought","user":"u-1"}'], capture_output=True, check=True)
        self.assertEqual(json.loads(done.stdout), {"stored": 1, "repeated": 0, "quarantined": 0})
