"""Real processes under load: killed, stopped, signalled, toggled, besieged by slow peers and by herds of agents.

Shows T1, T32, T36 to T39. WAYBILL_KILLS, WAYBILL_TOGGLES, WAYBILL_SIGNALS, WAYBILL_HERD and WAYBILL_CHURN say how much
of each.
"""

import asyncio
import os
import random
import signal
import threading
import time
import unittest
import zlib

from clocks import Clock
from harness import patience, until
from ledger import Ledger, LedgerTest, stored
from scale import SEED, THOROUGH, amount, at_night
from wire import Peer, batch


class LoadTest(LedgerTest):
    LINES = SEED

    def setUp(self):
        super().setUp()
        self.chance = random.Random(SEED)

    def until_shipped(self, seconds=60):
        until(lambda: not any(self.site.spool.glob("*.ndjson")), seconds, "the spool is empty")


class CompressionThreadTests(LoadTest):
    """Several threads compress; what they make leaves in the order in which it was read."""

    def test_kills_while_they_work(self):
        for _ in range(6):
            self.maker.spool(self.site.spool, self.ledger, 4_000_000)
        receiver = self.site.receiver(exports="none")
        for _ in range(6):
            agent = self.site.agent("--compression-threads", "4")
            time.sleep(self.chance.uniform(0.02, 0.15))
            agent.kill()
        self.site.once("--compression-threads", "4")
        self.assert_stored(receiver)
        # A batch out of order would have been.
        self.assertIn('"refused_batches":0', receiver.log())


class Witness(threading.Thread):
    """A client of its own that ships batches without pause and writes down what was acknowledged to it."""

    WINDOW = 16

    def __init__(self, connect, number, chance, lines=250, **members):
        """`connect` makes a connection, batches have so many lines, and `members` go into `HELLO`."""
        super().__init__(daemon=True)
        self.connect, self.name_, self.number, self.is_over = connect, f"witness-{number}", number, False
        self.members, self.chance, self.lines, self.failure = members, chance, lines, None
        self.blocks, self.offsets, self.acked = [], [0], 0

    def block(self, index):
        """The batch that begins at the stream's `index`th offset; made once, sent as often as it takes."""
        if index == len(self.blocks):
            raw = b"".join(
                b'{"ts":"2026-11-%02dT10:00:00.000Z","name":"w","stream":%d,"line":%d,"x":"%s"}\n'
                % (1 + index % 3, self.number, index * self.lines + line, self.chance.randbytes(100).hex().encode())
                for line in range(self.lines))
            self.blocks.append((raw, zlib.compress(raw, 1)))
            self.offsets.append(self.offsets[-1] + len(raw))
        return self.blocks[index]

    def run(self):
        try:
            while not self.is_over:
                try:
                    self.session()
                except (OSError, AssertionError):
                    time.sleep(0.02)
        except Exception as error:  # Told by the test.
            self.failure = error

    def session(self):
        with self.connect() as peer:
            if not (peer.hello(self.name_, "1", **self.members) or "").startswith("READY "):
                return
            answer = peer.open(self.name_, form="ndjson") or ""
            if not answer.startswith("AT 1 "):
                return
            at = int(answer.split()[2])
            assert at in self.offsets, f"{self.name_}: at {at}, which is no end of a batch"
            if at < self.acked:
                self.failure = f"{self.name_}: at {at}, though {self.acked} was acknowledged"
                self.is_over = True
            # What is stored needs no acknowledgement: to wait for one would be to wait for ever.
            self.acked, sent = at, self.offsets.index(at)
            while not self.is_over:
                while self.offsets[sent] < self.acked + self.WINDOW * self.lines * 240 and not self.is_over:
                    raw, payload = self.block(sent)
                    peer.send(*batch(self.name_, raw, offset=self.offsets[sent], payload=payload))
                    sent += 1
                words = (peer.line(10) or "").split()
                if words[:1] != ["ACK"]:
                    return
                self.acked = max(self.acked, int(words[2]))

    def acknowledged(self):
        end = self.offsets.index(self.acked)
        return [line for raw, _ in self.blocks[:end] for line in raw.splitlines(True)]

    def made(self):
        return [line for raw, _ in self.blocks for line in raw.splitlines(True)]


def assert_kept(test, witnesses, receiver):
    """Ends witnesses and the receiver: what was acknowledged to them is in the files once, and nothing is that they
    have not made. Returns how many lines were acknowledged."""
    for witness in witnesses:
        witness.is_over = True
    for witness in witnesses:
        witness.join(patience(20))
        test.assertIsNone(witness.failure, f"seed {SEED}")
    test.stop_all(receiver)
    made, acknowledged = Ledger(), Ledger()
    for witness in witnesses:
        made.add(witness.made())
        acknowledged.add(witness.acknowledged())
    lines = list(stored(test.site.data))
    comparison = made.compare(lines)
    test.assertEqual((comparison.twice, comparison.alien), (0, 0), f"seed {SEED}: {comparison}")
    test.assertEqual(acknowledged.compare(lines).lost, 0, f"seed {SEED}")
    return acknowledged.line_count


