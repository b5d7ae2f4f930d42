"""What receiver, agent and live page tell the service manager that started them: datagrams of sd_notify."""

import os
import re
import signal
import socket
import time

from harness import SiteTest, free_port, patience, until


class Manager:
    """A service manager: it has a socket, and notes what comes."""

    def __init__(self, folder, is_abstract=False):
        self.address = f"@waybill-test-{os.getpid()}-{time.monotonic_ns()}" if is_abstract else str(folder / "notify")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind("\0" + self.address[1:] if is_abstract else self.address)
        self.socket.settimeout(0.05)
        self.heard = []

    def environment(self, watchdog_seconds=None):
        found = {"NOTIFY_SOCKET": self.address}
        if watchdog_seconds:
            found["WATCHDOG_USEC"] = str(int(watchdog_seconds * 1e6))
        return found

    def listen(self):
        """Notes what has come by now."""
        while True:
            try:
                self.heard.append(self.socket.recv(4096).decode())
            except TimeoutError:
                return self.heard

    def until(self, text, after=0, seconds=30):
        """Waits until a notice has a line; returns its place."""
        def found():
            notices = self.listen()
            return next((place + 1 for place in range(after, len(notices)) if text in notices[place].split("\n")), None)
        return until(found, seconds, f"'{text}' is told") - 1


class ServiceTest(SiteTest):
    def manager(self, **options):
        manager = Manager(self.site.root, **options)
        self.addCleanup(manager.socket.close)
        return manager


class ReceiverTests(ServiceTest):
    def configuration(self, text=""):
        path = self.site.root / "waybill.yaml"
        path.write_text(f"receiver:\n  data: {self.site.data}\n  listen: {self.site.address}\n{text}", encoding="utf-8")
        return path

    def start(self, manager, path, watchdog_seconds=None):
        return self.site.start(
            "receiver", "--config", path, log="receiver.log", env=manager.environment(watchdog_seconds))

    def test_it_is_ready_when_it_listens_and_tells_reloads_and_its_stop(self):
        for is_abstract in (False, True):
            manager, path = self.manager(is_abstract=is_abstract), self.configuration()
            receiver = self.start(manager, path)
            ready = manager.until("READY=1")
            # Who waits for READY=1 can connect, once.
            socket.create_connection(("127.0.0.1", self.site.port), patience(1)).close()
            self.assertEqual(ready, 0)
            self.assertRegex(manager.heard[0], rf"^READY=1\nSTATUS=listening on .*:{self.site.port}$")
            path = self.configuration("  retention: {days: 30}\n")
            before = time.monotonic_ns() // 1000
            receiver.child.send_signal(signal.SIGHUP)
            reloading = manager.until("RELOADING=1", after=1)
            told = int(re.fullmatch(r"RELOADING=1\nMONOTONIC_USEC=(\d+)", manager.heard[reloading])[1])
            self.assertTrue(before <= told <= time.monotonic_ns() // 1000, told)
            manager.until("READY=1", after=reloading)
            self.assertIn("retention.days: keep all -> 30", receiver.log())
            # A file with problems ends the reload all the same.
            self.configuration("  retention: {day: 30}\n")
            receiver.child.send_signal(signal.SIGHUP)
            manager.until("READY=1", after=manager.until("RELOADING=1", after=reloading + 1))
            receiver.terminate()
            manager.until("STOPPING=1")
            self.assertEqual(receiver.stop(), 0)
            self.assertFalse([text for text in manager.listen() if "WATCHDOG" in text], "no watchdog was asked for")
            if not is_abstract:
                os.unlink(manager.address)

    def test_its_committing_thread_goes_on(self):
        manager = self.manager()
        receiver = self.start(manager, self.configuration(), watchdog_seconds=0.3)
        until(lambda: manager.listen().count("WATCHDOG=1") >= 5, 20, "heartbeats")
        # All of its threads stand still.
        receiver.child.send_signal(signal.SIGSTOP)
        time.sleep(0.2)
        count = manager.listen().count("WATCHDOG=1")
        time.sleep(0.5)
        self.assertEqual(manager.listen().count("WATCHDOG=1"), count)
        receiver.child.send_signal(signal.SIGCONT)
        until(lambda: manager.listen().count("WATCHDOG=1") > count, 20, "heartbeats")

    def test_one_that_cannot_listen_is_never_ready(self):
        manager = self.manager()
        with socket.socket() as other:
            other.bind(("127.0.0.1", self.site.port))
            other.listen()
            receiver = self.start(manager, self.configuration())
            self.assertEqual(receiver.wait(), 74)
        self.assertFalse([text for text in manager.listen() if "READY" in text])


class AgentTests(ServiceTest):
    def test_it_is_ready_without_a_receiver_and_says_what_it_is_connected_to(self):
        manager = self.manager()
        agent = self.site.agent(env=manager.environment(watchdog_seconds=0.3))
        self.assertEqual(manager.until("READY=1"), 0)
        self.assertEqual(manager.heard[0], f"READY=1\nSTATUS=connecting to {self.site.address}")
        until(lambda: any("STATUS=not connected: " in text for text in manager.listen()), 20, "why it is not connected")
        self.site.receiver("--stop-seconds", "0")
        until(lambda: any(text.startswith("STATUS=connected to ") for text in manager.listen()), 30, "it is connected")
        count = manager.listen().count("WATCHDOG=1")
        until(lambda: manager.listen().count("WATCHDOG=1") > count + 2, 20, "heartbeats")
        agent.terminate()
        manager.until("STOPPING=1")
        self.assertEqual(agent.stop(), 0)

    def test_one_whose_state_is_in_use_is_never_ready(self):
        first, second = self.manager(), None
        self.site.agent(env=first.environment())
        first.until("READY=1")
        second = self.manager(is_abstract=True)
        agent = self.site.agent(env=second.environment())
        self.assertNotEqual(agent.wait(), 0)
        self.assertFalse([text for text in second.listen() if "READY" in text])


class LiveTests(ServiceTest):
    def test_it_is_ready_when_it_listens(self):
        self.site.receiver("--stop-seconds", "0")
        manager, port = self.manager(), free_port()
        live = self.site.start(
            "live", "--data", self.site.data, "--listen", f"127.0.0.1:{port}", log="live.log",
            env=manager.environment(watchdog_seconds=0.3))
        manager.until("READY=1")
        self.assertIn(f"STATUS=listening on 127.0.0.1:{port}", manager.heard[0])
        socket.create_connection(("127.0.0.1", port), patience(1)).close()
        until(lambda: manager.listen().count("WATCHDOG=1") > 2, 20, "heartbeats")
        live.terminate()
        manager.until("STOPPING=1")
        self.assertEqual(live.stop(), 0)
