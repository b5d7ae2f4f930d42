"""Connections that break, stall or lie dead at every kind of place, receivers that change, configurations that are
edited, agents that are cloned: the receiver's position is the truth, so no line is lost and none is there twice.

Shows T9 to T15. WAYBILL_THOROUGH=1 makes more and longer of everything.
"""

import collections
import json
import random
import re
import shutil
import socket
import threading
import time

from harness import Site, failure, succeed, until
from ledger import LedgerTest, archived
from peers import Proxy, pass_on
from scale import SEED, THOROUGH
from wire import let_in

WINDOW = 8 << 20


class Offsets:
    """A rule for a proxy that notes what was acknowledged and what was sent, and keeps the agent to `AT`."""

    def __init__(self, rule=pass_on):
        self.rule, self.lock = rule, threading.Lock()
        self.streams, self.at, self.sent, self.acked = {}, {}, collections.Counter(), collections.Counter()
        self.again, self.again_max, self.wrong = 0, 0, []

    def __call__(self, passage, direction, words, data):
        with self.lock:
            self.note(passage.index, *words)
        return self.rule(passage, direction, words, data)

    def note(self, index, word, number=None, first=None, *rest):
        if word == "OPEN":
            self.streams[index, number] = json.loads(first + " ".join(rest))["stream"]
        stream = self.streams.get((index, number))
        if word == "AT":
            # Of what was sent before, all that no ACK came for may be sent again, and nothing else.
            if int(first) < self.acked[stream]:
                self.wrong.append(f"{stream}: at {first}, though {self.acked[stream]} was acknowledged")
            self.again += max(0, self.sent[stream] - int(first))
            self.again_max = max(self.again_max, self.sent[stream] - int(first))
            self.at[index, number] = int(first)
        elif word == "ACK":
            self.acked[stream] = max(self.acked[stream], int(first))
        elif word == "BATCH":
            if int(first) != self.at[index, number]:
                self.wrong.append(f"{stream}: a batch at {first} instead of {self.at[index, number]}")
            self.at[index, number] = int(first) + int(rest[0])
            self.sent[stream] = max(self.sent[stream], self.at[index, number])


class ResumeTest(LedgerTest):
    def proxy(self, rule=pass_on, target=None):
        proxy = Proxy(target or self.site.port, rule)
        self.addCleanup(proxy.close)
        return proxy

    def folder(self, name):
        folder = self.site.root / name
        folder.mkdir()
        return folder

    def start_agent(self, name, to, spool, *arguments):
        addresses = [part for address in to for part in ("--to", address)]
        return self.site.start(
            "agent", "--state", self.site.root / f"state-{name}", *addresses, "--spool", spool, "--name", name,
            *arguments, log=f"agent-{name}.log")


def cutting(key, count, keep):
    """A rule that cuts each of the first two connections at the `count`th message of this kind, which it passes on up
    to a byte: a share of it, or where `keep` is `line` its line alone."""
    def rule(passage, direction, words, data):
        if passage.index >= 2 or direction + words[0] != key or passage.counts[key] != count:
            return data
        end = data.index(b"\n") + 1 if keep == "line" else int(len(data) * keep)
        if data[:end]:
            (passage.receiver if direction == ">" else passage.agent).sendall(data[:end])
        rule.cut_count += 1
        return None

    rule.cut_count = 0
    return rule


CUTS = {
    f"{key} {count} after {keep}": cutting(key, count, keep)
    for key, counts in {
        ">HELLO": (1,), "<READY": (1,), ">OPEN": (1, 3), "<AT": (1, 3), ">BATCH": (1, 2), "<ACK": (1, 2),
        ">SEAL": (1, 3), "<SEALED": (1, 3)}.items()
    for count in counts
    for keep in ((0, 0.01, "line", 0.5, 0.999, 1) if key == ">BATCH" else (0, 0.5, 1))}


