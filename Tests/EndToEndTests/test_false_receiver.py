"""Receivers that lie, rave, stall or flood: the agent keeps every file and every position, and continues with a real one.

Shows T7. One agent for each behaviour, all at once; behind the false receivers waits a real one that takes over.
WAYBILL_FALSE_SECONDS says how long the false ones stay (1).
"""

import concurrent.futures
import contextlib
import json
import os
import re
import time

from harness import SiteTest, run, until
from ledger import EventMaker, Ledger, stored
from peers import LIMITS, Listener, Proxy, Session, Streams, cpu_seconds, identity

SECONDS = float(os.environ.get("WAYBILL_FALSE_SECONDS", "1"))
MEMORY_MEBIBYTES = 120
INTEGER_MAX = (1 << 53) - 1


def filled(answer, **values):
    for name, value in values.items():
        answer = answer.replace("{%s}" % name, str(value))
    return answer


def after_batch(*answers):
    """Takes one batch and answers with these; `{n}` is the stream's number, `{end}` where the batch ends."""
    def behave(session):
        session.opened()
        words = session.await_message("BATCH")
        end = int(words[2]) + int(words[3])
        session.send(*[filled(answer, n=words[1], end=end, beyond=end + 1) for answer in answers])
        session.drain()
    return behave


# A digest of nothing that an agent could have.
DIGEST = "5eed" * 8


def after_open(*answers):
    """Answers the first `OPEN` with these, in one piece."""
    def behave(session):
        session.handshake()
        number = session.await_message("OPEN")[1]
        session.send(*[filled(answer, n=number) for answer in answers])
        session.drain()
    return behave


def ready(line_=None, **changes):
    """Answers `HELLO` with this READY, and takes whatever comes."""
    limits = {name: changes.pop(name, value) for name, value in LIMITS.items()}
    members = {"protocol": 1, **identity("false"), "limits": limits, "window": 8 << 20, "time": 0, **changes}

    def behave(session):
        session.await_message("HELLO")
        session.send(line_ or "READY " + json.dumps(members))
        while words := session.message():
            if words[0] == "OPEN":
                session.send(f"AT {words[1]} 0 0 - 0")
    return behave


def instead(*pieces):
    """Answers `HELLO` with this."""
    def behave(session):
        session.await_message("HELLO")
        session.send(*pieces)
        session.drain()
    return behave


def refusing(code):
    """Answers every `OPEN` with the start and every batch with a refusal."""
    def behave(session):
        session.handshake()
        while words := session.await_message("OPEN", "BATCH"):
            session.send(f"AT {words[1]} 0 0 - 0" if words[0] == "OPEN" else f"NAK {words[1]} 0 {code} as the script says")
    return behave


def silent(session):
    session.drain()


def deaf(session):
    """Takes a connection and reads nothing of it."""
    time.sleep(3600)


