"""What a receiver says about itself at `/status`: to its own machine, and when something became durable."""

import http.client
import json
import socket
import threading
import time
import unittest

from harness import free_port, patience, until
from test_agent import AgentTest


class StatusTests(AgentTest):
    def setUp(self):
        super().setUp()
        self.metrics = free_port()
        self.receiver = self.site.receiver("--metrics", f"127.0.0.1:{self.metrics}", exports="csv,ga4")
        until(self.answers, 20, "the receiver serves metrics")

    def answers(self):
        try:
            return self.ask("/readyz")
        except OSError:
            return None

    def ask(self, path="/status", headers=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.metrics, timeout=patience(20))
        try:
            connection.request("GET", path, headers=headers or {})
            answer = connection.getresponse()
            return answer.status, answer.getheader("Content-Type"), answer.read().decode()
        finally:
            connection.close()

    def status(self, after=None):
        code, kind, text = self.ask("/status" if after is None else f"/status?after={after}")
        self.assertEqual((code, kind), (200, "application/json"))
        return json.loads(text)

    def test_it_names_agents_and_what_became_of_lines(self):
        """While an agent is connected its row has its streams and lines; projections are counted with reasons."""
        self.append("web.json", self.maker.foreign(300))
        agent = self.site.agent(*self.globbing(), "--name", "host-1")
        status = until(
            lambda: next((found for found in [self.status()] if any(a["lines"] == 300 for a in found["agents"])), None),
            30, "300 lines of one agent")
        row = status["agents"][0]
        self.assertEqual((len(status["agents"]), row["name"], row["streams"]), (1, "host-1", 1))
        self.assertIn("127.0.0.1", row["peer"])
        self.assertTrue(row["since"] <= row["last_batch"] <= status["time"] <= time.time() * 1000 + 1000)
        self.assertGreater(status["journal_end"], 0)
        # The counters move with checkpoints.
        projections = until(self.accounted, 60, "every line has an outcome")
        self.assertEqual(projections["archive"]["archived"], 300)
        self.assertEqual(projections["csv"]["exported"], 300)
        self.assertEqual(projections["ga4"]["refused"], {"ga4.no_app_instance_id": 300})
        self.assertEqual({entry["unaccounted"] for entry in projections.values()}, {0})
        self.assertEqual(agent.stop(), 0)
        until(lambda: self.status()["agents"] == [], 20, "the agent is gone")

    def accounted(self):
        found = {entry["name"]: entry for entry in self.status()["projections"]}
        return found if found and all(entry["lines"] == 300 for entry in found.values()) else None

    def test_who_asks_for_more_waits_for_it(self):
        """`after` the end waits until something became durable; `after` less is answered at once."""
        end = self.status()["journal_end"]
        self.assertEqual(self.status(after=end - 1)["journal_end"], end)
        found = []
        waiter = threading.Thread(target=lambda: found.append(self.status(after=end)))
        waiter.start()
        # Whether it already waits or not, it hears of these lines.
        self.append("web.json", self.maker.foreign(3))
        self.site.once(*self.globbing())
        waiter.join(patience(20))
        self.assertEqual(len(found), 1)
        self.assertGreater(found[0]["journal_end"], end)

    def test_nothing_new_is_said_after_eight_seconds(self):
        """A request that waits in vain is answered with the same end, before its connection's time is over."""
        end = self.status()["journal_end"]
        start = time.monotonic()
        self.assertEqual(self.status(after=end)["journal_end"], end)
        self.assertGreater(time.monotonic() - start, 7.5)

    def test_waiting_requests_leave_room_for_others(self):
        """Of eight that would wait four may, and the others are told to come later; metrics are served meanwhile."""
        end = self.status()["journal_end"]
        waiting = [socket.create_connection(("127.0.0.1", self.metrics)) for _ in range(8)]
        for connection in waiting:
            connection.sendall(f"GET /status?after={end} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        self.assertEqual(self.ask("/metrics")[0], 200)
        codes = []
        for connection in waiting:
            connection.settimeout(patience(20))
            codes.append(connection.recv(12).decode().split()[1])
            connection.close()
        self.assertEqual(sorted(codes), ["200"] * 4 + ["503"] * 4)

    def test_who_leaves_makes_room(self):
        """The place of a connection that ended is free at once."""
        end = self.status()["journal_end"]
        for _ in range(12):
            with socket.create_connection(("127.0.0.1", self.metrics)) as connection:
                connection.sendall(f"GET /status?after={end} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        until(lambda: self.ask(f"/status?after={end}")[0] == 200, 20, "there is room")

    def test_a_page_of_another_site_gets_nothing(self):
        """A name that leads to this machine is not this machine's own; nor is a text a position."""
        for host in ["evil.example.com", "evil.example.com:80", "127.0.0.1.evil.example", "[::1].evil"]:
            code, kind, text = self.ask("/status", {"Host": host})
            self.assertEqual((code, kind.split(";")[0]), (403, "text/plain"), host)
            self.assertIn("own machine", text)
        self.assertEqual(self.ask("/status", {"Host": f"localhost:{self.metrics}"})[0], 200)
        for query in ["after=", "after=x", "after=-1", "after=1&x=2", "before=1", "after=99999999999999999999"]:
            self.assertEqual(self.ask(f"/status?{query}")[0], 400, query)

    def test_a_stop_answers_who_waits(self):
        """A receiver that ends does not wait for those who ask."""
        end = self.status()["journal_end"]
        with socket.create_connection(("127.0.0.1", self.metrics)) as waiting:
            waiting.sendall(f"GET /status?after={end} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            self.assertEqual(self.receiver.stop(), 0)


class ElsewhereTests(AgentTest):
    def test_another_machine_is_told_where_to_ask(self):
        """A peer whose address is not a loopback one gets 403, and nothing of the agents."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                probe.connect(("192.0.2.1", 9))
                address = probe.getsockname()[0]
            except OSError:
                self.skipTest("this machine has no address of its own")
        if address.startswith("127."):
            self.skipTest("this machine has no address of its own")
        port = free_port()
        self.site.receiver("--metrics", f"0.0.0.0:{port}")

        def answer():
            connection = http.client.HTTPConnection(address, port, timeout=10)
            try:
                connection.request("GET", "/status", headers={"Host": "localhost"})
                found = connection.getresponse()
                return found.status, found.read().decode()
            except OSError:
                return None

        code, text = until(answer, 20, "the receiver serves metrics")
        self.assertEqual(code, 403)
        self.assertIn("http://127.0.0.1", text)


if __name__ == "__main__":
    unittest.main()
