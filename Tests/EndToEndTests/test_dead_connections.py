"""A receiver that is gone without a word, one that is busy, and many agents that come back at once.

Gone is a receiver whose kernel acknowledges nothing: its cable is cut, which needs a network namespace. Busy is one
whose program reads nothing for a while: its kernel answers. Both are silent, and only the first one is left.
"""

import asyncio
import contextlib
import json
import random
import re
import resource
import threading
import time
import unittest

from harness import SiteTest, free_port, patience, until
from ledger import stored
from networks import Space
from peers import Proxy
from scale import SEED, amount
from test_agent import FOREIGN, AgentTest
from test_hostile_principals import PrincipalsTest

TOLD = r"nothing heard for (\d+) s: the network or the host"
# What a receiver grants by default, in seconds, and when a connection is dead.
IDLE, DEAD = 90, 15


def incompressible(lines):
    """The same lines with other text of the same kind in each: they are half as long on the wire, and no less."""
    dice = random.Random(SEED)
    return [line.replace(b"x" * 120, dice.randbytes(400).hex().encode()) for line in lines]


def stored_count(data):
    return sum(1 for _ in stored(data))


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

    def write(self, count):
        lines = self.maker.foreign(count)
        self.ledger.add(lines)
        self.append("web.json", lines)

    def silences(self, agent):
        return [int(seconds) for seconds in re.findall(TOLD, agent.log())]

    def test_the_next_receiver_has_the_lines_long_before_idle_ms(self):
        agent = self.agent(self.address, self.site.address)
        self.write(50)
        until(lambda: stored_count(self.other) == 50, 30, "the first receiver has the first lines")
        receiver = self.site.receiver(exports="none")
        self.cable.cut()
        begun = time.monotonic()
        self.write(4000)
        until(lambda: stored_count(self.site.data) == 4050, 60, "the second receiver has all lines")
        took, silences = time.monotonic() - begun, self.silences(agent)
        print(f"a cut cable: left after {silences} s, all lines at the next receiver after {took:.1f} s")
        self.assertEqual(len(silences), 1, agent.log()[-2000:])
        self.assertGreaterEqual(silences[0], DEAD)
        self.assertLess(silences[0], IDLE)
        self.assertNotIn("its disk may be full", agent.log())
        self.assertEqual(agent.stop(), 0)
        self.assert_stored(receiver)

    def test_a_cable_that_is_mended_loses_and_doubles_nothing(self):
        agent = self.agent(self.address)
        self.write(50)
        until(lambda: stored_count(self.other) == 50, 30, "the receiver has the first lines")
        self.cable.cut()
        self.write(4000)
        until(lambda: self.silences(agent), 60, "the connection is left")
        self.cable.join()
        until(lambda: stored_count(self.other) == 4050, 60, "the receiver has all lines")
        self.assertEqual(agent.stop(), 0)
        self.assertEqual(self.gone.stop(), 0)
        comparison = self.ledger.compare(stored(self.other))
        self.assertTrue(comparison.is_clean, str(comparison))


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
        until(lambda: stored_count(self.site.data) == 50, 30, "the receiver has the first lines")
        is_free.clear()
        # More than all buffers on the way hold: the window of the proxy's kernel closes.
        self.write(8000)
        time.sleep(self.SILENCE)
        is_free.set()
        until(lambda: stored_count(self.site.data) == 8050, 60, "the receiver has all lines")
        batches.assert_each_once(self, agent)
        self.assertEqual(agent.stop(), 0)
        self.assert_stored(receiver)

    def write(self, count):
        lines = incompressible(self.maker.foreign(count))
        self.ledger.add(lines)
        self.append("web.json", lines)


class SlowTests(PrincipalsTest):
    """A receiver that pauses reading, because an agent may send 64 KiB a second."""

    RATE = 64 << 10
    ENTRY = "quotas: {agent_kib_second: 64}"
    # At a night, more than a window.
    KIB = amount("WAYBILL_SLOW_KIB", 1536, 10 << 10)
    # It takes longer than a dead connection's silence.
    BATCH_KIB = 1280

    def test_a_ping_is_answered_as_soon_as_the_receiver_reads_again(self):
        receiver = self.receiver(self.entry("web", self.ENTRY))
        peer = self.peer("web")
        self.assertEqual(peer.open("s"), "AT 1 0")
        lines = self.maker.lines(2000)
        self.ledger.add(lines)
        raw, begun = b"".join(lines), time.monotonic()
        peer.batch("s", raw)
        peer.send("PING 7")
        self.assertEqual({peer.line(60), peer.line(60)}, {f"ACK 1 {len(raw)}", "PONG 7"})
        # Two seconds' bytes pass at once.
        least = len(raw) / self.RATE - 2
        self.assertGreater(least, 1)
        self.assertGreater(time.monotonic() - begun, least * 0.95)
        peer.send("PING 8")
        self.assertEqual(peer.line(), "PONG 8")
        self.assert_stored(receiver)

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
        until(lambda: stored_count(self.site.data) == len(lines), 60 + byte_count / self.RATE, "every line is stored")
        took = time.monotonic() - begun
        print(f"{byte_count >> 10} KiB over a slow link took {took:.0f} s in {len(batches.seen)} batches")
        batches.assert_each_once(self, agent)
        self.assertEqual(agent.stop(), 0)
        self.assert_stored(receiver)


