"""Tools/spark over a fleet's bucket in moto: a replay is the program's own, byte for byte.

Needs PySpark (500 MB) and Java, so it is the stage `spark` of Tools/nightly, which makes .build/spark.
"""

import gzip
import hashlib
import json
import os
import subprocess
import sys
import time
import unittest

import buckets
from harness import REPOSITORY, Site, binary, patience, run, succeed, until
from scale import THOROUGH
from test_fleet import ENVIRONMENT, Fleet
from test_readme import blocks, pattern

TOOLS = REPOSITORY / "Tools" / "spark"
PYTHON = REPOSITORY / ".build" / "spark" / "bin" / "python"
sys.path.insert(0, str(TOOLS))

import fleet_formats as formats  # noqa: E402

FIRST, LAST = "2026-11-17", "2026-11-20"
FOLDER = "archive/env=prod/bundle=com.example.shop/date=2026-11-18"
MAPPING = "version: 3\nrename: {bought: purchase_made}\n"


def spark(url, *arguments):
    """Runs a replay; returns its exit code, its line of JSON, and what it said."""
    result = subprocess.run(
        [PYTHON, TOOLS / "waybill_spark.py", "replay", "--store", "s3://events/w", "--endpoint", url, *map(str, arguments)],
        capture_output=True, text=True, timeout=patience(300), check=False,
        env={**os.environ, **ENVIRONMENT, "SPARK_LOCAL_IP": "127.0.0.1"})
    lines = result.stdout.splitlines()
    return result.returncode, json.loads(lines[-1]) if lines else None, result.stderr