BEHAVIOURS = {
    "ack beyond what was sent": after_batch("ACK {n} {beyond} 0"),
    "ack of the greatest integer": after_batch(f"ACK {{n}} {INTEGER_MAX} 0"),
    "ack of another stream": after_batch("ACK 77 1 0"),
    "ack below the position": after_batch("ACK {n} {end} 0", "ACK {n} 0 0"),
    "ack before at": after_open("ACK {n} 2 0"),
    "at a second time": after_open("AT {n} 0 0 - 0", "AT {n} 0 0 - 0"),
    "at beyond the file": after_open(f"AT {{n}} {10**12} 512 {DIGEST} 0"),
    "at within the file, with a proof of other bytes": after_open(f"AT {{n}} 900 512 {DIGEST} 0"),
    "at within the file, with no proof": after_open("AT {n} 900 0 - 0"),
    "at with a proof of too many bytes": after_open(f"AT {{n}} 9 10 {DIGEST} 0"),
    "sealed with at": after_open("AT {n} 0 0 - 0", "SEALED {n} 0 - 0"),
    "sealed with at beyond the file": after_open(
        f"AT {{n}} {10**12} 512 {DIGEST} 0", f"SEALED {{n}} 512 {DIGEST} 0"),
    "sealed after a batch": after_batch("SEALED {n} 0 - 0"),
    "sealed after a batch, with a proof of other bytes": after_batch(f"SEALED {{n}} 512 {DIGEST} 0"),
    "sealed of another stream": after_batch("SEALED 77 0 - 0"),
    "stored beyond what was acknowledged": after_batch("STORED {n} {beyond}"),
    "stored of another stream": after_batch("STORED 77 1"),
    "a note of streams that are not there": after_batch(
        'NOTE {"quarantined":[{"stream":"a","reason":"\\u001b[2Jwhatever","count":%d}]}' % INTEGER_MAX),
    "a note that is none": after_batch('NOTE {"quarantined":5}'),
    "nak of another stream": after_batch("NAK 77 0 gap"),
    "nak twice": after_batch("NAK {n} 0 corrupt", "NAK {n} 0 corrupt"),
    **{f"nak {code}": refusing(code) for code in (
        "gap", "corrupt", "too-large", "retry-after", "sealed", "in-use", "prove", "not-allowed")},
    "nak of no code": after_batch("NAK {n} 0 whatever"),
    **{f"err {code}": instead(f"ERR {code} as the script says") for code in ("order", "version", "token", "unavailable")},
    "err later": after_batch("ERR limit"),
    "move": instead('MOVE {"receivers":["127.0.0.1:1","nonsense","[::1]:99999"]}'),
    "move later": after_batch('MOVE {"receivers":[]}'),
    "wait for ever": after_batch(f"WAIT {INTEGER_MAX}"),
    "bye": after_batch("BYE"),
    "messages of an agent": after_batch("SEAL {n} {end}"),
    "garbage": instead(bytes(range(256)) * 64),
    "garbage later": after_batch("\x7f\x00\xff"),
    "a line of a million bytes": instead(b"A" * 1_000_000),
    "a line of a million bytes later": after_batch("PING " + "1" * 1_000_000),
    "never ready": silent,
    "never reads": deaf,
    "no limits": ready(limits={}),
    **{f"limits of {value}": ready(**{name: value for name in LIMITS}, window=value)
       for value in (0, 1, INTEGER_MAX, 1 << 63)},
    **{f"a {name} limit of {value}": ready(**{name: value}) for name in LIMITS for value in (1, INTEGER_MAX)},
    "a window of 1": ready(window=1),
    "a window of the greatest integer": ready(window=INTEGER_MAX),
    "a version of its own": ready(protocol=2),
    "a time of the greatest integer": ready(time=INTEGER_MAX),
    "ready that is no object": ready("READY [1]"),
    "ready of a thousand levels": ready("READY " + '{"x":' * 700 + "1" + "}" * 700),
}


def flooding(answer):
    """Answers a batch with so much of this that an agent which keeps it, or works long for each, is found out."""
    def behave(session):
        session.opened()
        number = session.await_message("BATCH")[1]
        flood = (answer.replace("{n}", number) + "\n").encode() * 10_000
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            session.send(flood)
        time.sleep(3600)
    return behave


FLOODS = {
    "a flood of PING whose answers are not read": flooding("PING 1"),
    "a flood of PONG": flooding("PONG 1"),
    "a flood of WAIT": flooding("WAIT 1"),
    "a flood of ACK": flooding("ACK {n} 0 0"),
    "a flood of STORED": flooding("STORED {n} 0"),
    "a flood of NOTE": flooding('NOTE {"quarantined":[{"stream":"a","reason":"not-json","count":1}]}'),
    "a flood of NAK": flooding("NAK {n} 0 corrupt"),
}


