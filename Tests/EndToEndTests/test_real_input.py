"""Ships what real programs write: nginx under load with its logs rotated, the system journal, jq."""

import os
import shutil
import signal
import socket
import subprocess
import unittest

from harness import SiteTest, free_port, until
from ledger import Ledger, archive_files, quarantined, stored

# The test ends the load; a machine that is busy takes long for its rotations.
SECONDS_OF_LOAD_MAX = 120
ROTATIONS = 6
ROTATION_BYTES = 4_000_000

NGINX = """
daemon off; worker_processes 2; pid {root}/nginx.pid; error_log {root}/error.log; {user}
events {{ worker_connections 512; }}
http {{
    client_body_temp_path {root}/t1; proxy_temp_path {root}/t2; fastcgi_temp_path {root}/t3; uwsgi_temp_path {root}/t4;
    scgi_temp_path {root}/t5;
    log_format events escape=json '{{"ts":"$time_iso8601","name":"$request_method $uri","at":$msec,"status":$status,'
        '"bytes":$body_bytes_sent,"seconds":$request_time,"request":"$request_id","connection":$connection,'
        '"referrer":"$http_referer","agent":"$http_user_agent","arguments":"$args"}}';
    access_log {folder}/access.json events;
    keepalive_requests 1000;
    server {{
        listen 127.0.0.1:{port};
        location / {{ return 200 "토스터\\n"; }}
        location /missing {{ return 404; }}
    }}
}}
"""

WRK = """
local count = 0
local agents = {'토스터/1.0 "quoted" \\\\ back\\tslash', "Mozilla/5.0 (X11; Linux x86_64)", ""}
request = function()
    count = count + 1
    local path = "/items/" .. count % 977 .. "?q=%EA%B0%80&n=" .. count
    return wrk.format("GET", path, {["User-Agent"] = agents[count % 3 + 1]})
end
"""

# A journal of its own in a mount namespace of its own, so that nothing of the machine is touched.
JOURNAL = """
set -e
mount -t tmpfs none /run
mount -t tmpfs none /var/log/journal || true
mkdir -p /run/systemd/journal
"$1" >/dev/null 2>&1 &
trap 'kill $!' EXIT
for _ in $(seq 200); do [ -S /run/systemd/journal/socket ] && break; sleep 0.05; done
printf '%s\\n' 'hello' '장바구니 "quoted" \\ back	tab' '{"json":"inside"}' | systemd-cat -t shop
head -c 6000 /dev/zero | tr '\\0' x | systemd-cat -t shop
printf 'caf\\351 \\033[31mred\\033[0m \\001\\n' | systemd-cat -t shop
seq 2000 | systemd-cat -t counter
journalctl --sync
journalctl -o json --no-pager --quiet
"""


def program(name, folders="/usr/sbin:/sbin:/lib/systemd:/usr/lib/systemd"):
    """Where a program is; skips the test when it is missing."""
    path = shutil.which(name, path=os.environ.get("PATH", "") + ":" + folders)
    if path is None:
        raise unittest.SkipTest(f"{name} is not installed")
    return path


class RealInputTest(SiteTest):
    def setUp(self):
        super().setUp()
        self.folder = self.site.root / "log"
        self.folder.mkdir()

    def assert_complete(self, receiver, files):
        """Every line of the files is stored byte for byte exactly once, and nothing else is."""
        self.assertEqual(receiver.stop(), 0)
        ledger = Ledger()
        for path in files:
            with open(path, "rb") as file:
                ledger.add(file)
        comparison = ledger.compare(stored(self.site.data))
        self.assertTrue(comparison.is_clean, str(comparison))
        return ledger


