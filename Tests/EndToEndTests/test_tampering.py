"""`waybill inspect --verify` finds every way to damage every kind of file of a data directory, and names it.

One data directory has two apps and three days, sealed and open, four exports with closed and open parts, dead letters,
held events, quarantine, deliveries and a replay. Each test case copies it, damages one file in one way, and verifies. The
table in Documentation/verification.md says what is found; it must agree.
"""

import concurrent.futures
import datetime
import itertools
import json
import os
import re
import shutil

from harness import REPOSITORY, Site, SiteTest, run
from ledger import EventMaker, timestamp, utc_now
from providers import FalseProvider
from test_deliver import QUICK
from test_deliver import deliver as send

EXPORTS = "ga4,mixpanel,csv,segment"
PAGE = REPOSITORY / "Documentation" / "verification.md"
# Each kind of file with a pattern for its path; the first file that has content is damaged, and swapped with the second.
# A pattern with `!` before a suffix takes only files that have no neighbour of that suffix.
KINDS = {
    "journal segment": ["journal/*.journal"],
    "archive: open lines": ["archive/*/*/*/*.ndjson"],
    "archive: `.sources` of open lines": ["archive/*/*/*/late-*.sources", "archive/env=prod/*/*/part-*.sources!.ndjson.gz"],
    "archive: sealed lines": ["archive/*/*/*/*.ndjson.gz"],
    "archive: `.sources` of sealed lines": ["archive/*/*/*/part-*.sources!.ndjson"],
    "archive: `manifest.json`": ["archive/*/*/*/manifest.json"],
    "archive: `_SUCCESS`": ["archive/*/*/*/_SUCCESS"],
    "quarantine: lines": ["quarantine/*/*.ndjson"],
    "quarantine: `.sources`": ["quarantine/*/*.sources"],
    "export: open part, lines": ["exports/mixpanel/*/*/part-*.ndjson"],
    "export: open part, CSV": ["exports/csv/*/*/part-*.csv"],
    "export: open part, shared records": ["exports/ga4/*/*/part-*.ndjson"],
    "export: `.ids` of an open part": ["exports/mixpanel/*/*/part-*.ids!.ndjson.gz"],
    "export: closed part": ["exports/mixpanel/*/*/part-*.ndjson.gz"],
    "export: `.ids` of a closed part": ["exports/mixpanel/*/*/part-*.ids!.ndjson"],
    "export: manifest of a part": ["exports/mixpanel/*/*/part-*.manifest.json"],
    "export: part made by a replay": ["exports/segment/*/*/part-*.ndjson.gz"],
    "export: open dead letters": ["exports/ga4/*/*/dead/part-*.ndjson"],
    "export: closed dead letters": ["exports/ga4/*/*/dead/part-*.ndjson.gz"],
    "export: manifest of dead letters": ["exports/ga4/*/*/dead/part-*.manifest.json"],
    "export: `held`": ["exports/mixpanel/*/*/held"],
    "export: `manifest.json` of a day": ["exports/mixpanel/*/*/manifest.json"],
    "export: `_SUCCESS`": ["exports/mixpanel/*/*/_SUCCESS"],
    "export: `.delivered`": ["exports/mixpanel/*/*/*.delivered"],
    "state: archive": ["state/archive.state"],
    "state: export": ["state/export-*.state"],
    "state: delivery": ["state/deliver-*.state"],
}
WAYS = ("flipped", "cut", "extended", "removed", "swapped")


def flipped(data, index):
    return data[:index] + bytes([data[index] ^ 1]) + data[index + 1:]