class AckTests(LoadTest):
    """What an ACK is worth."""

    def test_what_was_acknowledged_survives_kills_under_load(self):
        """SIGKILL at random instants, many of them while the receiver starts: every line acknowledged to an independent
        client is in the files once (T1)."""
        kills, early = amount("WAYBILL_KILLS", 8, 200), 0
        witnesses = [
            Witness(lambda: Peer(self.site.port, 10), number, random.Random(SEED + number)) for number in range(3)]
        for witness in witnesses:
            witness.start()
        for kill in range(kills):
            exports = self.chance.choice(("none", "csv"))
            receiver = self.site.start(
                "receiver", "--data", self.site.data, "--listen", self.site.address, "--exports", exports, log="receiver.log")
            if kill and self.chance.random() < 0.3:
                time.sleep(self.chance.random() * 0.1)
                early += 1
            else:
                until(self.site.is_listening, 30, "the receiver listens")
                time.sleep(self.chance.choice((0.02, 0.2, 0.5)) * self.chance.random() if kill else 1)
            self.assertTrue(receiver.is_running, receiver.log()[-800:])
            receiver.kill()
        count = assert_kept(self, witnesses, self.site.receiver(exports="csv"))
        self.assertGreater(count, 10 * kills, "the kills left no time for any work")
        print(f"load: {kills} kills, {early} of them while starting, {count} lines acknowledged")


class SignalTests(LoadTest):
    """Signals to both sides while lines flow."""

    @at_night
    def test_storms_of_signals_lose_nothing(self):
        """SIGHUP, SIGUSR1, SIGUSR2, SIGPIPE, SIGWINCH, SIGINT and SIGTERM at random: who is asked to end, and no one else,
        does, and is started again (T36)."""
        count, ended = amount("WAYBILL_SIGNALS", 60, 500), {}
        signals = [getattr(signal, name) for name in
                   ("SIGHUP", "SIGUSR1", "SIGUSR2", "SIGPIPE", "SIGWINCH", "SIGINT", "SIGTERM", "SIGCONT")]
        start = {"receiver": self.site.receiver, "agent": self.started_agent}
        running = {name: start[name]() for name in start}
        for turn in range(count):
            if turn % 4 == 0:
                self.maker.spool(self.site.spool, self.ledger, 200_000, 100_000)
            name, number = self.chance.choice(list(running)), self.chance.choice(signals)
            running[name].child.send_signal(number)
            time.sleep(0.03 * self.chance.random())
            if number in (signal.SIGTERM, signal.SIGINT):
                self.assertEqual(running[name].wait(30), 0)
                ended[name] = ended.get(name, 0) + 1
                running[name] = start[name]()
        self.until_shipped()
        self.assert_stored(running["receiver"], running["agent"])
        print(f"load: {count} signals; asked to end: {ended}")

    def started_agent(self):
        agent = self.site.agent()
        agent.until_logged("agent started")
        return agent

    def test_signals_that_mean_nothing_end_nobody(self):
        """SIGHUP, SIGUSR1 and SIGUSR2, again and again and while stopping: both continue, say of SIGHUP
        that there is nothing to reload, and stop as ever (T36)."""
        agent, receiver = self.started_agent(), self.site.receiver()
        for turn in range(3):
            for process in (agent, receiver):
                for number in (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
                    process.child.send_signal(number)
                until(lambda: process.log().count("there is nothing to reload") == turn + 1, 20, "a line about SIGHUP")
            self.maker.spool(self.site.spool, self.ledger, 200_000, 100_000)
            self.until_shipped()
        for process in (agent, receiver):
            process.terminate()
            for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP):
                process.child.send_signal(number)
            self.assertEqual(process.wait(60), 0)
        self.assert_stored(receiver)

    def test_a_stop_under_load_keeps_its_deadline(self):
        """SIGTERM to the agent, then to the receiver, in the middle of a drain: both leave soon, and what was not
        acknowledged is still on disk (T39)."""
        receiver = self.site.receiver(exports="csv")
        self.maker.spool(self.site.spool, self.ledger, 30_000_000)
        agent = self.site.agent("--compression", "9")
        journal = self.site.data / "journal"
        until(lambda: sum(path.stat().st_size for path in journal.iterdir()) > 200_000, 30, "the drain has begun")
        started = time.monotonic()
        receiver.terminate()
        self.assertEqual(receiver.wait(30), 0)
        took_receiver = time.monotonic() - started
        started = time.monotonic()
        agent.terminate()
        self.assertEqual(agent.wait(30), 0)
        took_agent = time.monotonic() - started
        self.assertLess(took_agent, patience(15))
        self.assertLess(took_receiver, patience(15))
        left = [line for path in self.site.spool.glob("*.ndjson") for line in path.read_bytes().splitlines(True)]
        self.assertGreater(len(left), 0, "everything was shipped before the stop")
        kept = Ledger()
        kept.add(left)
        kept.add(stored(self.site.data))
        self.assertEqual(set(self.ledger.counts) - set(kept.counts), set())
        receiver = self.site.receiver(exports="csv")
        self.site.once()
        self.assert_stored(receiver)
        print(f"load: stopped in {took_receiver:.1f} s (receiver) and {took_agent:.1f} s (agent)")


