"""A fleet whose network is cut: a receiver from the bucket, and an agent from its receiver.

Receiver a runs in a network namespace of its own with two links, one to the bucket and one to the agents. A cut link
swallows what is sent, as a broken switch does: nobody gets an error. It needs root, iproute2, and a kernel that allows it.
"""

import os
import shutil
import subprocess
import unittest

import buckets
from bucket_requests import BucketRequests
from fleet_checks import FleetChecks
from harness import SiteTest, free_port, metric, until
from ledger import EventMaker
from scale import THOROUGH
from test_fleet import Fleet

# Nobody has it: what is sent there is lost without an answer.
NOBODY = "02:00:00:00:00:99"


def ip(*arguments, check=True):
    result = subprocess.run(["ip", *arguments], capture_output=True, text=True, timeout=60, check=False)
    if check and result.returncode != 0:
        raise OSError(f"ip {' '.join(arguments)}: {result.stderr.strip()}")
    return result


# No other test names a namespace so.
SPACE = "waybill-fleet-network-"


def remove_stale():
    """Removes the namespaces that this module made in processes that were killed."""
    for line in ip("netns", "list", check=False).stdout.splitlines():
        name = line.split()[0]
        pid = name.removeprefix(SPACE)
        if name != pid and pid.isdigit() and not os.path.exists(f"/proc/{pid}"):
            ip("netns", "del", name, check=False)


class Link:
    """A cable between this network and a namespace."""

    def __init__(self, space, letter, number):
        self.space, self.here, self.there = space, f"wb{letter}{number}h", f"wb{letter}{number}n"
        third = {"s": 1, "a": 2}[letter]
        base = f"10.{200 + number % 50}.{number // 50 % 60 * 4 + third}"
        self.host, self.guest = f"{base}.1", f"{base}.2"
        ip("link", "add", self.here, "type", "veth", "peer", "name", self.there, "netns", space)
        ip("addr", "add", f"{self.host}/30", "dev", self.here)
        ip("link", "set", self.here, "up")
        ip("-n", space, "addr", "add", f"{self.guest}/30", "dev", self.there)
        ip("-n", space, "link", "set", self.there, "up")

    def cut(self):
        """Both ends send to a card that does not exist."""
        ip("neigh", "replace", self.guest, "lladdr", NOBODY, "dev", self.here, "nud", "permanent")
        ip("-n", self.space, "neigh", "replace", self.host, "lladdr", NOBODY, "dev", self.there, "nud", "permanent")

    def join(self):
        ip("neigh", "del", self.guest, "dev", self.here)
        ip("-n", self.space, "neigh", "del", self.host, "dev", self.there)


class NetworkTest(FleetChecks, SiteTest):
    def setUp(self):
        super().setUp()
        if not THOROUGH:
            self.skipTest("minutes of a night's run")
        if os.getuid() != 0 or shutil.which("ip") is None:
            self.skipTest("needs root and iproute2")
        remove_stale()
        self.space, number = f"{SPACE}{os.getpid()}", os.getpid() % 3000
        if ip("netns", "add", self.space, check=False).returncode != 0:
            self.skipTest("this machine makes no network namespaces")
        # With the namespace its ends of the links go, and the others with them.
        self.addCleanup(ip, "netns", "del", self.space)
        ip("-n", self.space, "link", "set", "lo", "up")
        self.to_bucket, self.to_agents = (Link(self.space, letter, number) for letter in "sa")
        moto = buckets.Moto(self.site.logs / "moto.log", self.to_bucket.host)
        self.addCleanup(moto.close)
        self.fleet = Fleet(self.site, moto)
        self.fleet.hosts["a"] = self.to_agents.guest
        self.fleet.within["a"] = ("ip", "netns", "exec", self.space)
        self.requests = BucketRequests(moto.url, "events", buckets.KEY, buckets.SECRET)

    def acked(self, port):
        try:
            return sum(metric(f"127.0.0.1:{port}", "waybill_agent_acked_bytes_total"))
        except OSError:
            return 0


