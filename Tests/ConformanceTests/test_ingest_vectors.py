"""The vectors of requests over HTTP: their lines are what the schema says, and they have each kind of refusal."""

import json
import pathlib
import sys
import unittest

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "Tests" / "EndToEndTests"))

from schemas import violations  # noqa: E402

FOLDER = REPOSITORY / "Protocol" / "vectors"


def lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


class IngestVectorTests(unittest.TestCase):
    def test_every_line_is_what_the_schema_says(self):
        count = 0
        for path in sorted((FOLDER / "ingest").glob("*.ndjson")):
            for row in lines(path):
                for line in row.get("lines", []):
                    self.assertNotIn("\n", line)
                    self.assertLessEqual(len(line.encode()) + 1, 32 << 10)
                    self.assertEqual(violations("event.schema.json", json.loads(line)), [], (path.name, row["name"]))
                    count += 1
        self.assertGreater(count, 300)

    def test_a_client_s_lines_are_held_to_more(self):
        for path in sorted((FOLDER / "events").glob("*.ndjson")):
            for event in lines(path):
                self.assertEqual(violations("event.schema.json", event), [], path.name)
        good = lines(FOLDER / "events" / "client.ndjson")[0]
        for change in ({"anon": "a"}, {"data": {"a": {"b": {"c": 1}}}}, {"traits": {"a": [[1]]}}, {"seq": None}, {"seq": 0},
                       {"build": None}, {"writer": None}, {"name": "n" * 256}, {"kind": "click"}, {"kind": "user"}, {"ts": "now"},
                       {"kind": "meta"}, {"tz": 1441}, {"sample_rate": 0}, {"overrides": {"ga4": {}}}, {"session": "s"}):
            wrong = {name: value for name, value in {**good, **change}.items() if value is not None}
            self.assertNotEqual(violations("event.schema.json", wrong), [], change)

    def test_what_a_request_may_hold_is_in_the_vectors(self):
        """A case that is taken out of the files is missed here."""
        rows = [row for path in (FOLDER / "ingest").glob("*.ndjson") for row in lines(path)]
        reasons = {fault["reason"] for row in rows for fault in row.get("faults", [])}
        self.assertEqual(reasons, {"not-json", "not-an-object", "no-name", "no-person", "unknown-type", "bad-traits",
                                   "bad-member", "too-long"})
        remarks = {remark.split()[1] for row in rows for remark in row.get("remarks", [])}
        self.assertEqual(remarks, {"bad-time", "bad-traits"})
        self.assertEqual({row.get("refused") for row in rows}, {None, "malformed", "encoding", "inflation", "several-keys"})
        members = {name for row in rows for line in row.get("lines", []) for name in json.loads(line)}
        self.assertLessEqual({"ts_client", "traits_once", "traits_add", "providers", "overrides", "session", "user_agent"}, members)
