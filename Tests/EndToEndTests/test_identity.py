"""How a receiver shows who it is, and that it holds what it says."""

import random

from harness import SiteTest
from ledger import EventMaker
from wire import Peer, skip


class IdentityTests(SiteTest):
    """What a receiver shows of itself and of its streams, over starts."""

    def test_a_receiver_names_its_starts_and_proves_its_streams(self):
        """One incarnation, one more start each time, an end that never decreases, and the proofs of all streams: while it
        runs, after a stop, after a kill, and after bytes that were given up."""
        chance, maker, contents, known, ends = random.Random(8), EventMaker(8), {}, [], [0]
        given_up = {}
        for turn in range(4):
            receiver = self.site.receiver(exports="none")
            with Peer(self.site.port) as peer:
                peer.hello("prover")
                ready = peer.ready
                known.append((ready["start"], ready["incarnation"]))
                self.assertEqual([start for start, _ in ready["starts"]], [start for start, _ in known])
                self.assertEqual({incarnation for _, incarnation in known}, {ready["incarnation"]})
                self.assertEqual(ready["id"], f"{ready['receiver']}~{ready['incarnation']}")
                positions = [position for _, position in ready["starts"]]
                self.assertEqual(positions, sorted(positions))
                self.assertTrue(ends[-1] <= positions[-1] <= ready["end"], (ends, ready))
                for number in range(1, 7):
                    stream = f"stream-{number}"
                    content = contents.get(stream, b"")
                    self.assertEqual(peer.open(stream, number), f"AT {number} {len(content)}")
                    peer.assert_proved(stream, content, number, given_up.get(stream, 0))
                    for _ in range(chance.randrange(3)):
                        raw = b"".join(maker.lines(chance.randrange(1, 4)))
                        peer.batch(stream, raw, number=number, offset=len(content))
                        content += raw
                        self.assertEqual(peer.line(), f"ACK {number} {len(content)}")
                    if chance.random() < 0.3:
                        reason = chance.choice(["too-long", "truncated"])
                        content += bytes(700)
                        peer.send(skip(len(content) - 700, 700, reason, content, number))
                        self.assertEqual(peer.line(), f"ACK {number} {len(content)}")
                        given_up[stream] = len(content) if reason == "truncated" else 0
                    self.assertEqual(peer.open(stream, number), f"AT {number} {len(content)}")
                    peer.assert_proved(stream, content, number, given_up.get(stream, 0))
                    contents[stream] = content
                ends.append(peer.end)
            receiver.kill() if turn % 2 else receiver.stop()
