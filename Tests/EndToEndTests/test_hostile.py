"""What a hostile agent could do to the files of another one of its principal, and what happens now.

Each test shows one attack by its letter. `test_hostile_principals` has other principals, `test_false_receiver` receivers.
"""

import contextlib
import pathlib
import re

from harness import free_port, metric, run, until
from ledger import LedgerTest, stored
from wire import Peer, let_in, skip

DISPUTED = "does not prove that it holds this segment's bytes"


class HostileTest(LedgerTest):
    def segment(self, count=200, spool=None):
        """A finished segment whose lines must arrive; returns its path."""
        return pathlib.Path(self.maker.segment(spool or self.site.spool, self.maker.lines(count), ledger=self.ledger))

    def log(self, count, name="web.json"):
        """A foreign file whose lines must arrive; returns its path."""
        path = self.site.root / name
        self.write_log(path, count)
        return path

    def peer(self, agent):
        return let_in(self, self.site.port, agent)

    def start_agent(self, name, *arguments, to=()):
        """An agent with a state of its own that tries these addresses and then the honest receiver."""
        addresses = [part for address in (*to, self.site.address) for part in ("--to", address)]
        return self.site.start(
            "agent", "--state", self.site.root / f"state-{name}", "--name", name, *addresses, *arguments,
            log=f"agent-{name}.log")

    def globbing(self, path):
        return "--glob", path, "--env", "prod", "--bundle", "com.example.web"

    def metric(self, port, name):
        """The sum of a metric's samples; None while no one listens."""
        with contextlib.suppress(OSError):
            return sum(metric(f"127.0.0.1:{port}", name))
        return None