class TamperingTests(SiteTest):
    """One file is damaged in one way; the verification names it."""

    @classmethod
    def setUpClass(cls):
        cls.source = Site()
        cls.addClassCleanup(cls.source.close)
        site, maker = cls.source, EventMaker(83)

        def ship(lines):
            receiver = site.receiver(exports=EXPORTS)
            maker.segment(site.spool, lines)
            site.once()
            assert receiver.stop() == 0, receiver.log()

        def seal():
            result = run("seal", "--data", site.data, "--all")
            assert result.returncode == 0, result.stderr

        def lines(count):
            events = [line for env in ("prod", "dev") for line in maker.lines(count, env=env)]
            # No id of an app: GA4 refuses it.
            nameless = [re.sub(rb'"(anon":"[^"]*"|ids":{[^}]*}),', b"", line)
                      for env in ("prod", "dev") for line in maker.lines(count // 10, env=env)]
            strangers = [b"no event %d\n" % number for number in range(count // 10)] + [b"[1,2]\n", b"[3]\n"]
            return events + nameless + strangers

        ship(lines(300))
        seal()
        server = FalseProvider("mixpanel", (), poison=False)
        cls.addClassCleanup(server.close)
        sent = send(site.data, "mixpanel", "--endpoint", server.address, *QUICK)
        assert sent.returncode == 0, sent.stderr
        replayed = run("replay", "--data", site.data, "--provider", "segment")
        assert replayed.returncode == 0, replayed.stderr
        # Late lines for sealed days, and events that a provider holds.
        later = timestamp(utc_now() + datetime.timedelta(hours=9))
        ship(lines(120) + maker.lines(8, env="prod", ts=later) + maker.lines(8, env="dev", ts=later))

    def verify(self, data):
        result = run("inspect", "--verify", "--all", "--json", data)
        items = [json.loads(line) for line in result.stdout.decode().splitlines()]
        notes = [item["text"] for item in items if item["kind"] == "note"]
        return result.returncode, [item for item in items if item["kind"] == "problem"], notes

    def files(self, patterns):
        """Files of a kind that have content, or are always empty."""
        found = []
        for pattern in patterns:
            pattern, _, other = pattern.partition("!")
            for path in sorted(self.source.data.glob(pattern)):
                stem = str(path)[:-len(path.suffix)]
                if (other and os.path.exists(stem + other)) or path in found:
                    continue
                if path.stat().st_size > 0 or path.name == "_SUCCESS":
                    found.append(path)
        return [path.relative_to(self.source.data) for path in found]

    def damages(self, files):
        """Each way, with the files' new contents; several for one way are tried one after the other."""
        first = files[0]
        data = (self.source.data / first).read_bytes()
        extra = data.splitlines(keepends=True)[-1] if data else b"x\n"
        ways = {"extended": [{first: data + b"x"}, {first: data + extra}], "removed": [{first: None}]}
        if data:
            places = sorted({0, len(data) // 3, len(data) // 2, len(data) - 1})
            ways["flipped"] = [{first: flipped(data, index)} for index in places]
            ways["cut"] = [{first: data[:-1]}, {first: data[:len(data) // 2]}]
        for other in files[1:]:
            content = (self.source.data / other).read_bytes()
            if content != data:
                ways["swapped"] = [{first: content, other: data}]
                break
        return ways

    def said(self, kind, way, change):
        """The codes of the problems that name a damaged file, or `note`; an empty set if nothing does."""
        data = self.site.root / f"copy-{next(self.copies)}"
        shutil.copytree(self.source.data, data)
        for path, content in change.items():
            if content is None:
                (data / path).unlink()
            else:
                (data / path).write_bytes(content)
        returncode, problems, notes = self.verify(data)
        shutil.rmtree(data)
        codes = {problem["code"] for problem in problems if any(problem["path"] == str(path) for path in change)}
        for problem in problems:
            self.assertTrue(problem["means"] and problem["repair"] and problem["text"], problem)
            if problem["path"].startswith("exports/") and problem["code"] not in ("stray",) and "restore" not in problem["repair"]:
                self.assertIn("waybill replay --data ", problem["repair"])
        if codes:
            self.assertEqual(returncode, 65, f"{kind} {way}: {problems[:3]}")
            return codes
        # The journal's retention deletes its first segments.
        first = "the journal starts at" if way.startswith("removed") else "\0"
        if any(str(path) in note or first in note for note in notes for path in change):
            return {"note"}
        print(f"NOT NAMED: {kind}, {way} ({returncode}): {[p['path'] + ': ' + p['code'] for p in problems[:4]]} {notes[:3]}", flush=True)
        return set()

    def test_every_damage_of_every_kind_of_file_is_found_and_named(self):
        returncode, problems, notes = self.verify(self.source.data)
        self.assertEqual((returncode, problems), (0, []), notes)
        self.copies = itertools.count()
        jobs, rows, holes = [], {}, []
        for kind, patterns in KINDS.items():
            files = self.files(patterns)
            self.assertTrue(files, f"the data directory has no {kind}")
            rows[kind] = {way: set() for way in WAYS}
            jobs += [(kind, way, number, change) for way, changes in self.damages(files).items()
                     for number, change in enumerate(changes)]
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            found = pool.map(lambda job: self.said(job[0], f"{job[1]} {job[2]}", job[3]), jobs)
            for (kind, way, number, change), codes in zip(jobs, found):
                rows[kind][way] |= codes
                if not codes:
                    holes.append(f"{kind}, {way} {number}: {[str(path) for path in change]}")
        rows = {kind: [", ".join(sorted(row[way])) or "–" for way in WAYS] for kind, row in rows.items()}
        table = ["| " + " | ".join([kind] + cells) + " |" for kind, cells in rows.items()]
        print("\n".join(table), flush=True)
        self.assertEqual(holes, [], "nothing is said of these")
        written = {}
        for line in PAGE.read_text().splitlines():
            cells = [cell.strip() for cell in line.split("|")[1:-1]]
            if len(cells) == 1 + len(WAYS) and cells[0] in rows:
                written[cells[0]] = cells[1:]
        self.assertEqual(list(written), list(rows), f"the kinds in the table of {PAGE.name}")
        for kind, cells in rows.items():
            for way, said, cell in zip(WAYS, cells, written[kind]):
                # What else is said depends on the byte, and so on the time of the test.
                self.assertTrue(
                    set(said.split(", ")) & set(cell.split(", ")), f"{kind}, {way}: the table says {cell}, not {said}")