class CutTests(ResumeTest):
    """A proxy between agent and receiver that ends connections."""

    def test_a_cut_at_any_place_loses_and_repeats_nothing(self):
        """Before, within and behind each kind of message, and between commit and ACK: one agent for each place (T9)."""
        receiver = self.site.receiver(exports="none")
        agents, offsets = {}, {}
        for index, (name, rule) in enumerate(CUTS.items()):
            spool = self.folder(f"spool-{index}")
            for _ in range(3):
                self.maker.segment(spool, self.made(700))
            offsets[name] = Offsets(rule)
            proxy = self.proxy(offsets[name])
            agents[name] = self.start_agent(f"cut-{index}", [proxy.address], spool, "--once", "--patience", "600")
        for name, agent in agents.items():
            self.assertEqual(agent.wait(900), 0, f"{name}: {agent.log()[-800:]}")
            self.assertEqual(offsets[name].wrong, [], name)
        self.assertEqual([name for name, rule in CUTS.items() if not rule.cut_count], [], "these cut nothing")
        self.assert_stored(receiver)

    def test_no_more_is_sent_again_than_was_in_flight(self):
        """Cut at random bytes of a long drain, the agent continues where the receiver stands (T10)."""
        chance, budgets = random.Random(SEED), {}

        def rule(passage, direction, words, data):
            left = budgets.setdefault(passage.index, chance.randrange(10_000, 600_000 if THOROUGH else 300_000))
            budgets[passage.index] -= len(data) if direction == ">" else 0
            if budgets[passage.index] >= 0:
                return data
            passage.receiver.sendall(data[:max(0, left)])
            return None

        receiver = self.site.receiver(exports="none")
        offsets = Offsets(rule)
        proxy = self.proxy(offsets)
        self.maker.spool(self.site.spool, self.ledger, (200 if THOROUGH else 12) << 20)
        agent = self.start_agent("long", [proxy.address], self.site.spool, "--once", "--patience", "60")
        self.assertEqual(agent.wait(300), 0, agent.log()[-800:])
        cuts = len(proxy.passages) - 1
        self.assertGreater(cuts, 2)
        self.assertEqual(offsets.wrong, [], f"seed {SEED}")
        self.assertLessEqual(offsets.again, cuts * WINDOW)
        self.assertLessEqual(offsets.again_max, WINDOW)
        print(f"resume: {cuts} cuts, {offsets.again / cuts / 1024:.0f} KiB sent again for each")
        self.assert_stored(receiver)


class SilenceTests(ResumeTest):
    """Connections that stay and say nothing. The proxy shortens `idle_ms` in READY, so that no one waits 90 s."""

    IDLE_MS = 1000

    def rule(self, hold):
        """Shortens the time of silence, and passes on what `hold` does not take."""
        def rule(passage, direction, words, data):
            if words[0] == "READY":
                return re.sub(rb'"idle_ms":\d+', b'"idle_ms":%d' % self.IDLE_MS, data)
            return b"" if hold(passage, direction, words, data) else data
        return rule

    def ship_through(self, hold):
        """Ships three segments through the proxy while `hold` does its work; returns proxy, agent and receiver."""
        receiver = self.site.receiver(exports="none")
        self.maker.spool(self.site.spool, self.ledger, 1_500_000)
        proxy = self.proxy(self.rule(hold))
        return proxy, self.start_agent("quiet", [proxy.address], self.site.spool), receiver

    def finish(self, agent, receiver):
        until(lambda: not any(self.site.spool.iterdir()), 40, "everything is shipped")
        self.assert_stored(receiver, agent)

    def test_a_stall_with_keepalives_keeps_the_connection(self):
        """ACKs held back for several times the time of silence, with PINGs in between: no reconnect (T11)."""
        held, is_over = [], threading.Event()

        def hold(passage, direction, words, data):
            if is_over.is_set() or words[0] not in ("ACK", "SEALED"):
                return False
            held.append((passage, data))
            return True

        proxy, agent, receiver = self.ship_through(hold)
        until(lambda: held, 20, "an ACK is held")
        for _ in range(20 if THOROUGH else 2):
            for _ in range(5):
                time.sleep(0.2)
                proxy.passages[0].to_agent(b"PING 4\n")
        self.assertEqual(len(proxy.passages), 1, agent.log()[-800:])
        self.assertTrue(any(self.site.spool.iterdir()))
        is_over.set()
        for passage, data in held:
            passage.to_agent(data)
        self.finish(agent, receiver)
        self.assertEqual(len(proxy.passages), 1)

    def test_silence_is_a_reason_to_connect_again(self):
        """Nothing comes from the receiver while the old connection stays: the agent connects again (T9, T11)."""
        proxy, agent, receiver = self.ship_through(
            lambda passage, direction, words, data: passage.index == 0 and direction == "<" and words[0] != "AT")
        until(lambda: len(proxy.passages) > 1, 20, "the agent connects again")
        self.finish(agent, receiver)

    def test_a_connection_that_is_half_dead(self):
        """What the agent sends vanishes, PINGs of the receiver still come: nothing is acknowledged, nothing lost (T9)."""
        proxy, agent, receiver = self.ship_through(
            lambda passage, direction, words, data: passage.index == 0 and direction == ">" and words[0] == "BATCH")
        # The batches vanish and what follows them leaves a gap, or the connection stays without an answer.
        time.sleep(2 * self.IDLE_MS / 1000)
        proxy.hang_up()
        self.finish(agent, receiver)

    def test_bytes_of_an_old_connection_that_come_late(self):
        """Batches that were on their way on a connection which was given up arrive beside the new one (T9)."""
        late = []

        def hold(passage, direction, words, data):
            if passage.index > 0 or direction == "<" and words[0] not in ("ACK", "SEALED", "PONG", "PING"):
                return False
            if words[0] == "BATCH":
                late.append((passage, data))
            return words[0] not in ("HELLO", "OPEN")

        proxy, agent, receiver = self.ship_through(hold)
        # The proxy keeps its side to the receiver, as a network would that has lost the agent's FIN.
        until(lambda: late, 20, "batches are on their way")
        first = proxy.passages[0]
        first.cut = lambda: None
        until(lambda: len(proxy.passages) > 1, 20, "the agent connects again")
        refused = 0
        for passage, data in late:
            try:
                passage.receiver.sendall(data)
            except OSError:
                refused += 1
        self.finish(agent, receiver)
        first.receiver.close()
        self.assertIn("the agent has connected again", receiver.log())
        print(f"resume: {len(late)} late batches, {refused} found the connection closed")


