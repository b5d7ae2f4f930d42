"""Whether programs are alive, ready and well: `/livez`, `/readyz`, `/status` and `waybill status`, by address and socket."""

import json
import os
import stat
import time

import health
from harness import ended, failure, free_port, run, until
from ledger import archived
from test_agent import AgentTest
from wire import Peer

TOKEN = "0123456789abcdef0123456789abcdef"


class HealthTest(AgentTest):
    def setUp(self):
        super().setUp()
        self.port, self.agent_port = free_port(), free_port()
        self.socket, self.agent_socket = self.site.root / "receiver.sock", self.site.root / "agent.sock"

    def receiver(self, *arguments, **options):
        receiver = self.site.receiver(
            "--metrics", f"127.0.0.1:{self.port}", "--status-socket", self.socket, *arguments, **options)
        health.until_ready(self.port)
        return receiver

    def agent(self, *arguments):
        agent = self.site.agent(
            *self.globbing(), "--name", "host-1", "--metrics", f"127.0.0.1:{self.agent_port}",
            "--status-socket", self.agent_socket, *arguments)
        until(lambda: health.ready(self.agent_port), 20, "the agent answers")
        return agent

    def file(self, name):
        """The agent's row of a file."""
        found = [row for row in health.status(self.agent_port)["files"] if row["path"].endswith(name)]
        return found[0] if found else None


class EndpointTests(HealthTest):
    def test_both_sides_answer_at_an_address_and_a_socket(self):
        """/livez, /readyz, /metrics and /status, with GET and HEAD; other paths and methods are refused."""
        self.receiver()
        self.append("web.json", self.maker.foreign(3))
        self.agent()
        for place, part in [(self.port, "receiver"), (self.socket, "receiver"),
                            (self.agent_port, "agent"), (self.agent_socket, "agent")]:
            health.until_ready(place)
            self.assertEqual(health.ask(place, "/livez")[::2], (200, "alive\n"))
            self.assertEqual(health.ask(place, "/livez", method="HEAD")[::2], (200, ""))
            self.assertIn("# TYPE waybill_", health.ask(place, "/metrics")[2])
            found = health.status(place)
            self.assertEqual((found["part"], found["health"], found["problems"]), (part, "ok", []))
            self.assertEqual(health.ask(place, "/nothing")[0], 404)
            self.assertEqual(health.ask(place, "/status", method="POST")[0], 405)

    def test_a_socket_is_for_its_owner_and_group_and_goes_with_its_process(self):
        """Mode 0660 whatever the mask; a stale one is replaced, one that answers and other files are left alone."""
        mask = os.umask(0)
        self.addCleanup(os.umask, mask)
        receiver = self.receiver()
        self.assertEqual(stat.filemode(self.socket.stat().st_mode), "srw-rw----")
        # It answers whatever name the request has: permissions decide.
        self.assertEqual(health.ask(self.socket, headers={"Host": "evil.example"})[0], 200)
        self.assertIn("another process answers there", failure(
            74, "receiver", "--data", self.site.root / "other", "--listen", f"127.0.0.1:{free_port()}",
            "--status-socket", self.socket))
        self.assertEqual(health.ask(self.socket)[0], 200)
        receiver.kill()
        self.assertTrue(self.socket.exists())
        receiver = self.receiver()
        self.assertEqual(health.ask(self.socket)[0], 200)
        self.assertEqual(receiver.stop(), 0)
        self.assertFalse(self.socket.exists())
        self.socket.write_text("mine")
        ended(
            74, "receiver", "--data", self.site.data, "--listen", f"127.0.0.1:{free_port()}", "--status-socket",
            self.socket)
        self.assertEqual(self.socket.read_text(), "mine")

    def test_metrics_and_readiness_name_nobody(self):
        """Neither agent, address, file nor principal is in what needs no permission."""
        self.receiver()
        self.append("secret-name.json", self.maker.foreign(30))
        self.agent()
        until(lambda: health.status(self.port)["lines"] == 30, 20, "the lines are received")
        os.chmod(self.folder, 0o755)
        for place in (self.port, self.agent_port):
            for path in ("/metrics", "/readyz", "/livez"):
                text = health.ask(place, path)[2]
                for name in ("host-1", "secret-name", str(self.site.root), "127.0.0.1"):
                    self.assertNotIn(name, text, path)


