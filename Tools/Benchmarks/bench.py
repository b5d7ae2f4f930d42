"""Shared by the benchmarks: events from a seed, the ledger, control of processes, the machine.

A figure is valid only with a clean ledger. So every run is checked by `Ledger.compare`, and `figures` returns no figure
for a comparison that is not clean.
"""
import atexit
import collections
import dataclasses
import datetime
import json
import os
import pathlib
import platform
import random
import resource
import shlex
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import uuid

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
BINARY = REPOSITORY / ".build/release/waybill"
DAY = 86_400_000

SCREENS = ["Home", "ShoppingList", "ProductDetail", "Cart", "Checkout", "Profile", "Settings", "로그인 화면"]
NAMES = ["Product Tapped", "moment_like", "search", "add_to_cart", "share", "scroll_end"]
WORDS = "alpha bravo charlie delta echo foxtrot golf hotel india juliet 토스터 사과 바나나".split()
ENVIRONMENTS = ("prod", "internal", "dev")
BUNDLES = ("com.example.shop", "com.example.news", "com.example.maps")


class Failure(Exception):
    """A run without a figure, or a part of the suite that cannot run here; the text tells why."""


EXPORTS = [
    "ga4", "mixpanel", "mixpanel-profiles", "amplitude", "segment", "posthog", "snowplow", "flurry", "csv", "syslog",
    "journald"]


# Events

def writer_id(milliseconds, bits):
    """A UUID of version 7."""
    high = milliseconds << 16 | 7 << 12 | bits >> 62 & 0xFFF
    return str(uuid.UUID(int=high << 64 | 0b10 << 62 | bits & (1 << 62) - 1))