class Deceived:
    """One agent, its files, and the false receiver that it meets first."""

    def __init__(self, site, name, behave, real, index):
        self.name, self.is_true = name, False
        self.folder = site.root / f"case-{index}"
        self.spool = self.folder / "spool"
        self.spool.mkdir(parents=True)
        maker = EventMaker(1000 + index)
        self.lines = maker.lines(60)
        # Ids of cases must differ as lines do.
        self.lines = [line.replace(b"019550fc-", b"0195%04x-" % index) for line in self.lines]
        self.segment = maker.segment(self.spool, self.lines)
        self.foreign = self.folder / "web.json"
        self.more = [line.replace(b'"line":', b'"case":%d,"line":' % index) for line in maker.foreign(40)]
        self.foreign.write_bytes(b"".join(self.more))
        self.listener = Listener(lambda connected: behave(Session(connected)))
        # At an address of its own: at one address an agent takes in one receiver a minute that it does not know.
        self.honest = Proxy(real)
        self.through = self.honest.serve
        self.honest.serve = self.serve
        self.agent = site.start(
            "agent", "--state", self.folder / "state", "--to", self.listener.address, "--to", self.honest.address,
            "--spool", self.spool, "--glob", self.foreign, "--env", "prod", "--bundle", "com.example.web", "--name",
            f"case-{index}", log=f"agent-{index}.log")

    def serve(self, connected):
        if self.is_true:
            self.through(connected)

    def check_deceived(self, cpu_seconds_max):
        """What must hold while the false receiver is there; returns what does not."""
        wrong = []
        if not self.agent.is_running:
            return [f"the agent ended with {self.agent.child.returncode}: {self.agent.log()[-300:]}"]
        if not os.path.exists(self.segment):
            wrong.append("the segment was deleted")
        if not self.listener.times:
            wrong.append("no connection was made")
        if len(self.listener.times) > 4 + 4 * SECONDS:
            wrong.append(f"{len(self.listener.times)} connections in {SECONDS} s: no backoff")
        if (used := cpu_seconds(self.agent.child.pid)) > cpu_seconds_max:
            wrong.append(f"{used} s of processor time")
        if (peak := self.agent.peak_mebibytes()) > MEMORY_MEBIBYTES:
            wrong.append(f"{peak:.0f} MiB of memory")
        return wrong

    def take_over(self):
        self.is_true = True
        self.listener.close()

    def is_shipped(self, seconds):
        """Whether the segment is deleted in time, as it may be now."""
        try:
            until(lambda: not os.path.exists(self.segment), seconds)
            return True
        except AssertionError:
            return False


