"""A merger that loses its disk begins from a checkpoint in the bucket, and pieces that two checkpoints cover are deleted.

Over moto, with processes: what is in the archive and in the bucket is compared with what was written into the logs, line
by line. The mergers' clock is two days ahead: to them all receivers are silent, so that days may be sealed, and a checkpoint
made, every five seconds, and the cut-off after the lines' arrival is over.
"""

import gzip
import shutil

from clocks import shifted
from harness import until
from scale import at_night
from test_fleet import ENVIRONMENT, Fleet, FleetTest


class CheckpointFleet(Fleet):
    def merger(self, name, *arguments, hours=0):
        config = self.site.root / f"{name}.yaml"
        config.write_text(
            self.store + f"merger: {{data: {self.site.root}/{name}, name: {name}, exports: [{{provider: csv}}], "
            f"checkpoint_hours: {hours}, pieces_days: 0}}\n")
        ahead = ENVIRONMENT | shifted(2, self.site.root)
        return self.site.start("merge", "--config", config, *arguments, log=f"{name}.log", env=ahead)

    def published(self):
        """The lines of sealed days in the bucket."""
        requests = self.requests()
        return [
            line for key in requests.keys("w/archive/") if key.endswith(".ndjson.gz")
            for line in gzip.decompress(requests.get(key)).decode().splitlines()]


@at_night
class FleetCheckpointTests(FleetTest):
    def make_fleet(self):
        return CheckpointFleet(self.site)

    def assert_merged(self, name):
        # While a day is sealed, its lines may be in two files.
        until(lambda: sorted(self.fleet.merged(name)) == sorted(self.fleet.written), 60, f"{name} has every line once")

    def test_a_merger_without_its_disk(self):
        receiver = self.fleet.receiver("a")
        self.fleet.write("x", 300)
        agent = self.fleet.agent("x")
        merger = self.fleet.merger("m1")
        merger.until_logged("a checkpoint is in the bucket", 60)

        # It loses its disk, and more lines come, for days that are sealed, too.
        merger.kill()
        shutil.rmtree(self.site.root / "m1")
        self.fleet.write("x", 200)
        merger = self.fleet.merger("m1")
        merger.until_logged("put back from a checkpoint", 60)
        self.assert_merged("m1")

        # A checkpoint is made where there are lines behind the last one. What two cover is deleted: the pieces of the first
        # one already, and the first round when neither of the two was made behind it.
        requests = self.fleet.requests()
        pieces = set(requests.keys("w/journal/"))

        def goes_on():
            self.fleet.write("x", 20)
            self.assert_merged("m1")
            return ("w/merge/s00/00000000000000000001.wbs" not in requests.keys("w/merge/s00/")
                    and pieces - set(requests.keys("w/journal/")))

        until(goes_on, 60, "round 1 and pieces are deleted")
        merger.until_logged("what two checkpoints cover was deleted", 60)

        # Whatever is deleted, another disk has all of it again.
        merger.kill()
        shutil.rmtree(self.site.root / "m1")
        merger = self.fleet.merger("m1")
        merger.until_logged("put back from a checkpoint", 60)
        self.assert_merged("m1")

        until(lambda: len(self.fleet.published()) >= len(self.fleet.written), 60, "every line is published")
        self.stop_all(agent, receiver, merger)
        self.assert_whole("m1")
        self.assertEqual(sorted(self.fleet.merged("m1")), sorted(self.fleet.written))
        published = self.fleet.published()
        self.assertEqual(sorted(published), sorted(self.fleet.written))
        exported = [
            line for path in (self.site.root / "m1" / "exports" / "csv").glob("**/part-*.csv*")
            if path.suffix in (".gz", ".csv") for line in
            (gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()).decode().splitlines()]
        self.assertGreaterEqual(len(exported), len(self.fleet.written))