class Herd:
    """Agents that only say `HELLO` and stay; without a connection each waits as protocol.md, section 12, says."""

    def __init__(self, port, count):
        self.port, self.count, self.dice = port, count, random.Random(SEED)
        self.ready, self.refusals, self.arrivals = 0, [], []
        self.is_over = False

    def bound(self, attempt, outage):
        return min(0.5 * 2 ** min(attempt, 10), 60, max(2, outage))

    async def connect(self, number):
        """One attempt; returns the connection, or `None`."""
        # Each has an address of its own, as agents on other hosts have.
        source = f"127.{1 + number // 50_000}.{number // 250 % 200}.{1 + number % 250}"
        writer = None
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port, local_addr=(source, 0))
            writer.write(
                b'HELLO {"protocol":[1],"agent":"herd-%d","instance":"%d","accept":["zlib"]}\n' % (number, number))
            line = await asyncio.wait_for(reader.readline(), patience(20))
        except (OSError, TimeoutError):
            line = b""
        if line.startswith(b"READY "):
            return reader, writer
        if line:
            self.refusals.append(line)
        if writer:
            writer.close()
        return None

    async def live(self, number):
        attempt, outage_began = 0, None
        await asyncio.sleep(self.dice.uniform(0, 3))
        while not self.is_over:
            if connection := await self.connect(number):
                self.ready += 1
                self.arrivals.append(time.monotonic())
                try:
                    with contextlib.suppress(OSError):
                        while await connection[0].readline():
                            pass
                finally:
                    connection[1].close()
                    self.ready -= 1
                attempt, outage_began = 0, None
            now = time.monotonic()
            outage_began = outage_began or now
            await asyncio.sleep(self.dice.uniform(0.01, self.bound(attempt, now - outage_began)))
            attempt += 1

    async def until_ready(self, count, seconds):
        deadline = time.monotonic() + patience(seconds)
        while self.ready != count:
            if time.monotonic() > deadline:
                raise AssertionError(f"{self.ready} of {self.count} agents are connected; {self.refusals[:3]}")
            await asyncio.sleep(0.02)


class HerdTests(SiteTest):
    """Many agents after a short outage."""

    COUNT = amount("WAYBILL_HERD", 1_000, 5_000)

    def setUp(self):
        super().setUp()
        before = resource.getrlimit(resource.RLIMIT_NOFILE)
        if before[1] < self.COUNT + 1_000:
            self.skipTest(f"this machine gives a process {before[1]} descriptors")
        # The receiver's process inherits it.
        resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, before)

    def test_a_receiver_takes_all_agents_back_after_a_second(self):
        asyncio.run(self.outage(Herd(self.site.port, self.COUNT)))

    async def outage(self, herd):
        receiver = self.site.receiver(exports="none")
        lives = [asyncio.create_task(herd.live(number)) for number in range(herd.count)]
        try:
            await herd.until_ready(herd.count, 60)
            await asyncio.to_thread(receiver.kill)
            killed = time.monotonic()
            await asyncio.sleep(1)
            await herd.until_ready(0, 30)
            herd.arrivals, herd.refusals = [], []
            receiver = await asyncio.to_thread(self.site.receiver, exports="none")
            back = time.monotonic()
            await herd.until_ready(herd.count, 30)
        finally:
            herd.is_over = True
            for life in lives:
                life.cancel()
            await asyncio.gather(*lives, return_exceptions=True)
            # A closed connection is gone in the loop's next turn.
            await asyncio.sleep(0)
        last, memory = max(herd.arrivals) - back, receiver.resident_mebibytes()
        print(f"{herd.count} agents after an outage of {back - killed:.1f} s: the last one {last:.1f} s later, "
              f"{len(herd.refusals)} refusals, the receiver has {memory:.0f} MiB")
        # On a busy machine an agent of this process may be late with its greeting.
        self.assertEqual([refusal for refusal in herd.refusals if not refusal.startswith(b"ERR timeout")], [])
        self.assertTrue(receiver.is_running)
        self.assertEqual(receiver.stop(), 0)


if __name__ == "__main__":
    unittest.main()