class NginxTests(RealInputTest):
    """A web server's log in JSON lines, written by two processes, rotated under load."""

    def setUp(self):
        super().setUp()
        nginx, self.wrk = program("nginx"), program("wrk")
        self.port, self.log = free_port(), self.folder / "access.json"
        (self.site.root / "nginx.conf").write_text(NGINX.format(
            root=self.site.root, folder=self.folder, port=self.port, user="user root;" if os.geteuid() == 0 else ""))
        self.nginx = subprocess.Popen(
            [nginx, "-p", self.site.root, "-c", self.site.root / "nginx.conf"], stderr=subprocess.DEVNULL)
        self.addCleanup(self.nginx.wait)
        self.addCleanup(self.nginx.terminate)
        until(self.answers, 10, "nginx answers")

    def answers(self):
        try:
            return self.request(b"GET /ready HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.1 200")
        except OSError:
            return False

    def request(self, text):
        with socket.create_connection(("127.0.0.1", self.port), 5) as connected:
            connected.sendall(text)
            return b"".join(iter(lambda: connected.recv(4096), b""))

    def rotate(self, number):
        """As logrotate does: renames the log, into which the workers continue writing, then asks for a new one."""
        self.log.rename(f"{self.log}.{number}")
        self.nginx.send_signal(signal.SIGUSR1)
        until(self.log.exists, 10, "nginx opened a new log")

    def load(self):
        script = self.site.root / "load.lua"
        script.write_text(WRK)
        load = subprocess.Popen(
            [self.wrk, "-t1", "-c16", f"-d{SECONDS_OF_LOAD_MAX}s", "-s", script, f"http://127.0.0.1:{self.port}"],
            stdout=subprocess.DEVNULL)
        self.addCleanup(load.wait)
        self.addCleanup(load.kill)
        return load

    def agent(self, pattern):
        return self.site.agent(
            "--glob", self.folder / pattern, "--env", "prod", "--bundle", "com.example.web", "--time-member", "ts",
            "--name-member", "name")

    def write_logs(self, before_rotation=lambda number: None):
        """Runs the load through all rotations, ends the server, and returns the logs."""
        load = self.load()
        for number in range(1, ROTATIONS + 1):
            until(lambda: self.log.stat().st_size > ROTATION_BYTES or load.poll() is not None, 20, "the log grows")
            self.assertIsNone(load.poll(), "the load ended before the last rotation")
            before_rotation(number)
            self.rotate(number)
        until(lambda: self.log.stat().st_size > ROTATION_BYTES, 20, "the last log grows")
        load.send_signal(signal.SIGINT)
        load.wait(30)
        for number in range(3):
            self.request(b"GET /%d HTTP/1.0\r\nUser-Agent: caf\xe9\r\n\r\n" % number)
        self.nginx.send_signal(signal.SIGQUIT)
        self.assertEqual(self.nginx.wait(30), 0)
        logs = list(self.folder.iterdir())
        self.assertEqual(len(logs), ROTATIONS + 1)
        return logs

    def assert_stored(self, receiver, agent, logs):
        """The running agent ships all of it; what is no UTF-8 is in the quarantine, the rest in the archive."""
        size = sum(path.stat().st_size for path in logs)
        until(lambda: self.stored_bytes() >= size, 60, "everything is stored")
        self.assertEqual(agent.stop(), 0)
        self.assert_complete(receiver, logs)
        refused = quarantined(self.site.data)
        self.assertEqual({reason: len(lines) for reason, lines in refused.items()}, {"bad-utf8": 3})

    def test_every_line_arrives_through_rotations_under_load(self):
        """Logs that are renamed out of the pattern while they are written arrive whole."""
        receiver, agent = self.site.receiver(exports="none"), self.agent("*.json")
        self.assert_stored(receiver, agent, self.write_logs())

    def test_an_agent_that_is_killed_between_rotations_repeats_nothing(self):
        """SIGKILL before every second rotation, and a start after it: each log continues under its new name."""
        def restart(number):
            if number % 2 == 0:
                agents[-1].kill()
                agents.append(None)
            elif agents[-1] is None:
                agents.append(self.agent("access.json*"))

        receiver, agents = self.site.receiver(exports="none"), [self.agent("access.json*")]
        logs = self.write_logs(restart)
        agents.append(self.agent("access.json*"))
        self.assert_stored(receiver, agents[-1], logs)

    def stored_bytes(self):
        paths = [*archive_files(self.site.data), *(self.site.data / "quarantine").rglob("*.ndjson")]
        return sum(path.stat().st_size for path in paths)


class ProgramTests(RealInputTest):
    """Other programs' JSON lines."""

    def ship(self, *members):
        """Ships the folder in one round and compares; returns how many lines each reason kept from the archive."""
        receiver = self.site.receiver(exports="none")
        self.site.once("--glob", self.folder / "*.json", "--env", "internal", "--bundle", "com.example.host", *members)
        files = list(self.folder.iterdir())
        ledger = self.assert_complete(receiver, files)
        return ledger.line_count, {reason: len(lines) for reason, lines in quarantined(self.site.data).items()}

    def journal(self):
        """This machine's journal, or one made for the test."""
        arguments = [program("journalctl"), "-o", "json", "--no-pager", "--quiet", "-n", "20000"]
        output = subprocess.run(arguments, capture_output=True, timeout=30, check=False).stdout
        if output:
            return output
        arguments = [program("unshare"), "-m", "bash", "-c", JOURNAL, "journal", program("systemd-journald")]
        made = subprocess.run(arguments, capture_output=True, timeout=30, check=False)
        if made.returncode != 0 or not made.stdout:
            raise unittest.SkipTest("the journal is empty, and this machine does not allow one of the test's own")
        return made.stdout

    def test_the_system_journal_arrives(self):
        """`journalctl -o json` with its times in microseconds as text: each entry is archived under its own day."""
        (self.folder / "journal.json").write_bytes(self.journal())
        line_count, refused = self.ship("--time-member", "__REALTIME_TIMESTAMP", "--name-member", "SYSLOG_IDENTIFIER")
        self.assertGreater(line_count, 0)
        self.assertLessEqual(set(refused), {"no-name"})

    def test_what_jq_writes_arrives(self):
        """Lines of a text file as `jq -c` turns them into objects, times as numbers with a fraction."""
        source = next(path for path in ("/var/lib/dpkg/status", "/etc/services", __file__) if os.path.exists(path))
        with open(self.folder / "lines.json", "wb") as output:
            subprocess.run(
                [program("jq"), "-R", "-c", '{time: now, event: "line", number: input_line_number, text: .}', source],
                stdout=output, check=True, timeout=30)
        line_count, refused = self.ship("--time-member", "time", "--name-member", "event")
        self.assertEqual(refused, {})
        self.assertGreater(line_count, 0)
