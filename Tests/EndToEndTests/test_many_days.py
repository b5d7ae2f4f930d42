"""Days that are too many: one principal's cost few files and no time of others in exports, and replays give the same."""

import datetime
import json
import time

from harness import succeed, until
from ledger import archived, exported_ids, lines_of, timestamp, utc_now
from test_hostile_principals import PrincipalsTest

EXPORTS = ("csv", "mixpanel", "segment", "posthog")
FIRST = datetime.datetime(2001, 1, 1, 12, tzinfo=datetime.timezone.utc)
BATCH = 1500


class ManyDaysTests(PrincipalsTest):
    TOKENS = {name: f"{name}-0123456789abcdef" for name in ("evil", "good")}

    def setUp(self):
        super().setUp()
        self.sent = {name: 0 for name in self.TOKENS}
        self.ids = set()

    def start(self, days):
        return self.receiver(
            self.entry("evil", f"quotas: {{days: {days}}}"), self.entry("good"), exports=",".join(EXPORTS))

    def ship(self, principal, times):
        """Sends events of these times in one stream; returns their ids once they are acknowledged."""
        writer, ids = self.maker.writer(), []
        peer = self.peer(principal)
        peer.open(principal)
        for start in range(0, len(times), BATCH):
            lines = [self.maker.event(writer, start + n + 1, ts=timestamp(time), env="prod", bundle="com.example.shop")
                     for n, time in enumerate(times[start:start + BATCH])]
            ids += [json.loads(line)["id"] for line in lines]
            raw = b"".join(lines)
            peer.batch(principal, raw, offset=self.sent[principal])
            self.sent[principal] += len(raw)
            self.assertEqual(peer.line(60), f"ACK 1 {self.sent[principal]}")
        peer.close()
        self.ids.update(ids)
        return ids

    def days(self, provider, data=None):
        """The day of each id, each of which is there once."""
        found = {}
        for path in sorted(((data or self.site.data) / "exports" / provider).rglob("part-*.ids")):
            for line in lines_of(path):
                for name in line.decode().rstrip().split(","):
                    self.assertNotIn(name, found)
                    found[name] = path.parent.name.removeprefix("date=")
        return found

    def assert_whole(self, before=None):
        """Everything sent is in each export once; what was there before is where it was."""
        days = {provider: self.days(provider) for provider in EXPORTS}
        for provider, found in days.items():
            self.assertEqual(set(found), self.ids, provider)
            if before:
                self.assertLessEqual(before[provider].items(), found.items(), provider)
        return days

    def assert_replayed(self, days):
        for provider in EXPORTS:
            for origin in ("archive", "journal"):
                output = self.site.root / f"again-{provider}-{origin}-{len(self.ids)}"
                succeed("replay", "--data", self.site.data, "--provider", provider, "--output", output,
                        *(["--from-journal"] if origin == "journal" else []))
                self.assertEqual(self.days(provider, output), days[provider], (provider, origin))
        self.assert_verified()

    def test_six_thousand_days_are_few_files_and_delay_nobody(self):
        receiver = self.start(5)
        self.ship("evil", [FIRST + datetime.timedelta(days=n) for n in range(6000)])
        [good] = self.ship("good", [utc_now()])
        begun = time.monotonic()
        until(lambda: any(good.encode() in line for line in archived(self.site.data)), 60, "the archive has the good event")
        behind = time.monotonic()
        until(lambda: all(exported_ids(self.site.data, provider)[good.encode()] for provider in EXPORTS), 60,
              "the exports have the good event")
        print(f"days: archived after {behind - begun:.2f} s, in {len(EXPORTS)} exports {time.monotonic() - behind:.2f} s later")
        self.assertEqual(receiver.stop(), 0)
        files = [path for path in (self.site.data / "exports").rglob("*") if path.is_file()]
        self.assertLess(len(files), 40 * len(EXPORTS))
        days = self.assert_whole()
        for provider in EXPORTS:
            self.assertEqual(len(set(days[provider].values())), 6, provider)
        self.assertEqual(sum(1 for _ in archived(self.site.data)), len(self.ids))
        self.assert_replayed(days)
