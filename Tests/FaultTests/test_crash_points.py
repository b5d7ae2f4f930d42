"""Receiver, agent and replay are killed around chosen calls to their disk, start-up and shut-down included.

A counting run learns which calls a piece of work makes. Then the same work is done again and again, each time with a
SIGKILL before a call, behind it, or in the middle of its bytes; a new process takes over what is left and finishes.
By default a seeded sample that takes each op on each kind of file at least once; `WAYBILL_THOROUGH=1` takes
every call (some 4,000 deaths, about 20 minutes).
"""

import collections
import copy as copying
import json
import random
import signal
import time

import faults
from faults import PROVIDERS, Batches, Gone, Shipper, armed, classes, copy, counted, traced, tree, unsynced

from harness import SiteTest, succeed, until
from ledger import EventMaker, Ledger, exported_ids, stored
from scale import SEED, THOROUGH


# The kinds of files and folders; the first that fits names a path, and hardly any other fits it too.
DAY, PART = "date=??????????", "part-?????.[cn]*"
RECEIVER_KINDS = (
    "*/data/state/lock", "*/data/state/readers*", "*/data/state/archive.state*", "*/data/state/export-*",
    "*/data/journal/*.journal", "*/data/journal/*", "*/data/journal", "*/data/archive/*.ndjson", "*/data/archive/*.sources",
    "*/data/quarantine/*.ndjson", "*/data/quarantine/*.sources", "*/data/exports/*/dead/*.ndjson",
    "*/data/exports/*.ids", "*/data/exports/*.manifest.json*", f"*/data/exports/*/{DAY}/{PART}", "*/data/archive*",
    "*/data/quarantine*", "*/data/exports*", "*/data/state", "*/data", "*/waybill-test-????????")
APP_KINDS = ("*/spool/install.json*", "*/spool/session.json*", "*/spool/install.lock", "*/spool/*.ndjson*", "*/spool")
AGENT_KINDS = (
    "*/agent*/lock", "*/agent*/registry.state*", "*/agent*/deleted.log", "*/agent*/name*", "*/agent*/readers",
    "*/agent*/quarantine/*", "*/agent*/quarantine", "*/spool*/*.ndjson",
    "*/agent-*[0-9]", "*/waybill-test-????????")
REPLAY_KINDS = (
    "*/.generation*", "*/.standing*", "*/unit.state*", "*/exports/.replay-*/dead/*.ndjson", "*/exports/.replay-*.ids",
    "*/exports/.replay-*.manifest.json*", f"*/exports/.replay-*/{DAY}/{PART}", "*/exports/.replay-*",
    "*/exports/.previous-*", "*/again/exports/*/dead/*.ndjson", "*/again/exports/*.ids",
    "*/again/exports/*.manifest.json*", f"*/again/exports/*/{DAY}/{PART}", "*/state/replay*",
    "*/again*") + RECEIVER_KINDS


class Point:
    """Where a process is to die: around the `number`-th call of an op on a kind of file."""

    def __init__(self, number, when, op="*", pattern="*"):
        self.number, self.when, self.op, self.pattern = number, when, op, pattern

    def __str__(self):
        return f"{self.number}:{self.when}:{self.op}:{self.pattern}"


