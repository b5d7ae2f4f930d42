"""Receiver and agent are killed at random instants while a backlog drains; nothing is lost, nothing is twice."""

import json
import pathlib
import random
import time

from harness import SiteTest, patience
from ledger import EventMaker, Ledger, exported_ids, stored
from scale import SEED, amount

MEGABYTES = amount("WAYBILL_KILL_MEGABYTES", 40, 200)
KILLS = amount("WAYBILL_KILLS", 5, 20)
EXPORTS = "ga4,mixpanel,csv"


class KillTests(SiteTest):
    """The promise behind every ACK, held by the real processes."""

    def test_a_drain_survives_kills_of_both_sides(self):
        """Every line of a drain is stored exactly once though each process is killed again and again."""
        self.chance = random.Random(SEED)
        self.maker, self.ledger, self.foreign_ledger = EventMaker(SEED), Ledger(), Ledger()
        self.kills, self.kills_with_backlog = {"receiver": 0, "agent": 0}, {"receiver": 0, "agent": 0}
        self.logs = self.site.root / "log"
        self.logs.mkdir()
        self.make_backlog()
        started = time.monotonic()
        running = {"receiver": self.start_receiver(), "agent": self.start_agent()}
        while min(self.kills_with_backlog.values()) < KILLS or self.segments or self.foreign:
            self.assertLess(time.monotonic() - started, patience(300), f"too few kills interrupt anything: {self.kills_with_backlog}")
            victims = self.chance.choice((["receiver"], ["agent"], ["receiver", "agent"]))
            # The instant of the kill is what is random here: from at once to well into the drain.
            self.feed_for(self.chance.choice((0.05, 0.3, 0.6, 1.0)) * self.chance.random())
            for name in victims:
                self.assertTrue(running[name].is_running, f"{name} ended by itself: {running[name].log()[-1500:]}")
                running[name].kill()
                self.kills[name] += 1
                # Behind the kill: what is there now is what it interrupted.
                self.kills_with_backlog[name] += self.has_backlog()
            for name in victims:
                running[name] = self.start_receiver() if name == "receiver" else self.start_agent()
        running["agent"].kill()
        summary = self.site.once(*self.sources(), timeout=120)
        self.assertEqual(self.site.once(*self.sources())["bytes"], 0)
        self.assertEqual(running["receiver"].stop(120), 0, running["receiver"].log()[-1500:])
        print(f"kills {self.kills}, {self.kills_with_backlog} of them with a backlog, lines {self.ledger.line_count + self.foreign_ledger.line_count}, "
              f"drained in {time.monotonic() - started:.0f} s, last drain {json.dumps(summary)}", flush=True)
        self.check()

    def check(self):
        whole = Ledger()
        for ledger in (self.ledger, self.foreign_ledger):
            whole.counts.update(ledger.counts)
        comparison = whole.compare(stored(self.site.data))
        self.assertTrue(comparison.is_clean, f"seed {SEED}: {comparison}")
        self.assertEqual(list(self.site.spool.glob("*.ndjson")), [], "acknowledged segments are deleted")
        for provider in EXPORTS.split(","):
            ids = exported_ids(self.site.data, provider)
            twice = [name for name, count in ids.items() if count > 1 and name != b"-"]
            own = [name for name in ids if name.startswith(b"019550fc-")]
            self.assertEqual(twice[:3], [], f"seed {SEED}: {provider} repeats {len(twice)} events")
            self.assertEqual(len(own), self.ledger.line_count, f"seed {SEED}: {provider} misses events")

    def start_receiver(self):
        return self.site.receiver(exports=EXPORTS)

    def start_agent(self):
        return self.site.agent(*self.sources())

    def sources(self):
        return ["--spool", self.site.spool, "--glob", self.logs / "*.json", "--env", "prod", "--bundle", "com.example.web"]

    def make_backlog(self):
        """Makes all input in a folder beside the spool, so that slices of it appear there at once."""
        staging = self.site.root / "staging"
        staging.mkdir()
        self.maker.spool(staging, self.ledger, MEGABYTES * 900_000, segment_bytes=400_000)
        self.segments = sorted(staging.glob("*.ndjson"))
        self.foreign = self.maker.foreign(MEGABYTES * 400)
        self.foreign_ledger.add(self.foreign)
        self.slices = [len(self.segments) // (2 * KILLS) + 1, len(self.foreign) // (2 * KILLS) + 1]

    def has_backlog(self):
        return any(self.site.spool.glob("*.ndjson"))

    def feed_for(self, seconds):
        """Releases a slice and, whenever it is shipped before the time is over, a segment more, so that there is a backlog
        to interrupt at every instant."""
        deadline = time.monotonic() + seconds
        self.release(*self.slices)
        while time.monotonic() < deadline or not self.has_backlog():
            if not self.has_backlog():
                self.release(1, 0)
            time.sleep(0.002)

    def release(self, segment_count, line_count):
        """Moves the next segments into the spool, and appends the next lines to a foreign file."""
        if segment_count and not self.segments:
            self.segments = [pathlib.Path(self.maker.segment(self.site.root / "staging", self.maker.lines(800), ledger=self.ledger))]
        slice_, self.segments = self.segments[:segment_count], self.segments[segment_count:]
        for path in slice_:
            path.rename(self.site.spool / path.name)
        lines, self.foreign = self.foreign[:line_count], self.foreign[line_count:]
        with open(self.logs / f"web-{self.chance.randrange(8)}.json", "ab") as file:
            file.write(b"".join(lines))
