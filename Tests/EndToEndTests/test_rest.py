"""Streams that are never sealed: those of containers that died. They continue after any time, and cost a receiver next to nothing."""

import json

from harness import SiteTest
from wire import Peer, batch


class RestTest(SiteTest):
    COUNT = 3000

    def begin(self, peer):
        """Opens as many streams as there may be, and stores one byte of each."""
        for first in range(1, self.COUNT + 1, 100):
            numbers = range(first, first + 100)
            peer.send(*("OPEN %d %s" % (number, json.dumps({
                "stream": f"s-{number}", "source": "/" + "x" * 3000, "env": "prod", "bundle": "com.example.web",
                "format": "waybill"})) for number in numbers))
            self.assertEqual([peer.line() for _ in numbers], [f"AT {number} 0" for number in numbers])
            peer.send(*(piece for number in numbers for piece in batch(f"s-{number}", b"\n", number=number)))
            self.assertEqual({peer.line() for _ in numbers}, {f"ACK {number} 1" for number in numbers})

    def last_head(self):
        return max((self.site.data / "journal").glob("*.journal")).stat().st_size

    def test_streams_that_nobody_seals_leave_the_heads_and_go_on(self):
        receiver = self.site.receiver(exports="none")
        with Peer(self.site.port) as peer:
            self.assertTrue(peer.hello("many").startswith("READY "))
            self.begin(peer)
        offset = 1
        for _ in range(2):
            self.assertEqual(receiver.stop(), 0)
            receiver = self.site.receiver(exports="none")
            self.assertLess(self.last_head(), 1 << 20, "the head of a start's segment")
            with Peer(self.site.port) as peer:
                self.assertTrue(peer.hello("many").startswith("READY "))
                for number in (1, self.COUNT // 2, self.COUNT):
                    stream = f"s-{number}"
                    self.assertEqual(peer.open(stream, number=number), f"AT {number} {offset}")
                    peer.assert_proved(stream, b"\n" * offset, number=number)
                    peer.batch(stream, b"\n", number=number, offset=offset)
                    self.assertEqual(peer.line(), f"ACK {number} {offset + 1}")
            offset += 1
        self.assertEqual(receiver.stop(), 0)
        self.assert_verified()
