"""Where each line lies: `.sources`, the ids of foreign lines, and what finds a line again by its place."""

import collections
import gzip
import hashlib
import json
import random

from harness import ended, failure, run, succeed
from ledger import EventMaker, exported_ids, lines_of
from scale import SEED
from test_replay import ReplayTest, events
from wire import Peer

STREAM = "web-01-fe01-2a-18c3f0-a1b2c3d4e5f60718-0"
APPS = ("com.example.web", "com.example.shop", "com.example.game")
DAYS = ("2026-11-20", "2026-11-21")


def line_id(principal, stream, offset):
    """The id of a foreign line: a UUID of version 8 (Protocol/formats/exports.md, section 2)."""
    seed = hashlib.sha256(f"{principal}\0{stream}".encode()).digest()
    digest = bytearray(hashlib.sha256(seed + offset.to_bytes(8, "big")).digest()[:16])
    digest[6], digest[8] = digest[6] & 0x0F | 0x80, digest[8] & 0x3F | 0x80
    text = digest.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def runs(data):
    """Each run of each `.sources`: the stem, the stream's description, and the numbers of its line."""
    for path in sorted(data.rglob("*.sources")):
        streams = {}
        for line in lines_of(path):
            word, number, rest = line.decode().rstrip("\n").split(" ", 2)
            if word == "OPEN":
                streams[number] = json.loads(rest)
            else:
                yield path.with_suffix(""), streams[number], [int(field) for field in rest.split(" ")]


def stored_bytes(stem):
    """The lines of a part, open or sealed."""
    sealed = stem.with_suffix(".ndjson.gz")
    return gzip.decompress(sealed.read_bytes()) if sealed.exists() else stem.with_suffix(".ndjson").read_bytes()


def cut(content, chance, longest):
    """Offsets and batches of whole lines."""
    lines = content.splitlines(True)
    while lines:
        count = chance.randint(1, longest)
        yield b"".join(lines[:count])
        lines = lines[count:]


