"""What must hold of a fleet at its end: lines, journals, and the days in the bucket."""


from clocks import shifted
from harness import metric, until

def journal(data):
    """The bytes of a merged journal, from its first segment on."""
    return b"".join(path.read_bytes() for path in sorted((data / "journal").glob("*.journal")))


class FleetChecks:
    """For a test with `self.fleet` and `self.requests`, the bucket's."""

    SEAL_RUNS_MAX = 5

    def acked(self, port):
        """How many bytes an agent says to be acknowledged; 0 while it does not answer."""
        try:
            return sum(metric(f"127.0.0.1:{port}", "waybill_agent_acked_bytes_total"))
        except OSError:
            return 0

    def assert_merged(self, *mergers, seconds=60):
        """Every merger gets every written line, and has it once."""
        for name in mergers:
            until(
                lambda name=name: len(self.fleet.merged(name)) >= len(self.fleet.written), seconds,
                f"{name} has every line")
            self.assertEqual(sorted(self.fleet.merged(name)), sorted(self.fleet.written), name)

    def assert_same_journals(self, *mergers):
        journals = [journal(self.site.root / name) for name in mergers]
        length = min(map(len, journals))
        self.assertGreater(length, 0)
        for other in journals[1:]:
            self.assertEqual(journals[0][:length], other[:length])

    def assert_whole(self, *mergers):
        for name in mergers:
            self.assert_verified(self.site.root / name)

    def seal_everything(self, *mergers):
        """Runs each merger two days from now: every receiver is silent then, and what came late is due, too.

        One run may end before the last seal is finished; the next one continues there.
        """
        for name in mergers:
            for _ in range(self.SEAL_RUNS_MAX):
                process = self.fleet.merger(name, "--once", env=shifted(2, self.site.root))
                self.assertEqual(process.wait(120), 0, process.log()[-2000:])
                rest = list((self.site.root / name / "archive").rglob("*.ndjson"))
                if not rest:
                    break
            self.assertEqual(rest, [], f"{name} has sealed every day")

    def finish(self, *processes):
        """Stops a fleet, and seals: mergers m1 and m2 have each line once, the same, and so has the bucket."""
        self.stop_all(*processes)
        self.seal_everything("m1", "m2")
        self.assertEqual(sorted(self.fleet.merged("m1")), sorted(self.fleet.written))
        self.assert_same_journals("m1", "m2")
        self.assert_whole("m1", "m2")
        self.assertGreater(self.assert_published(self.requests, "m1", "m2"), 0)

    def assert_published(self, requests, *mergers):
        """What the bucket has of sealed days is what the mergers have; returns the number of files."""
        keys = [key for key in requests.keys("w/archive/") + requests.keys("w/exports/")]
        for name in mergers:
            root = self.site.root / name
            own = {
                f"w/{path.relative_to(root)}" for folder in ("archive", "exports") for path in (root / folder).rglob("*")
                if path.is_file() and not path.name.startswith(".") and path.with_name("_SUCCESS").exists()}
            self.assertEqual(own, set(keys), name)
        for key in keys:
            # `.sources`, and the manifest with it, may say the same in other words.
            if not key.endswith((".sources", "manifest.json")):
                content = requests.get(key)
                for name in mergers:
                    self.assertEqual((self.site.root / name / key.removeprefix("w/")).read_bytes(), content, key)
        return len(keys)