class CrashTest(SiteTest):
    """Chooses points and reports on them."""

    def setUp(self):
        faults.use_memory(self)
        super().setUp()
        self.chance = random.Random(SEED)
        self.deaths = collections.Counter()
        self.started = time.monotonic()

    def points_of(self, calls, kinds, taken=()):
        """The points to try of one run; a sample leaves out the classes that are taken already."""
        if THOROUGH:
            whens = {"write": ("before", "half", "after")}
            return [
                Point(number, when) for number, (op, _) in enumerate(calls, 1)
                for when in whens.get(op, ("before", "after"))]
        points = []
        for (op, pattern), count in sorted(classes(calls, kinds).items()):
            if (op, pattern) in taken:
                continue
            # Threads share the work differently each time: the last calls of a class may not come again.
            number = self.chance.randint(1, max(1, count * 2 // 3))
            points.append(Point(number, self.chance.choice(("before", "half", "after")), op, pattern))
        return points

    def died(self, process_or_code, point):
        """Notes whether a process died at its point; whatever else it does must be its ordinary end."""
        code = process_or_code if isinstance(process_or_code, int) else process_or_code.wait()
        self.assertIn(code, (0, -signal.SIGKILL), f"{point}: ended with {code}")
        self.deaths["died" if code else "missed"] += 1
        return code != 0

    def report(self, subject):
        self.assertGreater(self.deaths["died"], 0)
        # A point that is not reached proves nothing; a few are the price of threads.
        self.assertLess(self.deaths["missed"], max(5, self.deaths["died"] // 10))
        print(f"{subject}: seed {SEED}, {self.deaths['died']} deaths, {self.deaths['missed']} points not reached, "
              f"{time.monotonic() - self.started:.1f} s", flush=True)


class ReceiverCrashTests(CrashTest):
    """A receiver that is killed around any call to its disk loses nothing it acknowledged and repeats nothing."""

    def setUp(self):
        super().setUp()
        self.snapshot = self.site.root / "snapshot"
        # Nothing of the journal is kept beyond what is needed, so that deleting segments is among the points.
        self.config = self.site.root / "receiver.yaml"
        self.config.write_text(f"receiver:\n  data: {self.site.data}\n  journal: {{retention_hours: 0}}\n")

    def start(self, **variables):
        """Starts a receiver; returns it once it listens or has died."""
        process = self.site.start(
            "receiver", "--config", self.config, "--listen", self.site.address, "--exports", ",".join(PROVIDERS),
            log="receiver.log", env=armed(self.site.data, **variables) if variables else None)
        until(lambda: self.site.is_listening() or not process.is_running, 30, "the receiver listens or dies")
        return process

    def work(self, streams, **variables):
        """Start, ship, stop: returns the exit code, and whether everything was shipped."""
        process = self.start(**variables)
        is_shipped = False
        try:
            Shipper(self.site.port, streams).ship()
            is_shipped = True
        except Gone:
            process.wait(20)
        code = process.stop()
        return code, is_shipped

    def take(self, scenario, batches, streams, taken):
        """Counts the calls of `streams` over the snapshot, then dies at the chosen ones."""
        count = self.site.root / "count"
        count.unlink(missing_ok=True)
        self.restore()
        code, is_shipped = self.work(copying.deepcopy(streams), count=count)
        self.assertEqual((code, is_shipped), (0, True))
        calls = counted(count)
        batches.check(self, self.site.data, f"{scenario}, undisturbed")
        for point in self.points_of(calls, RECEIVER_KINDS, taken):
            taken.add((point.op, point.pattern))
            self.restore()
            message = f"seed {SEED}, {scenario}, {point}"
            mine = copying.deepcopy(streams)
            code, _ = self.work(mine, kill=point)
            self.died(code, message)
            code, is_shipped = self.work(mine)
            self.assertEqual((code, is_shipped), (0, True), f"{message}: the next start")
            batches.check(self, self.site.data, message)
            if THOROUGH or self.chance.random() < 0.25:
                self.check_replay(message)
            self.check_leftovers(message)

    def restore(self):
        copy(self.snapshot, self.site.data)

    def check_replay(self, message):
        """What says where the archive's lines came from is whole: a replay has the live export's events."""
        output = self.site.root / "again"
        succeed("replay", "--data", self.site.data, "--provider", "mixpanel", "--output", output)
        self.assertEqual(
            exported_ids(output, "mixpanel"), exported_ids(self.site.data, "mixpanel"), f"{message}: replay")
        copy("/nowhere", output)

    def check_leftovers(self, message):
        """No half-made file is left where outputs are."""
        for folder in ("archive", "exports", "quarantine", "state"):
            names = [
                path.name for path in (self.site.data / folder).rglob("*")
                if path.suffix in (".tmp", ".new") or ".damaged" in path.name]
            self.assertEqual(names, [], f"{message}: {folder}")

    def test_a_receiver_dies_at_any_call(self):
        """First start, start over what a stop left, and start over what a kill left (T3, T4)."""
        taken = set()
        batches = Batches(SEED)
        # A copy of each: what a run has learned of a stream is not what the next one may know.
        first = batches.streams()
        self.take("first start", batches, first, taken)
        # What follows is over a data directory that has everything but this.
        self.restore()
        self.assertEqual(self.work(first), (0, True))
        copy(self.site.data, self.snapshot)
        second = batches.streams()
        # What a start does to files that are there is new; what it does to those that are not has been seen.
        taken = {c for c in taken if "/state/" not in c[1] or c[0] not in ("write", "sync", "rename")}
        self.take("start over a stop", batches, first + second, taken)
        self.restore()
        self.kill_in_mid_work(first + second)
        copy(self.site.data, self.snapshot)
        third = batches.streams()
        taken = {c for c in taken if c[0] != "truncate" and "/journal/" not in c[1]}
        self.take("start over a kill", batches, first + second + third, taken)
        self.report("receiver")

    def test_one_death_after_another(self):
        """Each start takes over what the death before it left, many times, with new lines every time (T1, T4)."""
        batches, streams = Batches(SEED), []
        for turn in range(300 if THOROUGH else 25):
            streams += batches.streams(1, 2)
            # Mostly in the start and the recovery, the rest anywhere.
            number = self.chance.randint(1, self.chance.choice((30, 30, 200)))
            point = Point(number, self.chance.choice(("before", "half", "after")))
            message = f"seed {SEED}, turn {turn}, {point}"
            code, _ = self.work(streams, kill=point)
            self.assertIn(code, (0, -signal.SIGKILL), message)
            self.deaths["died" if code else "stopped"] += 1
            streams = [stream for stream in streams if stream.acked < stream.ends[-1] or not stream.is_told_sealed]
        self.assertEqual(self.work(streams), (0, True))
        batches.check(self, self.site.data, f"seed {SEED}")
        self.check_replay(f"seed {SEED}")
        self.report("one death after another")

    def kill_in_mid_work(self, streams):
        """Leaves files that are ahead of their checkpoints, and a torn end of the journal."""
        process = self.start()
        Shipper(self.site.port, streams).ship()
        def is_ahead():
            return sum(1 for _ in stored(self.site.data)) == self.line_count(streams)
        until(is_ahead, 20, "the archive is ahead of its checkpoint")
        process.kill()
        last = max((self.site.data / "journal").glob("*.journal"))
        with open(last, "ab") as file:
            file.write(last.read_bytes()[-300:-7])
        (self.site.data / "state" / "archive.state.tmp").write_bytes(b"waybill-state 1\n+ half")

    def line_count(self, streams):
        return sum(raw.count(b"\n") for stream in streams for raw in stream.batches)


class AppCrashTests(CrashTest):
    """An app that is killed around any call of the client library keeps every event that `track()` called stored."""

    def app(self, number, **variables):
        environment = armed(self.site.spool, **variables) if variables else None
        return self.site.start(
            "demo-app", "--spool", self.site.spool, "--ledger", self.site.root / f"ledger-{number}.txt", "--app", number,
            "--events", 40, log="app.log", env=environment).wait()

    def test_an_app_dies_at_any_call(self):
        """Start, events and a synchronization; what it wrote is shipped once, a torn line is given up with a record (T4, T24)."""
        count = self.site.root / "count"
        self.assertEqual(self.app(1, count=count), 0)
        points = self.points_of(counted(count), APP_KINDS)
        for number, point in enumerate(points, 2):
            self.died(self.app(number, kill=point), point)
            # The next start takes over the install file that it finds.
            self.assertEqual(self.app(number, kill="100000:before"), 0, point)
        receiver = self.site.receiver(exports="none")
        self.site.once()
        self.assertEqual(receiver.stop(), 0)
        self.check(points)
        self.report("app")

    def check(self, points):
        found = collections.defaultdict(collections.Counter)
        for line in stored(self.site.data):
            event = json.loads(line)
            if event["kind"] in ("screen", "action"):
                found[event["data"]["app"]][event["data"]["number"]] += 1
        for number, point in enumerate([None, *points], 1):
            told = collections.Counter(
                int(line.split()[1]) for line in (self.site.root / f"ledger-{number}.txt").read_text().splitlines())
            message = f"seed {SEED}, {point}"
            self.assertEqual(told - found[number], collections.Counter(), f"{message}: lost")
            # Written, but killed before it could say so.
            self.assertLessEqual(sum((found[number] - told).values()), 1, message)


class AgentCrashTests(CrashTest):
    """An agent that is killed around any call to its disk ships every line once, and keeps what it gave up."""

    def setUp(self):
        super().setUp()
        self.maker, self.ledger = EventMaker(SEED), Ledger()
        self.points_by_digest = {}
        self.turn = 0
        self.receiver = self.site.receiver(exports="none")

    def test_an_agent_dies_at_any_call(self):
        """First start, and a start over a registry: segments, a foreign file, a line too long (T4, T22, T25)."""
        taken = set()
        for scenario in ("first start", "start over a registry"):
            count = self.site.root / f"count-{len(taken)}"
            self.one(scenario, count=count)
            for point in self.points_of(counted(count), AGENT_KINDS, taken):
                taken.add((point.op, point.pattern))
                self.one(scenario, point)
            taken = {c for c in taken if c[1] != AGENT_KINDS[1] and c[0] != "unlink"}
        self.assertEqual(self.receiver.stop(), 0)
        self.check()
        self.report("agent")

    def one(self, scenario, point=None, **variables):
        """One agent, its files and its death; the next process ships the rest."""
        self.turn += 1
        message = f"seed {SEED}, {scenario}, {point}"
        self.site.spool, self.site.state = (self.site.root / f"{name}-{self.turn}" for name in ("spool", "agent"))
        self.web = self.site.root / f"web-{self.turn}.json"
        self.site.spool.mkdir()
        if scenario != "first start":
            self.make_input(message)
            self.assertEqual(self.agent(), 0, message)
        overlong = self.make_input(message)
        if point:
            variables = {"kill": point}
        code = self.agent(**variables)
        if point:
            self.died(code, message)
            self.assertEqual(self.agent(), 0, f"{message}: the next start")
        self.assertEqual(list(self.site.spool.iterdir()), [], f"{message}: acknowledged segments are deleted")
        kept = [path.read_bytes() for path in (self.site.state / "quarantine").iterdir()]
        self.assertEqual(kept.count(overlong), 1, f"{message}: a line too long is kept")
        self.assertEqual(len(kept), 1 if scenario == "first start" else 2, message)
        self.assertEqual(self.agent(), 0, message)

    def make_input(self, message):
        """Two finished segments, and lines of a foreign file with one among them that is too long."""
        lines = self.maker.lines(3)
        self.maker.segment(self.site.spool, lines)
        lines += self.maker.lines(3)
        self.maker.segment(self.site.spool, lines[3:])
        foreign = self.maker.foreign(4)
        overlong = b"%d " % self.maker.count + b"x" * (1 << 20) + b"\n"
        with open(self.web, "ab") as file:
            file.write(b"".join(foreign[:2]) + overlong + b"".join(foreign[2:]))
        self.ledger.add(lines + foreign)
        self.points_by_digest.update((Ledger.digest(line), message) for line in lines + foreign)
        return overlong

    def agent(self, **variables):
        arguments = self.site.agent_arguments(
            "--once", "--name", f"agent-{self.turn}", "--spool", self.site.spool, "--glob", self.web, "--env", "prod",
            "--bundle", "com.example.web")
        environment = armed(self.site.state, self.site.spool, **variables) if variables else None
        return self.site.start(*arguments, log="agent.log", env=environment).wait()

    def check(self):
        found = collections.Counter(map(Ledger.digest, stored(self.site.data)))
        wrong = (self.ledger.counts - found) + (found - self.ledger.counts)
        points = sorted({self.points_by_digest.get(digest, "alien") for digest in wrong})
        self.assertEqual(points, [], str(self.ledger.compare(stored(self.site.data))))


class ReplayCrashTests(CrashTest):
    """A replay that is killed around any call leaves each day as it was or as it will be, and can be done again."""

    def setUp(self):
        super().setUp()
        self.batches = Batches(SEED)
        self.snapshot = self.site.root / "snapshot"
        receiver = self.site.receiver(exports=",".join(PROVIDERS), data=self.snapshot)
        self.first = self.batches.streams(line_count=8)
        Shipper(self.site.port, self.first).ship()
        self.assertEqual(receiver.stop(), 0)

    def replay(self, *arguments, **variables):
        roots = (self.site.data, self.site.root / "again")
        return self.site.start(
            "replay", "--data", self.site.data, "--provider", "ga4", *arguments, log="replay.log",
            env=armed(*roots, **variables) if variables else None).wait()

    def points(self, *arguments):
        """A counting run's points, and what it made."""
        copy(self.snapshot, self.site.data)
        count = self.site.root / "count"
        count.unlink(missing_ok=True)
        self.assertEqual(self.replay(*arguments, count=count), 0)
        return self.points_of(counted(count), REPLAY_KINDS)

    PREFIX, MARK = b"019550fc-", b"live-one-"

    def mark_live_export(self):
        """Tells what was exported live from what a replay makes: all days are exchanged, or none."""
        for path in (self.snapshot / "exports" / "ga4").rglob("part-*.ids"):
            path.write_bytes(path.read_bytes().replace(self.PREFIX, self.MARK))

    def test_a_replay_into_a_directory_dies_at_any_call(self):
        """The same command again gives what an undisturbed one gives, byte for byte (T4)."""
        again = self.site.root / "again"
        points = self.points("--output", again)
        undisturbed = tree(again)
        self.assertTrue(undisturbed)
        for point in points:
            copy("/nowhere", again)
            self.died(self.replay("--output", again, kill=point), point)
            self.assertEqual(self.replay("--output", again), 0, point)
            self.assertEqual(tree(again), undisturbed, f"seed {SEED}, {point}")
        self.assertEqual(tree(self.site.data), tree(self.snapshot), "the data directory is not touched")
        self.report("replay into a directory")

    def test_a_replay_in_place_dies_at_any_call(self):
        """The receiver continues over whatever is left, and the command again ends as an undisturbed one does (T4)."""
        live = self.site.data / "exports" / "ga4"
        self.mark_live_export()
        points = self.points()
        undisturbed = tree(live, skipped=[".generation"])
        self.batches.check(self, self.site.data, "undisturbed")
        extra = copying.deepcopy(self.batches)
        more = extra.streams(count=1, batch_count=1)
        for point in points:
            message = f"seed {SEED}, {point}"
            copy(self.snapshot, self.site.data)
            self.died(self.replay(kill=point), point)
            if self.chance.random() < 0.5:
                self.assertEqual(self.replay(), 0, message)
                self.assertEqual(tree(live, skipped=[".generation"]), undisturbed, message)
                continue
            receiver = self.site.receiver(exports=",".join(PROVIDERS))
            Shipper(self.site.port, copying.deepcopy(more)).ship()
            self.assertEqual(receiver.stop(), 0, message)
            ids = exported_ids(self.site.data, "ga4")
            marked = sum(count for name, count in ids.items() if name.startswith(self.MARK))
            self.assertIn(marked, (0, sum(self.batches.exported.values())), f"{message}: some days old, some new")
            unmarked = collections.Counter()
            for name, count in ids.items():
                unmarked[name.replace(self.MARK, self.PREFIX)] += count
            self.assertEqual(unmarked, extra.exported, message)
            self.assertEqual(self.replay(), 0, message)
            extra.check(self, self.site.data, f"{message}, replayed again")
            self.assertEqual(
                sorted(path.name for path in (self.site.data / "exports").iterdir() if path.name.startswith(".replay")
                       and any(path.rglob("*.*"))), [], message)
        self.report("replay in place")


class OrderTests(CrashTest):
    """What a power cut could take, told from the order of the calls: bytes and names without a sync behind them."""

    # A session's number may repeat after a power cut; no event depends on its record. A power cut is no record's fault.
    EXEMPT = ("/lock", ".log", "/ledger", "/session.json", "/state/readers", "/agent/readers")

    def unsynced(self, work):
        """Runs `work(environment)`; returns its calls, and what they left to the kernel alone, but for what may be lost."""
        count = self.site.root / f"count-{time.monotonic_ns()}"
        existing = [self.site.root, *self.site.root.rglob("*")]
        work(armed(self.site.root, count=count))
        calls = traced(count)
        left = [path for path in unsynced(calls, existing) if not path.endswith(self.EXEMPT)]
        return calls, existing, left

    def receive(self, streams, environment):
        receiver = self.site.receiver(exports=",".join(PROVIDERS), env=environment)
        Shipper(self.site.port, streams).ship()
        self.assertEqual(receiver.stop(), 0)

    def test_a_checkpoint_stands_for_what_is_durable(self):
        """When a projection commits its checkpoint, everything it has written before is synced, names included (T3)."""
        batches = Batches(SEED)
        folders = {"archive.state": ("archive", "quarantine")}
        folders.update({f"export-{name}.state": (f"exports/{name}",) for name in PROVIDERS})
        for turn in range(2):
            calls, existing, left = self.unsynced(lambda env: self.receive(batches.streams(), env))
            self.assertEqual(left, [], "an orderly stop leaves nothing to the kernel alone")
            commits = 0
            for index, (op, path, _) in enumerate(calls):
                folder, _, name = path.rpartition("/state/")
                if op != "write" or name.removesuffix(".tmp") not in folders:
                    continue
                commits += 1
                own = [f"{folder}/{below}/" for below in folders[name.removesuffix(".tmp")]]
                rest = [path for path in unsynced(calls[:index], existing) if any(map((path + "/").startswith, own))]
                self.assertEqual(rest, [], f"{name} is written before these are durable")
            self.assertGreaterEqual(commits, len(folders) * (turn + 1))

    def test_an_orderly_end_leaves_nothing_to_the_kernel(self):
        """Replays, an agent and an app end with every byte and name synced (T3)."""
        batches = Batches(SEED)
        self.receive(batches.streams(), None)
        replay = ["replay", "--data", self.site.data, "--provider", "ga4"]
        (self.site.root / "web.json").write_bytes(b"x" * ((1 << 20) + 9) + b"\n")
        batches.maker.segment(self.site.spool, batches.maker.lines(3))
        app = ["demo-app", "--spool", self.site.root / "app", "--ledger", self.site.root / "ledger", "--app", 1]
        agent = self.site.agent_arguments(
            "--once", "--spool", self.site.spool, "--glob", self.site.root / "web.json", "--env", "prod", "--bundle", "w")
        for arguments in (replay, replay, [*replay, "--output", self.site.root / "again"], [*app, "--events", 30], agent):
            if arguments is agent:
                self.site.receiver(exports="none")
            def work(environment):
                succeed(*arguments, env=environment)
            self.assertEqual(self.unsynced(work)[2], [], arguments)
