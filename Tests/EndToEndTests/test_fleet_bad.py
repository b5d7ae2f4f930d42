"""A fleet whose bucket, directories and names are not what they should be: named, and nothing is lost or repeated."""

import json
import re
import shutil

import buckets
from harness import free_port, metric, until
from ledger import EventMaker
from scale import THOROUGH, at_night
from test_fleet import Fleet, FleetTest


class BadTest(FleetTest):
    def pieces(self, receiver):
        return self.requests.keys(f"w/journal/{receiver}~")

    def once(self, name):
        """One run of a merger over what the bucket has; its report."""
        process = self.fleet.merger(name, "--once")
        self.assertEqual(process.wait(60), 0, process.log()[-2000:])
        return json.loads([line for line in process.log().splitlines() if line.startswith('{"rounds"')][-1])

    def ship(self, agent, count, *receivers):
        """Writes lines and ships all of the agent's; returns when the bucket has them."""
        self.fleet.write(agent, count)
        process = self.fleet.agent(agent, "--once", "--patience", "60", to=receivers)
        self.assertEqual(process.wait(90), 0, process.log()[-2000:])


class PieceTests(BadTest):
    """What the bucket has of a chain is not what was put there."""

    def shipped(self):
        """Two receivers with three pieces each; returns the keys of the first's."""
        for name in ("a", "b"):
            process = self.fleet.receiver(name)
            for _ in range(3):
                self.ship("at-" + name, 100, name)
            self.assertEqual(process.stop(), 0)
        keys = self.pieces("a")
        self.assertGreaterEqual(len(keys), 3)
        return keys

    def key_of_batch(self, keys, number):
        """The key of the piece with the `number`th batch, and where its bytes begin."""
        found = [
            (key, match.end()) for key in keys
            for match in re.finditer(rb"BATCH \d+ \d+ \d+ \d+ \d+ [0-9a-f]+\n", self.requests.get(key))]
        return found[number]

    def test_a_piece_with_flipped_bytes_is_stepped_over_and_named(self):
        key, place = self.key_of_batch(self.shipped(), 1)
        content = bytearray(self.requests.get(key))
        content[place + 5] ^= 0xFF
        self.requests.put(key, bytes(content))
        report = self.once("m1")
        self.assertGreater(report["damaged_bytes"], 0)
        said = (self.site.logs / "m1.log").read_text()
        self.assertIn("pieces of the journal have damaged bytes, which are stepped over", said)
        # One batch is missing, and nothing else: what another receiver has, and what came before and after.
        expected = self.fleet.written[:100] + self.fleet.written[200:]
        self.assertEqual(sorted(self.fleet.merged("m1")), sorted(expected))
        # A second merger makes the same of it.
        self.once("m2")
        self.assert_same_journals("m1", "m2")

    def test_a_piece_that_is_missing_stops_its_chain_until_it_is_back(self):
        key, _ = self.key_of_batch(self.shipped(), 1)
        content = self.requests.get(key)
        self.requests.delete(key)
        self.once("m1")
        self.assertEqual(
            sorted(self.fleet.merged("m1")), sorted(self.fleet.written[:100] + self.fleet.written[300:]))
        self.requests.put(key, content)
        self.once("m1")
        self.assertEqual(sorted(self.fleet.merged("m1")), sorted(self.fleet.written))
        self.assert_whole("m1")

    def test_a_piece_that_a_round_names_is_waited_for(self):
        key, place = self.key_of_batch(self.shipped(), 1)
        self.once("m1")
        content = self.requests.get(key)
        flipped = bytearray(content)
        flipped[place + 5] ^= 0xFF
        for change, said in (
                (lambda: self.requests.put(key, bytes(flipped)), "has other bytes than it had"),
                (lambda: self.requests.delete(key), "is gone")):
            change()
            shutil.rmtree(self.site.root / "m2", ignore_errors=True)
            merger = self.fleet.merger("m2")
            merger.until_logged(said)
            self.assertIn(key.removeprefix("w/"), merger.log())
            self.assertIn("put the object back", merger.log())
            self.requests.put(key, content)
            self.assert_merged("m2")
            self.assertEqual(merger.stop(), 0)
        self.assert_same_journals("m1", "m2")

    def test_a_round_that_is_none_is_waited_for(self):
        self.shipped()
        self.once("m1")
        key = self.requests.keys("w/merge/")[0]
        content = self.requests.get(key)
        self.requests.put(key, b"nonsense\n")
        merger = self.fleet.merger("m2")
        merger.until_logged("is not a round of this fleet")
        self.requests.put(key, content)
        self.assert_merged("m2")
        self.assertEqual(merger.stop(), 0)

    def test_foreign_keys_are_left_alone(self):
        keys = self.shipped()
        chain = keys[0].rpartition("/")[0]
        foreign = [
            "w/journal/readme.txt", "w/journal/no-chain/00000000000000000000.wbj", f"{chain}/notes.txt",
            "w/journal/a~0123456789ABCDEF/00000000000000000000.wbj", "w/journal/a~0123456789abcdef/1.wbj",
            "w/merge/s00/readme", "w/zzz", "w/archive/readme", "other/prefix"]
        foreign += [f"w/journal/junk-{number:04}/x" for number in range(1100)]
        for key in foreign:
            self.requests.put(key, b"not Waybill's\n")
        self.once("m1")
        self.assertEqual(sorted(self.fleet.merged("m1")), sorted(self.fleet.written))
        self.seal_everything("m1")
        for key in foreign[:9]:
            self.assertEqual(self.requests.get(key), b"not Waybill's\n")


