"""Random events through `waybill transform` for every provider, judged by the validators.

WAYBILL_THOROUGH=1 takes 1,000,000 events instead of 2,500, WAYBILL_EVENTS as many as it says.
"""

import json
import os
import subprocess
import tempfile
import unittest

from export_harness import PROVIDERS, VECTORS, judge, validator
from corpus import AS_OF, AS_OF_MILLISECONDS, NAMES, Corpus
from harness import binary, run
from scale import SEED, amount

COUNT = amount("WAYBILL_EVENTS", 2500, 1_000_000)
ODD = ["session_start", "firebase_x", "$ignore", "[Amplitude] x", "로그인 버튼", "a" * 300, "=1+1", "time", "d.x", "quote\"\\", "9"]
# Memory holds so many events' records at once.
CHUNK = 50_000


def transform(provider, lines, dead, *arguments):
    """The output for lines, the counts that the command prints, and its dead letters."""
    result = run(
        "transform", "--provider", provider, "--dead", dead, *arguments, stdin=b"".join(line + b"\n" for line in lines),
        timeout=600)
    counts = json.loads(result.stderr)
    expected = 65 if counts["bad"] else 0
    if result.returncode != expected:
        raise AssertionError(f"exit code {result.returncode}: {result.stderr[-500:]}")
    with open(dead, "rb") as file:
        return result.stdout, counts, file.read().splitlines()


class TransformTests(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="waybill-export-")
        self.addCleanup(folder.cleanup)
        self.dead = os.path.join(folder.name, "dead.ndjson")

    def check(self, provider, lines, *arguments):
        output, counts, dead = transform(provider, lines, self.dead, *arguments)
        records, events, problems = judge(provider, output, AS_OF_MILLISECONDS)
        if provider in ("mixpanel-profiles", "amplitude", "segment", "posthog", "snowplow", "mixpanel"):
            # One stream, not parts: the size of a request is another test's.
            problems = [problem for problem in problems if not problem.startswith("more than ") and "MB or more" not in problem]
        self.assertEqual(problems, [], provider)
        self.assertEqual(counts["lines"], len(lines))
        self.assertEqual(
            counts["exported"] + counts["refused"] + counts["held"] + counts["skipped"] + counts["bad"], len(lines),
            provider)
        self.assertEqual(events, counts["exported"], provider)
        self.assertEqual(len(dead), counts["refused"], provider)
        for line in dead:
            letter = json.loads(line)
            self.assertEqual(letter["provider"], provider)
            self.assertEqual("event" in letter, letter["reason"] != "consent", letter["reason"])
        return counts

    def test_random_events_become_valid_records_and_none_is_lost(self):
        """In = exported + refused + held + skipped + no events, and no record breaks a limit, for all providers."""
        for start in range(0, COUNT, CHUNK):
            corpus = Corpus(seed=SEED + start)
            lines = list(corpus.extremes()) + list(corpus.lines(min(CHUNK, COUNT - start)))
            bad = 5 + sum(len(line) > 1 << 20 for line in lines)
            lines += [b"", b"not json", b'{"v":1}', b"\xff\xfe", b"[]"]
            for provider in PROVIDERS:
                counts = self.check(provider, lines, "--as-of", AS_OF.isoformat())
                self.assertEqual(counts["bad"], bad, provider)
                share = 0.01 if provider == "mixpanel-profiles" else 0.2
                self.assertGreater(counts["exported"], len(lines) * share, provider)

    def test_what_a_mapping_makes_of_events_is_valid_too(self):
        """Names that the providers keep for themselves, names that are too long, and values that none takes as they are."""
        folder = os.path.dirname(self.dead)
        names = [name for name in NAMES if name.isprintable() and name not in ODD]
        mapping = {
            "version": 1, "leave": {"names": ["err*"], "kinds": ["meta"]},
            "rename": {name: ODD[number % len(ODD)] for number, name in enumerate(names)},
            "fields": [
                {"rename": {name: ODD[-1 - number % len(ODD)] for number, name in enumerate(names)}, "drop": ["s*"],
                 "constant": {odd: odd for odd in ODD}},
                {"names": ["a*"], "constant": {"items": "x" * 5000, "number": 1.50, "flag": True}},
            ]}
        with open(os.path.join(folder, "mapping.yaml"), "w", encoding="utf-8") as file:
            # JSON is YAML.
            json.dump(mapping, file, ensure_ascii=False)
        lines = list(Corpus(seed=9).lines(1000))
        for provider in PROVIDERS:
            config = os.path.join(folder, f"{provider}.yaml")
            with open(config, "w", encoding="utf-8") as file:
                file.write(f"receiver:\n  data: nowhere\n  exports: [{{provider: {provider}, mapping: mapping.yaml}}]\n")
            counts = self.check(provider, lines, "--as-of", AS_OF.isoformat(), "--config", config)
            self.assertGreater(counts["exported"], 5, provider)

    def test_lines_of_other_programs_become_valid_records(self):
        """The same for lines whose time, name and level stand where another program puts them."""
        corpus = Corpus(seed=8)
        lines = [corpus.foreign() for _ in range(1000)]
        for provider in PROVIDERS:
            counts = self.check(provider, lines, "--env", "dev", "--bundle", "org.example.한글", "--stream", "s")
            if provider in ("syslog", "journald", "csv", "flurry"):
                self.assertEqual(counts["exported"], len(lines), provider)

    def test_worked_examples_are_valid(self):
        """The golden files, which the unit tests hold the exporters to, are what the validators take."""
        for provider in PROVIDERS:
            name = provider + "." + validator(provider).EXTENSION
            for prefix in ("", "odd-"):
                path = VECTORS / (prefix + name)
                if prefix and not path.exists():
                    continue
                records, _, problems = judge(provider, path.read_bytes())
                self.assertEqual(problems, [], path.name)
                self.assertGreater(records, 0, path.name)

    def test_no_configured_secret_can_be_in_a_record(self):
        """Tokens are placeholders: the environment of the command shows in no output."""
        lines = list(Corpus(seed=10).lines(200))
        secret = "s3cr3t-of-the-operator"
        for provider in PROVIDERS:
            result = subprocess.run(
                [binary(), "transform", "--provider", provider], input=b"\n".join(lines), capture_output=True,
                timeout=60, env={**os.environ, "WAYBILL_TOKEN": secret, "MIXPANEL_TOKEN": secret})
            self.assertNotIn(secret.encode(), result.stdout + result.stderr)