class Events:
    """A seeded source of lines of about 485 bytes, 48 more with the id that GA4 wants.

    The same seed and start give the same bytes. Segment after segment belongs to the next of so many `kinds`
    (environments times bundles) and then to the next of so many `days` from `start` on; `is_mixed` gives each line any
    of the days.
    """

    def __init__(self, seed, start=None, days=1, kinds=1, is_mixed=False, has_vendor_ids=False):
        self.random = random.Random(seed)
        # From midnight two days ago on: recent enough for every provider.
        self.now = int(time.time() * 1000) // DAY * DAY - (1 + days) * DAY if start is None else start
        self.days, self.kinds, self.is_mixed, self.has_vendor_ids = days, kinds, is_mixed, has_vendor_ids
        self.segment_count = 0

    def segment(self, byte_count):
        """The id of a writer, and its lines in order, with at least this many bytes and at most one line more."""
        bits = self.random.getrandbits
        kind = self.segment_count % self.kinds
        day = self.segment_count // self.kinds % self.days
        days = range(self.days) if self.is_mixed else [day]
        day_count = len(days)
        self.segment_count += 1
        env, bundle = ENVIRONMENTS[kind % 3], BUNDLES[kind // 3 % 3]
        now = self.now
        writer, session = writer_id(now, bits(74)), writer_id(now, bits(74))
        anon = str(uuid.UUID(int=bits(128)))
        ids = '"ids":{"ga4":"%032x"},' % bits(128) if self.has_vendor_ids else ""
        head = '","writer":"%s","seq":' % writer
        names = ['","screen":"'.join((name, screen)) for name in NAMES for screen in SCREENS]
        middle = '","session":"%s","user":"u-' % session
        tail = (
            '","anon":"%s",%s"app":"1.4.2","build":"118","bundle":"%s","os":"iOS","os_version":"17.0.1","tz":540,'
            '"env":"%s","data":{"item":"' % (anon, ids, bundle, env))
        name_count, word_count = len(names), len(WORDS)
        lines, size, sequence, second, stamps = [], 0, 0, -1, []
        while size < byte_count:
            sequence += 1
            # One number a line; its parts are independent enough for what they choose.
            chance = bits(160)
            now += 1 + chance % 40
            if now // 1000 != second:
                second = now // 1000
                stamps = [time.strftime("%Y-%m-%dT%H:%M:%S.", time.gmtime(second + day * DAY // 1000)) for day in days]
            stamp = stamps[(chance >> 8) % day_count]
            text = "%040x" % chance
            line = (
                f'{{"v":1,"id":"{now >> 16:08x}-{now & 0xFFFF:04x}-7{text[:3]}-8{text[3:6]}-{text[6:18]}{head}{sequence}'
                f',"ts":"{stamp}{now % 1000:03d}Z","up":{sequence * 37},"kind":"action","name":"'
                f'{names[(chance >> 16) % name_count]}'
                f'{middle}{1 + (chance >> 24) % 1_000_000}{tail}{WORDS[(chance >> 44) % word_count]}","price":'
                f'{100 + (chance >> 48) % 99_900},"index":{(chance >> 60) % 51}}}}}\n').encode()
            lines.append(line)
            size += len(line)
        self.now = now
        return writer, lines

    def backlog(self, spool, byte_count, segment_byte_count=8 << 20):
        """Fills a spool with finished segments; returns their lines as a ledger."""
        ledger = Ledger()
        while ledger.byte_count < byte_count:
            writer, lines = self.segment(min(segment_byte_count, byte_count - ledger.byte_count))
            with open(segment_path(spool, writer), "wb") as file:
                file.write(b"".join(lines))
            ledger.add(lines)
        os.sync()
        return ledger


def segment_path(spool, writer, first=1):
    return os.path.join(spool, "%s-%020d.ndjson" % (writer, first))


# The ledger

@dataclasses.dataclass
class Comparison:
    """The numbers of missing, repeated and unexpected lines."""
    lost: int = 0
    twice: int = 0
    alien: int = 0

    @property
    def is_clean(self):
        return self.lost == self.twice == self.alien == 0

    @property
    def counts(self):
        return dataclasses.asdict(self)

    def __str__(self):
        return f"lost {self.lost}, twice {self.twice}, alien {self.alien}"


class Ledger:
    """How often each line must occur, byte for byte, by its 64-bit hash."""

    def __init__(self):
        self.counts = collections.Counter()
        self.byte_count = 0
        self.line_count = 0

    def add(self, lines):
        self.counts.update(map(hash, lines))
        self.line_count += len(lines)
        self.byte_count += sum(map(len, lines))

    def join(self, other):
        self.counts.update(other.counts)
        self.line_count += other.line_count
        self.byte_count += other.byte_count

    def compare(self, paths):
        """Compares every line of these files with the expected ones."""
        found = hashes(paths)
        comparison = Comparison()
        for line, count in (self.counts - found).items():
            comparison.lost += count
        for line, count in (found - self.counts).items():
            if line in self.counts:
                comparison.twice += count
            else:
                comparison.alien += count
        return comparison


def hashes(paths):
    """How often each line occurs, by its hash."""
    counts = collections.Counter()
    for path in paths:
        with open(path, "rb") as file:
            counts.update(map(hash, file))
    return counts


def figures(comparison, measured):
    """A run's figures if no line was lost, repeated or invented; otherwise only the counts."""
    if comparison.is_clean:
        return {**measured, "ledger": "clean"}
    return {"ledger": "failed", **comparison.counts}


def files(root, suffix):
    return [os.path.join(folder, name) for folder, _, names in os.walk(root) for name in names if name.endswith(suffix)]


def size_of(root, suffix=".ndjson"):
    """The total size of the files below; files that vanish meanwhile count as 0."""
    total = 0
    for path in files(root, suffix):
        try:
            total += os.stat(path).st_size
        except FileNotFoundError:
            pass
    return total


# Processes

def free_port():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return server.getsockname()[1]


class Memory(threading.Thread):
    """Tracks a process's peak resident memory; the value from wait4 includes this script, which forked it."""

    def __init__(self, process):
        super().__init__(daemon=True)
        self.path = "/proc/%d/status" % process.pid
        self.peak, self.is_over = 0, False
        self.start()

    def run(self):
        # A program that replaces itself has no peak for a moment, and begins with another memory.
        while not self.is_over:
            try:
                with open(self.path) as file:
                    line = next((line for line in file if line.startswith("VmHWM")), None)
            except OSError:
                return
            if line:
                self.peak = max(self.peak, int(line.split()[1]) * 1024)
            time.sleep(0.01)


class Threads(threading.Thread):
    """Follows the CPU seconds of a process's threads by their names; what they used since it last looked is missing."""

    def __init__(self, pid, pause=0.01):
        super().__init__(daemon=True)
        self.folder, self.pause, self.seen = f"/proc/{pid}/task", pause, {}
        self.start()

    def run(self):
        while tasks := self.tasks():
            for task in tasks:
                try:
                    with open(f"{self.folder}/{task}/comm") as file:
                        name = file.read().strip()
                    with open(f"{self.folder}/{task}/schedstat") as file:
                        self.seen[task] = (name, int(file.read().split()[0]) / 1e9)
                except (OSError, IndexError):
                    # It ended meanwhile.
                    continue
            time.sleep(self.pause)

    def tasks(self):
        try:
            return os.listdir(self.folder)
        except OSError:
            return []

    def seconds(self, *names):
        """Of the threads with these names."""
        return sum(seconds for name, seconds in list(self.seen.values()) if name in names)


def cpu_of(pid):
    """User and system seconds of a process so far."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_of(pid, field="VmHWM"):
    """Its peak resident bytes, or another line of its status."""
    with open(f"/proc/{pid}/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(field))


class Child:
    """A process started by the benchmark; measures its CPU seconds and memory, and ends with the benchmark."""

    def __init__(self, command, log, env=None, stdin=None, stdout=None):
        self.command = [str(word) for word in command]
        self.log = log
        # Ends with this script, however that ends.
        leash = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []
        with open(log, "ab") as output:
            self.process = subprocess.Popen(
                leash + self.command, stdin=stdin or subprocess.DEVNULL, stdout=stdout or output, stderr=output,
                env={**os.environ, **(env or {})})
        self.pid = self.process.pid
        self.memory = Memory(self.process)
        self.cpu_at_end = None

    @property
    def is_running(self):
        return self.cpu_at_end is None and self.process.returncode is None and not self.reaped(os.WNOHANG)

    def reaped(self, flags):
        if self.cpu_at_end is not None:
            return True
        pid, status, usage = os.wait4(self.pid, flags)
        if pid == 0:
            return False
        self.memory.is_over = True
        self.process.returncode = os.waitstatus_to_exitcode(status)
        self.cpu_at_end = usage.ru_utime + usage.ru_stime
        return True

    @property
    def cpu(self):
        """User and system seconds so far."""
        if self.cpu_at_end is not None:
            return self.cpu_at_end
        return cpu_of(self.pid)

    @property
    def resident(self):
        return memory_of(self.pid, "VmRSS")

    def wait(self, seconds, what):
        """Waits for the process to end; returns the exit code."""
        until(lambda: self.reaped(os.WNOHANG), seconds, what, pause=0.002)
        return self.process.returncode

    def stop(self, seconds=120):
        """Sends SIGTERM, waits for the end, and returns the CPU seconds."""
        if self.is_running:
            os.kill(self.pid, signal.SIGTERM)
        self.wait(seconds, "the end of " + os.path.basename(self.command[0]))
        return self.cpu

    def kill(self):
        if self.is_running:
            os.kill(self.pid, signal.SIGKILL)
            self.reaped(0)

    def log_end(self):
        with open(self.log, "rb") as file:
            return file.read()[-800:].decode("utf-8", "replace")


def until(condition, seconds, what, pause=0.02):
    """Returns the first true value of `condition()`; fails after this many seconds."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() > end:
            raise Failure(f"{what}: not within {seconds} s")
        time.sleep(pause)
    return value


def accepts(port):
    with socket.socket() as client:
        client.settimeout(5)
        return client.connect_ex(("127.0.0.1", port)) == 0


DISCARDED = []


@atexit.register
def remove_discarded():
    while DISCARDED:
        shutil.rmtree(DISCARDED.pop(), ignore_errors=True)


def discard(path, to=None):
    """Frees what the files below `path` take; they are removed at the program's end, and moved to `to` until then.

    ext4 gives no inode again that was freed in the last minutes, and searches past each of them for every new file. So a
    run that deletes its files slows down those that follow.
    """
    if to:
        os.rename(path, to)
    for folder, _, names in os.walk(to or path):
        for file in [os.path.join(folder, name) for name in names]:
            if os.path.isfile(file) and not os.path.islink(file):
                os.truncate(file, 0)
    DISCARDED.append(to or path)


class Workplace:
    """A temporary directory and the processes that work in it; both end with the `with`, the directory is discarded."""

    def __init__(self, options, name):
        self.options = options
        self.name = name

    def __enter__(self):
        self.root = tempfile.mkdtemp(prefix="waybill-%s-" % self.name, dir=self.options.directory)
        self.children = []
        return self

    def __exit__(self, kind, error, trace):
        for child in self.children:
            child.kill()
        if isinstance(error, Failure):
            self.show_logs()
        discard(self.root)

    def show_logs(self):
        for child in self.children:
            print(f"--- {child.command[0]} ... {child.log}\n{child.log_end()}", file=sys.stderr)

    @property
    def commands(self):
        """What was started, each once; this place stands as `$PLACE`, and nothing of the machine's paths."""
        texts = [plain_words(self.options, child.command, {self.root: "$PLACE"}) for child in self.children]
        return list(dict.fromkeys(texts))

    def path(self, *parts):
        return os.path.join(self.root, *parts)

    def folder(self, *parts):
        path = self.path(*parts)
        os.makedirs(path, exist_ok=True)
        return path

    def start(self, command, log="log", **settings):
        child = Child(command, self.path(log), **settings)
        self.children.append(child)
        return child

    def await_port(self, child, port, seconds=60):
        until(lambda: accepts(port) or not child.is_running, seconds, "something listens", pause=0.005)
        if not child.is_running:
            raise Failure("the receiver ended: " + child.log_end())

    def receiver(self, binary=None, exports="none", data=None, env=None, arguments=()):
        """Starts a listening receiver; its port is `self.port`."""
        self.port = free_port()
        child = self.start(
            [binary or self.options.binary, "receiver", "--data", data or self.path("data"), "--listen",
             "127.0.0.1:%d" % self.port, "--exports", exports, *arguments], log="receiver.log", env=env)
        self.await_port(child, self.port)
        return child

    def agent(self, *arguments, binary=None, state="agent", stdout=None, sources=None):
        """Starts an agent for the spool, or for `sources`."""
        sources = ["--spool", self.path("spool")] if sources is None else sources
        return self.start(
            [binary or self.options.binary, "agent", "--state", self.path(state), "--to", "127.0.0.1:%d" % self.port,
             *sources, *arguments], log=state + ".log", stdout=stdout)

    def once(self, *arguments, seconds=1800, **settings):
        """Ships everything; returns the agent and its summary."""
        agent = self.agent("--once", *arguments, stdout=subprocess.PIPE, **settings)
        return agent, self.summary(agent, seconds)

    def summary(self, agent, seconds=1800):
        """Waits for an agent to end; returns its output."""
        code = agent.wait(seconds, "the agent's end")
        with agent.process.stdout as output:
            text = output.read()
        if code != 0:
            raise Failure(f"the agent ended with {code}: {agent.log_end()}")
        return json.loads(text)

    def archive(self):
        return files(self.path("data/archive"), ".ndjson")

    def settle(self, byte_count, folder="data/archive", is_alive=lambda: True, patience=20, pause=0.005):
        """Waits until the files below have so many bytes; returns when they had.

        `None` if none of them moves for `patience` seconds. Whether the bytes are the right ones, the ledger says.
        """
        size, moved = -1, time.monotonic()
        while True:
            last, size = size, size_of(self.path(folder))
            if size != last:
                moved = time.monotonic()
            if size >= byte_count:
                return moved
            if time.monotonic() - moved > patience:
                return None
            if not is_alive():
                raise Failure("a process ended in the middle")
            time.sleep(pause)


def plain_words(options, command, places={}):
    """A command as one may type it elsewhere: relative to the repository, with names for what was given by options."""
    names = {sys.executable: "python3", str(REPOSITORY) + "/": "", **places}
    for name in ("binary", "accelerated_binary", "directory", "output"):
        path = getattr(options, name, None)
        # A build in the repository stands as its path there.
        if path and not os.path.abspath(path).startswith(str(REPOSITORY)):
            names[str(path)] = "$" + name.upper()
    text = shlex.join(map(str, command))
    for path, name in sorted(names.items(), key=lambda item: -len(item[0])):
        text = text.replace(path, name)
    return text


def attempt(options, labels, work):
    """Runs `work(place)` in a new place; returns its record, or one with the reason for a missing figure."""
    with Workplace(options, labels["benchmark"]) as place:
        record = {**labels, "date": now(), "load_before": round(os.getloadavg()[0], 2)}
        try:
            record.update(work(place))
        except Failure as failure:
            place.show_logs()
            record["failed"] = str(failure)
        record["commands"] = place.commands
        return record


def run_in_place(name, options, measure):
    """Runs `measure(options, place)` in a place of its own; without a figure the program ends with the reason."""
    end_on_signal()
    try:
        with Workplace(options, name) as place:
            measure(options, place)
    except Failure as failure:
        sys.exit(str(failure))


def idle_share(children, seconds):
    """The CPU use of each of these in per cent of a core, over this many seconds."""
    before = [child.cpu for child in children]
    started = time.monotonic()
    time.sleep(seconds)
    passed = time.monotonic() - started
    return [round(100 * (child.cpu - was) / passed, 2) for child, was in zip(children, before)]


def end_on_signal():
    """Makes SIGTERM, SIGHUP and ctrl-C end the script through every `finally`."""
    def leave(number, frame):
        sys.exit(128 + number)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # A signal ignored by the caller (nohup) stays ignored.
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, leave)


def raise_file_limit():
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


# Records

def first_line(command):
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=20).stdout.split("\n")[0].strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""


def cpu_model():
    with open("/proc/cpuinfo") as file:
        return next((line.split(":")[1].strip() for line in file if line.startswith("model name")), platform.machine())


def machine(directory):
    """The properties of the machine that figures depend on."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cpu": cpu_model(), "cores": os.cpu_count(), "memory_gb": round(memory / 1e9, 1),
        "kernel": platform.release(),
        "filesystem": first_line(["findmnt", "-no", "FSTYPE", "-T", directory or tempfile.gettempdir()]),
    }


def revision():
    """The git revision of the sources, with a mark when they were changed."""
    return first_line(["git", "-C", str(REPOSITORY), "describe", "--always", "--dirty", "--abbrev=10"])


def now():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def exported(data, name):
    """The number of events in an export's records."""
    count = 0
    for path in files(os.path.join(data, "exports", name), ".ids"):
        with open(path, "rb") as file:
            count += sum(line.count(b",") + 1 for line in file)
    return count


def exportable(name, line_count):
    """The number of events an export must have: profiles use only user events, of which a backlog has none."""
    return 0 if name == "mixpanel-profiles" else line_count


def spread(values):
    """The median, least and greatest value."""
    return statistics.median(values), min(values), max(values)


def common_options(parser, megabytes):
    """Adds the options common to all programs here."""
    parser.add_argument("--binary", default=str(BINARY))
    parser.add_argument("--megabytes", type=int, default=megabytes)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--directory", help="where to work; a real disk, not tmpfs")