class RepeatTests(ResumeTest):
    """Batches that the receiver has, sent again by hand."""

    def peer(self):
        peer = let_in(self, self.site.port, "again")
        # A batch goes out as two writes.
        peer.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return peer

    def test_stored_batches_are_acknowledged_again_in_any_order(self):
        """Any stored batch, of open and of sealed streams, now and after a restart: ACK or AT, stored once (T13)."""
        chance = random.Random(SEED)
        receiver, batches = self.site.receiver(exports="none"), []
        peer, ends = self.peer(), {}
        for number in range(1, 7):
            stream, offset = f"again-{number}", 0
            self.assertEqual(peer.open(stream, number), f"AT {number} 0")
            for _ in range(10):
                raw = b"".join(self.made(20))
                batches.append((number, stream, offset, raw))
                peer.batch(stream, raw, number=number, offset=offset)
                offset += len(raw)
                self.assertEqual(peer.line(), f"ACK {number} {offset}")
            ends[number] = offset
            if number % 2 == 0:
                peer.send(f"SEAL {number} {offset}")
                self.assertEqual(peer.line(), f"SEALED {number}")
        for turn in range(3):
            for number, stream, offset, raw in chance.sample(batches, len(batches)):
                if turn == 0 and number % 2 == 0:
                    continue  # A number that was sealed on this very connection is not used again.
                peer.batch(stream, raw, number=number, offset=offset)
                if number % 2:
                    self.assertEqual(peer.line(), f"ACK {number} {ends[number]}", f"seed {SEED}")
            peer.send("PING 9")
            self.assertEqual(peer.line(), "PONG 9", "batches of sealed streams get no answer")
            peer.close()
            receiver.kill()
            receiver = self.site.receiver(exports="none")
            peer = self.peer()
            for number, end in ends.items():
                self.assertEqual(peer.open(f"again-{number}", number), f"AT {number} {end}")
                if number % 2 == 0:
                    self.assertEqual(peer.line(), f"SEALED {number}")
        peer.close()
        self.assert_stored(receiver)


class ConfigurationTests(ResumeTest):
    """Edits of the configuration, and losses of the registry, between runs of an agent."""

    def setUp(self):
        super().setUp()
        self.web, self.shop = self.folder("web"), self.folder("shop")

    def ship(self, sources):
        """Writes the configuration anew and ships what there is; returns how many lines went."""
        path = self.site.root / "waybill.yaml"
        path.write_text("agent:\n" + f"  state: {self.site.state}\n  to: [{self.site.address}]\n  name: edited\n  sources:\n"
                        + "".join(f"    - {json.dumps(source)}\n" for source in sources))
        result = succeed("agent", "--config", path, "--once")
        return json.loads(result.stdout)["lines"]

    def grow(self, count=30):
        for path in (self.web / "access.json", self.web / "error.json", self.shop / "shop.json"):
            self.write_log(path, count)
        return 3 * count

    def test_edits_do_not_reset_positions(self):
        """A pattern written otherwise, one more, another order, an absolute path made relative by `.`: nothing twice (T12)."""
        receiver = self.site.receiver(exports="none")

        def files(*patterns, bundle="com.example.web"):
            return {"files": list(map(str, patterns)), "env": "prod", "bundle": bundle}

        web, shop = self.web, self.shop
        one, other = files(web / "*.json"), files(shop / "*.json", bundle="com.example.shop")
        edits = [
            [one, other], [other, one], [files(web / "*.js*"), other], [files(web / "access.json", web / "error.json"), other],
            [files(web / "[ae]*.json"), other], [one, other, files(self.site.root / "nothing" / "*.json")],
            [files(web / "*.json", shop / "*.json")], [{"spool": str(self.site.spool)}, other, one],
            [files(f"{web}/./*.json"), files(f"{shop}//*.json")], [one, other]]
        for turn, sources in enumerate(edits):
            made = self.grow()
            self.assertEqual(self.ship(sources), made, f"edit {turn}: {sources}")
            self.assertEqual(self.ship(sources), 0, f"edit {turn}, a second time")
        self.assert_stored(receiver)

    def test_a_lost_registry_after_edits_repeats_nothing(self):
        """With the registry deleted between edits the receiver's positions still hold (T12)."""
        receiver = self.site.receiver(exports="none")
        for pattern in ("*.json", "*.js*", "[a-z]*.json"):
            made = self.grow()
            shutil.rmtree(self.site.state, ignore_errors=True)
            source = {"files": [f"{self.web}/{pattern}", f"{self.shop}/{pattern}"], "env": "prod", "bundle": "web"}
            self.assertEqual(self.ship([source]), made)
        self.assert_stored(receiver)