class DirectoryTests(BadTest):
    """Data directories that are lost, put back from a copy, or used under one name."""

    @at_night
    def test_no_segment_is_lost_with_a_disk_while_it_is_sealed(self):
        maker, spool = EventMaker(7), self.site.root / "spool-s"
        spool.mkdir()
        receivers = {name: self.fleet.receiver(name) for name in ("a", "b")}
        to = [part for name in receivers for part in ("--to", f"127.0.0.1:{self.fleet.ports[name]}")]
        agent = self.site.start(
            "agent", "--name", "s", "--state", self.site.root / "agent-s", *to, "--spool", spool, log="agent-s.log")
        merger = self.fleet.merger("m1")
        for lost in "ab" * (4 if THOROUGH else 1):
            for _ in range(20):
                lines = maker.lines(20)
                self.fleet.written += [line.decode().rstrip("\n") for line in lines]
                maker.segment(spool, lines)
            count = len(list(spool.glob("*.ndjson")))
            until(lambda count=count: len(list(spool.glob("*.ndjson"))) < count, 60, "a segment is deleted")
            receivers[lost].kill()
            shutil.rmtree(self.site.root / lost)
            receivers[lost] = self.fleet.receiver(lost)
        until(lambda: not list(spool.glob("*.ndjson")), 90, "every segment is stored and deleted")
        self.assert_merged("m1")
        self.stop_all(agent, *receivers.values(), merger)
        self.assert_whole("m1")

    def test_two_receivers_with_one_name_have_two_chains(self):
        receivers = [self.fleet.receiver(name, as_name="same") for name in ("a", "b")]
        self.ship("x", 100, "a")
        self.ship("y", 100, "b")
        self.stop_all(*receivers)
        self.assertEqual(len({key.split("/")[2] for key in self.pieces("same")}), 2)
        self.once("m1")
        self.assertEqual(sorted(self.fleet.merged("m1")), sorted(self.fleet.written))

    def test_directories_of_another_fleet(self):
        receiver = self.fleet.receiver("a")
        self.ship("x", 100, "a")
        self.once("m1")
        self.assertEqual(receiver.stop(), 0)
        other = Fleet(self.site, self.fleet.server, bucket="other")
        other.ports, other.written = self.fleet.ports, self.fleet.written
        merger = other.merger("m1")
        self.assertEqual(merger.wait(60), 78)
        self.assertIn("the data directory belongs to fleet ", merger.log())
        self.assertIn("give each fleet's merger a data directory of its own", merger.log())
        # The receiver's journal goes to the other bucket from its first byte, in a chain of its own.
        receiver = other.receiver("a")
        self.ship("x", 100, "a")
        self.assertEqual(receiver.stop(), 0)
        merger = other.merger("m2", "--once")
        self.assertEqual(merger.wait(60), 0)
        self.assertEqual(sorted(other.merged("m2")), sorted(self.fleet.written))
        chains = {key.split("/")[2] for key in other.requests().keys("w/journal/")}
        self.assertTrue(chains.isdisjoint(key.split("/")[2] for key in self.pieces("a")))


