"""A storm of repeats: real senders behind a proxy that loses answers, while door, agent and receiver are killed.

Every event that a sender tracked arrives once. The storm lasts at least WAYBILL_STORM_SECONDS (4 minutes in a nightly run),
until each of the three was killed and answers were lost.
"""

import collections
import http.client
import json
import os
import random
import subprocess
import threading
import time
import uuid

import browser
from harness import Handler, patience, serve, until
from scale import SEED, amount, at_night
from test_ingest import KEY, DoorTest
from test_ingest_browser import Shop
from test_ingest_sdks import PYTHON

# Each reads "stop" from its input, sends what is left, and says how many events it tracked and which it gave up.
PREAMBLE = """
import json, os, select, sys, time
door, key, given_up = os.environ["DOOR"], os.environ["KEY"], []
def numbers():
    n = 0
    while not select.select([sys.stdin], [], [], 0.05)[0]:
        yield n
        n += 1
    globals()["tracked"] = n
"""
PROGRAMS = {
    "segment": ("segment.analytics", """
import segment.analytics as analytics
analytics.write_key, analytics.host, analytics.max_retries = key, door, 1000
analytics.on_error = lambda error, items: given_up.extend(item["properties"]["n"] for item in items)
for n in numbers():
    analytics.track("u-1", "bought", {"n": n, "sender": "segment"})
analytics.flush()
analytics.shutdown()
"""),
    "posthog": ("posthog", """
from posthog import Posthog
client = Posthog(
    key, host=door, disable_geoip=True, max_retries=1000, flush_interval=0.5,
    on_error=lambda error, items: given_up.extend(item["properties"]["n"] for item in items))
for n in numbers():
    client.capture("bought", distinct_id="u-1", properties={"n": n, "sender": "posthog"})
client.flush()
client.shutdown()
"""),
    "amplitude": ("amplitude", """
from amplitude import Amplitude, BaseEvent
sent = set()
def answered(event, code, message):
    (sent.add if code == 200 else given_up.append)(event.event_properties["n"])
client = Amplitude(key)
client.configuration.server_url, client.configuration.callback = door + "/2/httpapi", answered
client.configuration.flush_interval_millis, client.configuration.flush_max_retries = 200, 1000
for n in numbers():
    client.track(BaseEvent(event_type="bought", user_id="u-1", event_properties={"n": n, "sender": "amplitude"}))
while len(sent) + len(given_up) < tracked:
    client.flush()
    time.sleep(0.2)
client.shutdown()
"""),
}
EPILOGUE = """
print(json.dumps({"tracked": tracked, "given_up": given_up}))
"""


class Losses(Handler):
    """A proxy that refuses some requests, and loses the answers to others."""

    protocol_version = "HTTP/1.1"

    def pass_on(self):
        storm = self.server.storm
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        # Scripts and preflights are no events.
        chance = storm.dice.random() if self.command == "POST" and storm.is_raging else 1
        storm.counts["requests"] += 1
        if chance < 0.15:
            storm.counts["refused"] += 1
            return self.fail()
        connection = http.client.HTTPConnection("127.0.0.1", storm.port, timeout=30)
        try:
            headers = {name: value for name, value in self.headers.items() if name.lower() not in ("connection", "expect")}
            connection.request(self.command, self.path, body=body, headers=headers)
            answer = connection.getresponse()
            content = answer.read()
        except (OSError, http.client.HTTPException):
            storm.counts["cut"] += 1
            return self.fail()
        finally:
            connection.close()
        if chance < 0.5:
            storm.counts["lost"] += 1
            return self.fail()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("connection", "content-length", "date", "server"):
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def fail(self):
        """As nginx does where its upstream is gone."""
        self.send_response(502)
        self.send_header("Content-Length", "0")
        if "Origin" in self.headers:
            self.send_header("Access-Control-Allow-Origin", self.headers["Origin"])
            self.send_header("Access-Control-Allow-Credentials", "true")
        self.end_headers()

    do_GET = do_POST = do_OPTIONS = pass_on


class Storm:
    """What the proxy does, and did."""

    def __init__(self, port):
        self.port, self.dice, self.is_raging = port, random.Random(SEED), True
        self.counts = collections.Counter()