class FalseReceiverTests(SiteTest):
    """Whatever a receiver says: no file is deleted that it does not hold, and a real one gets every line once."""

    def meet(self, behaviours, cpu_seconds_max):
        receiver = self.site.receiver(exports="none")
        cases, ledger = [], Ledger()
        for index, (name, behave) in enumerate(behaviours.items()):
            cases.append(Deceived(self.site, name, behave, self.site.port, index))
            self.addCleanup(cases[-1].listener.close)
            self.addCleanup(cases[-1].honest.close)
            ledger.add(cases[-1].lines + cases[-1].more)
        for case in cases:
            until(lambda: case.listener.times or not case.agent.is_running, 20, f"{case.name}: a connection")
        time.sleep(SECONDS)
        wrong = {case.name: case.check_deceived(cpu_seconds_max) for case in cases}
        for case in cases:
            case.take_over()
        with concurrent.futures.ThreadPoolExecutor(len(cases)) as pool:
            shipped = pool.map(lambda case: case.is_shipped(30), cases)
        for case, is_shipped in zip(cases, shipped):
            if not is_shipped:
                wrong[case.name].append(f"not shipped to the real one: {case.agent.log()[-400:]}")
        for case in cases:
            if case.agent.is_running:
                case.agent.terminate()
        for case in cases:
            if case.agent.wait(30) != 0:
                wrong[case.name].append(f"ended with {case.agent.child.returncode}")
            elif any((case.folder / "state" / "quarantine").iterdir()):
                wrong[case.name].append("lines were given up")
        self.assertEqual(receiver.stop(), 0)
        text = "".join(f"\n{name}: {reason}" for name, reasons in wrong.items() for reason in reasons)
        comparison = ledger.compare(stored(self.site.data))
        self.assertTrue(comparison.is_clean and not text, f"{comparison}{text}")

    def test_an_agent_keeps_to_the_limits_that_it_is_granted(self):
        """Lines, batches and streams stay within `READY`, and everything arrives (T7)."""
        limits = {"line": 40_000, "raw": 45_000, "wire": 60_000, "lines": 30, "streams": 2, "idle_ms": 5000}
        streams, wrong, maker = Streams(), [], EventMaker(5)

        def behave(session):
            session.handshake(window=50_000, **limits)
            while words := session.message():
                if words[0] in ("OPEN", "BATCH", "SEAL"):
                    session.send(*streams.answers(session, words))
                if len(session.names.keys() - sealed(session)) > limits["streams"]:
                    wrong.append(f"{len(session.names)} streams")
                if words[0] == "BATCH" and (int(words[3]) > limits["raw"] or int(words[4]) > limits["lines"]):
                    wrong.append(f"a batch of {words[3]} bytes and {words[4]} lines")
                elif words[0] == "SKIP":
                    wrong.append("a line was given up that the limit of lines allows")
                    return

        def sealed(session):
            return {number for number, stream in session.names.items() if stream in streams.sealed}

        false = Listener(lambda connected: behave(Session(connected)))
        self.addCleanup(false.close)
        for count in (5, 40, 40, 40, 40):
            maker.segment(self.site.spool, maker.lines(count))
        maker.segment(self.site.spool, [b'{"x":"%s"}\n' % (b"y" * 15_000)])
        agent = self.site.start(
            "agent", "--state", self.site.state, "--to", false.address, "--spool", self.site.spool, log="agent.log")
        with contextlib.suppress(AssertionError):
            until(lambda: len(streams.sealed) == 6 or wrong, 10)
        agent.kill()
        self.assertEqual((wrong, len(streams.sealed)), ([], 6))

    def test_files_that_never_end_share_the_streams_that_are_granted(self):
        """Seven files that may always grow, and a receiver that grants two streams: a new connection makes room (T7)."""
        streams, wrong, folder = Streams(), [], self.site.root / "web"
        folder.mkdir()
        for number in range(7):
            (folder / f"{number}.json").write_bytes(b"".join(EventMaker(7 + number).foreign(20)))
        size = sum(path.stat().st_size for path in folder.iterdir())

        def behave(session):
            session.handshake(streams=2)
            while words := session.message():
                if words[0] in ("OPEN", "BATCH"):
                    session.send(*streams.answers(session, words))
                if len(session.names) > 2:
                    wrong.append(f"{len(session.names)} streams")

        false = Listener(lambda connected: behave(Session(connected)))
        self.addCleanup(false.close)
        result = run("agent", "--state", self.site.state, "--to", false.address, "--glob", folder / "*.json", "--env", "prod",
                     "--bundle", "com.example.web", "--once")
        held = streams.offsets.values()
        self.assertEqual((result.returncode, wrong, len(held), sum(held)), (0, [], 7, size), result.stderr[-800:])
        self.assertEqual(len(false.times), 4)

    def test_a_run_ends_with_its_farewell_although_files_change(self):
        """The receiver closes after `BYE`: the agent has not gone to sleep over a file that changed meanwhile.

        Without that it ends after its patience of six seconds each time; a slow machine may need a second attempt.
        """
        folder, parted, taken = self.site.root / "web", [], []
        folder.mkdir()

        def behave(session):
            streams = Streams()
            session.handshake()
            while words := session.message():
                if words[0] == "BYE":
                    (folder / "more.json").write_bytes(b"".join(EventMaker(9).foreign(1)))
                    time.sleep(0.2)
                    return parted.append(time.monotonic())
                session.send(*streams.answers(session, words))

        false = Listener(lambda connected: behave(Session(connected)))
        self.addCleanup(false.close)
        for attempt in range(3):
            (folder / "first.json").write_bytes(b"".join(EventMaker(8).foreign(20)))
            result = run("agent", "--state", self.site.root / f"state{attempt}", "--to", false.address, "--glob",
                         folder / "first.json", "--env", "prod", "--bundle", "com.example.web", "--once")
            taken.append(time.monotonic() - parted[-1])
            self.assertEqual((result.returncode, len(parted)), (0, attempt + 1), result.stderr[-800:])
            if taken[-1] < 1:
                return
            (folder / "more.json").unlink()
        self.fail(f"seconds from the receiver's end to the agent's: {taken}")

    def test_an_endless_window_fills_no_memory(self):
        """A receiver that grants a window without end and then reads nothing: the backlog stays on disk (T7)."""
        EventMaker(6).spool(self.site.spool, Ledger(), 150_000_000)

        def behave(connected):
            session = Session(connected)
            session.handshake(window=INTEGER_MAX)
            time.sleep(0.5)
            opened = re.findall(rb"OPEN (\d+) ", connected.recv(1 << 20))
            session.send(*[f"AT {number.decode()} 0 0 - 0" for number in opened])
            time.sleep(3600)

        false = Listener(behave)
        self.addCleanup(false.close)
        agent = self.site.start("agent", "--state", self.site.state, "--to", false.address, "--spool", self.site.spool,
                                "--compression", "0", log="agent.log")
        agent.until_logged("connected")
        time.sleep(3)
        self.assertLess(agent.peak_mebibytes(), MEMORY_MEBIBYTES)

    def test_no_receiver_makes_an_agent_lose_delete_spin_or_end(self):
        """Wrong acks, seals, refusals, limits and noise: files stay, positions stay, work stays bounded (T7)."""
        self.meet(BEHAVIOURS, 0.3 + SECONDS / 3)

    def test_floods_stay_within_bounds(self):
        """Messages as fast as they go, with no one who reads the answers, fill no memory (T7)."""
        self.meet(FLOODS, 60)
