"""Starts real `waybill` processes, and cleans up behind them.

Every test gets a `Site`: a temporary directory with a data directory, an agent's state and a spool. All processes that
a site started are killed, and the directory is removed, when the test ends.
"""

import contextlib
import fcntl
import http.client
import http.server
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.request

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
VECTORS = REPOSITORY / "Protocol" / "vectors"


def binary():
    """The program under test: $WAYBILL, else the release build, else the debug build."""
    named = os.environ.get("WAYBILL")
    builds = [REPOSITORY / ".build" / kind / "waybill" for kind in ("release", "debug")]
    for path in [pathlib.Path(named)] if named else builds:
        if path.exists():
            return str(path)
    raise AssertionError("there is no waybill binary; build it, or name it in $WAYBILL")


# How many times as long as on a quiet machine anything may take before a test gives up on it.
PATIENCE = 4


def patience(seconds):
    """A deadline for what takes at most `seconds` on a quiet machine: no test fails because others run at the same time."""
    return PATIENCE * seconds


def until(condition, seconds=20, what="the condition"):
    """Returns the first true value of `condition()`, which may meet a file that is replaced; fails when it takes much
    longer than `seconds`."""
    deadline = time.monotonic() + patience(seconds)
    while True:
        try:
            value = condition()
        except FileNotFoundError:
            value = None
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {patience(seconds)} s")
        time.sleep(0.01)


class Ports:
    """Loopback ports that are this process's own until it ends.

    The system gives out ports from its range of ephemeral ones, and may give a free one to any connection. These are
    below that range, and a lock on a file for each keeps test processes that run side by side from taking the same: a
    receiver that was killed finds its port again.
    """

    FIRST, COUNT = 12_000, 20_000

    def __init__(self):
        self.folder = pathlib.Path(tempfile.gettempdir()) / f"waybill-ports-{os.getuid()}"
        self.next, self.locks = os.getpid() * 97, {}

    def take(self):
        self.folder.mkdir(exist_ok=True)
        for _ in range(self.COUNT):
            port = self.FIRST + self.next % self.COUNT
            self.next += 1
            if port not in self.locks and self.is_mine(port):
                return port
        raise AssertionError("there is no free port")

    def is_mine(self, port):
        file = open(self.folder / str(port), "wb")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(("127.0.0.1", port))
        except OSError:
            file.close()
            return False
        self.locks[port] = file
        return True


PORTS = Ports()


def free_port():
    return PORTS.take()