@at_night
class StormTests(DoorTest):
    def setUp(self):
        super().setUp()
        self.storm = Storm(self.door.port)
        self.is_over = False
        self.url = serve(self, Losses, storm=self.storm).url

    def sdk(self, name):
        module, program = PROGRAMS[name]
        if subprocess.run([PYTHON, "-c", f"import {module}"], capture_output=True, check=False).returncode:
            self.skipTest(f"{module} is not installed")
        child = subprocess.Popen(
            [PYTHON, "-c", PREAMBLE + program + EPILOGUE], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True, env={**os.environ, "DOOR": self.url, "KEY": KEY})
        self.addCleanup(child.kill)
        return child

    def curl(self, enough, told):
        """Batches of lines with ids, each sent until it is answered."""
        tracked = 0
        while not enough.is_set():
            lines = "".join(
                json.dumps({"id": str(uuid.uuid4()), "name": "bought", "user": "u-1", "data": {"n": n, "sender": "curl"}}) + "\n"
                for n in range(tracked, tracked + 10))
            tracked += 10
            while not self.is_over:
                done = subprocess.run(
                    ["curl", "-sS", "-o", os.devnull, "-w", "%{http_code}", "-m", "30", "-u", f"{KEY}:",
                     f"{self.url}/v1/events", "--data-binary", "@-"],
                    input=lines, capture_output=True, text=True, check=False)
                if done.stdout == "200":
                    break
                time.sleep(0.05)
            time.sleep(0.1)
        told.append(tracked)

    def tab(self):
        page = (f'<!doctype html><title>Shop</title><script async src="{self.url}/waybill.js" data-key="{KEY}" '
                'data-pages="manual"></script>').encode()
        opened = browser.Browser()
        self.addCleanup(opened.close)
        tab = opened.page(serve(self, Shop, page=page).url + "/")
        tab.until("window.waybill && window.waybill.track")
        # Fewer events than it keeps, for it waits longer and longer while requests fail.
        tab.evaluate("window.tracked = 0; window.tracking = setInterval("
                     "() => waybill.track('bought', {n: tracked++, sender: 'browser'}), 500); 0")
        return tab

    def test_every_event_arrives_once(self):
        seconds = amount("WAYBILL_STORM_SECONDS", 10, 240)
        receiver, agent = self.site.receiver(), self.agent()
        self.door.start()
        children = {name: self.sdk(name) for name in PROGRAMS}
        tab = self.tab() if browser.is_installed() else None
        enough, curled = threading.Event(), []
        curl = threading.Thread(target=self.curl, args=(enough, curled), daemon=True)
        curl.start()
        self.addCleanup(enough.set)
        self.addCleanup(setattr, self, "is_over", True)

        kills, dice, end = collections.Counter(), random.Random(SEED + 1), time.monotonic() + seconds
        while time.monotonic() < end or len(kills) < 3 or not self.storm.counts["lost"]:
            time.sleep(dice.uniform(0.2, 2))
            victim = dice.choice(["door", "door", "agent", "receiver"])
            kills[victim] += 1
            if victim == "door":
                self.door.process.kill()
                time.sleep(dice.choice([0, 0.5]))
                self.door.start()
            elif victim == "agent":
                agent.kill()
                agent = self.agent()
            else:
                receiver.kill()
                receiver = self.site.receiver()

        self.storm.is_raging = False
        enough.set()
        tracked = {}
        for name, child in children.items():
            output, _ = child.communicate("stop\n", timeout=patience(240))
            self.assertEqual(child.returncode, 0, name)
            said = json.loads(output.splitlines()[-1])
            self.assertEqual(said["given_up"], [], name)
            tracked[name] = said["tracked"]
        curl.join(patience(60))
        tracked["curl"] = curled[0]
        if tab:
            tab.evaluate("clearInterval(tracking); waybill.flush(); 0")
            tab.until("!Object.keys(localStorage).some(k => k.startsWith('waybill.e.'))")
            tracked["browser"] = tab.evaluate("tracked")

        def found():
            numbers = collections.defaultdict(list)
            for line in self.archived():
                if line["name"] == "bought":
                    numbers[line["data"]["sender"]].append(line["data"]["n"])
            return numbers
        until(lambda: all(len(found()[name]) >= count for name, count in tracked.items()), 60, "every event is archived")
        # What was stored twice has arrived twice once they have ended.
        self.stop_all(self.door.process, agent, receiver)
        receiver = self.site.receiver()
        self.assertEqual(self.agent("--once").wait(), 0)
        self.assertEqual(receiver.stop(), 0)
        print(f"storm: {seconds} s, kills {dict(kills)}, proxy {dict(self.storm.counts)}, tracked {tracked}", flush=True)
        numbers = found()
        for name, count in tracked.items():
            self.assertGreater(count, 0, name)
            self.assertEqual(sorted(numbers[name]), list(range(count)), name)