class BucketLinkTests(NetworkTest):
    def test_a_receiver_cut_off_from_the_bucket_acknowledges_and_uploads_its_tail_afterwards(self):
        maker, spool, port = EventMaker(5), self.site.root / "spool-s", free_port()
        spool.mkdir()
        receiver = self.fleet.receiver("a")
        mergers = [self.fleet.merger(name) for name in ("m1", "m2")]
        agent = self.site.start(
            "agent", "--name", "s", "--state", self.site.root / "agent-s", "--to",
            f"{self.fleet.host('a')}:{self.fleet.ports['a']}", "--spool", spool, "--metrics", f"127.0.0.1:{port}",
            log="agent-s.log")

        def segments(count):
            total = 0
            for _ in range(count):
                lines = maker.lines(50)
                self.fleet.written += [line.decode().rstrip("\n") for line in lines]
                maker.segment(spool, lines)
                total += sum(map(len, lines))
            return total

        sent = segments(5)
        until(lambda: not list(spool.glob("*.ndjson")), 60, "the bucket has them, and they are deleted")
        pieces = self.requests.keys("w/journal/")
        self.to_bucket.cut()
        sent += segments(5)
        until(lambda: self.acked(port) >= sent, 30, "acknowledged without the bucket")
        # It noticed: an attempt has failed, so nothing that came since can be there.
        receiver.until_logged("the bucket did not take a piece of the journal; nothing is lost", 90)
        sent += segments(5)
        until(lambda: self.acked(port) >= sent, 30, "acknowledged without the bucket")
        self.assertEqual(len(list(spool.glob("*.ndjson"))), 10)
        self.assertEqual(self.requests.keys("w/journal/"), pieces)
        self.to_bucket.join()
        receiver.until_logged("the bucket takes the journal again", 60)
        until(lambda: not list(spool.glob("*.ndjson")), 60, "the bucket has them, and they are deleted")
        self.assert_merged("m1", "m2")
        self.finish(agent, receiver, *mergers)


class AgentLinkTests(NetworkTest):
    def test_agents_cut_off_from_their_receiver_fail_over_and_come_back(self):
        receivers = {name: self.fleet.receiver(name) for name in ("a", "b")}
        mergers = [self.fleet.merger(name) for name in ("m1", "m2")]
        agents = {}
        # Each agent has an order of its own; of eight some begin at a.
        for number in range(8):
            name = f"x{number}"
            self.fleet.write(name, 50)
            agents[name] = self.fleet.agent(name, to=("a", "b"))
        address = f"{self.fleet.host('a')}:{self.fleet.ports['a']}"

        def at_a():
            return [name for name, process in agents.items() if last_receiver(process.log()) == address]

        until(lambda: all(last_receiver(process.log()) for process in agents.values()), 60, "every agent is connected")
        before = at_a()
        self.assertGreater(len(before), 0)
        self.to_agents.cut()
        for name in agents:
            self.fleet.write(name, 200)
        until(lambda: not at_a(), 120, "all of them are at the other receiver")
        self.assert_merged("m1", "m2", seconds=90)
        self.to_agents.join()
        receivers["b"].kill()
        for name in agents:
            self.fleet.write(name, 200)
        until(lambda: len(at_a()) == len(agents), 120, "all of them are back")
        receivers["b"] = self.fleet.receiver("b")
        self.assert_merged("m1", "m2", seconds=90)
        self.finish(*agents.values(), *receivers.values(), *mergers)


def last_receiver(log):
    """The address of the last connection that an agent has logged; `None` before the first."""
    lines = [line for line in log.splitlines() if '"message":"connected' in line]
    return lines[-1].partition('"address":"')[2].partition('"')[0] if lines else None


if __name__ == "__main__":
    unittest.main()
