"""`waybill.js` in a real browser: page views, queue, offline and back, closed tabs, storage that is full, consent."""

import functools
import gzip
import http.server
import threading
import unittest
import urllib.request

import browser
from harness import SiteTest, free_port, until
from test_ingest import KEY, Door


class Shop(http.server.SimpleHTTPRequestHandler):
    """A site with one page under every path."""

    def __init__(self, *arguments, page, **options):
        self.page = page
        super().__init__(*arguments, **options)

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(self.page)

    def log_message(self, *_):
        pass


@unittest.skipUnless(browser.is_installed(), "there is no browser here")
class ScriptTests(SiteTest):
    def setUp(self):
        super().setUp()
        self.door = Door(self.site).start()
        self.browser = browser.Browser()
        self.addCleanup(self.browser.close)

    def shop(self, attributes=""):
        page = (f'<!doctype html><title>Shop</title><script async src="http://127.0.0.1:{self.door.port}/waybill.js" '
                f'data-key="{KEY}" {attributes}></script>').encode()
        port = free_port()
        server = http.server.ThreadingHTTPServer(("127.0.0.1", port), functools.partial(Shop, page=page))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return f"http://127.0.0.1:{port}"

    def named(self, name):
        return [line for line in self.door.lines() if line["name"] == name]

    def open(self, url):
        page = self.browser.page(url)
        page.until("window.waybill && window.waybill.track")
        return page

    def test_it_is_small(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.door.port}/waybill.js") as answer:
            self.assertLessEqual(len(gzip.compress(answer.read(), 9)), 3000)

    def test_views_calls_and_people(self):
        page = self.open(self.shop() + "/start?x=1")
        page.evaluate("waybill.track('bought', {price: 9.5}); waybill.identify('u-1', {plan: 'pro'}); "
                      "history.pushState({}, '', '/cart'); 0")
        until(lambda: len(self.door.lines()) == 4, 20, "four events")
        views = sorted(self.named("screen_view"), key=lambda line: line["seq"])
        self.assertEqual([line["screen"] for line in views], ["/start", "/cart"])
        self.assertEqual(self.named("bought")[0]["data"]["price"], 9.5)
        self.assertEqual((self.named("set_user")[0]["user"], self.named("set_user")[0]["traits"]), ("u-1", {"plan": "pro"}))
        self.assertEqual(len({line["anon"] for line in self.door.lines()}), 1)
        self.assertEqual(page.evaluate("document.cookie"), "")
        page.until("!Object.keys(localStorage).some(k => k.startsWith('waybill.e.'))")

    def test_a_door_that_is_away_loses_nothing_and_repeats_nothing(self):
        url = self.shop()
        page = self.open(url)
        until(lambda: self.named("screen_view"), 20, "the view")
        self.door.process.kill()
        page.evaluate("for (let n = 0; n < 120; n++) waybill.track('bought', {n}); 0")
        # A beacon of a hidden page, without an answer, and the tab is gone.
        page.close()
        self.door.start()
        page = self.open(url)
        until(lambda: len(self.named("bought")) >= 120, 30, "all events")
        page.until("!Object.keys(localStorage).some(k => k.startsWith('waybill.e.'))")
        self.assertEqual(sorted(line["data"]["n"] for line in self.named("bought")), list(range(120)))

    def test_ten_tabs_share_the_queue(self):
        url = self.shop()
        tabs = [self.open(url) for _ in range(10)]
        for number, tab in enumerate(tabs):
            tab.evaluate(f"for (let n = 0; n < 5; n++) waybill.track('bought', {{n: n + {number * 5}}}); 0")
        until(lambda: len(self.named("bought")) >= 50, 30, "all events")
        tabs[0].until("!Object.keys(localStorage).some(k => k.startsWith('waybill.e.'))")
        self.assertEqual(sorted(line["data"]["n"] for line in self.named("bought")), list(range(50)))
        self.assertEqual(len({line["anon"] for line in self.door.lines()}), 1)

    def test_storage_that_is_full_leaves_memory(self):
        page = self.open(self.shop("data-pages=manual"))
        page.evaluate("try { for (let i = 0, s = 'x'.repeat(100000);; i++) localStorage.setItem('f' + i, s); } catch (e) { } "
                      "try { for (let i = 0;; i++) localStorage.setItem('g' + i, 'x'.repeat(100)); } catch (e) { } "
                      "waybill.track('bought', {n: 1, pad: 'y'.repeat(2000)}); 0")
        until(lambda: self.named("bought"), 20, "the event")

    def test_nothing_is_stored_or_sent_without_consent(self):
        page = self.open(self.shop("data-consent=required"))
        page.evaluate("waybill.track('early', {}); 0")
        self.assertEqual(page.evaluate("localStorage.length"), 0)
        page.evaluate("waybill.consent(true); waybill.track('late', {}); 0")
        until(lambda: self.named("late"), 20, "the event")
        self.assertEqual((self.named("early"), len(self.named("screen_view"))), ([], 1))
        page.evaluate("waybill.consent(false); waybill.track('never', {}); 0")
        self.assertEqual(page.evaluate("Object.keys(localStorage).filter(k => k.startsWith('waybill.')).length"), 0)


if __name__ == "__main__":
    unittest.main()