@at_night
class ToggleTests(LoadTest):
    """A receiver that comes and goes."""

    def test_throughput_comes_back_each_time(self):
        """The receiver is paused or killed again and again; each time new lines arrive within seconds (T37)."""
        toggles, slowest = amount("WAYBILL_TOGGLES", 12, 1000), 0
        receiver, agent = self.site.receiver(exports="none"), self.site.agent()
        agent.until_logged("connected")
        for turn in range(toggles):
            if turn % 6 == 5:
                receiver.kill()
                self.maker.spool(self.site.spool, self.ledger, 300_000, 100_000)
                receiver = self.site.receiver(exports="none")
            else:
                receiver.child.send_signal(signal.SIGSTOP)
                self.maker.spool(self.site.spool, self.ledger, 300_000, 100_000)
                time.sleep(0.05 * self.chance.random())
                receiver.child.send_signal(signal.SIGCONT)
            started = time.monotonic()
            self.until_shipped(20)
            slowest = max(slowest, time.monotonic() - started)
        # A first reconnect waits at most half a second, a second one at most one.
        self.assertLess(slowest, patience(8))
        self.assert_stored(receiver, agent)
        print(f"load: {toggles} toggles, the slowest back in {slowest:.1f} s")


class ClockTests(LoadTest):
    """The wall clock jumps."""

    @unittest.skipUnless(THOROUGH, "the simulation covers it by default; this needs a C compiler")
    def test_jumps_of_the_wall_clock_change_nothing(self):
        """A day forth, two back, a year forth, under both processes while lines flow: connections stay, lines arrive at
        once, each is stored once (T42)."""
        clock = Clock(self.site.root)
        receiver = self.site.receiver(exports="csv", env=clock.environment)
        agent = self.site.agent(env=clock.environment)
        agent.until_logged("connected")
        for jump in (0, 1, -1, 0, 365, -1, 0):
            clock.set(jump)
            self.site.is_listening()  # So that the receiver logs something.
            for _ in range(5):
                self.maker.spool(self.site.spool, self.ledger, 100_000)
                started = time.monotonic()
                self.until_shipped(20)
                self.assertLess(time.monotonic() - started, patience(10), jump)
        self.assertEqual(agent.log().count('"connected"'), 1)
        years = {line[7:11] for line in receiver.log().splitlines() if line.startswith('{"ts":"')}
        self.assertEqual(len(years), 2, f"the clock did not jump: {years}")
        self.assert_stored(receiver, agent)


