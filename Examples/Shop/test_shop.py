"""Calls every route of the shop and checks the lines in the spool.

    cd Examples/Shop && swift build && SHOP=.build/debug/shop python3 -m unittest test_shop

It needs only the built server, set in $SHOP; without it the tests are skipped.
"""
import collections
import concurrent.futures
import http.client
import http.cookies
import json
import os
import pathlib
import signal
import socket
import subprocess
import tempfile
import time
import unittest

# Members shared by all visitors' events, and members that none of them has.
OF_THE_PROCESS = ["writer", "bundle", "env"]
OF_ONE_USER = {"dt", "prev", "prev_ms", "session_n", "os", "tz"}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """A running shop with its own spool; end it with `stop`."""

    def __init__(self, root, environment=None):
        self.spool = pathlib.Path(root) / "spool"
        self.port = free_port()
        self.log = open(pathlib.Path(root) / "shop.log", "ab")
        self.process = subprocess.Popen(
            [os.environ["SHOP"], "--port", str(self.port), "--spool", str(self.spool)], stdin=subprocess.DEVNULL,
            stdout=self.log, stderr=self.log, env={**os.environ, **(environment or {})})
        deadline = time.monotonic() + 30
        while not self.is_listening():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise AssertionError("the shop did not start")
            time.sleep(0.02)

    def is_listening(self):
        with socket.socket() as client:
            return client.connect_ex(("127.0.0.1", self.port)) == 0

    def stop(self):
        """Sends SIGTERM and returns the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.log.close()

    def events(self):
        """All events in the spool, in the order of sequence numbers."""
        lines = [line for path in self.spool.glob("*.ndjson") for line in path.read_bytes().splitlines(True)]
        for line in lines:
            assert line.endswith(b"}\n"), line
        return sorted(map(json.loads, lines), key=lambda event: event["seq"])


class Browser:
    """A visitor who keeps cookies, and who allows everything unless the cookie `consent` is another."""

    def __init__(self, server, **cookies):
        self.connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
        self.cookies = {"consent": "all", **cookies}

    @property
    def cookie(self):
        return self.cookies["wb_anonymous"]

    def ask(self, method, path, body=None):
        """Returns status and body."""
        headers = {"content-type": "application/json"} if body is not None else {}
        headers["cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        self.connection.request(method, path, None if body is None else json.dumps(body), headers)
        response = self.connection.getresponse()
        for header in response.headers.get_all("set-cookie", []):
            for name, cookie in http.cookies.SimpleCookie(header).items():
                self.cookies[name] = cookie.value
        return response.status, response.read().decode()

    def close(self):
        self.connection.close()


class ShopTest(unittest.TestCase):
    def setUp(self):
        if not os.path.exists(os.environ.get("SHOP", "")):
            self.skipTest("there is no shop: build it (cd Examples/Shop && swift build) and name it in $SHOP")
        folder = tempfile.TemporaryDirectory(prefix="waybill-shop-")
        self.addCleanup(folder.cleanup)
        self.server = Server(folder.name)
        self.addCleanup(self.server.kill)

    def browser(self, **cookies):
        browser = Browser(self.server, **cookies)
        self.addCleanup(browser.close)
        return browser

    def stopped_events(self):
        self.assertEqual(self.server.stop(), 0)
        events = self.server.events()
        self.assertEqual([event["seq"] for event in events], list(range(1, len(events) + 1)))
        self.assertEqual([events[0]["name"], events[-1]["name"]], ["server_started", "server_stopped"])
        for event in events[1:-1]:
            self.assertFalse(OF_ONE_USER & event.keys(), "a visitor's event has nothing from the previous one")
        return events[1:-1]

    def test_every_route_tracks_its_event(self):
        ann = self.browser()
        self.assertEqual(ann.ask("GET", "/")[0], 200)
        self.assertEqual(len(json.loads(ann.ask("GET", "/products")[1])), 3)
        self.assertEqual(json.loads(ann.ask("GET", "/products/p-3")[1])["name"], "Käsereibe")
        self.assertEqual(ann.ask("POST", "/login", {"user": "ann", "newsletter": True}), (200, "Hello, ann."))
        for product in ("p-1", "p-3"):
            self.assertEqual(ann.ask("POST", "/cart", {"product": product})[0], 200)
        status, receipt = ann.ask("POST", "/checkout")
        self.assertEqual((status, json.loads(receipt)["cents"]), (200, 4889))
        events = self.stopped_events()
        few, all_three = ["mixpanel", "visits"], ["ga4", "mixpanel", "visits"]
        self.assertEqual(
            [(event["kind"], event["name"], event.get("screen"), event["providers"]) for event in events], [
                ("screen", "screen_view", "Home", few), ("screen", "screen_view", "Products", few),
                ("screen", "screen_view", "Product", all_three), ("user", "set_user", None, all_three),
                ("action", "login", "Login", all_three), ("action", "add_to_cart", "Product", all_three),
                ("action", "add_to_cart", "Product", all_three), ("event", "purchase", "Checkout", all_three)])
        self.assertEqual({event["anon"] for event in events}, {ann.cookie})
        self.assertEqual([event.get("user") for event in events], 3 * [None] + 5 * ["ann"])
        self.assertEqual(events[3]["traits"], {"newsletter": True})
        self.assertEqual(len({event["session"] for event in events}), 1)
        toaster = {"item_id": "p-1", "item_name": "Toaster, 2 slices", "price": 39.9, "quantity": 1}
        grater = {"item_id": "p-3", "item_name": "Käsereibe", "price": 8.99, "quantity": 1}
        seen = [("currency", "EUR"), ("value", 8.99), ("items", [grater])]
        self.assertEqual(list(events[2]["data"].items()), seen)
        self.assertEqual(list(events[6]["data"].items()), [*seen, ("cart_count", 2)])
        self.assertEqual(list(events[7]["data"].items()), [
            ("transaction_id", json.loads(receipt)["order"]), ("currency", "EUR"), ("value", 48.89),
            ("items", [toaster, grater])])
        self.assertEqual([event.get("log") for event in events], 3 * ["1.0"] + [None] + 3 * ["1.0"] + ["1.1"])

    def test_providers_get_their_own_names_and_fields(self):
        ann = self.browser()
        ann.ask("GET", "/products/p-1")
        ann.ask("POST", "/checkout")
        seen, refused = self.stopped_events()
        self.assertEqual(seen["overrides"], {"ga4": {"name": "view_item"}, "mixpanel": {"name": "Product Viewed"}})
        self.assertEqual(refused["name"], "checkout_refused")
        self.assertEqual(refused["overrides"], {"mixpanel": {"skip": True}})

    def test_what_is_refused_tracks_nothing_but_an_empty_checkout(self):
        ann = self.browser()
        asked = [("GET", "/nothing"), ("GET", "/products/p-9"), ("POST", "/cart", {"product": "p-9"}),
                 ("POST", "/cart", {"goods": "p-1"}), ("POST", "/login", {"user": ""}),
                 ("POST", "/login", {"user": "a" * 65}), ("POST", "/checkout")]
        self.assertEqual([ann.ask(*request)[0] for request in asked], [404, 404, 404, 400, 400, 400, 409])
        events = self.stopped_events()
        self.assertEqual([(event["name"], event["data"]["reason"]) for event in events],
                         [("checkout_refused", "empty_cart")])

    def test_a_cookie_that_the_shop_did_not_give_out_is_replaced(self):
        browser = self.browser(wb_anonymous="a" * 100)
        browser.ask("GET", "/")
        self.assertEqual(len(browser.cookie), 36)
        self.assertEqual([event["anon"] for event in self.stopped_events()], [browser.cookie])

    def test_an_app_instance_id_is_the_visitors_own(self):
        ids = ["0123456789abcdef0123456789ABCDEF", "f" * 32, "f" * 31, "f" * 33, "g" * 32, "", None]
        for number in ids:
            self.browser(**({} if number is None else {"ga4": number})).ask("GET", "/")
        self.assertEqual([event.get("ids") for event in self.stopped_events()],
                         [{"ga4": ids[0]}, {"ga4": ids[1]}] + 5 * [None])

    def test_what_a_visitor_allows_is_said_and_what_they_refuse_is_not_stored(self):
        for answer in ["all", "none", "analytics", "perhaps"]:
            browser = self.browser(consent=answer)
            self.assertEqual(browser.ask("POST", "/login", {"user": "user-" + answer})[0], 200)
            self.assertEqual(browser.ask("GET", "/")[0], 200)
        asked = {"user-all": {"analytics": True, "ads": True}, "user-analytics": {"analytics": True, "ads": False}}
        self.assertEqual([(event["user"], event.get("consent")) for event in self.stopped_events()],
                         [pair for pair in asked.items() for _ in range(3)])

    def test_visitors_at_the_same_time_are_told_apart(self):
        visitors, rounds = 8, 25

        def visit(number):
            browser = Browser(self.server)
            try:
                browser.ask("POST", "/login", {"user": f"user-{number}"})
                for _ in range(rounds):
                    browser.ask("GET", "/products/p-2")
                    browser.ask("POST", "/cart", {"product": "p-2"})
                    browser.ask("POST", "/checkout")
                return f"user-{number}", browser.cookie
            finally:
                browser.close()

        with concurrent.futures.ThreadPoolExecutor(visitors) as pool:
            cookies = dict(pool.map(visit, range(visitors)))
        self.assertEqual(len(set(cookies.values())), visitors)
        events = self.stopped_events()
        counts = collections.Counter((event["name"], event["user"], event["anon"]) for event in events)
        times = {"screen_view": rounds, "add_to_cart": rounds, "purchase": rounds, "set_user": 1, "login": 1}
        self.assertEqual(counts, {(name, *visitor): count for name, count in times.items()
                                  for visitor in cookies.items()})
        self.assertEqual(len({tuple(event[key] for key in OF_THE_PROCESS) for event in events}), 1)

    def test_a_killed_server_has_stored_what_it_answered(self):
        ann = self.browser()
        for _ in range(50):
            self.assertEqual(ann.ask("GET", "/")[0], 200)
        self.server.process.kill()
        self.server.process.wait()
        self.assertEqual([event["name"] for event in self.server.events()], ["server_started"] + 50 * ["screen_view"])


if __name__ == "__main__":
    unittest.main()
