"""A fleet over moto's bucket: receivers, agents and mergers as processes, killed and without their disks.

Published lines are tracked lines: what a merger has in its archive, and what the bucket has of sealed days, is compared
with what was written into the agents' logs, line by line.
"""

import gzip
import hashlib
import itertools
import json
import re
import shutil
import subprocess

import buckets
from bucket_requests import BucketRequests
from fleet_checks import FleetChecks
from harness import REPOSITORY, Site, SiteTest, free_port, succeed, until
from health import ask

ENVIRONMENT = {"AWS_ACCESS_KEY_ID": buckets.KEY, "AWS_SECRET_ACCESS_KEY": buckets.SECRET, "AWS_REGION": "us-east-1"}
DAYS = ["2026-11-18", "2026-11-19"]


def event(number):
    day = DAYS[number % len(DAYS)]
    return json.dumps({"ts": f"{day}T10:00:{number % 60:02}.000Z", "name": "bought", "user": f"u{number % 7}", "n": number})


class Fleet:
    """Receivers, agents and mergers of one bucket.

    Its server is moto unless another is given, which has `url`, `make` and `close`, and whose credentials are in the
    environment.
    """

    def __init__(self, site: Site, server=None, environment=None, bucket="events"):
        self.site, self.written, self.bucket, self.url = site, [], bucket, f"s3://{bucket}/w"
        self.environment = environment or ENVIRONMENT
        self.server = server or buckets.Moto(site.logs / "moto.log")
        self.is_own_server = server is None
        self.server.make(bucket)
        self.store = f"store: {{url: '{self.url}', endpoint: '{self.server.url}', clock: host}}\n"
        self.ports = {name: free_port() for name in ("a", "b", "c")}
        self.hosts, self.within = {}, {}
        address = ["--store", self.url, "--endpoint", self.server.url]
        succeed("store", "init", *address, "--seal-seconds", 5, env=self.environment)

    def close(self):
        if self.is_own_server:
            self.server.close()

    def requests(self):
        """What a test asks of the bucket without Waybill."""
        return BucketRequests(self.server.url, self.bucket, buckets.KEY, buckets.SECRET)

    def host(self, name):
        """The address on which a receiver listens; another than the loopback if it runs in a network of its own."""
        return self.hosts.get(name, "127.0.0.1")

    # Processes

    def start_receiver(self, name, as_name=None, env=None):
        """A receiver that may take its time; `as_name` is its name in the bucket."""
        config = self.site.root / f"{name}.yaml"
        config.write_text(
            self.store + f"receiver: {{data: {self.site.root}/{name}, listen: '{self.host(name)}:{self.ports[name]}', "
            f"name: {as_name or name}, "
            "projections: none, piece: {seconds: 1, mib: 1}, stop_seconds: 60, exports: []}\n")
        return self.site.start(
            "receiver", "--config", config, log=f"{name}.log", env=self.environment | (env or {}),
            within=self.within.get(name, ()))

    def receiver(self, name, as_name=None, env=None):
        process = self.start_receiver(name, as_name, env)
        process.until_logged("the journal goes to the bucket", 60)
        return process

    def agent(self, name, *arguments, to=None):
        logs = self.site.root / f"logs-{name}"
        logs.mkdir(exist_ok=True)
        receivers = [part for to in to or self.ports for part in ("--to", f"{self.host(to)}:{self.ports[to]}")]
        return self.site.start(
            "agent", "--name", name, "--state", self.site.root / f"agent-{name}", *receivers, "--glob", f"{logs}/*.ndjson",
            "--env", "prod", "--bundle", "com.example.shop", "--time-member", "ts", "--name-member", "name", *arguments,
            log=f"agent-{name}.log")

    def merger(self, name, *arguments, env=None):
        config = self.site.root / f"{name}.yaml"
        config.write_text(
            self.store + f"merger: {{data: {self.site.root}/{name}, name: {name}, exports: [{{provider: csv}}]}}\n")
        return self.site.start(
            "merge", "--config", config, *arguments, log=f"{name}.log", env=self.environment | (env or {}))

    # Lines

    def write(self, agent, count):
        path = self.site.root / f"logs-{agent}"
        path.mkdir(exist_ok=True)
        lines = [event(len(self.written) + index) for index in range(count)]
        self.written += lines
        with open(path / "app.ndjson", "a", encoding="utf-8") as file:
            file.write("".join(line + "\n" for line in lines))

    def merged(self, name):
        """The lines in a merger's archive, of open and of sealed days."""
        lines = []
        for path in (self.site.root / name / "archive").glob("**/*.ndjson*"):
            if ".erase" in path.name:
                continue  # It is about to take another one's place.
            if path.name.endswith(".gz"):
                if not path.with_suffix("").exists():
                    lines += gzip.decompress(path.read_bytes()).decode().splitlines()
            elif path.name.endswith(".ndjson"):
                lines += path.read_text().splitlines()
        return lines


