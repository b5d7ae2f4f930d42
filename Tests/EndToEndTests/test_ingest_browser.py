"""`waybill.js` in a real browser: page views, queue and its bound, offline and back, closed tabs, requests that are blocked,
storage that is full, cookies, consent."""

import gzip
import json
import unittest
import urllib.request

import browser
from harness import Handler, SiteTest, serve, until
from test_ingest import KEY, Door


# How many events wait in the site's storage.
KEPT = "Object.keys(localStorage).filter(k => k.startsWith('waybill.e.')).length"


def track(numbers):
    return f"for (let n = {numbers.start}; n < {numbers.stop}; n++) waybill.track('bought', {{n}}); 0"


class Shop(Handler):
    """A site with one page under every path."""

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(self.server.page)


@unittest.skipUnless(browser.is_installed(), "there is no browser here")
class ScriptTests(SiteTest):
    def setUp(self):
        super().setUp()
        self.door = Door(self.site).start()
        self.browser = browser.Browser()
        self.addCleanup(self.browser.close)

    def shop(self, attributes="", before="", more=""):
        page = (f'<!doctype html><title>Shop</title><script>{before}</script>'
                f'<script async src="http://127.0.0.1:{self.door.port}/waybill.js" data-key="{KEY}" {attributes}></script>{more}').encode()
        return serve(self, Shop, page=page).url

    def named(self, name):
        return [line for line in self.door.lines() if line["name"] == name]

    def open(self, url):
        page = self.browser.page(url)
        page.until("window.waybill && window.waybill.track")
        return page

    def network(self, page, is_offline):
        page.call("Network.emulateNetworkConditions", offline=is_offline, latency=0, downloadThroughput=-1, uploadThroughput=-1)
        page.until(f"navigator.onLine !== {json.dumps(is_offline)}")

    def until_it_tries(self, page):
        """Waits until a page has begun to send, whatever becomes of it."""
        until(lambda: any(url.endswith("/v1/b") for url in page.requests), 20, "the page sends")

    def assert_sent(self, page, numbers):
        """Nothing waits any more, and these events have arrived, each once."""
        page.until(f"{KEPT} === 0")
        self.assertEqual(sorted(line["data"]["n"] for line in self.named("bought")), list(numbers))

    def test_it_is_small(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.door.port}/waybill.js") as answer:
            self.assertLessEqual(len(gzip.compress(answer.read(), 9)), 3600)

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

    def test_a_blocked_door_leaves_the_site_its_storage(self):
        page = self.open(self.shop("data-pages=manual"))
        page.call("Network.setBlockedURLs", urls=["*/v1/b"])
        page.evaluate(track(range(3000)))
        self.assertEqual(page.evaluate(f"[{KEPT}, waybill.dropped]"), [1000, 2000])
        page.evaluate("localStorage.setItem('cart', 'x'.repeat(100000)); 0")
        self.assertEqual(page.evaluate("localStorage.getItem('cart').length"), 100_000)
        self.until_it_tries(page)
        self.assertEqual(self.named("bought"), [])
        page.call("Network.setBlockedURLs", urls=[])
        page.evaluate("waybill.flush(); 0")
        self.assert_sent(page, range(2000, 3000))

    def test_long_events_wait_in_a_megabyte(self):
        page = self.open(self.shop("data-pages=manual"))
        page.call("Network.setBlockedURLs", urls=["*/v1/b"])
        page.evaluate(
            "for (let n = 0; n < 100; n++) waybill.track('bought', {n, pad: 'y'.repeat(29500)});"
            # It would not have room alone, and takes none from the others.
            "waybill.track('huge', {pad: 'y'.repeat(1100000)}); 0")
        self.assertEqual(page.evaluate(f"[{KEPT}, waybill.dropped]"), [33, 68])
        page.call("Network.setBlockedURLs", urls=[])
        page.evaluate("waybill.flush(); 0")
        self.assert_sent(page, range(67, 100))

    def test_memory_has_the_same_bound(self):
        page = self.open(self.shop("data-pages=manual"))
        page.call("Network.setBlockedURLs", urls=["*/v1/b"])
        page.evaluate("Storage.prototype.setItem = () => { throw new Error('full') }; 0")
        page.evaluate(track(range(1500)))
        self.assertEqual(page.evaluate(f"[{KEPT}, waybill.dropped]"), [0, 500])
        page.call("Network.setBlockedURLs", urls=[])
        page.evaluate("waybill.flush(); 0")
        until(lambda: len(self.named("bought")) >= 1000, 30, "all events")
        self.assertEqual(sorted(line["data"]["n"] for line in self.named("bought")), list(range(500, 1500)))

    def test_tabs_share_the_bound(self):
        url = self.shop("data-pages=manual")
        tabs = [self.open(url) for _ in range(2)]
        for tab in tabs:
            tab.call("Network.setBlockedURLs", urls=["*/v1/b"])
        for number, tab in enumerate(tabs):
            tab.evaluate(track(range(number * 600, number * 600 + 600)))
        # A tab sees late what another one has written, and counts again before it sends.
        tabs[1].until(f"{KEPT} === 1000")
        for tab in tabs:
            tab.call("Network.setBlockedURLs", urls=[])
        tabs[1].evaluate("waybill.flush(); 0")
        self.assert_sent(tabs[1], range(200, 1200))

    def test_events_without_a_pause_are_sent(self):
        page = self.open(self.shop("data-pages=manual"))
        page.evaluate("let n = 0; window.tracking = setInterval(() => waybill.track('bought', {n: n++}), 20); 0")
        until(lambda: len(self.named("bought")) >= 20, 20, "events of a page that tracks without a pause")
        count = page.evaluate("clearInterval(tracking); n")
        self.assert_sent(page, range(count))

    def test_offline_and_back(self):
        page = self.open(self.shop("data-pages=manual"))
        self.network(page, is_offline=True)
        page.evaluate(track(range(120)))
        self.until_it_tries(page)
        self.assertEqual((self.named("bought"), page.evaluate(KEPT)), ([], 120))
        self.network(page, is_offline=False)
        self.assert_sent(page, range(120))
        # While it sends, too.
        for start in range(120, 720, 200):
            page.evaluate(track(range(start, start + 200)))
            until(lambda: len(self.named("bought")) > start, 20, "the first of them")
            self.network(page, is_offline=True)
            self.network(page, is_offline=False)
        self.assert_sent(page, range(720))

    def test_a_fetch_that_throws_is_a_request_that_failed(self):
        page = self.open(self.shop("data-pages=manual"))
        for number, stub in enumerate(["throw new TypeError('blocked')", "return undefined", "return {}"]):
            page.evaluate(f"window.real ??= window.fetch; window.calls = 0; window.fetch = () => {{ calls++; {stub}; }}; 0")
            page.evaluate(track(range(number * 60, number * 60 + 60)))
            page.until("calls >= 2")
            self.assertEqual(page.evaluate(KEPT), 60)
            page.evaluate("window.fetch = real; 0")
            self.assert_sent(page, range(number * 60 + 60))

    def test_a_bad_call_costs_itself_and_never_throws(self):
        calls = ("['trak', 'typo'], 'track', null, 7, ['track'], ['track', 'first', {n: 0}], ['track', 'big', {n: 10n}], "
                 "['track', 'cyclic', cyclic], ['track', 'thrown', {toJSON() { throw new Error('no') }}], ['track', 'last', {n: 1}]")
        page = self.open(self.shop("data-pages=manual", f"const cyclic = {{}}; cyclic.own = cyclic; window.waybill = [{calls}];"))
        until(lambda: self.named("last"), 20, "the last call")
        self.assertEqual((len(self.named("first")), self.named("cyclic"), self.named("big")), (1, [], []))
        failed = page.evaluate("waybill.failed")
        self.assertGreaterEqual(failed, 6)
        self.assertEqual(page.evaluate(
            "const c = {}; c.c = c; waybill.track('x', c); waybill.identify('u', {n: 1n}); "
            "waybill.page('p', {get x() { throw 1 }}); waybill.push(['nothing']); 'went on'"), "went on")
        self.assertEqual(page.evaluate("waybill.failed"), failed + 4)
        self.assertEqual(page.evaluate("waybill.dropped"), 0)

    def test_without_storage_people_stay_for_the_page(self):
        page = self.open(self.shop("data-pages=manual"))
        page.evaluate("Storage.prototype.setItem = () => { throw new Error('full') }; "
                      "waybill.reset(); waybill.identify('u-9'); waybill.track('bought', {n: 1}); waybill.track('bought', {n: 2}); 0")
        until(lambda: len(self.named("bought")) == 2, 20, "the events")
        self.assertEqual({line["user"] for line in self.named("bought")}, {"u-9"})
        self.assertEqual(len({line["anon"] for line in self.named("bought")}), 1)
        page.evaluate("waybill.reset(); waybill.track('left', {}); 0")
        until(lambda: self.named("left"), 20, "the event after it")
        self.assertNotIn("user", self.named("left")[0])

    def test_hash_routes_and_what_comes_back_are_views(self):
        page = self.open(self.shop() + "/shop")
        page.evaluate("location.hash = '#/cart'; 0")
        until(lambda: len(self.named("screen_view")) == 2, 20, "the view of a route")
        # A place on the page is no page.
        page.evaluate("location.hash = '#/pay'; setTimeout(() => { location.hash = '#reviews'; }, 50); 0")
        until(lambda: len(self.named("screen_view")) >= 3, 20, "the view of another route")
        # Chromium's cache of pages is a browser's own affair; what it tells the page is this.
        page.evaluate("dispatchEvent(new PageTransitionEvent('pageshow', {persisted: true})); "
                      "dispatchEvent(new PageTransitionEvent('pageshow', {persisted: false})); waybill.track('end', {}); 0")
        until(lambda: self.named("end"), 20, "the last event")
        views = sorted(self.named("screen_view"), key=lambda line: line["seq"])
        found = [line["data"].get("url", "") for line in views]
        self.assertTrue(found[0].endswith("/shop") and found[1].endswith("/shop#/cart") and found[2].endswith("/shop#/pay"), found)
        self.assertGreaterEqual(len(views), 4)
        # Each view of a route names the page before it.
        self.assertEqual([line["data"].get("referrer", "") for line in views[1:3]], found[:2])

    def test_a_second_tag_a_module_another_name_and_a_wish(self):
        tag = f'<script async src="http://127.0.0.1:{self.door.port}/waybill.js" data-key="{KEY}"></script>'
        page = self.open(self.shop(more=tag))
        page.evaluate("waybill.track('once', {}); 0")
        until(lambda: self.named("once"), 20, "the event")
        self.assertEqual((len(self.named("screen_view")), len(self.named("once"))), (1, 1))
        page = self.open(self.shop("type=module"))
        page.evaluate("waybill.track('module', {}); 0")
        until(lambda: self.named("module"), 20, "an event of a module")
        page = self.open(self.shop("data-gpc=respect", "Object.defineProperty(navigator, 'globalPrivacyControl', {get: () => true});"))
        page.evaluate("waybill.track('unwanted', {}); 0")
        self.assertEqual(page.evaluate("Object.keys(localStorage).filter(k => k.startsWith('waybill.')).length"), 0)
        page.evaluate("waybill.consent(true); waybill.track('wanted', {}); 0")
        until(lambda: self.named("wanted"), 20, "an event with consent")
        self.assertEqual(self.named("unwanted"), [])

    def test_pages_that_isolate_themselves_may_load_it(self):
        for path in ("/waybill.js", f"/v1/pixel.gif?key={KEY}&event=seen"):
            with urllib.request.urlopen(f"http://127.0.0.1:{self.door.port}{path}") as answer:
                self.assertEqual(answer.headers["Cross-Origin-Resource-Policy"], "cross-origin")
                self.assertEqual(answer.headers["Vary"], "Origin")
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.door.port}/waybill.js", headers={"Origin": "https://shop.example.com"})
        with urllib.request.urlopen(request) as answer:
            self.assertEqual(answer.headers["Access-Control-Expose-Headers"], "Retry-After")
            self.assertEqual(answer.headers.get_all("Vary"), ["Origin"])

    def test_a_cookie_keeps_the_visitor(self):
        url = self.shop("data-cookie")
        page = self.open(url + "/first")
        until(lambda: self.named("screen_view"), 20, "the view")
        visitor = self.named("screen_view")[0]["anon"]
        page.until(f"{KEPT} === 0")
        self.assertEqual(page.evaluate("document.cookie"), f"waybill={visitor}")
        page.evaluate("localStorage.clear(); 0")
        page = self.open(url + "/second")
        until(lambda: len(self.named("screen_view")) == 2, 20, "the second view")
        self.assertEqual({line["anon"] for line in self.named("screen_view")}, {visitor})
        page.evaluate("waybill.reset(); 0")
        self.assertEqual(page.evaluate("document.cookie"), "")
        page.evaluate("waybill.track('bought', {n: 0}); 0")
        until(lambda: self.named("bought"), 20, "the event")
        self.assertNotEqual(self.named("bought")[0]["anon"], visitor)

    def test_nothing_is_stored_or_sent_without_consent(self):
        page = self.open(self.shop("data-consent=required"))
        page.evaluate("waybill.track('early', {}); 0")
        self.assertEqual(page.evaluate("localStorage.length"), 0)
        page.evaluate("waybill.consent(true); waybill.track('late', {}); 0")
        until(lambda: self.named("late"), 20, "the event")
        self.assertEqual((self.named("early"), len(self.named("screen_view"))), ([], 1))
        page.evaluate("waybill.consent(false); waybill.track('never', {}); 0")
        self.assertEqual(page.evaluate("Object.keys(localStorage).filter(k => k.startsWith('waybill.')).length"), 0)