class OtherAgentTests(HostileTest):
    """What an agent that is let in can do to the files of another one of the same principal."""

    def attack(self, stream, *messages):
        """Opens a stream of another agent while that is away, and writes, skips or ends it."""
        with self.peer("hostile") as peer:
            self.assertEqual(peer.open(stream), "AT 1 0")
            for message in messages:
                if isinstance(message, bytes):
                    peer.batch(stream, message)
                    self.ledger.add(message.splitlines(True))
                else:
                    peer.send(message)
                self.assertRegex(peer.line(), "^(ACK|SEALED) 1")

    def attacks(self, content):
        """Name → what another agent says of a stream whose file has this content."""
        size = len(content)
        guess = content[-512:-9] + b"#" + content[-8:]
        others = b"".join(b'{"false":%0*d}\n' % (len(line) - 11, 1) for line in content.splitlines(True))
        self.assertEqual(len(others), size)
        return {
            "skipped beyond its end": [skip(0, 10**6, "truncated")],
            "skipped beyond its end and sealed": [skip(0, 10**6, "truncated"), f"SEAL 1 {10**6}"],
            "half of it skipped": [skip(0, size // 2, "truncated")],
            "all of it skipped and sealed": [skip(0, size, "truncated"), f"SEAL 1 {size}"],
            "skipped with a guess of its end, and sealed": [
                skip(0, size, "too-long", guess), f"SEAL 1 {size}"],
            **{f"skipped with its own end as {reason}, and sealed": [skip(0, size, reason, content), f"SEAL 1 {size}"]
               for reason in ("too-long", "torn-tail", "held")},
            "its first half skipped with its own bytes": [skip(0, size // 2, "too-long", content[:size // 2])],
            "sealed at its beginning": ["SEAL 1 0"],
            "other bytes of its length, sealed": [others, f"SEAL 1 {size}"],
            "other bytes, half of its length": [others[:size // 2].rpartition(b"\n")[0] + b"\n"],
        }

    def test_b1_another_agents_segment_is_not_deleted_unread(self):
        """Skipped, sealed or written by another agent: the segment stays, byte for byte and under its name, the others are
        delivered, and shipping it again delivers it."""
        receiver = self.site.receiver(exports="none")
        victims = {}
        for name in self.attacks(b'{"line":"and room"}\n' * 100):
            path = self.segment(50)
            victims[path] = name, path.read_bytes()
        for path, (name, content) in victims.items():
            self.attack(path.stem, *self.attacks(content)[name])
        honest = self.segment()
        port = free_port()
        agent = self.start_agent("victim", "--spool", self.site.spool, "--metrics", f"127.0.0.1:{port}")
        until(lambda: not honest.exists(), 20, "the other segment is delivered")
        until(lambda: self.metric(port, "waybill_agent_disputed_streams") == len(victims), 20, "all are disputed")
        for path in victims:
            told = [line for line in agent.log().splitlines() if DISPUTED in line and path.stem in line]
            self.assertTrue(told and "waybill reship" in told[0], path)
        for path, (name, content) in victims.items():
            self.assertEqual(path.read_bytes(), content, name)
        self.assertEqual(sorted(self.site.spool.glob("*.ndjson*")), sorted(victims))
        agent.stop()
        for path in victims:
            result = self.reship(path)
            self.assertEqual(result.returncode, 0, result.stderr.decode()[-800:])
        self.site.once("--spool", self.site.spool)
        self.assert_stored(receiver)

    def reship(self, path):
        return run("reship", path)

    def test_b7_a_log_that_another_agent_moved_forward_loses_nothing(self):
        """Its stream skipped on and sealed while its agent was away: every line arrives, and the agent says what it found.
        With the same credential lines may come twice (SECURITY.md); with another principal's they do not."""
        receiver, path = self.site.receiver(exports="none"), self.log(300)
        self.assertEqual(self.site.once(*self.globbing(path))["bytes"], path.stat().st_size)
        stream = next(iter(self.streams()))
        with self.peer("hostile") as peer:
            self.assertEqual(peer.open(stream), f"AT 1 {path.stat().st_size}")
            peer.send(skip(path.stat().st_size, 5000, "truncated"))
            self.assertEqual(peer.line(), f"ACK 1 {path.stat().st_size + 5000}")
        self.log(1)
        summary = self.site.once(*self.globbing(path))
        self.assertEqual(summary["lost_bytes"], 0)
        self.assertEqual(receiver.stop(), 0)
        comparison = self.ledger.compare(stored(self.site.data))
        self.assertEqual((comparison.lost, comparison.alien), (0, 0), str(comparison))

    def streams(self):
        """The ids of the streams that the archive has lines of."""
        ids = set()
        for path in (self.site.data / "archive").rglob("*.sources"):
            ids.update(re.findall(r'"stream":"([^"]+)"', path.read_text()))
        return ids

    def test_b8_a_stream_that_another_agent_holds_or_has_sealed(self):
        """Sealed at its beginning: it stays, is reported and counted. Held open: the refusal names no one, and ends with
        the other's connection. A name that another process has is refused."""
        self.site.receiver(exports="none")
        sealed, held = self.segment(), self.segment()
        self.attack(sealed.stem, "SEAL 1 0")
        holder = self.peer("holder-of-it")
        self.assertEqual(holder.open(held.stem), "AT 1 0")
        with self.peer("stranger") as stranger:
            answer = stranger.open(held.stem)
            self.assertRegex(answer, "^NAK 1 0 in-use")
            self.assertNotIn("holder-of-it", answer)
        with Peer(self.site.port) as second:
            self.assertRegex(second.hello("holder-of-it", "another"), "^ERR agent-in-use")
        port = free_port()
        agent = self.start_agent("victim", "--spool", self.site.spool, "--metrics", f"127.0.0.1:{port}")
        until(lambda: self.metric(port, "waybill_agent_disputed_streams") == 1, 20, "the sealed one is disputed")
        agent.until_logged("in-use")
        self.assertTrue(held.exists() and sealed.exists())
        holder.close()
        until(lambda: not held.exists(), 30, "the held one is delivered")
        self.assertTrue(sealed.exists())