class ManyReceiversTests(ResumeTest):
    """One agent, two receivers."""

    def test_an_agent_that_bounces_between_two_receivers(self):
        """Each line is in one receiver at least, none twice in one, and ids tell which are in both (T14)."""
        other = Site()
        self.addCleanup(other.close)
        receivers = [self.site.receiver(exports="csv"), other.receiver(exports="csv")]
        chance = random.Random(SEED)

        def rule(passage, direction, words, data):
            # A connection lives for a few batches, then the agent continues to the other receiver.
            if words[0] == "ACK" and passage.counts["<ACK"] > 6 + passage.index % 3:
                return None if chance.random() < 0.5 else b""
            return data

        proxies = [self.proxy(rule, site.port) for site in (self.site, other)]
        folder = self.folder("web")
        agent = self.start_agent(
            "bouncing", [proxy.address for proxy in proxies], self.site.spool, "--glob", folder / "*.json", "--env", "prod",
            "--bundle", "com.example.web")
        for turn in range(24):
            self.maker.spool(self.site.spool, self.ledger, 400_000, 100_000)
            self.write_log(folder / f"{turn % 3}.json", 200)
            time.sleep(0.05)
            if turn % 4 == 3:
                proxies[turn // 4 % 2].hang_up()
        for proxy in proxies:
            proxy.rule = pass_on
            proxy.hang_up()
        until(lambda: not any(self.site.spool.glob("*.ndjson")), 60, "the segments are shipped")
        self.assertEqual(agent.stop(), 0)
        self.assertTrue(all(proxy.passages for proxy in proxies))
        self.stop_all(*receivers)
        kept = [list(archived(site.data)) for site in (self.site, other)]
        for lines in kept:
            self.assertGreater(len(lines), 0)
            comparison = self.ledger.compare(lines)
            self.assertEqual((comparison.twice, comparison.alien), (0, 0), f"seed {SEED}: {comparison}")
        # What a reader of both archives does: the first line of each id, and foreign lines by their bytes.
        once = {(json.loads(line).get("id") or line): line for lines in kept for line in lines}
        comparison = self.ledger.compare(once.values())
        self.assertTrue(comparison.is_clean, f"seed {SEED}: {comparison}")
        print(f"resume: {len(kept[0])} and {len(kept[1])} lines, {len(once)} of them different")


class CloneTests(ResumeTest):
    """Two agents of one name."""

    def test_a_cloned_agent_is_refused_and_neither_loses(self):
        """A copy of the state directory on the same files: the second agent is told why, and continues when it may (T15)."""
        receiver = self.site.receiver(exports="none")
        folder = self.folder("web")

        sources = ["--glob", folder / "*.json", "--env", "prod", "--bundle", "com.example.web"]
        self.write_log(folder / "web.json", 200)
        first = self.start_agent("twin", [self.site.address], self.site.spool, *sources)
        self.until_stored()
        shutil.copytree(self.site.root / "state-twin", self.site.root / "state-clone")
        clone = ["--state", self.site.root / "state-clone", "--to", self.site.address, "--name", "twin",
                 *sources]
        told = failure(69, "agent", *clone, "--once", "--patience", "1")
        self.assertIn("another agent named twin is connected; give each agent a name of its own", told)
        second = self.site.start("agent", *clone, log="agent-clone.log")
        second.until_logged("another agent named twin")
        self.write_log(folder / "web.json", 200)
        self.until_stored()
        first.kill()
        self.write_log(folder / "web.json", 200)
        self.until_stored(seconds=60)
        self.assert_stored(receiver, second)
