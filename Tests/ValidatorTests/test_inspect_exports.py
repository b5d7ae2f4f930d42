"""`waybill inspect` on the parts of every provider: whole ones, open ones, and ones that were cut."""

import hashlib
import json
import pathlib
import tempfile
import unittest

from export_harness import PROVIDERS, VECTORS, validator
from harness import run


class InspectTests(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="waybill-export-")
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)

    def part(self, provider, content):
        extension = validator(provider).EXTENSION
        folder = self.root / "exports" / provider / "env=prod" / "date=2025-03-01"
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"part-00000.{extension}"
        path.write_bytes(content)
        return path

    def inspect(self, path):
        result = run("inspect", "--all", "--json", path)
        return result.returncode, [json.loads(line) for line in result.stdout.splitlines()]

    def golden(self, provider):
        return (VECTORS / f"{provider}.{validator(provider).EXTENSION}").read_bytes()

    def test_a_part_is_told_record_by_record(self):
        for provider in PROVIDERS:
            part = self.golden(provider)
            code, items = self.inspect(self.part(provider, part))
            self.assertEqual(code, 0, items)
            self.assertEqual(items[0]["type"], "export-records", provider)
            records = [item for item in items if item["kind"] == "record"]
            # A table's header is told too.
            header = 1 if provider in ("csv", "flurry") else 0
            self.assertEqual(len(records), len(validator(provider).records(part)) + header, provider)
            self.assertEqual(sum(item["bytes"] for item in records), len(part), provider)

    def test_a_part_whose_end_is_missing_is_damaged(self):
        for provider in PROVIDERS:
            code, items = self.inspect(self.part(provider, self.golden(provider)[:-3]))
            if provider == "mixpanel-profiles":
                continue  # An open list has no end yet.
            self.assertEqual(code, 65, provider)
            self.assertTrue(any(item["kind"] == "damage" for item in items), provider)

    def test_a_list_that_is_open_is_whole(self):
        code, _ = self.inspect(self.part("mixpanel-profiles", self.golden("mixpanel-profiles")[:-2]))
        self.assertEqual(code, 0)

    def test_a_manifest_is_held_against_its_part(self):
        for provider in PROVIDERS:
            content = self.golden(provider)
            path = self.part(provider, content)
            manifest = path.parent / "part-00000.manifest.json"
            says = {
                "provider": provider, "env": "prod", "day": "2025-03-01", "zone": "UTC", "mapping": 0, "records": 1,
                "events": 1, "fix": {}, "dead": {}, "held": 0, "first_id": "-", "last_id": "-",
                "sha256": hashlib.sha256(content).hexdigest()}
            manifest.write_text(json.dumps(says, separators=(",", ":")) + "\n")
            self.assertEqual(self.inspect(manifest)[0], 0, provider)
            path.write_bytes(content.replace(b"e", b"E", 1))
            self.assertEqual(self.inspect(manifest)[0], 65, provider)
