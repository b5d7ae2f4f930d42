"""Agents of a fleet: the program ships to two independent receivers that share a store and know nothing of each other."""

import json
import subprocess
import sys
import time

import health
from harness import SiteTest, free_port, run, until
from pathlib import Path

PEER = Path(__file__).resolve().parents[2] / "Tools" / "waybill.py"
FLEET, OTHER = "7d2a40c5e9b1836f04d8fa6e21c97b53", "0c5e9b1836f04d8fa6e21c97b537d2a4"


def lines(first, count):
    return b"".join(b'{"ts":"2026-11-20T09:15:00.000Z","name":"n","line":%d}\n' % (first + k) for k in range(count))


class Member:
    """One receiver of a fleet, and the file by which this test is its uploader."""

    def __init__(self, test, name, fleet=FLEET, listen="127.0.0.1:0"):
        self.directory, self.stored = test.site.root / name, test.site.root / f"{name}.stored"
        self.arguments = [
            sys.executable, "-B", PEER, "receive", "--directory", self.directory, "--name", name, "--fleet", fleet,
            "--stored", self.stored, "--listen"]
        self.child, self.address = None, listen
        self.start()
        test.addCleanup(self.kill)

    def start(self):
        self.child = subprocess.Popen(
            [str(word) for word in [*self.arguments, self.address]], stdout=subprocess.PIPE, text=True)
        self.address = json.loads(self.child.stdout.readline())["listening"]

    def kill(self):
        self.child.kill()
        self.child.wait()
        self.child.stdout.close()

    def store(self, what):
        """The store has its log up to a position, or all of it."""
        part = self.stored.with_suffix(".new")
        part.write_text(str(what), encoding="ascii")
        part.rename(self.stored)

    def offsets(self):
        """How far each stream is durable."""
        log = (self.directory / "offsets.log").read_text(encoding="ascii").splitlines()
        return {words[0]: int(words[1]) for words in map(str.split, log) if len(words) > 4}

    def holds(self, count):
        return sum(self.offsets().values()) >= count

    def end(self):
        return (self.directory / "offsets.log").stat().st_size

    def bytes(self):
        """What each stream's batches held, without what was skipped."""
        return {path.name.removesuffix(".bytes"): path.read_bytes() for path in self.directory.glob("*.bytes")}

    def skips(self):
        log = self.directory / "skips.log"
        return [line.split(" ", 1)[1] for line in log.read_text(encoding="ascii").splitlines()] if log.exists() else []


