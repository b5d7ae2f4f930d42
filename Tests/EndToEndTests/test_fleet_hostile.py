"""A hostile agent of one principal at receiver b against the stream of another principal at receiver a: it changes nothing.

It takes the same id, says that the fleet has everything, skips, seals, and sends other bytes; the mergers keep each
principal's stream by itself.
"""

import hashlib
import json

from harness import until
from peers import proof
from test_fleet import ENVIRONMENT, FleetTest, event
from wire import let_in, skip

TOKENS = {"web": "web-0123456789abcdef", "rival": "rival-0123456789abcdef"}
STREAM = "0195505e-aaaa-7000-8000-0000000000aa-00000000000000000001"


class HostileTests(FleetTest):
    def setUp(self):
        super().setUp()
        agents = ", ".join(
            f"{{name: {name}, tokens: ['sha256:{hashlib.sha256(token.encode()).hexdigest()}']}}"
            for name, token in TOKENS.items())
        self.receivers = []
        for name in ("a", "b"):
            config = self.site.root / f"{name}.yaml"
            config.write_text(
                self.fleet.store + f"receiver: {{data: {self.site.root}/{name}, listen: '127.0.0.1:{self.fleet.ports[name]}', "
                f"name: {name}, projections: none, piece: {{seconds: 1, mib: 1}}, exports: [], agents: [{agents}]}}\n")
            process = self.site.start("receiver", "--config", config, log=f"{name}.log", env=ENVIRONMENT)
            process.until_logged("the journal goes to the bucket", 60)
            self.receivers.append(process)

    def peer(self, receiver, principal):
        return let_in(self, self.fleet.ports[receiver], f"{principal}-{receiver}", token=TOKENS[principal])

    def answered(self, peer, expected):
        """Reads on until this answer, over what is said of the store."""
        while (line := peer.line(60)) != expected:
            self.assertTrue(line and line.startswith("STORED "), line)

    def made(self, first, count):
        lines = [json.dumps({**json.loads(event(first + index)), "v": 1, "env": "prod", "bundle": "com.example.web"})
                 for index in range(count)]
        return lines, "".join(line + "\n" for line in lines).encode()

    def test_another_principals_stream_is_not_touched(self):
        ours, text = self.made(0, 40)
        half = len("".join(line + "\n" for line in ours[:20]).encode())
        owner = self.peer("a", "web")
        self.assertEqual(owner.open(STREAM), "AT 1 0")
        owner.batch(STREAM, text[:half])
        self.answered(owner, f"ACK 1 {half}")

        # The same id at the other receiver, with everything that could spoil it there.
        rival = self.peer("b", "rival")
        length = len(text)
        digest = proof(STREAM, length, text[-512:]).split(" ")[1]
        self.assertEqual(
            rival.open(STREAM, **{"from": length, "by": "a~0123456789abcdef0123456789abcdef", "proof": digest}), "AT 1 0")
        rival.send(skip(0, length, "elsewhere", text))
        self.answered(rival, f"ACK 1 {length}")
        theirs, other = self.made(1000, 5)
        rival.batch(STREAM, other, offset=length)
        self.answered(rival, f"ACK 1 {length + len(other)}")
        rival.send(f"SEAL 1 {length + len(other)}")
        self.answered(rival, "SEALED 1")

        # The owner continues there: of what it wrote, that receiver has nothing.
        second = self.peer("b", "web")
        self.assertEqual(second.open(STREAM), "AT 1 0")
        second.batch(STREAM, text)
        self.answered(second, f"ACK 1 {length}")
        second.send(f"SEAL 1 {length}")
        self.answered(second, "SEALED 1")

        mergers = [self.fleet.merger(name) for name in ("m1", "m2")]
        expected = sorted(ours + theirs)
        for name in ("m1", "m2"):
            until(lambda name=name: len(self.fleet.merged(name)) >= len(expected), 60, f"{name} has every line")
            self.assertEqual(sorted(self.fleet.merged(name)), expected, name)
        self.stop_all(*self.receivers, *mergers)
