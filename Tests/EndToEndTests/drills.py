"""An operator's drills with real processes, and what the operator reads in each: python3 drills.py [DRILL…]

Receiver, agent and app are three users, so it needs root. Each drill compares every line, then prints what it did, the
warnings and errors of both logs (each message once, with how often), and what `waybill status` said in the middle.
"""

import collections
import json
import os
import shutil
import subprocess
import sys
import time

from harness import Site, binary, run, until
from ledger import EventMaker, Ledger, stored

RECEIVER, AGENT, APP, SPOOL_GROUP = 64001, 64002, 64003, 64010


class Drill:
    """A site whose parts belong to three users."""

    def __init__(self):
        self.site = Site()
        self.root = self.site.root
        os.chmod(self.root, 0o755)
        os.chmod(self.site.logs, 0o777)
        self.binary = self.root / "waybill"
        shutil.copy(binary(), self.binary)
        self.maker, self.ledger = EventMaker(5), Ledger()
        for folder, user, mode in [(self.site.data, RECEIVER, 0o750), (self.site.state, AGENT, 0o700),
                                   (self.site.spool, APP, 0o2770), (self.root / "weblogs", APP, 0o755)]:
            folder.mkdir(exist_ok=True)
            os.chown(folder, user, SPOOL_GROUP if folder == self.site.spool else user)
            os.chmod(folder, mode)
        self.log = self.root / "weblogs" / "web.json"
        self.making = self.root / "making"
        self.making.mkdir()
        self.processes = []
        self.shown = ""

    def start(self, user, *arguments, log, env=None):
        output = open(self.site.logs / log, "ab")
        process = subprocess.Popen(
            [self.binary, *map(str, arguments)], user=user, group=user, extra_groups=[SPOOL_GROUP] if user == AGENT else [],
            stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=self.root, env={**os.environ, **(env or {})})
        self.processes.append(process)
        return process

    def receiver(self, *arguments, env=None):
        process = self.start(
            RECEIVER, "receiver", "--data", self.site.data, "--listen", self.site.address, "--exports", "ga4,mixpanel,csv",
            "--stop-seconds", "60", "--status-socket", self.site.data / "sock", *arguments, log="receiver.log", env=env)
        until(lambda: self.site.is_listening() or process.poll() is not None, 30, "the receiver listens")
        return process

    def agent(self, *arguments, env=None):
        (self.root / "run").mkdir(exist_ok=True)
        os.chown(self.root / "run", AGENT, AGENT)
        return self.start(
            AGENT, "agent", "--state", self.site.state, "--to", self.site.address, "--spool", self.site.spool,
            "--glob", self.log, "--env", "prod", "--bundle", "com.example.web", "--name", "web-1", "--status-socket",
            self.root / "run/sock", *arguments, log="agent.log", env=env)

    def write(self, count):
        """The app's user writes events into its spool, and lines into a log."""
        lines = self.maker.lines(count)
        made = self.maker.segment(self.making, lines, ledger=self.ledger)
        os.chown(made, APP, SPOOL_GROUP)
        os.chmod(made, 0o640)
        os.rename(made, self.site.spool / os.path.basename(made))
        foreign = self.maker.foreign(count // 2)
        self.ledger.add(foreign)
        with open(self.log, "ab") as file:
            file.write(b"".join(foreign))
        os.chmod(self.log, 0o644)

    def write_for(self, seconds, rate):
        """So many lines a second."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.write(rate // 15)
            time.sleep(0.1)

    def look(self):
        """Keeps what `waybill status` says now."""
        result = run("status", self.site.data / "sock", self.root / "run/sock", "--rows", "3", timeout=30)
        lines = [line for line in result.stdout.decode().splitlines() if ": ok" in line or ": d" in line or "  " not in line]
        self.shown = f"exit code {result.returncode}: " + " | ".join(line for line in lines if line.strip())[:600]

    def settle(self, seconds=120):
        until(lambda: self.ledger.compare(stored(self.site.data)).is_clean, seconds, "every line is stored")

    def stop(self):
        for process in reversed(self.processes):
            if process.poll() is None:
                process.terminate()
                process.wait(120)

    def messages(self, name):
        """Each warning and error of a log, with how often."""
        counts, examples = collections.Counter(), {}
        path = self.site.logs / name
        for line in path.read_text(errors="replace").splitlines() if path.exists() else []:
            try:
                entry = json.loads(line)
            except ValueError:
                counts[line[:200]] += 1
                continue
            if entry["level"] in ("warning", "error", "critical", "notice"):
                values = {key: value for key, value in entry.items() if key not in ("ts", "level", "part", "message", "id")}
                    # The values differ from line to line; the first ones stand for all.
                text = f"{entry['level']} {entry.get('id', '')} {entry['message']}"
                examples.setdefault(text, json.dumps(values)[:200])
                counts[text] += 1 + entry.get("repeated", 0)
        return {f"{text} {examples.get(text, '')}": count for text, count in counts.most_common(12)}

    def report(self, title, did):
        comparison = self.ledger.compare(stored(self.site.data))
        print(f"\n## {title}\n\n{did}\n\n{self.ledger.line_count:,} lines: {comparison}")
        if self.shown:
            print(f"status: {self.shown}")
        for name in ("receiver.log", "agent.log"):
            for message, count in self.messages(name).items():
                print(f"{name[:-4]:8} {count:4} × {message}")
        sys.stdout.flush()
        return comparison.is_clean

    def close(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
        self.site.close()


def full_disk(drill):
    drill.site.data.rmdir()
    folder = drill.site.mount("data", "24m")
    os.chown(folder, RECEIVER, RECEIVER)
    drill.receiver()
    drill.agent()
    drill.write_for(14, 6000)
    time.sleep(8)
    drill.look()
    subprocess.run(["mount", "-o", "remount,size=600m", folder], check=True)
    drill.settle()
    drill.stop()
    return "24 MiB for the data directory, 6,000 lines a second for 14 s, room 8 s later"


def dead_receiver(drill):
    receiver = drill.receiver()
    drill.agent()
    drill.write_for(2, 2000)
    receiver.kill()
    drill.write_for(60, 2000)
    drill.look()
    drill.receiver()
    drill.settle()
    drill.stop()
    return "the receiver killed, down for 60 s at 2,000 lines a second"


def rebooted_agent(drill):
    drill.receiver()
    for _ in range(3):
        agent = drill.agent()
        drill.write_for(2, 2000)
        agent.kill()
        drill.write(100)
        os.rename(drill.log, drill.log.with_suffix(f".{time.time_ns()}.json"))
    drill.agent("--glob", drill.root / "weblogs/*.json", "--env", "prod", "--bundle", "com.example.web")
    drill.settle()
    drill.look()
    drill.stop()
    return "the agent killed three times, its log renamed each time"


def damaged_journal(drill):
    receiver = drill.receiver()
    drill.agent()
    drill.write(4000)
    drill.settle()
    receiver.kill()
    for path in (drill.site.data / "state").glob("export-csv*"):
        path.unlink()
    segment = sorted((drill.site.data / "journal").glob("*.journal"))[0]
    damaged = bytearray(segment.read_bytes())
    at = len(damaged) // 2
    damaged[at:at + 64] = bytes(byte ^ 0xFF for byte in damaged[at:at + 64])
    segment.write_bytes(damaged)
    drill.receiver()
    time.sleep(5)
    drill.look()
    drill.stop()
    return "64 bytes of the journal flipped, and csv's checkpoint deleted"


def refused_provider(drill):
    drill.receiver()
    drill.agent()
    drill.write_for(3, 2000)
    drill.settle()
    time.sleep(3)
    drill.look()
    drill.stop()
    return "default exports, lines that GA4 refuses"


def wrong_token(drill):
    env = {"WAYBILL_TOKEN": "0123456789abcdef-right"}
    drill.receiver(env=env)
    drill.agent(env={"WAYBILL_TOKEN": "0123456789abcdef-wrong"})
    drill.write(200)
    time.sleep(20)
    drill.look()
    drill.processes[-1].terminate()
    drill.processes[-1].wait(60)
    drill.agent(env=env)
    drill.settle()
    drill.stop()
    return "an agent with a wrong token for 20 s"


def wrong_server(drill):
    server = subprocess.Popen(
        [sys.executable, "-m", "http.server", str(drill.site.port), "--bind", "127.0.0.1"], cwd=drill.site.logs,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until(drill.site.is_listening, 20, "it listens")
        drill.agent()
        drill.write(200)
        time.sleep(8)
        drill.look()
    finally:
        server.kill()
        server.wait()
    drill.receiver()
    drill.settle()
    drill.stop()
    return "an HTTP server at the receiver's port for 8 s"


def frozen_receiver(drill):
    receiver = drill.receiver()
    drill.agent()
    drill.write(200)
    drill.settle()
    receiver.send_signal(19)
    drill.write(3000)
    time.sleep(75)
    drill.look()
    receiver.send_signal(18)
    drill.settle()
    drill.stop()
    return "a receiver that is stopped (SIGSTOP) for 75 s"


def two_agents(drill):
    drill.receiver()
    drill.agent()
    drill.write(100)
    drill.settle()
    state = drill.root / "agent-two"
    state.mkdir()
    os.chown(state, AGENT, AGENT)
    other = drill.start(AGENT, "agent", "--state", state, "--to", drill.site.address, "--glob", drill.log, "--env", "prod",
                        "--bundle", "com.example.web", "--name", "web-1", log="other.log")
    time.sleep(15)
    other.terminate()
    other.wait(60)
    drill.look()
    drill.stop()
    for message, count in drill.messages("other.log").items():
        print(f"other    {count:4} × {message}")
    return "a second agent of the same name"


def bad_lines(drill):
    drill.receiver()
    drill.agent()
    bad = [b"not JSON\n", b"\n", b"[1]\n", b"{}\n", b'{"ts":"yesterday","name":"a"}\n', b'{"ts":1}\n', b"\xff\xfe\n", b"{\n",
           b'{"ts":"2026-11-20T09:14:15.926Z"}\n', b'"text"\n', b"null\n", b'{"ts":"2026-11-20T09:14:15.926Z","name":"'
           + b"x" * 1_200_000 + b'"}\n']
    drill.ledger.add(line for line in bad if len(line) < 1 << 20)
    with open(drill.log, "ab") as file:
        file.write(b"".join(bad))
    os.chmod(drill.log, 0o644)
    drill.write(100)
    until(lambda: drill.ledger.compare(stored(drill.site.data)).lost == 0, 60, "every short line is stored")
    time.sleep(2)
    drill.look()
    drill.stop()
    return "twelve lines that are no events, one of them of 1.2 MB"


def copied_back(drill):
    receiver = drill.receiver()
    drill.agent()
    drill.write_for(2, 2000)
    copy = drill.root / "copy"
    copy.mkdir()
    for part in ("exports", "archive", "quarantine", "state", "journal"):
        if (drill.site.data / part).exists():
            subprocess.run(["cp", "--archive", drill.site.data / part, copy], check=True)
    with open(drill.log, "ab") as file:
        lines = drill.maker.foreign(3000)
        drill.ledger.add(lines)
        file.write(b"".join(lines))
    drill.settle()
    receiver.kill()
    shutil.rmtree(drill.site.data)
    shutil.copytree(copy, drill.site.data)
    subprocess.run(["chown", "--recursive", f"{RECEIVER}:{RECEIVER}", drill.site.data], check=True)
    drill.receiver()
    # At one address an agent meets a receiver that it does not know at most once a minute.
    drill.settle()
    drill.look()
    drill.stop()
    return "a copy of the running receiver put back after the log had grown by 3,000 lines"


DRILLS = [full_disk, dead_receiver, rebooted_agent, damaged_journal, refused_provider, wrong_token, wrong_server,
          frozen_receiver, two_agents, bad_lines, copied_back]


def main():
    wanted = sys.argv[1:]
    failed = []
    for work in DRILLS:
        if wanted and work.__name__ not in wanted:
            continue
        drill = Drill()
        try:
            did = work(drill)
            if not drill.report(work.__name__.replace("_", " "), did):
                failed.append(work.__name__)
        except Exception as error:
            print(f"\n## {work.__name__}: {type(error).__name__}: {error}")
            drill.report(work.__name__, "failed")
            failed.append(work.__name__)
        finally:
            drill.close()
    print(f"\n{'not clean: ' + ' '.join(failed) if failed else 'all clean'}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
