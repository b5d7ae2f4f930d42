"""Hard cases of a table through `waybill transform`: valid by the validators, or refused with a reason, and none lost.

A change's run takes the provider's own limits and every ninth of the others; WAYBILL_THOROUGH=1 takes all.
"""

import json
import os
import tempfile
import unittest

from export_harness import PROVIDERS, problems_of, validator
from corpus import AS_OF, AS_OF_MILLISECONDS
from hard_cases import LIMITS, cases, limits
from harness import run
from scale import SEED, THOROUGH

LINE = 1 << 20


def chosen(provider):
    """The cases of a run that are lines at all."""
    own = list(limits(provider))
    others = list(cases(provider))[len(own):]
    found = own + (others if THOROUGH else others[SEED % 9::9])
    lines = [(case, case.line(number)) for number, case in enumerate(found, 1)]
    return [(case, line) for case, line in lines if len(line) <= LINE]


class HardCaseTests(unittest.TestCase):
    def transform(self, provider, lines):
        """The records, the counts that the command prints, and the dead letters."""
        with tempfile.TemporaryDirectory(prefix="waybill-hard-") as folder:
            dead = os.path.join(folder, "dead.ndjson")
            result = run(
                "transform", "--provider", provider, "--dead", dead, "--as-of", AS_OF.isoformat(),
                stdin=b"".join(line + b"\n" for line in lines), timeout=600)
            self.assertIn(result.returncode, (0, 65), result.stderr[-500:])
            with open(dead, "rb") as file:
                letters = list(map(json.loads, file))
        return validator(provider).records(result.stdout), json.loads(result.stderr), letters

    def check(self, provider):
        found = chosen(provider)
        if THOROUGH:
            self.assertGreaterEqual(len(found), 300, provider)
        records, counts, letters = self.transform(provider, [line for _, line in found])
        for record in records:
            problems = problems_of(provider, record, AS_OF_MILLISECONDS)
            self.assertEqual(problems, [], f"{provider}: {record[:400]!r} … {record[-200:]!r}")
        events = sum(map(validator(provider).event_count, records))
        self.assertEqual(counts["lines"], len(found), provider)
        self.assertEqual(
            events + counts["refused"] + counts["held"] + counts["skipped"] + counts["bad"], len(found), provider)
        self.assertEqual(events, counts["exported"], provider)
        self.assertEqual(len(letters), counts["refused"], provider)
        # Most are events that a provider takes.
        if provider != "mixpanel-profiles":
            self.assertGreater(events, len(found) * 0.5, provider)
        self.expect(provider, found, records)

    def expect(self, provider, found, records):
        """What the provider's own limits say of the first cases, found again by their ids."""
        mark = (lambda number: f"{number:032x}") if provider == "ga4" else (
            lambda number: f"019550fc-2dfb-7b1c-82d3-{number:012x}")
        texts = [record.decode() for record in records]
        for number, (case, line) in enumerate(found, 1):
            if not case.expected:
                break
            what = f"{case.what}, expected {case.expected[1]}"
            name = f'"$insert_id":"{case.members["id"]}"' if "id" in case.members else mark(number)
            if provider == "mixpanel-profiles":
                name = case.probe[:40]
            mine = [text for text in texts if name in text]
            self.assertEqual(len(mine) == 0, case.expected[1] == "refused", what)
            if case.expected[1] == "refused":
                continue
            if case.members.get("id"):
                continue
            # In an embedded list, quotes have escapes.
            written = case.probe if case.probe.startswith('"f') else json.dumps(case.probe, ensure_ascii=False)
            self.assertEqual(any(written in text for text in mine), case.expected[1] == "whole", f"{what}: {mine[0][:600]}")

    def test_ga4(self):
        self.check("ga4")

    def test_mixpanel(self):
        self.check("mixpanel")

    def test_mixpanel_profiles(self):
        self.check("mixpanel-profiles")

    def test_amplitude(self):
        self.check("amplitude")

    def test_segment(self):
        self.check("segment")

    def test_posthog(self):
        self.check("posthog")

    def test_snowplow(self):
        self.check("snowplow")

    def test_texts(self):
        for provider in ("flurry", "csv", "syslog", "journald"):
            self.check(provider)

    def test_the_table_is_large_enough_and_has_every_provider(self):
        self.assertEqual(set(LIMITS), set(PROVIDERS))
        for provider in PROVIDERS:
            self.assertGreaterEqual(sum(1 for _ in cases(provider)), 300, provider)