class FleetTest(FleetChecks, SiteTest):
    """A test with a fleet, and requests to its bucket."""

    def setUp(self):
        super().setUp()
        self.fleet = self.make_fleet()
        self.addCleanup(self.fleet.close)
        self.requests = self.fleet.requests()

    def make_fleet(self):
        return Fleet(self.site)


class FleetTests(FleetTest):
    def test_the_configurations_of_the_page_are_good(self):
        page = (REPOSITORY / "Documentation" / "fleet.md").read_text(encoding="utf-8")
        blocks = [text for text in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL) if "store:" in text]
        self.assertGreaterEqual(len(blocks), 3)
        for number, text in enumerate(blocks):
            config = self.site.root / f"page-{number}.yaml"
            config.write_text(text, encoding="utf-8")
            succeed("check", config)

    def test_agents_go_to_receivers_of_their_own_at_once(self):
        """Each was told of `a` first, and learns there that it is a fleet's."""
        for name in self.fleet.ports:
            self.fleet.receiver(name)
        addresses = [f"127.0.0.1:{port}" for port in self.fleet.ports.values()]
        for own in addresses:
            name = next(name for name in map("n{}".format, itertools.count()) if self.own_of(name, addresses) == own)
            port = free_port()
            self.fleet.write(name, 5)
            self.fleet.agent(name, "--metrics", f"127.0.0.1:{port}")
            until(lambda port=port, own=own: self.receiver_of(port) == own, 30, f"{name} is at {own}")

    def own_of(self, agent, addresses):
        return max(addresses, key=lambda address: hashlib.sha256(f"{agent}\n{address}".encode()).digest()[:8])

    def receiver_of(self, port):
        """The address of the receiver to which an agent is connected."""
        answer = ask(port)
        status = json.loads(answer[2]) if answer else {"connected": False}
        return status["address"] if status["connected"] else None

    def test_every_line_is_merged_once_whatever_is_killed(self):
        receivers = {name: self.fleet.receiver(name) for name in self.fleet.ports}
        agents = {}
        for name in ("x", "y", "z"):
            self.fleet.write(name, 200)
            agents[name] = self.fleet.agent(name)
        mergers = {name: self.fleet.merger(name) for name in ("m1", "m2")}
        self.assert_merged("m1", "m2")

        # A receiver is killed and stays away for a while; another is killed together with its disk.
        for killed, loses in (("a", False), ("b", True)):
            for name in agents:
                self.fleet.write(name, 100)
            receivers[killed].kill()
            if loses:
                shutil.rmtree(self.site.root / killed)
            for name in agents:
                self.fleet.write(name, 100)
            receivers[killed] = self.fleet.receiver(killed)
            self.assert_merged("m1", "m2")

        # An agent is killed with lines on their way.
        for name in agents:
            self.fleet.write(name, 100)
        agents["y"].kill()
        self.fleet.write("y", 50)
        agents["y"] = self.fleet.agent("y")
        self.assert_merged("m1", "m2")

        # A merger is killed, and one loses its disk.
        mergers["m1"].kill()
        for name in agents:
            self.fleet.write(name, 50)
        mergers["m1"] = self.fleet.merger("m1")
        mergers["m2"].kill()
        shutil.rmtree(self.site.root / "m2")
        mergers["m2"] = self.fleet.merger("m2")
        self.assert_merged("m1", "m2")
        self.finish(*agents.values(), *receivers.values(), *mergers.values())
        self.assert_published_once()

    def assert_published_once(self):
        """The bucket's own files, by a program that knows nothing of Waybill."""
        folder = self.site.root / "fetched"
        for key in self.requests.keys("w/archive/") + self.requests.keys("w/exports/"):
            path = folder / key.removeprefix("w/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(self.requests.get(key))
        lines = f"read_json('{folder}/archive/*/*/*/part-*.ndjson.gz', format = 'newline_delimited', columns = {{n: 'BIGINT'}})"
        rows = f"read_csv('{folder}/exports/csv/**/*.csv.gz', header = true, all_varchar = true)"
        counted = subprocess.run(
            [REPOSITORY / ".build/python/bin/duckdb", "-csv", "-noheader", "-c",
             f"SELECT count(*), count(DISTINCT n) FROM {lines}; SELECT count(*) FROM {rows};"],
            capture_output=True, text=True, check=False)
        count = len(self.fleet.written)
        self.assertEqual((counted.stdout.split(), counted.stderr), ([f"{count},{count}", f"{count}"], ""))
