"""What a receiver says about itself at `/status`: to its own machine, and when something became durable."""

import json
import socket
import threading
import time

from harness import free_port, patience, until
from health import ask
from test_agent import AgentTest


class StatusTests(AgentTest):
    def setUp(self):
        super().setUp()
        self.metrics = free_port()
        self.receiver = self.site.receiver("--metrics", f"127.0.0.1:{self.metrics}", exports="csv,ga4")
        until(lambda: ask(self.metrics, "/readyz"), 20, "the receiver serves metrics")

    def status(self, after=None):
        code, fields, text = ask(self.metrics, "/status" if after is None else f"/status?after={after}")
        self.assertEqual((code, fields["Content-Type"]), (200, "application/json"))
        return json.loads(text)

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
        self.assertEqual(ask(self.metrics, "/metrics")[0], 200)
        codes = []
        for connection in waiting:
            connection.settimeout(patience(20))
            codes.append(connection.recv(12).decode().split()[1])
            connection.close()
        self.assertEqual(sorted(codes), ["200"] * 4 + ["503"] * 4)

    def test_a_stop_answers_who_waits(self):
        """A receiver that ends does not wait for those who ask."""
        end = self.status()["journal_end"]
        with socket.create_connection(("127.0.0.1", self.metrics)) as waiting:
            waiting.sendall(f"GET /status?after={end} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            self.assertEqual(self.receiver.stop(), 0)