class CrowdTests(LoadTest):
    """Many peers at once."""

    def descriptors(self, receiver):
        return len(os.listdir(f"/proc/{receiver.child.pid}/fd"))

    def test_slow_peers_are_shed_and_descriptors_come_back(self):
        """A thousand silent or trickling peers and a churn of connections: a good agent ships on, every descriptor comes
        back; when thorough, after all of them were shed by the deadline (T32; test_receiver.py waits for it too)."""
        receiver = self.site.receiver(exports="none")
        agent = self.site.agent()
        # Once, so that the archive's files are open.
        self.maker.spool(self.site.spool, self.ledger, 200_000)
        self.until_shipped()
        self.until_stored()
        before = self.descriptors(receiver)
        churn, self.worst = amount("WAYBILL_CHURN", 2000, 10_000), 0
        started = time.monotonic()
        asyncio.run(asyncio.wait_for(self.siege(1000, churn), patience(60)))
        took = time.monotonic() - started
        self.assertLess(took, patience(25))
        self.assertLess(receiver.peak_mebibytes(), 200)
        until(lambda: self.descriptors(receiver) <= before + 2, 20, "descriptors come back")
        self.assertLess(self.worst, patience(5), "the good agent was held up")
        self.assert_stored(receiver, agent)
        print(f"load: 1000 slow peers and {churn} connections made in {took:.0f} s, longest shipment {self.worst:.1f} s")

    async def siege(self, slow, churn):
        peers = [asyncio.create_task(self.slow_peer(number)) for number in range(slow)]
        good = asyncio.create_task(self.good_shipments())
        for start in range(0, churn, 50):
            await asyncio.gather(*[self.come_and_go(number) for number in range(start, start + 50)])
        await asyncio.sleep(1)
        if THOROUGH:
            ended = await asyncio.gather(*peers)
            # Beyond so many silent ones of an address, the oldest end at once.
            self.assertLess(max(ended), patience(20))
        for task in [good, *peers]:
            task.cancel()

    async def slow_peer(self, number):
        """Says nothing, or one byte a second; returns after how many seconds it was shed."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.site.port)
        started = time.monotonic()
        try:
            for byte in b"HELLO " + b"x" * 60:
                if number % 2:
                    writer.write(bytes([byte]))
                try:
                    if not await asyncio.wait_for(reader.read(100), 1 if number % 2 else 30):
                        break
                except TimeoutError:
                    pass
        except OSError:
            pass
        finally:
            writer.close()
        return time.monotonic() - started

    async def come_and_go(self, number):
        reader, writer = await asyncio.open_connection("127.0.0.1", self.site.port)
        if number % 3:
            hello = b'HELLO {"protocol":[1],"agent":"x%d","instance":"1","accept":["zlib"]}\n' % number
            writer.write(hello if number % 3 == 1 else b"?\n")
            try:
                await asyncio.wait_for(reader.read(100), 5)
            except (TimeoutError, OSError):
                pass
        writer.close()

    async def good_shipments(self):
        while True:
            self.maker.spool(self.site.spool, self.ledger, 50_000)
            started = time.monotonic()
            while any(self.site.spool.glob("*.ndjson")):
                await asyncio.sleep(0.05)
            self.worst = max(self.worst, time.monotonic() - started)
            await asyncio.sleep(0.5)

    def test_a_herd_of_agents_comes_back_after_a_restart(self):
        """All agents lose the receiver at once, connect again with jitter, and each gets its lines acknowledged (T38)."""
        count = amount("WAYBILL_HERD", 200, 2000)
        receiver = self.site.receiver(exports="none")
        self.restarted = None
        took = asyncio.run(asyncio.wait_for(self.herd(count, receiver), patience(120)))
        self.assertLess(took["up"], patience(10))
        self.assert_stored(self.restarted)
        print(f"load: {count} agents: receiver up after {took['up']:.1f} s, the last one served after {took['last']:.1f} s")

    async def herd(self, count, receiver):
        gathered, killed = asyncio.Semaphore(0), asyncio.Event()
        lines = [self.maker.lines(4, env="prod", bundle="com.example.shop") for _ in range(count)]
        for of_agent in lines:
            self.ledger.add(of_agent)
        agents = [asyncio.create_task(self.herd_agent(number, of_agent, gathered, killed))
                  for number, of_agent in enumerate(lines)]
        for _ in range(count):
            await gathered.acquire()
        receiver.kill()
        killed.set()
        started = time.monotonic()
        loop = asyncio.get_running_loop()
        self.restarted = await loop.run_in_executor(None, lambda: self.site.receiver(exports="none"))
        up = time.monotonic() - started
        await asyncio.gather(*agents)
        return {"up": up, "last": time.monotonic() - started}

    async def herd_agent(self, number, lines, gathered, killed):
        """Ships half its lines before the restart and all of them after it, with an agent's backoff."""
        stream, bound, is_first, chance = f"herd-{number}", 0.5, True, random.Random(number)
        half, whole = b"".join(lines[:2]), b"".join(lines)
        while True:
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", self.site.port)
                writer.write(b'HELLO {"protocol":[1],"agent":"%s","instance":"1","accept":["zlib"]}\n' % stream.encode())
                await self.answer(reader, b"READY ")
                writer.write(
                    b'OPEN 1 {"stream":"%s","source":"/h","env":"prod","bundle":"b","format":"waybill"}\n' % stream.encode())
                at = int((await self.answer(reader, b"AT ")).split()[2])
                wanted = half if is_first else whole
                if at < len(wanted):
                    line, payload = batch(stream, wanted[at:], offset=at)
                    writer.write(line.encode() + b"\n" + payload)
                    await self.answer(reader, b"ACK 1 %d " % len(wanted))
                if not is_first:
                    return writer.close()
                is_first = False
                gathered.release()
                await killed.wait()
                writer.close()
            except OSError:
                await asyncio.sleep(chance.uniform(0.01, bound))
                bound = min(bound * 2, 60)

    async def answer(self, reader, start):
        while line := await reader.readline():
            if line.startswith(start):
                return line
            if not line.startswith((b"PING", b"NOTE")):
                break
        raise ConnectionError(line)
