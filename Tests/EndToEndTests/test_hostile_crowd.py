"""Many agents of one principal, and principals with quotas: the greedy one waits or is refused, and its neighbours are not.

Every test prints what it measured. The bounds are generous, because other tests may run at the same time.
"""

import threading
import time
import zlib

from harness import patience, until
from ledger import archived, quarantined
from scale import at_night
from test_hostile_principals import PrincipalsTest, device
from wire import Peer


class QuotaTests(PrincipalsTest):
    """`quotas` of a principal: the greedy one waits or is refused, and its neighbour is not."""

    def test_bytes_a_second_slow_their_principal_alone(self):
        receiver = self.receiver(self.entry("web", "quotas: {kib_second: 256}"), self.entry("rival"))
        greedy, honest = self.peer("web"), self.peer("rival")
        self.assertEqual(greedy.open("s"), "AT 1 0")
        self.assertEqual(honest.open("s"), "AT 1 0")
        offset, begun, slowest = 0, time.monotonic(), 0
        batches = [self.made(1200) for _ in range(4)]
        for raw in batches:
            greedy.batch("s", raw, offset=offset)
            offset += len(raw)
        mine = 0
        while True:
            raw = self.made(3)
            sent = time.monotonic()
            honest.batch("s", raw, offset=mine)
            mine += len(raw)
            self.assertEqual(honest.line(), f"ACK 1 {mine}")
            slowest = max(slowest, time.monotonic() - sent)
            if time.monotonic() - begun > 1:
                break
        while greedy.line() != f"ACK 1 {offset}":
            pass
        took = time.monotonic() - begun
        # Two seconds' bytes pass at once.
        least = offset / (256 << 10) - 2
        print(f"quotas: {offset / 1024:.0f} KiB at 256 KiB/s took {took:.1f} s; a neighbour waited {slowest:.3f} s at most")
        self.assertGreater(least, 1)
        self.assertGreater(took, least * 0.95)
        self.assertLess(slowest, patience(1))
        self.assertGreater(self.metric("waybill_limited_total")['{limit="bytes-a-second"}'], 0)
        self.assert_stored(receiver)

    def test_bytes_of_a_day_connections_and_streams_are_bounded(self):
        receiver = self.receiver(
            self.entry("web", "quotas: {day_mib: 1, connections: 2, streams: 3}"), self.entry("rival"))
        first, second = self.peer("web", "first"), self.peer("web", "second")
        third = self.refusal("third", token=self.TOKENS["web"])
        self.assertRegex(third, "^ERR unavailable the principal of this agent has as many connections as it may")
        other = self.peer("rival", "third")
        second.close()
        until(lambda: self.refusal("third", token=self.TOKENS["web"]).startswith("READY "), 10)
        answers = [first.open(f"s{number}", number=number).split()[0] for number in range(1, 5)]
        self.assertEqual(answers, ["AT", "AT", "AT", "NAK"])
        raw = self.made(1800)
        self.assertTrue(1 << 19 < len(raw) < 1 << 20, len(raw))
        self.ship(first, raw, "s1")
        first.batch("s2", raw, number=2)
        self.assertRegex(first.line(), "^NAK 2 0 retry-after the receiver has stored 1048576 bytes")
        # What is held is acknowledged as ever, and a smaller batch fits.
        self.ship(first, raw, "s1")
        more = self.made(10)
        self.ship(first, more, "s1", len(raw))
        self.assertEqual(other.open("s1"), "AT 1 0")
        theirs = self.made(1800)
        self.ship(other, theirs, "s1")
        limits = self.metric("waybill_limited_total")
        for limit in ("connections-of-principal", "bytes-a-day", "streams"):
            self.assertGreater(limits['{limit="%s"}' % limit], 0, limit)
        self.assert_stored(receiver)