class BucketTests(BadTest):
    """A bucket that refuses, over a store that checks signatures."""

    def make_fleet(self):
        self.store = buckets.SmallStore()
        self.addCleanup(self.store.close)
        # There is one bucket from the start.
        self.store.make = lambda bucket: None
        environment = {
            "AWS_ACCESS_KEY_ID": buckets.KEY, "AWS_SECRET_ACCESS_KEY": buckets.SECRET, "AWS_REGION": buckets.REGION}
        return Fleet(self.site, self.store, environment)

    def assert_kept(self, refuse, allow, code):
        """While the bucket refuses, lines are acknowledged, and the cause is named; afterwards they are merged."""
        receiver = self.fleet.receiver("a")
        self.ship("x", 100, "a")
        refuse()
        self.fleet.write("x", 100)
        port = free_port()
        agent = self.fleet.agent("x", "--metrics", f"127.0.0.1:{port}", to=("a",))
        size = sum(len(line) + 1 for line in self.fleet.written[100:])
        until(lambda: self.acked(port) >= size, 30, "the receiver acknowledges")
        receiver.until_logged("the bucket did not take a piece of the journal; nothing is lost")
        self.assertIn(code, receiver.log())
        allow()
        merger = self.fleet.merger("m1")
        self.assert_merged("m1")
        self.stop_all(agent, receiver, merger)

    @at_night
    def test_a_bucket_that_is_read_only(self):
        self.assert_kept(
            lambda: setattr(self.store, "forbidden", ("PUT",)), lambda: setattr(self.store, "forbidden", ()),
            "AccessDenied")

    @at_night
    def test_a_bucket_that_goes_away(self):
        self.assert_kept(
            lambda: setattr(self.store, "bucket", "renamed"), lambda: setattr(self.store, "bucket", "events"),
            "NoSuchBucket")

    def test_credentials_that_end(self):
        self.assert_kept(
            lambda: setattr(self.store, "fault", lambda command, path: (400, "ExpiredToken")),
            lambda: setattr(self.store, "fault", None), "ExpiredToken")

    @at_night
    def test_a_bucket_that_is_slow(self):
        """Acknowledgements do not wait for it."""
        self.store.delay = 3
        receiver = self.fleet.receiver("a")
        port = free_port()
        self.fleet.write("x", 200)
        agent = self.fleet.agent("x", "--metrics", f"127.0.0.1:{port}", to=("a",))
        size = sum(len(line) + 1 for line in self.fleet.written)
        until(lambda: self.acked(port) >= size, 30, "the receiver acknowledges")
        merger = self.fleet.merger("m1")
        self.assert_merged("m1")
        until(lambda: sum(metric(f"127.0.0.1:{port}", "waybill_agent_stored_bytes_total")) == size, 60, "all is stored")
        self.stop_all(agent, receiver, merger)

    @at_night
    def test_a_receiver_starts_again_while_the_bucket_refuses(self):
        receiver = self.fleet.receiver("a")
        self.ship("x", 100, "a")
        self.assertEqual(receiver.stop(), 0)
        for change, back, said in (
                (lambda: setattr(self.store, "forbidden", ("GET", "PUT", "HEAD")),
                 lambda: setattr(self.store, "forbidden", ()), "AccessDenied"),
                (lambda: setattr(self.store, "bucket", "renamed"), lambda: setattr(self.store, "bucket", "events"), "NoSuchBucket")):
            change()
            receiver = self.fleet.start_receiver("a")
            port = free_port()
            agent = self.fleet.agent("x", "--metrics", f"127.0.0.1:{port}", to=("a",))
            self.fleet.write("x", 100)
            until(lambda port=port: self.acked(port) > 0, 30, "the receiver acknowledges")
            self.assertIn("the journal keeps what it lacks", receiver.log())
            self.assertIn(said, receiver.log())
            back()
            merger = self.fleet.merger("m1")
            self.assert_merged("m1")
            self.stop_all(agent, receiver, merger)

    def test_a_merger_refuses_a_store_that_overwrites_what_it_must_keep(self):
        self.store.lies = True
        merger = self.fleet.merger("m1")
        self.assertEqual(merger.wait(60), 78, merger.log())
        self.assertIn("use a store that honours If-None-Match", merger.log())
        self.store.lies = False
        self.once("m1")

    def test_a_start_says_what_to_do(self):
        for change, code, said in (
                (lambda: setattr(self.store, "forbidden", ("GET", "PUT", "HEAD")), 77, "AccessDenied"),
                (lambda: setattr(self.store, "bucket", "renamed"), 78, "NoSuchBucket"),
                (lambda: self.store.objects.clear(), 78, "prepare it with: waybill store init")):
            kept = self.store.forbidden, self.store.bucket, dict(self.store.objects)
            change()
            for process in (self.fleet.start_receiver("a"), self.fleet.merger("m1")):
                self.assertEqual(process.wait(60), code, process.log())
                self.assertIn(said, process.log())
            self.store.forbidden, self.store.bucket, self.store.objects = kept