class FleetTests(SiteTest):
    def setUp(self):
        super().setUp()
        self.folder = self.site.root / "log"
        self.folder.mkdir()
        self.log = self.folder / "a.json"

    def agent(self, *members, state=None, once=False, patience=120, more=()):
        mode = ["--once", "--patience", str(patience)] if once else []
        receivers = [word for member in members for word in ("--to", member.address)]
        return self.site.start(
            "agent", *mode, "--state", state or self.site.state, *receivers, "--name", "web-01", "--glob",
            self.folder / "*.json", "--env", "prod", "--bundle", "com.example.web", *more, log="agent.log")

    def half_stored(self):
        """A log whose first lines are stored by one receiver, which has more; returns both, and how long each is."""
        one = Member(self, "one")
        stored = lines(0, 100)
        self.log.write_bytes(stored)
        agent = self.agent(one)
        until(lambda: one.holds(len(stored)), 60, "the first lines are durable")
        one.store(one.end())
        self.until_registered(f":{len(stored)}:")
        more = lines(100, 50)
        with open(self.log, "ab") as log:
            log.write(more)
        until(lambda: one.holds(len(stored) + len(more)), 60, "more lines are durable")
        self.assertEqual(agent.stop(), 0)
        return one, stored, more

    def until_registered(self, text):
        """The agent has written what is stored; a registry is durable some time after an answer."""
        def is_there():
            registry = self.site.state / "registry.state"
            return registry.exists() and any(
                " stored=" in line and text in line.split(" stored=")[1] for line in registry.read_text().splitlines())
        until(is_there, 60, f"the registry has {text}")

    def test_the_next_receiver_gets_what_is_not_stored(self):
        """One receiver is lost with its disk: the other gets what was acknowledged there and not stored, and no more."""
        one, stored, more = self.half_stored()
        one.kill()
        two = Member(self, "two")
        two.store("all")
        agent = self.agent(one, two, once=True)
        self.assertEqual(agent.wait(110), 0, agent.log()[-2000:])
        self.assertEqual(two.skips(), [f"0 {len(stored)} elsewhere"])
        self.assertEqual(list(two.bytes().values()), [more])

    def test_once_waits_for_the_store(self):
        """A run ends when what was acknowledged is stored, and not before."""
        self.log.write_bytes(lines(0, 100))
        one = Member(self, "one")
        agent = self.agent(one, once=True)
        until(lambda: one.holds(self.log.stat().st_size), 60, "the lines are durable")
        time.sleep(0.3)
        self.assertTrue(agent.is_running)
        one.store("all")
        self.assertEqual(agent.wait(110), 0, agent.log()[-2000:])

    # An address of this machine that is no loopback one by its name.
    ELSEWHERE = "0.0.0.0"

    def member_elsewhere(self, name):
        member = Member(self, name)
        member.address = f"{self.ELSEWHERE}:{member.address.rpartition(':')[2]}"
        return member

    def test_a_fleet_is_not_believed_by_its_word_alone(self):
        """A receiver repeats the fleet's public id and says that all is stored: another one gets every line all the same."""
        stored = lines(0, 100)
        self.log.write_bytes(stored)
        false, port = self.member_elsewhere("false"), free_port()
        false.store("all")
        agent = self.agent(false, more=["--metrics", f"127.0.0.1:{port}"])
        until(lambda: false.holds(len(stored)), 60, "the lines are durable")
        code, _, text = health.ask(port, "/readyz")
        self.assertEqual((code, "nothing shows that the receiver belongs to the fleet" in text), (200, True), text)
        self.assertIn("belongs to the fleet", "".join(health.status(port)["problems"]))
        self.assertEqual(agent.stop(), 0)
        self.assertIn('"id":"WB2110"', agent.log())
        false.kill()
        honest = Member(self, "honest")
        honest.store("all")
        agent = self.agent(honest, once=True)
        self.assertEqual(agent.wait(110), 0, agent.log()[-2000:])
        self.assertEqual(honest.skips(), [])
        self.assertEqual(list(honest.bytes().values()), [stored])

    def test_a_run_at_a_fleet_that_is_not_believed_ends_when_the_store_takes_nothing(self):
        """`SEALED` comes as late as at any fleet."""
        segment = lines(0, 100)
        (self.site.spool / "0195505e-aaaa-7000-8000-0000000000aa-00000000000000000001.ndjson").write_bytes(segment)
        member = self.member_elsewhere("one")
        agent = self.agent(member, once=True, patience=2, more=["--spool", self.site.spool])
        self.assertEqual(agent.wait(110), 69, agent.log()[-2000:])
        self.assertIn("the fleet has not stored everything that was sent", agent.log())
        self.assertTrue(member.holds(len(segment)))

    def test_a_fleet_is_believed_by_its_id(self):
        """`fleet:` names it, as `waybill check --probe` prints it."""
        stored = lines(0, 100)
        self.log.write_bytes(stored)
        one, two = self.member_elsewhere("one"), self.member_elsewhere("two")
        one.store("all")
        two.store("all")
        path = self.site.root / "agent.yaml"

        def configure(member, fleet):
            path.write_text(
                f"agent:\n  state: {self.site.state}\n  name: web-01\n  to: ['{member.address}']\n{fleet}"
                f"  sources: [{{files: ['{self.folder}/*.json'], env: prod, bundle: com.example.web}}]\n")
            return run("check", "--probe", path)

        result = configure(one, "")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(f"fleet {FLEET}", result.stdout.decode())
        self.assertIn("agent.to: " + one.address + ": nothing shows that it belongs to the fleet", result.stderr.decode())
        result = configure(one, f"  fleet: {OTHER}\n")
        self.assertIn(f"agent.fleet: {one.address} belongs to the fleet {FLEET}", result.stderr.decode())
        more = lines(100, 50)
        for member, added in (one, b""), (two, more):
            with open(self.log, "ab") as log:
                log.write(added)
            result = configure(member, f"  fleet: {FLEET}\n")
            self.assertEqual((result.returncode, result.stderr), (0, b""))
            agent = self.site.start("agent", "--once", "--config", path, log="agent.log")
            self.assertEqual(agent.wait(110), 0, agent.log()[-2000:])
            self.assertNotIn("WB2110", agent.log())
        self.assertEqual(two.skips(), [f"0 {len(stored)} elsewhere"])
        self.assertEqual(list(two.bytes().values()), [more])

    def test_the_independent_agent_skips_what_the_fleet_has(self):
        """The Python client and receiver: a claim leaves out its bytes in its own stream, and in no other."""
        one = Member(self, "one")
        one.store("all")
        whole = lines(0, 40)
        self.log.write_bytes(whole)

        def send(stream, *more):
            result = subprocess.run(
                [sys.executable, "-B", PEER, "send", "--to", one.address, "--stream", stream, "--env", "prod",
                 "--bundle", "b", "--format", "ndjson", "--fleet", FLEET, *map(str, more), self.log],
                check=False, capture_output=True, text=True, timeout=60)
            return json.loads(result.stdout)

        half = len(lines(0, 20))
        summary = send("s", "--stored", half)
        self.assertEqual((summary["sealed"], summary["elsewhere_bytes"], summary["bytes"]), (True, half, len(whole) - half))
        self.assertEqual(one.skips(), [f"0 {half} elsewhere"])
        self.assertEqual(one.bytes()["s"], whole[half:])
        self.assertEqual(send("t")["bytes"], len(whole))