class ReceiverHealthTests(HealthTest):
    def test_agents_say_who_they_are_and_what_time_it_is(self):
        """Principal, address, software, clock and times of an agent; texts of a peer are cleaned, and old ones have none."""
        self.receiver()
        self.append("web.json", self.maker.foreign(300))
        self.agent()
        row = until(lambda: next((row for row in health.status(self.port)["agents"] if row["lines"] == 300), None), 20, "rows")
        version = run("--version").stdout.decode().strip()
        self.assertEqual((row["name"], row["address"], row["software"]), ("host-1", "127.0.0.1", f"waybill/{version}"))
        self.assertLess(abs(row["clock_difference_ms"]), 60_000)
        self.assertTrue(row["since"] <= row["last_heard"] <= time.time() * 1000 + 1000)
        self.assertGreater(row["lines_per_second"], 0)
        with Peer(self.site.port) as old, Peer(self.site.port) as odd:
            old.hello("old")
            odd.hello("odd", software="\x1b[2J" + "x" * 500, time=int(time.time() * 1000) - 7_200_000)
            rows = {row["name"]: row for row in health.status(self.port)["agents"]}
            self.assertEqual((rows["old"]["software"], rows["old"]["clock_difference_ms"]), (None, None))
            self.assertEqual(rows["odd"]["software"], "?[2J" + "x" * 60)
            self.assertAlmostEqual(rows["odd"]["clock_difference_ms"], -7_200_000, delta=60_000)
            lines = health.shown(f"127.0.0.1:{self.port}")[1]
            self.assertTrue(any("odd" in line and "-2 h" in line for line in lines), lines)

    def test_an_agents_clock_may_show_any_time(self):
        """The latest and the earliest that HELLO has room for: all answers are given, and the command shows them."""
        receiver = self.receiver()
        latest = (1 << 53) - 1
        with Peer(self.site.port) as late, Peer(self.site.port) as early:
            self.assertTrue(late.hello("late", time=latest).startswith("READY "))
            self.assertTrue(early.hello("early", time=0).startswith("READY "))
            rows = {row["name"]: row for row in health.status(self.port)["agents"]}
            now = int(time.time() * 1000)
            self.assertAlmostEqual(rows["late"]["clock_difference_ms"], latest - now, delta=60_000)
            self.assertAlmostEqual(rows["early"]["clock_difference_ms"], -now, delta=60_000)
            self.assertEqual(health.shown(f"127.0.0.1:{self.port}")[0], 0)
        self.assertEqual(receiver.stop(), 0)

    def test_projections_and_disk_are_measured(self):
        """Behind in bytes and seconds, refusals by reason and open parts of each projection; bytes of each part of the disk."""
        self.receiver(exports="csv,ga4")
        self.append("web.json", self.maker.foreign(300))
        self.agent()
        def settled():
            found = {row["name"]: row for row in health.status(self.port)["projections"]}
            return found if all(row["lines"] == 300 and row["behind_bytes"] == 0 for row in found.values()) else None
        found = until(settled, 60, "projections are at the journal's end")
        self.assertEqual({row["state"] for row in found.values()}, {"ok"})
        self.assertEqual({row["behind_seconds"] for row in found.values()}, {0})
        self.assertEqual(found["ga4"]["refused"], {"ga4.no_app_instance_id": 300})
        # One for each day of the events.
        self.assertGreater(found["csv"]["open_parts"], 0)
        self.assertEqual(found["csv"]["open_records"], 300)
        # Measured at most every ten seconds, so the first measure may be older than some of the files.
        archive = sum(path.stat().st_size for path in (self.site.data / "archive").rglob("*") if path.is_file())
        def measured():
            disk = health.status(self.port)["disk"]
            parts = {part["name"]: part for part in disk["parts"]}
            is_whole = {"journal", "archive", "exports/csv", "exports/ga4", "state"} <= parts.keys()
            return disk if is_whole and parts["archive"]["bytes"] == archive else None
        disk = until(measured, 60, "the disk's parts are measured")
        self.assertTrue(disk["complete"] and 0 <= disk["free"] <= disk["total"])
        code, lines = health.shown(f"127.0.0.1:{self.port}")
        self.assertEqual(code, 0)
        self.assertTrue(any(line.startswith("ga4 ") and "ga4.no_app_instance_id 300" in line for line in lines), lines)

    def test_a_projection_that_fails_is_not_ready_until_it_works(self):
        """503 with its name and cause, 1 from the command; the agent is served meanwhile, and all comes back by itself."""
        data = self.site.data
        self.receiver(exports="csv")
        exports = data / "exports" / "csv"
        # A file where the export makes a folder.
        exports.mkdir(parents=True)
        (exports / "env=prod").write_text("in the way")
        self.append("web.json", self.maker.foreign(30))
        self.agent()
        found = until(lambda: next((found for found in [health.ready(self.port)] if found[0] == 503), None), 60, "503")
        self.assertEqual(found[1][0], "not ready")
        self.assertRegex(found[1][1], r"^the disk refuses csv \([a-z-]+\): ")
        until(lambda: sum(1 for _ in archived(data)) == 30, 30, "the archive continues")
        code, lines = health.shown(f"127.0.0.1:{self.port}")
        self.assertEqual(code, 1)
        self.assertTrue(any(line.startswith("csv ") and " failing (" in line for line in lines), lines)
        (exports / "env=prod").unlink()
        until(lambda: health.ready(self.port) == (200, ["ready"]), 90, "it is ready again")


