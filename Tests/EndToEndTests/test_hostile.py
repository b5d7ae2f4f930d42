"""What a hostile agent, a false receiver and a receiver that came back older could do, and what happens now.

Each test shows one attack by its letter. Agents are given a false receiver and the honest one; the honest one starts
when the false one has had its time. WAYBILL_FALSE_SECONDS says how long that is (3).
"""

import collections
import hashlib
import os
import pathlib
import random
import re
import shutil
import time
import unittest
import urllib.error
import urllib.request

from harness import SiteTest, free_port, patience, run, until
from ledger import EventMaker, Ledger, stored
from peers import Listener, Session, Streams, cpu_seconds, peak_mebibytes, proof
from wire import Peer, skip

SECONDS = float(os.environ.get("WAYBILL_FALSE_SECONDS", "3"))
DISPUTED = "does not prove that it holds this segment's bytes"


class Liar(Listener):
    """A false receiver: `lie(session, words)` gives the lines that answer a message; counts what it is asked for."""

    def __init__(self, lie, **ready):
        self.lie, self.ready, self.opens = lie, ready, collections.Counter()
        super().__init__(self.meet)

    def meet(self, connected):
        session = Session(connected)
        session.handshake(**self.ready)
        while words := session.message():
            if words[0] == "OPEN":
                self.opens[session.names[words[1]]] += 1
            session.send(*self.lie(session, words))


