"""A fleet over a real gateway: signatures, races for one key, and SIGKILL for the gateway and its OSD."""

import concurrent.futures
import json
import pathlib
import random
import shutil
import tempfile
import threading
import time
import unittest

import radosgw
from fleet_checks import FleetChecks
from harness import SiteTest, run
from scale import SEED, THOROUGH
from test_fleet import Fleet

ENVIRONMENT = {"AWS_ACCESS_KEY_ID": radosgw.KEY, "AWS_SECRET_ACCESS_KEY": radosgw.SECRET, "AWS_REGION": "us-east-1"}


class GatewayTest(SiteTest):
    """The tests of a class share one gateway; each has a bucket of its own."""

    bucket_count = 0

    @classmethod
    def setUpClass(cls):
        if not THOROUGH:
            raise unittest.SkipTest("a minute of a night's run")
        missing = radosgw.missing_programs()
        if missing:
            raise unittest.SkipTest(f"there is no {', no '.join(missing)} (Debian: {radosgw.PACKAGES})")
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="waybill-ceph-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, True)
        cls.gateway = radosgw.Radosgw(cls.folder / "ceph")
        cls.addClassCleanup(cls.gateway.close)

    def setUp(self):
        super().setUp()
        type(self).bucket_count += 1
        self.name = f"events-{self.bucket_count}"
        self.requests = self.gateway.bucket(self.name)

    def waybill(self, *arguments, code=0, secret=radosgw.SECRET, url=None):
        result = run(
            "store", *arguments, "--store", url or f"s3://{self.name}/env=prod/w", "--endpoint", self.gateway.url,
            env=ENVIRONMENT | {"AWS_SECRET_ACCESS_KEY": secret}, timeout=120)
        said = (result.stdout + result.stderr).decode()
        self.assertNotIn(secret, said)
        self.assertEqual(result.returncode, code, said)
        return said


class StoreTests(GatewayTest):
    def test_a_store_is_named_checked_and_listed_with_real_signatures(self):
        self.requests.make()
        first = json.loads(self.waybill("init", "--json"))
        self.assertEqual(json.loads(self.waybill("init", "--json")), first | {"created": False})
        found = json.loads(self.waybill("check", "--json"))
        self.assertEqual({finding["outcome"] for finding in found["findings"]}, {"good"})
        self.requests.put("env=prod/w/journal/a~0123456789abcdef/00000000000000000000.wbj", b"x" * 70)
        self.assertRegex(self.waybill("ls"), r" 1 +70  00000000000000000000 +\d+ s  a~0123456789abcdef\n")
        self.assertIn("fleet-00001.json", self.waybill("ls", "fleet"))
        # The prefix itself has the byte that other signers get wrong; the probe's objects are deleted.
        self.assertEqual(self.requests.keys("env=prod/w/probe/"), [])
        self.assertEqual(json.loads(self.requests.get("env=prod/w/fleet-00001.json"))["fleet"], first["fleet"])

    def test_wrong_credentials_and_buckets_are_refused(self):
        self.requests.make()
        for verb in ("init", "check", "ls"):
            self.assertIn("SignatureDoesNotMatch", self.waybill(verb, secret="another", code=77))
        self.assertIn("NoSuchBucket", self.waybill("check", url=f"s3://absent-{self.name}/p", code=78))
        self.assertEqual(self.requests.keys(), [])

    def test_keys_with_reserved_bytes(self):
        self.requests.make()
        key = "env=prod/bundle=com.example.shop/date=2026-11-18/part-00001.ndjson.gz"
        self.assertEqual([self.requests.create(key, b"first"), self.requests.create(key, b"second")], [200, 412])
        self.assertEqual((self.requests.get(key), self.requests.keys("env=prod/")), (b"first", [key]))
        self.requests.delete(key)
        self.assertEqual((self.requests.get(key), self.requests.keys()), (None, []))

    def test_one_writer_of_eight_wins_each_key(self):
        self.requests.make()
        with concurrent.futures.ThreadPoolExecutor(8) as writers:
            for number in range(40):
                key, start = f"env=prod/race-{number:03}", threading.Barrier(8)

                def write(writer, key=key, start=start):
                    start.wait()
                    return self.requests.create(key, b"%d" % writer * 1000)

                statuses = list(writers.map(write, range(8)))
                self.assertEqual(sorted(statuses), [200] + 7 * [412], key)
                self.assertEqual(self.requests.get(key), b"%d" % statuses.index(200) * 1000)

    def test_own_clients_race_for_the_name_of_a_fleet(self):
        self.requests.make()
        with concurrent.futures.ThreadPoolExecutor(8) as callers:
            for number in range(8):
                url = f"s3://{self.name}/race={number}"
                said = [json.loads(text) for text in callers.map(
                    lambda _, url=url: self.waybill("init", "--json", url=url), range(8))]
                self.assertEqual(sorted(answer["created"] for answer in said), 7 * [False] + [True])
                self.assertEqual(len({answer["fleet"] for answer in said}), 1)


class FleetTests(FleetChecks, GatewayTest):
    def test_every_line_is_merged_once_while_gateway_and_osd_are_killed(self):
        self.fleet = fleet = Fleet(self.site, self.gateway, ENVIRONMENT, self.name)
        receivers = {name: fleet.receiver(name) for name in fleet.ports}
        agents, chance = {}, random.Random(SEED)
        for name in ("x", "y", "z"):
            fleet.write(name, 200)
            agents[name] = fleet.agent(name)
        mergers = {name: fleet.merger(name) for name in ("m1", "m2")}
        over = threading.Event()

        def load():
            while not over.is_set():
                fleet.write(chance.choice("xyz"), 40)
                over.wait(0.05)

        writer = threading.Thread(target=load)
        writer.start()
        try:
            for daemon in ("gateway", "osd", "gateway", "osd"):
                before = len(fleet.written)
                # Killed under load, and away until more was written.
                time.sleep(chance.random())
                self.gateway.kill(daemon)
                while len(fleet.written) < before + 400:
                    time.sleep(0.01)
                if daemon == "osd":
                    receivers["a"].kill()
                seconds = self.gateway.restart(daemon)
                print(f"{daemon}: killed, and answers {seconds:.1f} s after its start; {len(fleet.written)} lines")
                if daemon == "osd":
                    receivers["a"] = fleet.receiver("a")
        finally:
            over.set()
            writer.join()
        self.assert_merged("m1", "m2", seconds=120)
        self.stop_all(*agents.values(), *receivers.values(), *mergers.values())
        self.seal_everything("m1", "m2")
        self.assertEqual(sorted(fleet.merged("m1")), sorted(fleet.written))
        self.assert_same_journals("m1", "m2")
        self.assert_whole("m1", "m2")
        count = self.assert_published(self.requests, "m1", "m2")
        self.assertGreater(count, 0)
        print(f"{len(fleet.written)} lines, {len(self.requests.keys('w/journal/'))} pieces, "
              f"{len(self.requests.keys('w/merge/'))} rounds, {count} files of sealed days")
