"""A receiver that is gone without a word, and one that is busy or slow.

Gone is a receiver whose kernel acknowledges nothing: its cable is cut, which needs a network namespace. Busy is one
whose program reads nothing for a while: its kernel answers. Both are silent, and only the first one is left.
"""

import json
import random
import re
import threading
import time

from harness import free_port, until
from networks import Space
from peers import Proxy
from scale import SEED, amount, at_night
from test_agent import FOREIGN, AgentTest
from test_hostile_principals import PrincipalsTest

TOLD = r"nothing heard for (\d+) s: the network or the host"
# What a receiver grants by default, in seconds, and when a connection is dead.
IDLE, DEAD = 90, 15


def incompressible(lines):
    """The same lines with other text of the same kind in each: they are half as long on the wire, and no less."""
    dice = random.Random(SEED)
    return [line.replace(b"x" * 120, dice.randbytes(400).hex().encode()) for line in lines]


class GoneTests(AgentTest):
    """The cable to the receiver is cut."""

    def setUp(self):
        super().setUp()
        self.space = Space(self)
        self.cable = self.space.link("d")
        self.other, port = self.site.root / "other", free_port()
        self.address = f"{self.cable.guest}:{port}"
        self.gone = self.site.start(
            "receiver", "--data", self.other, "--listen", self.address, "--exports", "none", log="gone.log",
            within=self.space.within)

    def agent(self, *receivers):
        to = [part for address in receivers for part in ("--to", address)]
        return self.site.start("agent", "--state", self.site.state, *to, *self.globbing(), log="agent.log")

    def silences(self, agent):
        return [int(seconds) for seconds in re.findall(TOLD, agent.log())]

    def test_the_next_receiver_has_the_lines_long_before_idle_ms(self):
        agent = self.agent(self.address, self.site.address)
        self.write("web.json", 50)
        until(lambda: self.stored_count(self.other) == 50, 30, "the first receiver has the first lines")
        receiver = self.site.receiver(exports="none")
        self.cable.cut()
        begun = time.monotonic()
        self.write("web.json", 4000)
        until(lambda: self.stored_count(self.site.data) == 4050, 60, "the second receiver has all lines")
        took, silences = time.monotonic() - begun, self.silences(agent)
        print(f"a cut cable: left after {silences} s, all lines at the next receiver after {took:.1f} s")
        self.assertEqual(len(silences), 1, agent.log()[-2000:])
        self.assertGreaterEqual(silences[0], DEAD)
        self.assertLess(silences[0], IDLE)
        self.assertNotIn("its disk may be full", agent.log())
        self.assert_stored(receiver, agent)

    def test_a_cable_that_is_mended_loses_and_doubles_nothing(self):
        agent = self.agent(self.address)
        self.write("web.json", 50)
        until(lambda: self.stored_count(self.other) == 50, 30, "the receiver has the first lines")
        self.cable.cut()
        self.write("web.json", 4000)
        until(lambda: self.silences(agent), 60, "the connection is left")
        self.cable.join()
        until(lambda: self.stored_count(self.other) == 4050, 60, "the receiver has all lines")
        self.stop_all(agent, self.gone)
        self.assert_each_once(self.other)


class Batches:
    """A proxy's rule that notes each batch by its number and offset, and sends it as `pass_on` likes."""

    def __init__(self, target, pass_on):
        self.seen, self.pass_on = [], pass_on
        self.proxy = Proxy(target, self.rule)
        # The proxy's kernel takes little, so that the agent's window closes.
        self.proxy.listener.setsockopt(1, 8, 32 << 10)

    def rule(self, _passage, direction, words, data):
        if direction + words[0] == ">BATCH":
            self.seen.append((words[1], words[2]))
        self.pass_on(direction, words, data)
        return data

    def assert_each_once(self, test, agent):
        test.assertEqual(len(self.proxy.passages), 1)
        test.assertEqual(len(self.seen), len(set(self.seen)))
        test.assertNotIn("not connected", agent.log())


class BusyTests(AgentTest):
    """The program at the other end reads and says nothing, and its kernel answers."""

    SILENCE = DEAD + 8

    def test_a_peer_that_stands_still_is_kept_and_gets_every_batch_once(self):
        receiver = self.site.receiver(exports="none")
        is_free = threading.Event()
        is_free.set()
        batches = Batches(self.site.port, lambda *_: is_free.wait())
        self.addCleanup(batches.proxy.close)
        self.addCleanup(is_free.set)
        agent = self.site.start(
            "agent", "--state", self.site.state, "--to", batches.proxy.address, *self.globbing(), log="agent.log")
        self.write(50)
        until(lambda: self.stored_count(self.site.data) == 50, 30, "the receiver has the first lines")
        is_free.clear()
        # More than all buffers on the way hold: the window of the proxy's kernel closes.
        self.write(8000)
        time.sleep(self.SILENCE)
        is_free.set()
        until(lambda: self.stored_count(self.site.data) == 8050, 60, "the receiver has all lines")
        batches.assert_each_once(self, agent)
        self.assert_stored(receiver, agent)

    def write(self, count):
        lines = incompressible(self.maker.foreign(count))
        self.ledger.add(lines)
        self.append("web.json", lines)


@at_night
class SlowTests(PrincipalsTest):
    """A receiver that pauses reading, because an agent may send 64 KiB a second."""

    RATE = 64 << 10
    ENTRY = "quotas: {agent_kib_second: 64}"
    # At a night, more than a window.
    KIB = amount("WAYBILL_SLOW_KIB", 1536, 10 << 10)
    # It takes longer than a dead connection's silence.
    BATCH_KIB = 1280

    def test_a_full_window_over_a_slow_link_is_sent_once(self):
        receiver = self.receiver(self.entry("web", self.ENTRY))
        # The link carries 64 kB a second towards the receiver.
        batches = Batches(
            self.site.port, lambda direction, _, data: time.sleep(len(data) / 64_000 if direction == ">" else 0))
        self.addCleanup(batches.proxy.close)
        folder = self.site.root / "log"
        folder.mkdir()
        lines, byte_count = [], 0
        while byte_count < self.KIB << 10:
            lines += incompressible(self.maker.foreign(100))
            byte_count = sum(map(len, lines))
        self.ledger.add(lines)
        (folder / "web.json").write_bytes(b"".join(lines))
        token, config = self.site.root / "token", self.site.root / "agent.yaml"
        token.write_text(self.TOKENS["web"])
        token.chmod(0o600)
        # JSON is YAML.
        config.write_text(json.dumps({"agent": {
            "state": str(self.site.state), "to": [batches.proxy.address], "token_file": str(token),
            "batch_kib": self.BATCH_KIB,
            "sources": [{"files": [str(folder / "*.json")], "env": FOREIGN[1], "bundle": FOREIGN[3]}]}}))
        begun = time.monotonic()
        agent = self.site.start("agent", "--config", config, log="agent.log")
        until(lambda: self.stored_count(self.site.data) == len(lines), 60 + byte_count / self.RATE, "all is stored")
        took = time.monotonic() - begun
        print(f"{byte_count >> 10} KiB over a slow link took {took:.0f} s in {len(batches.seen)} batches")
        batches.assert_each_once(self, agent)
        self.assert_stored(receiver, agent)
