"""`waybill live --dev`: clients take its address whole, and the answer to a plan is right, for each way it can fail."""

import json
import os
import signal
import socket
import subprocess
import urllib.request

from harness import REPOSITORY, SiteTest, binary, failure, free_port, patience, run, succeed, until
from test_live_api import event

PLAN = {
    "expect": [
        {"name": "purchase", "count": 1, "members": {"data.currency": "KRW"}, "providers": {"ga4": "exported"}},
        {"name": "login"}],
    "never": [{"name": "crash"}], "settle_seconds": 1}


def purchase(number, **members):
    return event(number, name="purchase", **{"data": {"currency": "KRW"}, **members})


class DevTest(SiteTest):
    def setUp(self):
        super().setUp()
        self.temporary = self.site.root / "tmp"
        self.temporary.mkdir()
        self.plan = self.site.root / "plan.json"
        self.env = {**os.environ, "TMPDIR": str(self.temporary)}

    def arguments(self, *arguments):
        if "--receive" not in arguments:
            arguments += ("--receive", "127.0.0.1:0")
        if "--listen" not in arguments:
            arguments += ("--listen", "127.0.0.1:0")
        return [binary(), "live", "--dev", *map(str, arguments)]

    def spawn(self, *arguments):
        with open(self.site.logs / "dev.log", "wb") as errors:
            child = subprocess.Popen(
                self.arguments(*arguments), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=self.env, stderr=errors)
        self.addCleanup(child.stdout.close)
        self.addCleanup(child.wait)
        self.addCleanup(child.kill)
        return child

    def run_dev(self, *arguments):
        return subprocess.run(
            self.arguments(*arguments), stdin=subprocess.DEVNULL, capture_output=True, env=self.env, timeout=patience(30))

    def log(self):
        return (self.site.logs / "dev.log").read_text(errors="replace")

    def address(self, child):
        """The address that is printed where a plan's answer is not."""
        def lines():
            assert child.poll() is None, self.log()
            return [line for line in self.log().splitlines() if line.startswith("waybill://")]
        return until(lines, 30, "the address")[0]

    def expecting(self, plan, *arguments):
        self.plan.write_text(plan if isinstance(plan, str) else json.dumps(plan))
        child = self.spawn("--expect", self.plan, *arguments)
        return child, self.address(child)

    def ship(self, address, *lines):
        """An agent that has nothing but the address."""
        self.site.spool.mkdir(exist_ok=True)
        writer = f"019550fc-0000-7000-8000-{free_port():012x}"
        part = self.site.root / "part"
        part.write_bytes(b"".join(lines))
        part.rename(self.site.spool / f"{writer}-{1:020d}.ndjson")
        succeed(
            "agent", "--state", self.site.state, "--spool", self.site.spool, "--once", env={"WAYBILL_ADDRESS": address})

    def answer(self, child, code):
        """The answer, which is all that standard output has."""
        output = child.stdout.read()
        self.assertEqual(child.wait(patience(30)), code, self.log()[-2000:])
        self.assertEqual(list(self.temporary.iterdir()), [])
        return json.loads(output)


class PlanTests(DevTest):
    def test_a_plan_whose_events_come_ends_by_itself(self):
        child, address = self.expecting(PLAN, "--for", 120)
        self.ship(address, purchase(1), event(2, name="login"), event(3))
        answer = self.answer(child, 0)
        self.assertEqual([answer["ok"], answer["end"], answer["events"]], [True, "all-came", 3])
        self.assertEqual([entry["outcome"] for entry in answer["expect"] + answer["never"]], ["came", "came", "absent"])
        self.assertEqual(answer["others"], [{"name": "tapped", "count": 1}])

    def test_an_event_that_does_not_come_is_missing_when_the_time_is_over(self):
        child, address = self.expecting(PLAN, "--for", patience(2))
        self.ship(address, purchase(1, data={"currency": "USD"}), event(2, name="Login"))
        answer = self.answer(child, 1)
        self.assertEqual([answer["ok"], answer["end"]], [False, "time"])
        first, second = answer["expect"]
        self.assertEqual([first["outcome"], first["differing"]], ["missing", 1])
        self.assertEqual(
            first["examples"][0]["differences"], [{"member": "data.currency", "expected": '"KRW"', "found": '"USD"'}])
        self.assertEqual([second["outcome"], second["nearest"]], ["missing", "Login"])
        self.assertIn("0 of 2 expected events came", self.log())

    def test_a_wrong_token_or_certificate_brings_nothing(self):
        child, address = self.expecting(PLAN)
        head = address.rpartition(",")[0]
        token = head.partition("#")[2]
        for wrong, reason in [(address.replace(token, "x" * 32), "token"), (f"{head},{'0' * 64}", "tls-wrong-pin")]:
            self.site.spool.joinpath(f"019550fc-0000-7000-8000-{1:012x}-{1:020d}.ndjson").write_bytes(purchase(1))
            self.assertIn(reason, failure(
                69, "agent", "--state", self.site.state, "--spool", self.site.spool, "--once", "--patience", "3",
                env={"WAYBILL_ADDRESS": wrong}))
        child.send_signal(signal.SIGINT)
        answer = self.answer(child, 1)
        self.assertEqual([answer["events"], answer["end"]], [0, "stopped"])

    def test_a_folder_that_is_kept_has_the_same_address_and_its_old_events_do_not_count(self):
        keep, port = self.site.root / "keep", free_port()
        options = ("--keep", keep, "--receive", f"127.0.0.1:{port}")
        child, address = self.expecting(PLAN, *options)
        self.assertEqual((keep / "address").read_text().strip(), address)
        self.assertEqual((keep / "address").stat().st_mode & 0o777, 0o600)
        self.ship(address, purchase(1), event(2, name="login"))
        child.kill()
        child.wait()
        child, again = self.expecting(PLAN, *options)
        self.assertEqual(again, address)
        self.ship(again, event(3, name="login"))
        child.send_signal(signal.SIGTERM)
        answer = self.answer(child, 1)
        self.assertEqual([entry["outcome"] for entry in answer["expect"]], ["missing", "came"])
        self.assertEqual([answer["events"], answer["unread"], (keep / "address").exists()], [1, [], False])