def request(port, path, method="GET", body=None, headers=None, address="127.0.0.1"):
    """Asks a program on this machine from an address; returns the status, the headers and the body of its answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=patience(20), source_address=(address, 0))
    with contextlib.closing(connection):
        connection.request(method, path, body, headers or {})
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()


def page(address, path="/metrics"):
    """What a program answers to GET at the address of its metrics."""
    with urllib.request.urlopen(f"http://{address}{path}", timeout=patience(10)) as answer:
        return answer.read().decode()


def samples(address, name):
    """The values of a metric by their labels, which are written as on the page."""
    found = re.findall(rf"^{name}({{.*}})? (\S+)$", page(address), re.MULTILINE)
    return {labels: float(value) for labels, value in found}


def metric(address, name):
    """The values of a metric, one for each set of labels."""
    return list(samples(address, name).values())


def described_metrics():
    """The metrics of Protocol/metrics.md: of each the kind, and its labels with their values, or None for an open set."""
    described, labels = {}, {}
    for row in (REPOSITORY / "Protocol" / "metrics.md").read_text(encoding="utf-8").splitlines():
        found = re.match(r"\| `((?:waybill|process)_\w+)` \| (\w+) \| (.*?) \| ", row)
        if not found:
            continue
        if found[3] != "as above":
            labels = {}
            for label in filter(None, re.split(r"; (?=`\w+`(?:: |; |$))", found[3])):
                name, _, values = re.sub(r" \([^)]*\)", "", label).partition(": ")
                closed = re.fullmatch(r"`[^`]+`(, `[^`]+`)*", values)
                labels[name.strip("`")] = set(re.findall("`([^`]+)`", values)) if closed else None
        described[found[1]] = (found[2], labels)
    return described


def check_described(test, address):
    """Protocol/metrics.md has each metric, label and value of a page of metrics, which is returned."""
    text, described, unknown = page(address), described_metrics(), set()
    for name, kind in re.findall(r"^# TYPE (\w+) (\w+)$", text, re.MULTILINE):
        known, labels = described.get(name, (None, {}))
        test.assertEqual((name, kind), (name, known), address)
        parts = "(?:_bucket|_sum|_count)" if kind == "histogram" else ""
        for pairs in re.findall(rf"^{name}{parts}{{(.*)}} ", text, re.MULTILINE):
            for label, value in re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', pairs):
                if label not in labels and not (parts and label == "le") or labels.get(label) and value not in labels[label]:
                    unknown.add((name, label, value))
    test.assertEqual(unknown, set(), address)
    return text


def check_metrics(test, address):
    """A page of metrics, which is returned, is described, and promtool has nothing to say about it."""
    text = check_described(test, address)
    if not shutil.which("promtool"):
        raise unittest.SkipTest("there is no promtool")
    result = subprocess.run(["promtool", "check", "metrics"], input=text.encode(), capture_output=True, check=False)
    test.assertEqual((result.returncode, result.stdout + result.stderr), (0, b""), address)
    return text


def fill_up(disk):
    """Takes every byte that a disk has left; returns the file that has them."""
    ballast = disk / "ballast"
    with open(ballast, "ab", buffering=0) as file:
        for size in (1 << 20, 4096, 1):
            with contextlib.suppress(OSError):
                while file.write(bytes(size)) == size:
                    pass
    return ballast


def compiled(source, folder):
    """Compiles a file of C into a library for LD_PRELOAD; skips the test where there is no compiler."""
    compiler = shutil.which("cc") or shutil.which("clang")
    if not compiler:
        raise unittest.SkipTest("there is no C compiler")
    library = folder / f"{source.stem}.so"
    if not library.exists():
        flags = ["-shared", "-fPIC", "-O1", "-Wall", "-Werror"]
        subprocess.run([compiler, *flags, "-o", library, source, "-ldl"], check=True, timeout=120)
    return library


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers requests to a server of a test's own, and says nothing of them."""

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    """Serves HTTP on a loopback port until it is closed; its handlers find `attributes` in it."""

    request_queue_size = 128

    def __init__(self, handler, port=0, **attributes):
        super().__init__(("127.0.0.1", port), handler)
        vars(self).update(attributes)
        self.url = f"http://127.0.0.1:{self.server_port}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request, client_address):
        # A client that is gone is no error.
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)

    def close(self):
        self.shutdown()
        self.server_close()


def serve(test, handler, **options):
    """The same until a test ends."""
    server = Server(handler, **options)
    test.addCleanup(server.close)
    return server


def run(*arguments, stdin=b"", timeout=60, env=None):
    """Runs one command to its end; returns it with `returncode`, `stdout` and `stderr` as bytes."""
    return subprocess.run(
        [binary(), *map(str, arguments)], input=stdin, capture_output=True, timeout=patience(timeout),
        env={**os.environ, **(env or {})})


def ended(code, *arguments, **options):
    """The same for a command that must end with that code."""
    result = run(*arguments, **options)
    if result.returncode != code:
        said = (result.stdout + result.stderr).decode()[-2000:]
        raise AssertionError(f"{' '.join(map(str, arguments))}: ended with {result.returncode}, not {code}: {said}")
    return result


def succeed(*arguments, **options):
    return ended(0, *arguments, **options)


def failure(code, *arguments, **options):
    """What a command says on standard error that must end with that code."""
    return ended(code, *arguments, **options).stderr.decode()


class Process:
    """A receiver or an agent that runs, with its log in a file; `within` is a command that replaces itself by it."""

    def __init__(self, arguments, log, env=None, within=()):
        self.log_path = pathlib.Path(log)
        self.log_start = self.log_path.stat().st_size if self.log_path.exists() else 0
        with open(log, "ab") as output:
            self.child = subprocess.Popen(
                [*within, binary(), *map(str, arguments)], stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                env={**os.environ, **(env or {})})

    @property
    def is_running(self):
        return self.child.poll() is None

    def log(self):
        """What this process has logged since it started."""
        with open(self.log_path, "rb") as file:
            file.seek(self.log_start)
            return file.read().decode("utf-8", "replace")

    def entries(self):
        """The lines of the log, which have members."""
        return [json.loads(line) for line in self.log().splitlines() if line.startswith("{")]

    def until_logged(self, text, seconds=20):
        until(lambda: text in self.log(), seconds, f"'{text}' in {self.log_path.name}")

    def kill(self):
        self.child.kill()
        self.child.wait()

    def terminate(self):
        self.child.send_signal(signal.SIGTERM)

    def stop(self, seconds=60):
        """SIGTERM, then its exit code."""
        if self.is_running:
            self.terminate()
        return self.wait(seconds)

    def wait(self, seconds=60):
        try:
            return self.child.wait(patience(seconds))
        except subprocess.TimeoutExpired:
            raise AssertionError(f"did not end within {patience(seconds)} s: {self.log()[-2000:]}") from None

    def resident_mebibytes(self):
        return self.mebibytes("VmRSS")

    def peak_mebibytes(self):
        """The most memory that was ever resident."""
        return self.mebibytes("VmHWM")

    def mebibytes(self, field):
        text = pathlib.Path(f"/proc/{self.child.pid}/status").read_text()
        found = re.search(rf"^{field}:\s+(\d+) kB$", text, re.MULTILINE)
        if not found:
            raise ProcessLookupError("the process is gone")
        return int(found[1]) / 1024

    def open_files(self):
        """What the process holds open, deleted files with their ` (deleted)`."""
        folder = f"/proc/{self.child.pid}/fd"
        links = []
        for name in os.listdir(folder):
            try:
                links.append(os.readlink(f"{folder}/{name}"))
            except FileNotFoundError:
                pass
        return links