class LinesTest(ReplayTest):
    def ship(self, content, longest, stream=STREAM, form="ndjson", apps=APPS[:1], seed=SEED, **members):
        """Ships a stream in random batches; its description names one app after the other."""
        chance, offset = random.Random(seed), 0
        bounds = [len(content) * (number + 1) // len(apps) for number in range(len(apps))]
        for app, bound in zip(apps, bounds):
            end = len(content) if bound == len(content) else content.rindex(b"\n", 0, bound) + 1
            with self.opened(f"AT 1 {offset}", stream, form=form, bundle=app, **members) as peer:
                for raw in cut(content[offset:end], chance, longest):
                    peer.batch(stream, raw, offset=offset)
                    offset += len(raw)
                    self.assertEqual(peer.line(), f"ACK 1 {offset}")

    def opened(self, expected, stream, **members):
        """A connection with the stream; the receiver may not have seen the end of the one before yet."""
        while True:
            peer = Peer(self.site.port)
            answer = peer.hello()
            if answer and answer.startswith("READY"):
                answer = peer.open(stream, **members)
                if answer == expected:
                    return peer
            self.assertIn("in-use", answer)
            peer.close()

    def assert_located(self, contents):
        """Every byte of the streams is in one run, at its offset, and the run's bytes are the stream's."""
        found = collections.defaultdict(list)
        for stem, description, (offset, _, start, length, lines, *empty) in runs(self.site.data):
            content = contents[description["stream"]]
            if empty:
                self.assertEqual((length, empty), (0, [lines]))
                own = b"\n" * lines
            else:
                own = stored_bytes(stem)[start:start + length]
            self.assertEqual(own, content[offset:offset + len(own)], f"{stem} at {start}")
            self.assertEqual(own.count(b"\n"), lines)
            found[description["stream"]].append((offset, offset + len(own)))
        for stream, content in contents.items():
            ends = sorted(found[stream])
            self.assertEqual([0] + [end for _, end in ends], [start for start, _ in ends] + [len(content)], stream)

    def assert_whole(self):
        self.assert_verified()

    def transformed(self, provider, *arguments, stdin=b"", expected=0):
        """The records that the filter writes, and its counts."""
        result = ended(expected, "transform", "--provider", provider, *arguments, stdin=stdin)
        return collections.Counter(result.stdout.splitlines()), json.loads(result.stderr)

    def parts(self):
        return sorted((self.site.data / "archive").rglob("*.ndjson*"))


class ForeignLineTests(LinesTest):
    MEMBERS = {"time": "at", "anonymous": "cookie"}
    OPTIONS = ("--env", "prod", "--bundle", APPS[0], "--time-member", "at", "--anonymous-member", "cookie")

    def setUp(self):
        super().setUp()
        chance, self.content, self.ids = random.Random(SEED), b"", []
        for number in range(900):
            if chance.random() < 0.1:
                self.content += chance.choice([b"\n", b"\n\n", b"no JSON\n", b" \n", b'{"n":1}\n'])
                continue
            self.ids.append(line_id("", STREAM, len(self.content)))
            line = {"at": f"{chance.choice(DAYS)}T0{number % 10}:00:00Z", "event": "GET", "n": number,
                    "cookie": f"b5372db0-c21e-41e4-8dfc-{number % 50:012d}"}
            # An id of a thing is not the event's.
            self.content += json.dumps({**line, "id": f"n-{number % 7}"} if number % 2 else line).encode() + b"\n"

    def live(self, longest, data):
        self.site.data = self.site.root / data
        receiver = self.site.receiver(exports="posthog,mixpanel,csv")
        self.ship(self.content, longest, apps=APPS, seed=f"{SEED} {data}", **self.MEMBERS)
        self.assertEqual(receiver.stop(), 0)
        self.assert_located({STREAM: self.content})
        self.assert_whole()
        for provider in ("posthog", "mixpanel", "csv"):
            ids = exported_ids(self.site.data, provider)
            self.assertEqual(ids, collections.Counter(id.encode() for id in self.ids), provider)
        return {provider: events(self.site.data, provider) for provider in ("posthog", "mixpanel")}

    def test_ids_are_those_of_places_live_replayed_filtered_and_shipped_again(self):
        """Batches of three apps, two days and the quarantine: a line's id depends on its place in the stream alone."""
        live = self.live(40, "data")
        for provider, expected in live.items():
            self.replay(provider)
            self.assertEqual(events(self.site.data, provider), expected)
            records, counts = self.transformed(provider, *self.parts())
            self.assertEqual(records, expected)
            self.assertEqual((counts["lines"], counts["exported"]), (len(self.ids), len(self.ids)))
        # From the file itself, the app is the one that is named, so only the ids are the same.
        records, counts = self.transformed("posthog", *self.OPTIONS, "--stream", STREAM, stdin=self.content, expected=65)
        self.assertEqual(sorted(json.loads(record)["uuid"] for record in records), sorted(self.ids))
        for longest in (1, 200):
            self.assertEqual(self.live(longest, f"again-{longest}"), live, f"batches of up to {longest} lines")

    def test_a_sealed_day_is_filtered_like_an_open_one(self):
        """`.sources` belongs to the inflated lines; a part without them is plain input."""
        live = self.live(40, "data")
        succeed("seal", "--data", self.site.data, "--all")
        self.assertTrue(all(path.name.endswith(".gz") for path in self.parts()), self.parts())
        self.assert_located({STREAM: self.content})
        self.assert_whole()
        records, _ = self.transformed("mixpanel", *self.parts())
        self.assertEqual(records, live["mixpanel"])
        for path in (self.site.data / "archive").rglob("*.sources"):
            path.unlink()
        result = run("transform", "--provider", "mixpanel", *self.OPTIONS, self.parts()[0])
        self.assertEqual((result.returncode, result.stdout), (64, b""))
        self.assertIn("--stream", result.stderr.decode())
        records, _ = self.transformed("mixpanel", *self.OPTIONS, "--stream", "other", self.parts()[0])
        self.assertEqual(len(records), len(gzip.decompress(self.parts()[0].read_bytes()).splitlines()))

    def test_bytes_without_a_run_and_damaged_lengths_are_counted(self):
        """What no run explains is not taken for filtered, wherever it is, and no length is believed."""
        self.live(40, "data")
        arguments = ("transform", "--provider", "mixpanel", *self.OPTIONS)
        part = max(self.parts(), key=lambda path: path.stat().st_size)
        sources, content = part.with_suffix(".sources"), part.read_bytes()
        lines = sources.read_text().splitlines(True)
        result = succeed(*arguments, part)
        whole = result.stdout
        last = lines[-1].split()
        self.assertEqual(last[0], "FROM")
        end = int(last[4])
        for name, text, unexplained in (
                ("the last run is gone", "".join(lines[:-1]), len(content) - end),
                ("a length beyond the file", "".join(lines[:-1]) + f"FROM {' '.join(last[1:5])} {1 << 52} 1\n", len(content) - end),
                ("no run at all", lines[0], len(content))):
            with self.subTest(name):
                sources.write_text(text)
                result = ended(65, *arguments, part)
                self.assertEqual(json.loads(result.stderr)["unexplained_bytes"], unexplained)
                self.assertTrue(whole.startswith(result.stdout))
        sources.write_text("".join(lines))
        # A compressed file has all lines of its runs, and no others.
        compressed = part.with_suffix(".ndjson.gz")
        part.unlink()
        compressed.write_bytes(gzip.compress(content))
        self.assertEqual(run(*arguments, compressed).stdout, whole)
        compressed.write_bytes(gzip.compress(content[:end]))
        self.assertIn("is damaged", failure(74, *arguments, compressed))
        compressed.write_bytes(gzip.compress(content))
        sources.write_text("".join(lines[:-1]) + f"FROM {' '.join(last[1:5])} {1 << 52} 1\n")
        self.assertIn("is damaged", failure(74, *arguments, compressed))

    def test_the_filter_says_what_it_fixed_and_what_it_needs(self):
        """Foreign lines need a stream, unless they have UUIDs; members and streams are for foreign lines."""
        line = b'{"at":"2026-11-20T00:00:00Z","event":"GET","cookie":"b5372db0-c21e-41e4-8dfc-000000000000"%s}\n'
        own = b',"id":"019550fc-2dfb-7b1c-82d3-000000000001","x":null'
        records, counts = self.transformed("mixpanel", *self.OPTIONS, stdin=line % own)
        self.assertEqual([json.loads(record)["properties"]["$insert_id"] for record in records],
                         ["019550fc-2dfb-7b1c-82d3-000000000001"])
        self.assertEqual(counts["fixed"], {"drop_null": 1})
        told = failure(64, "transform", "--provider", "mixpanel", *self.OPTIONS, stdin=line % own + line % b"")
        self.assertIn("line 2 has no UUID", told)
        for arguments in (["--stream", "s"], ["--user-member", "u"], [*self.OPTIONS, "--stream", "a b"],
                          [*self.OPTIONS, "--principal", "p"], [*self.OPTIONS, "--stream", "s", "x", "y"]):
            self.assertEqual(run("transform", "--provider", "csv", *arguments).returncode, 64, arguments)

    def test_refused_lines_are_found_by_their_place(self):
        """GA4 refuses what has no app instance; its dead letters point to lines, which keep their ids."""
        receiver = self.site.receiver(exports="ga4")
        self.ship(self.content, 40, **self.MEMBERS)
        self.assertEqual(receiver.stop(), 0)
        letters = [json.loads(line) for path in self.site.data.rglob("dead/part-*.ndjson") for line in lines_of(path)]
        self.assertEqual(sorted(letter["id"] for letter in letters), sorted(self.ids))
        for letter in letters:
            self.assertNotIn("event", letter)
            self.assertEqual(letter["id"], line_id("", letter["stream"], letter["offset"]))
        refused = ("replay", "--data", self.site.data, "--refused", "ga4")
        report = json.loads(run(*refused).stdout)
        self.assertEqual((report["letters"], report["refused"], report["gone"]), (len(letters), len(letters), 0))


class MixedBatchTests(LinesTest):
    def test_own_events_of_three_apps_and_two_days_in_each_batch(self):
        """Each event is in the file of its app and day, each run at its offset, whatever the batches were."""
        maker, chance = EventMaker(SEED), random.Random(SEED)
        lines = [maker.event(maker.writer(), number, env="prod", bundle=chance.choice(APPS),
                             ts=f"{chance.choice(DAYS)}T09:00:00.000Z") for number in range(1, 600)]
        ids = sorted(json.loads(line)["id"].encode() for line in lines)
        content, found = b"".join(lines), []
        for longest in (1, 50, 300):
            self.site.data = self.site.root / f"data-{longest}"
            receiver = self.site.receiver(exports="segment")
            self.ship(content, longest, form="waybill")
            self.assertEqual(receiver.stop(), 0)
            self.assert_located({STREAM: content})
            self.assert_whole()
            self.assertEqual(sorted(exported_ids(self.site.data, "segment").elements()), ids)
            live = events(self.site.data, "segment")
            self.replay("segment")
            self.assertEqual(events(self.site.data, "segment"), live)
            self.assertEqual(self.transformed("segment", *self.parts())[0], live)
            found.append(live)
        self.assertEqual(found, [found[0]] * 3)