def lies(path):
    """Name → how a receiver that was not sent the file answers, so that it would be deleted or moved on."""
    content, stream = path.read_bytes(), path.stem
    size = len(content)

    def opened(at, sealed=None, offset=size):
        """Answers each `OPEN` with this proof for this offset, and with `SEALED` at once."""
        def lie(_session, words):
            if words[0] != "OPEN":
                return []
            return [f"AT {words[1]} {offset} {at} 0", *([f"SEALED {words[1]} {sealed} 0"] if sealed else [])]
        return lie

    def taken(sealed):
        """Takes and acknowledges everything like an honest one, and seals with this proof."""
        streams = Streams()

        def lie(session, words):
            if words[0] not in ("OPEN", "BATCH", "SKIP", "SEAL"):
                return []
            answers = streams.answers(session, words)
            return [f"SEALED {words[1]} {sealed} 0"] if words[0] == "SEAL" else answers
        return lie

    digest, line_ends = "5eed" * 8, b"\n" * 512
    whole = proof(stream, size, content[-512:])
    return {
        "beyond its end": opened(f"512 {digest}", f"512 {digest}", 99_999_999),
        "at its end, with a proof of nothing": opened("0 -", "0 -"),
        "at its end, with a digest at random": opened(f"512 {digest}", f"512 {digest}"),
        "at its end, with a proof of its last byte": opened(
            proof(stream, size, b"\n"), proof(stream, size, b"\n")),
        "at its end, with a proof of line ends": opened(
            proof(stream, size, line_ends), proof(stream, size, line_ends)),
        "at its end, with a proof of another id": opened(
            proof("b", size, content[-512:]), proof("b", size, content[-512:])),
        "at its beginning, sealed": opened("0 -", "0 -", 0),
        "at its beginning, sealed with a digest": opened("0 -", f"512 {digest}", 0),
        "in its middle, with the proof of its end": opened(whole, whole, size // 2),
        "acknowledged, and sealed with a proof of nothing": taken("0 -"),
        "acknowledged, and sealed with a digest at random": taken(f"512 {digest}"),
        "acknowledged, and sealed with a proof of its last byte": taken(proof(stream, size, b"\n")),
    }


class HostileTest(SiteTest):
    def setUp(self):
        super().setUp()
        self.maker, self.ledger = EventMaker(18), Ledger()

    def segment(self, count=200, spool=None):
        """A finished segment whose lines must arrive; returns its path."""
        return pathlib.Path(self.maker.segment(spool or self.site.spool, self.maker.lines(count), ledger=self.ledger))

    def log(self, count, name="web.json"):
        """A foreign file whose lines must arrive; returns its path."""
        lines = self.maker.foreign(count)
        self.ledger.add(lines)
        path = self.site.root / name
        with open(path, "ab") as file:
            file.write(b"".join(lines))
        return path

    def liar(self, lie, **ready):
        liar = Liar(lie, **ready)
        self.addCleanup(liar.close)
        return liar

    def peer(self, agent):
        peer = Peer(self.site.port)
        self.addCleanup(peer.close)
        self.assertTrue(peer.hello(agent).startswith("READY "))
        return peer

    def start_agent(self, name, *arguments, to=()):
        """An agent with a state of its own that tries these addresses and then the honest receiver."""
        addresses = [part for address in (*to, self.site.address) for part in ("--to", address)]
        return self.site.start(
            "agent", "--state", self.site.root / f"state-{name}", "--name", name, *addresses, *arguments,
            log=f"agent-{name}.log")

    def globbing(self, path):
        return "--glob", path, "--env", "prod", "--bundle", "com.example.web"

    def assert_stored(self, receiver):
        self.assertEqual(receiver.stop(), 0)
        comparison = self.ledger.compare(stored(self.site.data))
        self.assertTrue(comparison.is_clean, str(comparison))

    def metric(self, port, name):
        """The sum of a metric's samples; None while nobody listens."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=patience(5)) as page:
                samples = re.findall(rf"^{name}(?:{{.*}})? ([0-9.]+)$", page.read().decode(), re.MULTILINE)
        except urllib.error.URLError:
            return None
        self.assertTrue(samples, name)
        return sum(map(float, samples))


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

    def test_what_was_skipped_is_said_with_each_proof(self):
        """By the session that skipped, by a later one, and after a start of the receiver."""
        receiver = self.site.receiver(exports="none")
        raw = b"".join(self.maker.lines(3))
        self.ledger.add(raw.splitlines(True))
        whole = raw + b"unfinished"
        with self.peer("one") as peer:
            self.assertEqual((peer.open("s"), peer.skipped[1]), ("AT 1 0", 0))
            peer.batch("s", raw)
            self.assertEqual(peer.line(), f"ACK 1 {len(raw)}")
            peer.send(skip(len(raw), 10, "torn-tail", whole), f"SEAL 1 {len(whole)}")
            self.assertEqual([peer.line(), peer.line()], [f"ACK 1 {len(whole)}", "SEALED 1"])
            self.assertEqual(peer.skipped[1], 10)
        for is_restarted in (False, True):
            if is_restarted:
                self.assertEqual(receiver.stop(), 0)
                receiver = self.site.receiver(exports="none")
            with self.peer("two") as peer:
                self.assertEqual((peer.open("s"), peer.skipped[1]), (f"AT 1 {len(whole)}", 10))
                self.assertEqual((peer.line(), peer.skipped[1]), ("SEALED 1", 10))
                peer.assert_proved("s", whole)
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
        """Sealed at its beginning: it stays, is reported and counted. Held open: the refusal names nobody, and ends with
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


class OtherPrincipalTests(HostileTest):
    """The same, tried by an agent of another principal: it meets streams of its own under these ids."""

    TOKENS = {name: f"{name}-0123456789abcdef" for name in ("web", "other")}

    def setUp(self):
        super().setUp()
        entries = "".join(
            f"    - {{name: {name}, tokens: [\"sha256:{hashlib.sha256(token.encode()).hexdigest()}\"]}}\n"
            for name, token in self.TOKENS.items())
        configuration = self.site.root / "waybill.yaml"
        configuration.write_text(
            f"receiver:\n  data: {self.site.data}\n  listen: {self.site.address}\n  agents:\n{entries}")
        self.receiver = self.site.start("receiver", "--config", configuration, log="receiver.log")
        until(self.site.is_listening, 30, "the receiver listens")
        self.path = self.log(300)

    def ship(self):
        """One round of the agent that has the log; its lines name neither environment nor app."""
        result = run("agent", "--once", "--state", self.site.state, "--name", "front", "--to", self.site.address,
                     *self.globbing(self.path), env={"WAYBILL_TOKEN": self.TOKENS["web"]})
        self.assertEqual(result.returncode, 0, result.stderr.decode()[-800:])

    def other(self, agent="front"):
        peer = Peer(self.site.port)
        self.addCleanup(peer.close)
        self.assertTrue(peer.hello(agent, token=self.TOKENS["other"]).startswith("READY "))
        return peer

    def stream(self):
        """The log's stream, from the agent's registry."""
        registry = (self.site.state / "registry.state").read_text()
        return re.search(r"^\+ (front-\S+-0) ", registry, re.MULTILINE)[1]

    def finish(self):
        """The log goes on, and all of its lines are there once, under its own environment and app."""
        self.log(1)
        self.ship()
        self.assert_stored(self.receiver)
        folders = {"/".join(path.parts[-4:-2]) for path in (self.site.data / "archive").rglob("*.ndjson*")}
        self.assertEqual(folders, {"env=prod/bundle=com.example.web"})

    def test_b1_b7_another_principal_skips_and_ends_its_own_stream_alone(self):
        """Skipped on and sealed under the id of a shipped log, before and after it: nothing is lost and nothing twice."""
        self.ship()
        peer = self.other()
        self.assertEqual(peer.open(self.stream()), "AT 1 0", "nothing is said of the other principal's stream")
        peer.send(skip(0, 10**6, "truncated"))
        self.assertEqual(peer.line(), f"ACK 1 {10**6}")
        peer.send(f"SEAL 1 {10**6}")
        self.assertEqual(peer.line(), "SEALED 1")
        self.finish()

    def test_b8_another_principal_holds_the_same_id_under_the_same_name(self):
        """Its stream is open while the log is shipped, by an agent with the same name: neither is in use."""
        self.ship()
        peer = self.other()
        self.assertEqual(peer.open(self.stream()), "AT 1 0")
        self.finish()

    def test_w2_another_principal_describes_its_own_stream_alone(self):
        """Another environment, app and format under the id of a shipped log: its further lines stay where they were."""
        self.ship()
        peer = self.other("describer")
        self.assertEqual(
            peer.open(self.stream(), env="dev", bundle="com.example.false", time="line", name="path"), "AT 1 0")
        self.finish()


class FalseReceiverTests(HostileTest):
    """What a receiver can do that holds nothing of what it says."""

    def test_b2_no_segment_is_deleted_on_a_false_receivers_word(self):
        """Twelve ways to say that a segment is held: all stay, unchanged and under their names, until the honest receiver
        has them."""
        cases = {}
        example = self.segment(20)
        for index in range(len(lies(example))):
            spool = self.site.root / f"spool-{index}"
            spool.mkdir()
            path = self.segment(60, spool)
            name, lie = list(lies(path).items())[index]
            liar = self.liar(lie)
            agent = self.start_agent(f"case-{index}", "--spool", spool, to=[liar.address])
            cases[name] = path, path.read_bytes(), liar, agent
        for name, (_, _, liar, _) in cases.items():
            until(lambda liar=liar: liar.opens, 20, f"{name}: the false receiver is asked")
        time.sleep(SECONDS)
        for name, (path, content, liar, agent) in cases.items():
            self.assertTrue(agent.is_running, name)
            self.assertEqual(list(path.parent.glob("*.ndjson*")), [path], name)
            self.assertEqual(path.read_bytes(), content, name)
            self.assertLess(sum(liar.opens.values()), 20, f"{name}: no backoff")
        receiver = self.site.receiver(exports="none")
        for _, _, liar, _ in cases.values():
            liar.close()
        for name, (path, _, _, agent) in cases.items():
            until(lambda path=path: not path.exists(), 60, f"{name}: delivered to the honest one")
            self.assertEqual(agent.stop(), 0, name)
        self.assertEqual(self.site.once()["sealed"], 1)
        self.assert_stored(receiver)

    def test_a_false_receiver_for_some_seconds_and_then_the_honest_one(self):
        """Answers at random, right ones among them, to spool and log that go on growing: the honest receiver gets every line
        once, and nothing was renamed."""
        chance, streams = random.Random(2), Streams()

        def lie(session, words):
            if words[0] not in ("OPEN", "BATCH", "SKIP", "SEAL"):
                return []
            number, stream, digest = words[1], session.names[words[1]], "5eed" * 8
            answers = streams.answers(session, words)
            kind = chance.random()
            if words[0] == "OPEN" and kind < 0.5:
                offset = chance.choice([0, 1, 512, streams.offsets[stream], 10**6])
                length = min(offset, 512)
                answers = [f"AT {number} {offset} {proof(stream, offset, bytes(length))} 0"]
                return answers + [f"SEALED {number} 512 {digest} 0"] if chance.random() < 0.5 else answers
            if words[0] == "SEAL" and kind < 0.9:
                return [f"SEALED {number} 512 {digest} 0"]
            if words[0] == "BATCH" and kind < 0.1:
                return [f"NAK {number} 0 corrupt as the script says"]
            return answers

        liar, path = self.liar(lie), self.log(50)
        segments = [self.segment(40) for _ in range(5)]
        counts = {each.name: 40 for each in segments}
        agent = self.start_agent("deceived", "--spool", self.site.spool, *self.globbing(path), to=[liar.address])
        end = time.monotonic() + SECONDS
        until(lambda: liar.opens, 20, "the false receiver is asked")
        while time.monotonic() < end:
            self.log(5)
            segments.append(self.segment(20))
            counts[segments[-1].name] = 20
            time.sleep(0.2)
        # What the false receiver proved in full after it was sent it, it may have: nothing else was deleted.
        left = {each.name for each in self.site.spool.glob("*.ndjson*")}
        self.assertLessEqual({each.name for each in segments} - left, {f"{name}.ndjson" for name in streams.sealed})
        self.assertLessEqual(left, {each.name for each in segments})
        taken = sum(lines for name, lines in counts.items() if name not in left)
        receiver = self.site.receiver(exports="none")
        liar.close()
        until(lambda: not any(self.site.spool.glob("*.ndjson")), 60, "the spool is delivered")
        self.assertEqual(agent.stop(), 0)
        result = run("agent", "--once", "--state", self.site.root / "state-deceived", "--name", "deceived", "--to",
                     self.site.address, *self.globbing(path))
        self.assertEqual(result.returncode, 0, result.stderr.decode()[-800:])
        self.assertEqual(receiver.stop(), 0)
        comparison = self.ledger.compare(stored(self.site.data))
        self.assertEqual((comparison.lost, comparison.twice, comparison.alien), (taken, 0, 0), str(comparison))

    def test_w6_a_false_answer_is_not_taken_for_a_file_that_was_cut(self):
        """Told of an offset beyond a whole log: the agent says that the receiver holds other bytes, and reports no loss."""
        path = self.log(100)

        def lie(_session, words):
            return [f"AT {words[1]} 99999999 512 {'5eed' * 8} 0"] if words[0] == "OPEN" else []

        liar = self.liar(lie)
        agent = self.start_agent("deceived", *self.globbing(path), to=[liar.address])
        until(lambda: len(liar.opens) > 1, 20, "it is asked for the next incarnation")
        receiver = self.site.receiver(exports="none")
        liar.close()
        until(lambda: self.is_archived(path), 60, "it is archived by the honest one")
        self.assertEqual(agent.stop(), 0)
        self.assertRegex(agent.log(), r'lost_bytes\\*":0\b')
        self.assertNotIn("was cut", agent.log())
        self.assert_stored(receiver)

    def is_archived(self, path):
        return sum(map(len, stored(self.site.data))) >= path.stat().st_size

    def test_d9_a_flood_of_pings_fills_no_memory(self):
        """`PING`s as fast as they go, the answers unread: memory stays small, and a stop is a stop."""
        self.segment()

        def flood(connected):
            session = Session(connected)
            session.opened()
            end = time.monotonic() + SECONDS
            while time.monotonic() < end:
                session.send(b"PING 1\n" * 10_000)
            time.sleep(3600)

        false = Listener(flood)
        self.addCleanup(false.close)
        agent = self.start_agent("flooded", "--spool", self.site.spool, to=[false.address])
        until(lambda: false.times, 20, "a connection")
        time.sleep(SECONDS)
        peak = peak_mebibytes(agent.child.pid)
        started = time.monotonic()
        agent.stop()
        print(f"hostile: PINGs for {SECONDS:g} s: agent at most {peak:.0f} MiB, ended after {time.monotonic() - started:.1f} s")
        self.assertLess(peak, 64)
        self.assertLess(time.monotonic() - started, patience(10))

    def test_d10_streams_that_are_sealed_at_once_do_not_make_an_agent_spin(self):
        """Every incarnation of a log is said to be sealed, or beyond its end: a bounded number is asked for, then it waits."""
        seconds = 3 + SECONDS
        for name, sealed in (("sealed", True), ("beyond", False)):
            path = self.log(20, f"{name}.json")

            def lie(_session, words, sealed=sealed):
                if words[0] != "OPEN":
                    return []
                answers = [f"AT {words[1]} {10**6} 512 {'5eed' * 8} 0"]
                return answers + [f"SEALED {words[1]} 512 {'5eed' * 8} 0"] if sealed else answers

            liar = self.liar(lie)
            agent = self.start_agent(name, *self.globbing(path), to=[liar.address])
            until(lambda liar=liar: liar.opens, 20, "it is asked")
            time.sleep(seconds)
            opens, log, used = sum(liar.opens.values()), len(agent.log()), cpu_seconds(agent.child.pid)
            print(f"hostile: {name}: {opens} OPENs, {log >> 10} KiB of log, {used:.1f} s of processor in {seconds:g} s")
            self.assertLess(opens, 600)
            self.assertLess(log, 200_000)
            self.assertLess(used, 0.3 + seconds / 3)
            agent.kill()
            liar.close()


class ReturnTests(HostileTest):
    """Receivers that lost data, or came back from a copy: what still has a file arrives, without a line more in it."""

    def setUp(self):
        super().setUp()
        self.path = self.log(100)
        self.copy = self.site.root / "copy"

    def ship(self, *arguments):
        receiver = self.site.receiver(exports="none")
        summary = self.site.once(*self.globbing(self.path), *arguments)
        self.assertEqual(receiver.stop(), 0)
        return summary

    def assert_shipped_again(self):
        receiver = self.site.receiver(exports="none")
        self.site.once(*self.globbing(self.path))
        self.assert_stored(receiver)
        receiver = self.site.receiver(exports="none")
        summary = self.site.once(*self.globbing(self.path))
        self.assertEqual((summary["batches"], summary["lines"]), (0, 0), "and once it is known, nothing is sent")
        self.assert_stored(receiver)

    def test_b4_an_emptied_receiver_gets_finished_files_again(self):
        """The data directory is gone: all 300 lines arrive again, though the file has not grown."""
        self.log(200)
        self.ship()
        shutil.rmtree(self.site.data)
        self.assert_shipped_again()

    def test_b4_a_receiver_from_a_copy_gets_what_the_copy_lacks(self):
        """Put back from a copy of 100 lines: the other 200 arrive again, and the 100 not twice."""
        self.ship()
        shutil.copytree(self.site.data, self.copy)
        self.log(200)
        self.ship()
        shutil.rmtree(self.site.data)
        shutil.copytree(self.copy, self.site.data)
        self.assert_shipped_again()

    def test_b4_a_receiver_from_a_copy_that_others_made_grow_is_recognised(self):
        """Put back from a copy, and grown past its old end by another agent before this one came back."""
        self.ship()
        shutil.copytree(self.site.data, self.copy)
        self.log(200)
        self.ship()
        shutil.rmtree(self.site.data)
        shutil.copytree(self.copy, self.site.data)
        other = self.site.root / "other"
        other.mkdir()
        for _ in range(5):
            self.segment(400, other)
        receiver = self.site.receiver(exports="none")
        result = run("agent", "--once", "--state", self.site.root / "state-other", "--name", "other", "--to",
                     self.site.address, "--spool", other)
        self.assertEqual(result.returncode, 0, result.stderr.decode()[-800:])
        self.assertEqual(receiver.stop(), 0)
        self.assert_shipped_again()

    def test_b4_a_running_agent_ships_again_to_an_emptied_receiver(self):
        """The agent that stays meets the emptied receiver under the old address, and sends everything."""
        receiver = self.site.receiver(exports="none")
        agent = self.site.agent(*self.globbing(self.path))
        until(lambda: self.is_archived(), 30, "it is archived")
        receiver.kill()
        shutil.rmtree(self.site.data)
        receiver = self.site.receiver(exports="none")
        # At one address an agent takes in an unknown receiver once a minute at most.
        until(lambda: self.is_archived(), 90, "it is archived again")
        self.assertEqual(agent.stop(), 0)
        self.assert_stored(receiver)

    def is_archived(self):
        return sum(map(len, stored(self.site.data))) >= self.path.stat().st_size


if __name__ == "__main__":
    unittest.main()