@unittest.skipUnless(THOROUGH and PYTHON.exists(), "PySpark is not in .build/spark; Tools/nightly spark installs it")
class SparkTests(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        """A fleet of two receivers, through both of which come an agent's lines; one merger; sealed days in the bucket."""
        cls.site = Site()
        cls.addClassCleanup(cls.site.close)
        cls.fleet = Fleet(cls.site)
        cls.addClassCleanup(cls.fleet.close)
        receivers = {name: cls.fleet.receiver(name) for name in cls.fleet.ports}
        agents = {}
        for name in ("x", "y"):
            cls.fleet.write(name, 300)
            cls.write_odd_lines(name)
            agents[name] = cls.fleet.agent(name, to=("a", "b"))
        merger = cls.fleet.merger("m1")
        until(lambda: len(cls.fleet.merged("m1")) >= len(cls.fleet.written), 60, "every line is merged")
        for process in [*agents.values(), *receivers.values(), merger]:
            process.stop()
        cls.seal()
        cls.bucket = cls.fleet.requests()

    @classmethod
    def write_odd_lines(cls, name):
        """Lines at the ends of days, so that zones matter, and lines that belong in the quarantine."""
        lines = [json.dumps({
            "ts": f"2026-11-{day}T{hour:02}:59:59.999Z", "name": "edge", "user": name, "n": f"{name}{day}{hour}"})
            for day in (17, 18, 19, 20) for hour in range(24)]
        cls.fleet.written += lines
        with open(cls.site.root / f"logs-{name}" / "app.ndjson", "a", encoding="utf-8") as file:
            file.write("".join(line + "\n" for line in lines) + "not json\n\n{\"name\":\"no time\"}\n")

    @classmethod
    def seal(cls):
        """Seals what the merger has; its next run puts that into the bucket."""
        sealed = run("seal", "--data", cls.site.root / "m1", "--all", timeout=120)
        assert sealed.returncode == 0, sealed.stderr
        assert cls.fleet.merger("m1", "--once").wait(120) == 0

    def spark(self, *arguments):
        return spark(self.fleet.server.url, *arguments)

    # Replay

    def replayed(self, provider, *arguments):
        """What `waybill replay` makes of the merger's data directory."""
        output = self.site.root / f"again-{provider}-{time.monotonic_ns()}"
        succeed(
            "replay", "--data", self.site.root / "m1", "--provider", provider, "--from", FIRST, "--to", LAST,
            "--output", output, "--quiet", *arguments, timeout=120)
        return {str(path.relative_to(output)): path.read_bytes() for path in (output / "exports").rglob("*") if path.is_file()}

    def generation(self, name, provider, *arguments):
        return self.spark(
            "--from", FIRST, "--to", LAST, "--provider", provider, "--out", f"s3://events/w/generations/{name}",
            "--program", binary(), *arguments)

    def present(self, name):
        prefix = f"w/generations/{name}/"
        return {key.removeprefix(prefix): self.bucket.get(key) for key in self.bucket.keys(prefix)}

    def assert_replayed(self, name, provider, *arguments, options=()):
        code, line, said = self.generation(name, provider, *arguments, *options)
        self.assertEqual(code, 0, said)
        expected, found = self.replayed(provider, *arguments), self.present(name)
        document = formats.checked_document(found.pop("generation.json"))
        self.assertEqual(sorted(found), sorted(expected))
        self.assertEqual(found, expected)
        self.assertEqual(
            {row["key"]: row["sha256"] for row in document["objects"]},
            {key: hashlib.sha256(content).hexdigest() for key, content in expected.items()})
        self.assertGreater(line["exported"], 0)
        self.assertEqual((line["created"], line["present"]), (len(expected), 0))

    def test_a_replay_is_the_programs_own_in_two_zones(self):
        self.assert_replayed("csv", "csv", "--zone", "Asia/Seoul")
        config = self.site.root / "config.yaml"
        config.write_text(
            "receiver: {data: /nowhere, exports: [{provider: mixpanel, zone: America/Los_Angeles, mapping: mapping.yaml}]}\n")
        (self.site.root / "mapping.yaml").write_text(MAPPING)
        self.assert_replayed(
            "mixpanel", "mixpanel", "--config", config, options=("--mapping", self.site.root / "mapping.yaml"))
        self.assertIn(b"purchase_made", b"".join(
            gzip.decompress(content) for key, content in self.present("mixpanel").items() if key.endswith(".ndjson.gz")))

    def test_a_second_replay_changes_nothing(self):
        code, first, said = self.generation("twice", "csv")
        self.assertEqual(code, 0, said)
        before = self.present("twice")
        code, second, said = self.generation("twice", "csv")
        self.assertEqual(code, 0, said)
        self.assertEqual((second["created"], second["present"]), (0, first["objects"]))
        self.assertEqual(self.present("twice"), before)
        # The driver died before it committed: all tasks run again, and find their objects.
        self.bucket.delete("w/generations/twice/generation.json")
        code, third, said = self.generation("twice", "csv")
        self.assertEqual(code, 0, said)
        self.assertEqual((third["created"], third["present"]), (0, first["objects"]))
        self.assertEqual(self.present("twice"), before)
        # Other options do not get into a generation, whether it is complete or not.
        code, _, said = self.generation("twice", "csv", "--zone", "Asia/Seoul")
        self.assertEqual(code, 1)
        self.assertIn("made of other days or with other options", said)
        self.bucket.delete("w/generations/twice/generation.json")
        code, _, said = self.generation("twice", "csv", "--zone", "Asia/Seoul")
        self.assertEqual(code, 1)
        self.assertIn("exists and has other bytes", said)
        self.assertNotIn("generation.json", self.present("twice"))

    def test_a_failure_of_the_program_is_the_failure_of_the_replay(self):
        code, line, said = self.generation("failed", "none-such")
        self.assertEqual((code, line), (1, None), said)
        self.assertIn("waybill replay ended with", said)
        self.assertIn("none-such", said)
        self.assertNotIn(buckets.SECRET, said)
        self.assertEqual(self.present("failed"), {})

    def test_a_range_that_is_not_sealed_is_refused(self):
        code, _, said = self.spark(
            "--from", FIRST, "--to", "2099-01-01", "--provider", "csv", "--out", "s3://events/w/generations/early",
            "--program", binary())
        self.assertEqual(code, 1)
        self.assertIn("not sealed yet", said)

    # The page

    def test_the_commands_of_the_page_print_what_it_says(self):
        page = REPOSITORY / "Documentation" / "ask.md"
        texts = [text for _, text in blocks(page, "sh") if text.startswith("spark-submit")]
        self.assertEqual(len(texts), 1)
        for text in texts:
            command, _, expected = text.replace("\\\n", "").partition("\n# ")
            words = command.replace("s3://example-events/waybill", "s3://events/w").replace("./waybill", binary()).split()
            self.assertEqual(words[:3], ["spark-submit", "Tools/spark/waybill_spark.py", "replay"])
            self.assertEqual(words[3:5], ["--store", "s3://events/w"])
            code, line, said = self.spark(*words[5:])
            self.assertEqual(code, 0, said)
            self.assertTrue(pattern(expected).fullmatch(json.dumps(line) + "\n"), f"{line} is not {expected}")

    def test_a_replay_refuses_a_file_that_was_changed(self):
        part = f"{FOLDER}/part-00001.ndjson.gz"
        content = bytearray(self.bucket.get(f"w/{part}"))
        self.addCleanup(self.bucket.put, f"w/{part}", bytes(content))
        content[len(content) // 2] ^= 1
        self.bucket.put(f"w/{part}", bytes(content))
        code, _, said = self.generation("changed", "csv")
        self.assertEqual(code, 1)
        self.assertIn(f"{part} is not what its manifest says", said)
        self.assertNotIn("generation.json", self.present("changed"))

    def test_there_is_nothing_without_credentials(self):
        result = subprocess.run(
            [PYTHON, TOOLS / "waybill_spark.py", "replay", "--store", "s3://events/w", "--endpoint", self.fleet.server.url,
             "--from", FIRST, "--to", LAST, "--provider", "csv", "--out", "s3://events/w/generations/none",
             "--program", binary()], capture_output=True, text=True, timeout=patience(60), check=False,
            env={name: value for name, value in os.environ.items() if not name.startswith("AWS_")})
        self.assertEqual((result.returncode, result.stdout), (77, ""))
        self.assertIn("no credentials", result.stderr)