class AgentHealthTests(HealthTest):
    def test_each_file_has_its_place_state_and_lag(self):
        """Without a receiver files wait, with bytes and seconds; with one they are shipped; half a line stays unfinished."""
        lines = self.maker.foreign(100)
        self.append("web.json", lines)
        size = sum(map(len, lines))
        self.agent()
        def waits():
            row = self.file("web.json")
            return row if row and row["behind_seconds"] and row["behind_seconds"] >= 1 else None
        row = until(waits, 30, "the file waits")
        self.assertEqual((row["size"], row["acknowledged"], row["behind_bytes"], row["state"]), (size, 0, size, "waiting"))
        code, reasons = health.ready(self.agent_port)
        self.assertEqual((code, reasons[0]), (503, "not ready"))
        self.assertIn("no receiver has accepted this agent", reasons[1])
        found = health.status(self.agent_port)
        self.assertEqual((found["health"], found["connected"]), ("degraded", False))
        self.assertTrue(found["last_error"])
        code, shown = health.shown(self.agent_socket)
        self.assertEqual(code, 1)
        self.assertTrue(any("not connected: " in line for line in shown), shown)
        self.receiver()
        until(lambda: (self.file("web.json") or {}).get("state") == "shipped", 90, "the file is shipped")
        row = self.file("web.json")
        self.assertEqual((row["acknowledged"], row["behind_bytes"], row["behind_seconds"]), (size, 0, None))
        self.append("web.json", [b'{"half":'])
        until(lambda: self.file("web.json")["state"] == "unfinished", 20, "half a line is noticed")
        self.assertEqual(self.file("web.json")["behind_bytes"], 8)
        health.until_ready(self.agent_port)
        self.assertEqual(health.shown(self.agent_socket)[0], 0)

    def test_more_files_than_a_thousand_are_counted(self):
        """The file that is behind comes first, and the rest of the list is bounded."""
        self.receiver()
        for index in range(1100):
            self.append(f"{index:04}.json", self.maker.foreign(1))
        self.agent()
        until(lambda: health.status(self.agent_port)["behind_bytes"] == 0
              and health.status(self.agent_port)["followed"] == 1100, 60, "all files are shipped")
        self.append("1099.json", [b'{"half":'])
        until(lambda: health.status(self.agent_port)["behind_bytes"] == 8, 20, "half a line is noticed")
        found = health.status(self.agent_port)
        self.assertEqual(len(found["files"]), 1000)
        self.assertTrue(found["files"][0]["path"].endswith("1099.json"))
        code, lines = health.shown(f"127.0.0.1:{self.agent_port}")
        self.assertEqual((code, lines[-1]), (0, "… and 1,080 more"))


class CommandTests(HealthTest):
    def test_several_places_and_the_worst_of_them(self):
        """One after the other, 2 if one is down; --json prints each answer, and why there is none."""
        self.receiver()
        self.append("web.json", self.maker.foreign(3))
        self.agent()
        health.until_ready(self.agent_port)
        code, lines = health.shown(f"http://127.0.0.1:{self.port}", self.agent_socket)
        self.assertEqual(code, 0)
        self.assertTrue(lines[0].startswith("receiver "))
        self.assertTrue(any(line.startswith("agent host-1 (waybill/") for line in lines), lines)
        unused = f"127.0.0.1:{free_port()}"
        code, lines = health.shown(unused, self.socket)
        self.assertEqual((code, lines[0]), (2, f"{unused}: down: it cannot be reached: Connection refused"))
        self.assertTrue(lines[2].startswith("receiver "))
        code, lines = health.shown(self.socket, self.site.root / "no.sock", "--json")
        found = [json.loads(line) for line in lines]
        self.assertEqual((code, found[0]["part"], found[1]["health"]), (2, "receiver", "down"))
        self.assertIn("No such file", found[1]["error"])
        # The port of agents is no HTTP server.
        code, lines = health.shown(self.site.address)
        self.assertEqual(code, 2)

    def test_wrong_arguments_are_usage(self):
        for arguments in (["nonsense"], ["--rows", "-1"], ["127.0.0.1:99999"]):
            self.assertEqual(run("status", *arguments).returncode, 64, arguments)