class Device(threading.Thread):
    """An install of an app: connects, ships a segment in batches, seals it, and leaves."""

    def __init__(self, port, token, start, raws):
        super().__init__(daemon=True)
        self.port, self.token, self.start_together, self.raws = port, token, start, raws
        self.key, self.agent = device()
        self.seconds, self.problem = None, None

    def hello(self, peer, agent=None):
        return peer.hello(agent or self.agent, token=self.token, key=self.key)

    def run(self):
        try:
            self.start_together.wait()
            begun = time.monotonic()
            with Peer(self.port, timeout=60) as peer:
                assert self.hello(peer).startswith("READY ")
                assert peer.open("segment") == "AT 1 0"
                offset = 0
                for raw in self.raws:
                    peer.batch("segment", raw, offset=offset)
                    offset += len(raw)
                peer.send(f"SEAL 1 {offset}")
                while (answer := peer.line(60)) != "SEALED 1":
                    assert answer.startswith("ACK 1 "), answer
            self.seconds = time.monotonic() - begun
        except Exception as problem:
            self.problem = problem


class HostileDevice(Device):
    """One that takes another's name, opens a thousand streams, and sends line feeds before the others begin, and until
    they are done."""

    def __init__(self, port, token, start, victim):
        super().__init__(port, token, start, [])
        self.victim, self.answers, self.sent, self.opened = victim, [], 0, 0
        self.is_over = threading.Event()

    def run(self):
        raw = b"\n" * 65_536
        payload = zlib.compress(raw, 9)
        try:
            with Peer(self.port, timeout=60) as peer:
                self.answers.append(self.hello(peer, self.victim.agent))
            with Peer(self.port, timeout=60) as peer:
                self.answers.append(self.hello(peer))
                for number in range(1, 1001):
                    self.opened += peer.open(f"s{number}", number=number).startswith("AT ")
                offset = 0
                while not self.is_over.is_set():
                    peer.batch("s1", raw, offset=offset, payload=payload)
                    offset += len(raw)
                    assert peer.line(60) == f"ACK 1 {offset}"
                    self.sent += 1
                    if self.sent == 3:
                        self.start_together.wait()
        except Exception as problem:
            self.problem = problem


@at_night
class CrowdTests(PrincipalsTest):
    """Many installs of an app with one token, behind one address, one of them hostile."""

    COUNT = 200

    def test_199_of_200_devices_complete_beside_a_hostile_one(self):
        receiver = self.receiver(self.entry("phones", "devices: true"), self.entry("web"))
        start = threading.Barrier(self.COUNT)
        devices = [
            Device(self.site.port, self.TOKENS["phones"], start, [self.made(10) for _ in range(3)])
            for _ in range(self.COUNT - 1)]
        hostile = HostileDevice(self.site.port, self.TOKENS["phones"], start, devices[0])
        self.addCleanup(hostile.is_over.set)
        for thread in (hostile, *devices):
            thread.start()
        for device in devices:
            device.join(patience(60))
        hostile.is_over.set()
        hostile.join(patience(60))
        self.assertEqual([str(device.problem) for device in devices if device.problem], [])
        seconds = sorted(device.seconds for device in devices)
        print(f"crowd: {len(seconds)} devices complete after {seconds[-1]:.2f} s at most, {seconds[len(seconds) // 2]:.2f} s "
              f"usually, beside {hostile.opened} streams and {hostile.sent} batches of line feeds")
        self.assertEqual(len(seconds), self.COUNT - 1)
        self.assertRegex(hostile.answers[0], "^ERR token the agent's name does not follow from its key")
        self.assertTrue(hostile.answers[1].startswith("READY "), hostile.answers[1])
        self.assertEqual((hostile.opened, hostile.problem), (1000, None))
        self.assertGreater(hostile.sent, 3)
        self.assertEqual(receiver.stop(), 0, receiver.log()[-800:])
        comparison = self.ledger.compare(archived(self.site.data))
        self.assertTrue(comparison.is_clean, str(comparison))
        self.assertEqual(set(quarantined(self.site.data)) - {"empty"}, set())
        self.assert_verified()