class AddressTests(DevTest):
    def test_the_page_shows_what_an_agent_sends(self):
        child = self.spawn()
        address, page = (child.stdout.readline().decode().strip() for _ in range(2))
        self.ship(address, purchase(1))
        root, _, token = page.partition("#t=")
        request = urllib.request.Request(f"{root}api/events", headers={"Authorization": f"Bearer {token}"})
        rows = until(lambda: json.load(urllib.request.urlopen(request, timeout=patience(10)))["rows"], 20, "a row")
        self.assertEqual([row["name"] for row in rows], ["purchase"])
        child.send_signal(signal.SIGTERM)
        self.assertEqual(child.wait(patience(20)), 0)
        self.assertEqual(list(self.temporary.iterdir()), [])


class MisuseTests(DevTest):
    def refused(self, code, text, *arguments):
        result = self.run_dev(*arguments)
        self.assertEqual(result.returncode, code, result.stderr.decode())
        self.assertIn(text, result.stderr.decode())
        self.assertEqual(list(self.temporary.iterdir()), [])

    def test_the_schema_has_the_members_that_are_known(self):
        schema = json.loads((REPOSITORY / "Protocol" / "plan.schema.json").read_text())
        entry = schema["properties"]["expect"]["items"]["properties"]
        never = schema["properties"]["never"]["items"]["properties"]
        for text, properties in [
                ('{"%s": 1}', schema["properties"]), ('{"expect": [{"name": "a", "%s": 1}]}', entry),
                ('{"expect": [{"name": "a", "count": {"%s": 1}}]}', entry["count"]["oneOf"][1]["properties"]),
                ('{"never": [{"name": "a", "%s": 1}]}', never)]:
            self.plan.write_text(text % "qqqqqqqqqqqqqqqqqqqqqqqqqq")
            known = ", ".join(name for name in properties if not name.startswith("$"))
            self.refused(65, f"known here: {known}", "--expect", self.plan)

    def test_a_taken_port_is_named_with_the_option_to_change(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            address = "127.0.0.1:%d" % taken.getsockname()[1]
            self.refused(74, "choose another address with --receive", "--receive", address)
            self.refused(74, "choose another address with --listen", "--listen", address)

    def test_options_that_do_not_go_together(self):
        for text, arguments in [
                ("leave out --data and --receiver", ["--data", "x"]), ("--for needs --expect", ["--for", "3"]),
                ("--for is 1 to 86400 seconds", ["--for", "0", "--expect", "x"]),
                ("--mask hides values", ["--mask", "user", "--expect", "x"])]:
            self.refused(64, text, *arguments)
        result = run("live", "--data", self.site.root, "--expect", "x")
        self.assertEqual([result.returncode, b"--expect needs --dev" in result.stderr], [64, True])

    def test_a_folder_of_something_else_is_left_alone(self):
        folder = self.site.root / "other"
        folder.mkdir()
        (folder / "notes").write_text("mine")
        self.refused(65, "name an empty directory", "--keep", folder)
        self.assertEqual([path.name for path in folder.iterdir()], ["notes"])

    def test_a_machine_without_a_network_is_told_what_to_give(self):
        command = ["unshare", "--user", "--map-root-user", "--net"]
        if subprocess.run([*command, "true"], check=False, capture_output=True).returncode:
            self.skipTest("this machine lets no one make a network namespace")
        result = subprocess.run([*command, binary(), "live", "--dev"], check=False, capture_output=True, env=self.env)
        self.assertEqual(result.returncode, 69)
        self.assertIn(b"--receive 127.0.0.1:4390", result.stderr)

    def test_an_interrupt_at_any_moment_of_the_start_leaves_nothing(self):
        self.plan.write_text(json.dumps(PLAN))
        for milliseconds in (0, 20, 50, 100, 200, 400):
            child = self.spawn("--expect", self.plan)
            try:
                child.wait(milliseconds / 1000)
            except subprocess.TimeoutExpired:
                pass
            child.send_signal(signal.SIGINT)
            code = child.wait(patience(20))
            # Before signals are caught nothing exists; after that, there is an answer.
            self.assertIn(code, (-signal.SIGINT, 1), self.log())
            output = child.stdout.read()
            self.assertEqual(bool(output), code == 1)
            self.assertEqual(list(self.temporary.iterdir()), [])
            if output:
                self.assertEqual(json.loads(output)["end"], "stopped")
