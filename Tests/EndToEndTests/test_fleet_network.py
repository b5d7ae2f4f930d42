"""A fleet whose network is cut: a receiver from the bucket, and an agent from its receiver.

Receiver a runs in a network namespace of its own with two links, one to the bucket and one to the agents. A cut link
swallows what is sent, as a broken switch does: no one gets an error. It needs root, iproute2, and a kernel that allows it.
"""


import buckets
from fleet_checks import FleetChecks
from harness import SiteTest, free_port, until
from ledger import EventMaker
from networks import Space
from scale import THOROUGH
from test_fleet import Fleet


class NetworkTest(FleetChecks, SiteTest):
    def setUp(self):
        super().setUp()
        if not THOROUGH:
            self.skipTest("minutes of a night's run")
        space = Space(self)
        self.to_bucket, self.to_agents = space.link("s"), space.link("a")
        moto = buckets.Moto(self.site.logs / "moto.log", self.to_bucket.host)
        self.addCleanup(moto.close)
        self.fleet = Fleet(self.site, moto)
        self.fleet.hosts["a"] = self.to_agents.guest
        self.fleet.within["a"] = space.within
        self.requests = self.fleet.requests()


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