class Site:
    """A temporary directory with everything that one test needs."""

    def __init__(self):
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="waybill-test-"))
        self.data = self.root / "data"
        self.state = self.root / "agent"
        self.spool = self.root / "spool"
        self.logs = self.root / "logs"
        self.spool.mkdir()
        self.logs.mkdir()
        self.port = free_port()
        self.processes = []
        self.mounts = []

    def close(self):
        for process in self.processes:
            if process.is_running:
                process.kill()
        for mount in reversed(self.mounts):
            subprocess.run(["umount", mount], check=False, capture_output=True)
        shutil.rmtree(self.root, ignore_errors=True)

    def write(self, name, text):
        """Writes a file of the site at once, as an editor does: a reload never sees half of it."""
        path, new = self.root / name, self.root / f"{name}.new"
        new.write_text(text)
        return new.rename(path)

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    def start(self, *arguments, log, env=None, within=()):
        process = Process(arguments, self.logs / log, env, within)
        self.processes.append(process)
        return process

    def receiver(self, *arguments, exports="csv", data=None, env=None):
        """Starts a receiver and returns once it listens."""
        return self.listening(self.start(
            "receiver", "--data", data or self.data, "--listen", self.address, "--exports", exports,
            # Tests compare what is archived and exported when it has ended.
            *([] if "--stop-seconds" in arguments else ["--stop-seconds", "60"]), *arguments,
            log="receiver.log", env=env))

    def configured(self, config, *arguments, env=None):
        """Starts a receiver with a configuration file, which names the site's address; returns once it listens."""
        return self.listening(self.start("receiver", "--config", config, *arguments, log="receiver.log", env=env))

    def listening(self, process):
        until(lambda: self.is_listening() or not process.is_running, 30, "the receiver listens")
        if not process.is_running:
            raise AssertionError(f"the receiver ended: {process.log()[-2000:]}")
        return process

    def is_listening(self):
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
            return True
        except OSError:
            return False

    def agent_arguments(self, *arguments):
        sources = [] if "--spool" in arguments or "--glob" in arguments else ["--spool", self.spool]
        return ["agent", "--state", self.state, "--to", self.address, *sources, *arguments]

    def agent(self, *arguments, env=None):
        return self.start(*self.agent_arguments(*arguments), log="agent.log", env=env)

    def once(self, *arguments, timeout=120):
        """Ships everything there is; returns the summary."""
        return json.loads(succeed(*self.agent_arguments("--once", *arguments), timeout=timeout).stdout)

    def mount(self, name, size):
        """Mounts a small memory file system; skips the test where that is not allowed."""
        path = self.root / name
        path.mkdir()
        result = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(path)], check=False, capture_output=True)
        if result.returncode != 0:
            raise unittest.SkipTest("this machine lets no one mount a tmpfs")
        self.mounts.append(str(path))
        return path


class SiteTest(unittest.TestCase):
    """A test with a site of its own; when it fails, the ends of the logs are shown."""

    def setUp(self):
        self.site = Site()
        self.addCleanup(self.site.close)
        self.addCleanup(self.show_logs)

    def stop_all(self, *processes):
        """Stops one after the other; each ends with 0."""
        for process in processes:
            self.assertEqual(process.stop(), 0, process.log()[-2000:])

    def assert_verified(self, data=None, *arguments):
        """`waybill inspect --verify` finds nothing to complain of in a data directory, by default the site's."""
        succeed("inspect", "--verify", *arguments, data or self.site.data, timeout=300)

    def show_logs(self):
        if self._outcome.success:
            return
        for log in sorted(self.site.logs.glob("*.log")):
            print(f"--- {log.name}\n{log.read_text(errors='replace')[-1500:]}")
