"""The live page in a browser, over a real receiver: the list of events, who may see it, and what survives a kill.

Nothing here waits for a time to pass: each step waits until the page shows what it must show.
`test_live_views` has the other views, and `live_pictures.py` makes the pictures of Documentation/live.md.
"""

import json
import urllib.parse

from harness import REPOSITORY, free_port
from live_site import ROWS, LiveSite, LiveTest, event, screen

PAGE = REPOSITORY / "Sources" / "Programs" / "WaybillLive" / "Page"
BYTES_MAX = 100_000
POLICY = [
    "default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'", "img-src data:",
    "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'",
]


class FeedTests(LiveTest):
    """Events arrive by themselves, and the list does what its reader wants."""

    def test_rows_appear_with_what_they_are(self):
        page = self.filtered()
        self.send(2)
        self.shows(page, 2)
        first = page.text(f"{ROWS}:first-child")
        for text in [f"{self.name} 2", "action", "on Cart", "u-1"]:
            self.assertIn(text, first)
        self.assertRegex(first, r"\d\d:\d\d:\d\d\.\d{3}")
        self.assertEqual(page.texts(f"{ROWS} .event-link"), [f"{self.name} 2", f"{self.name} 1"])

    def test_a_page_that_is_opened_before_the_first_event_shows_it(self):
        site = LiveSite()
        self.addCleanup(site.close)
        site.start_receiver()
        _, address = site.start_live()
        page = self.browser.page(address, self.browser.context())
        page.until("document.getElementById('state').dataset.state === 'live'")
        self.assertIn("No events yet.", page.text("#feed-end"))
        site.send(event("the first"))
        self.shows(page, 1)
        self.assertEqual(page.problems, [])
        page.close()

    def test_a_screen_is_shown_by_its_name_and_where_one_came_from(self):
        page = self.page()
        self.site.send(screen(self.name, "Home", 21_800))
        page.until(f"[...document.querySelectorAll({json.dumps(ROWS)})].some((row) => row.innerText.includes({json.dumps(self.name)}))")
        row = page.evaluate(
            f"[...document.querySelectorAll({json.dumps(ROWS)})].find((row) => row.innerText.includes({json.dumps(self.name)})).innerText")
        self.assertIn("from Home, 21.8 s", row)
        self.assertNotIn("screen_view", row)

    def test_a_pause_loses_none(self):
        page = self.filtered()
        self.send(3)
        self.shows(page, 3)
        page.click("#pause")
        page.until("document.getElementById('shown').innerText.startsWith('paused · 0 new')")
        for _ in range(5):
            self.send(50)
        page.until("document.getElementById('shown').innerText.startsWith('paused · 250 new')")
        self.shows(page, 3)
        page.press(" ")
        self.shows(page, 253)
        keys = page.evaluate(f"new Set([...document.querySelectorAll({json.dumps(ROWS)})].map((row) => row.dataset.key)).size")
        self.assertEqual(keys, 253)
        self.assertEqual(page.evaluate("document.querySelectorAll('#rows .gap').length"), 0)

    def test_a_filter_selects_what_is_kept_and_what_comes(self):
        self.send(4)
        self.site.send(event("other of " + self.name))
        page = self.page(f"#/q/{urllib.parse.quote(self.word + ' -name:other')}")
        self.shows(page, 4)
        self.site.send(event("another of " + self.name), event("other of " + self.name))
        self.send(1)
        self.shows(page, 5)
        page.until("document.getElementById('shown').innerText === '5 shown · 1 of 3 new match'")

    def test_a_filter_is_typed(self):
        self.send(2)
        page = self.page()
        page.press("/")
        self.assertEqual(page.evaluate("document.activeElement.id"), "filter")
        page.write(self.word)
        page.press("Enter")
        self.shows(page, 2)
        self.assertEqual(urllib.parse.unquote(page.evaluate("location.hash")), f"#/q/{self.word}")

    def test_a_filter_that_cannot_be_read_is_explained(self):
        page = self.page("#/q/nothing:x")
        self.quiet = False
        page.until("document.getElementById('filter-problem').innerText.includes('nothing called')")
        page.evaluate("location.hash = '#/'")
        page.until("document.getElementById('filter-problem').hidden && document.getElementById('state').dataset.state === 'live'")

    def test_an_empty_list_says_how_far_it_looked(self):
        self.send(1)
        page = self.page("#/q/name:nosuchname")
        page.until("/Looked at \\d+ kept events? since \\d\\d:\\d\\d:\\d\\d/.test(document.getElementById('feed-end').innerText)")

    def test_a_list_that_is_read_further_down_does_not_move(self):
        page = self.filtered()
        self.send(100)
        self.shows(page, 100)
        page.evaluate("document.getElementById('feed').scrollTop = 600")
        before = page.evaluate("document.querySelectorAll('#rows tr')[30].getBoundingClientRect().top")
        self.send(7)
        page.until("document.getElementById('fresh').innerText.startsWith('7 new')")
        self.assertEqual(page.evaluate("document.querySelectorAll('#rows tr')[30].getBoundingClientRect().top"), before)
        page.click("#fresh")
        self.shows(page, 107)
        self.assertEqual(page.evaluate("document.getElementById('feed').scrollTop"), 0)

    def test_a_hidden_page_gives_its_stream_back_and_continues(self):
        page = self.filtered()
        self.send(2)
        self.shows(page, 2)
        page.hide()
        page.until("document.getElementById('state').dataset.state === 'resting'")
        self.send(30)
        page.hide(False)
        self.shows(page, 32)
        self.assertEqual(page.evaluate("document.querySelectorAll('#rows .gap').length"), 0)

    def test_seven_pages_of_a_browser_follow(self):
        pages = [self.page(f"#/q/{urllib.parse.quote(self.word)}") for _ in range(7)]
        self.send(3)
        for page in pages:
            self.shows(page, 3)
        states = sorted(page.evaluate("document.getElementById('state').dataset.state") for page in pages)
        self.assertEqual(states, ["live"] * 4 + ["polling"] * 3)
        for page in pages[:4]:
            page.hide()
        for page in pages[4:]:
            page.until("document.getElementById('state').dataset.state === 'live'")

    def test_own_columns_are_shown_and_remembered(self):
        self.send(1, data={"method": "kakao"})
        context = self.browser.context()
        page = self.page(f"#/q/{urllib.parse.quote(self.word)}", context=context)
        self.shows(page, 1)
        page.click("[data-act=columns]")
        page.click("#own-column")
        page.write("data.method")
        page.click("#columns-form .primary")
        page.until("document.querySelector('#rows .col-own')?.innerText === 'kakao'")
        self.assertIn("data.method", page.text("#feed-head"))
        again = self.page(f"#/q/{urllib.parse.quote(self.word)}", context=context)
        again.until("document.querySelector('#rows .col-own')?.innerText === 'kakao'")
        again.click("[data-act=columns]")
        again.click("[data-act=reset-columns]")
        again.until("document.querySelectorAll('#feed-head th').length === 7")

    def test_a_new_name_and_a_new_type_are_flagged(self):
        page = self.filtered()
        self.site.send(event(self.name, data={"price": 12}))
        self.shows(page, 1)
        self.assertEqual(page.texts(f"{ROWS} .flag"), ["new name"])
        self.site.send(event(self.name, data={"price": "12"}))
        self.shows(page, 2)
        self.assertIn("data.price:string", page.text(f"{ROWS}:first-child .flag"))

    def test_clear_empties_the_list_and_reload_brings_it_back(self):
        page = self.filtered()
        self.send(3)
        self.shows(page, 3)
        page.click("[data-act=clear]")
        self.shows(page, 0)
        self.send(1)
        self.shows(page, 1)
        page.evaluate("location.reload()")
        self.shows(page, 4)

    def test_what_the_server_left_out_is_counted_and_can_be_loaded(self):
        page = self.filtered()
        page.hide()
        page.until("document.getElementById('state').dataset.state === 'resting'")
        self.send(5)
        end = self.site.json("/api/events?limit=1")["position"]
        page.hold("/api/stream")
        page.hide(False)
        gone = {"from": 17, "to": 42}
        batch = {"seen": 9, "matched": 5, "dropped": 5, "rows": []}
        page.answer("/api/stream", f"event: gone\ndata: {json.dumps(gone)}\n\nid: {end}\nevent: rows\ndata: {json.dumps(batch)}\n\n",
                    "text/event-stream")
        page.until("document.getElementById('rows').innerText.includes('5 events not loaded here')")
        page.until("document.getElementById('shown').innerText === '0 shown · 5 of 9 new match · 5 not sent'")
        self.assertIn("The journal from 17 to 42 was removed by retention", page.text("#rows"))
        page.until("document.getElementById('state').dataset.state === 'live'")
        page.click("[data-act=fill-gap]")
        self.shows(page, 5)
        self.shows(page, 1, "#rows .gap")
        self.send(1)
        self.shows(page, 6)

    def test_older_events_are_loaded(self):
        page = self.filtered()
        for _ in range(5):
            self.send(50)
        self.shows(page, 250)
        page.evaluate("location.reload()")
        self.shows(page, 200)
        page.until("document.querySelector('[data-act=older]')")
        page.evaluate("document.querySelector('[data-act=older]').click()")
        self.shows(page, 250)


class AccessTests(LiveTest):
    """Who may see the page, and what a browser is told about it."""

    def test_each_start_has_a_token_of_its_own(self):
        addresses = []
        for _ in range(2):
            process, address = self.site.start_live(free_port(), token=False)
            self.assertRegex(address, r"^http://127\.0\.0\.1:\d+/#t=[\w-]{32,}$")
            page = self.browser.page(address, self.browser.context())
            page.until("document.getElementById('state').dataset.state === 'live'")
            page.close()
            addresses.append(address.split("#t=")[1])
            process.kill()
        self.assertNotEqual(*addresses)

    def test_the_page_is_small_and_says_what_it_may_do(self):
        sizes = 0
        for path, name in [("/", "index.html"), ("/live.js", "live.js"), ("/live.css", "live.css")]:
            status, headers, content = self.site.ask(path, token=False)
            self.assertEqual(status, 200, path)
            self.assertEqual(content, (PAGE / name).read_bytes(), "the program has other files; build it again")
            self.assertEqual(sorted(map(str.strip, headers["Content-Security-Policy"].split(";"))), sorted(POLICY))
            self.assertEqual(headers["X-Content-Type-Options"], "nosniff")
            self.assertEqual(headers["Referrer-Policy"], "no-referrer")
            self.assertIsNone(headers["Access-Control-Allow-Origin"])
            sizes += len(content)
        self.assertLessEqual(sizes, BYTES_MAX)
        self.assertNotIn(b"style=", (PAGE / "index.html").read_bytes())

    def test_the_token_leaves_the_address(self):
        page = self.page(context=self.browser.context())
        self.assertEqual(page.evaluate("location.href"), f"{self.site.origin}/#/")
        self.assertNotIn(self.site.token, page.evaluate("document.documentElement.outerHTML"))
        self.assertEqual([url for url in page.requests if self.site.token in url.split("#")[0]], [])
        self.assertEqual(page.evaluate("document.cookie"), "")

    def test_a_page_asks_for_a_missing_token(self):
        page = self.browser.page(self.site.origin + "/", self.browser.context())
        self.pages.append(page)
        self.quiet = False
        page.until("document.getElementById('access-dialog').open")
        page.click("#token")
        page.write("wrong")
        page.press("Enter")
        page.until("document.getElementById('access-problem').innerText.includes('not the token')")
        page.evaluate("document.getElementById('token').value = ''")
        page.write(self.site.token)
        page.press("Enter")
        page.until("!document.getElementById('access-dialog').open && document.getElementById('state').dataset.state === 'live'")

    def test_a_page_tells_that_the_server_is_gone_and_continues(self):
        site = LiveSite()
        self.addCleanup(site.close)
        site.start_receiver()
        site.send(event("before"))
        live, address = site.start_live()
        page = self.browser.page(address, self.browser.context())
        page.until("document.getElementById('state').dataset.state === 'live'")
        self.shows(page, 1)
        live.kill()
        page.until("document.getElementById('notice').innerText.includes('does not answer')")
        self.assertIn("waybill live --data", page.text("#notice"))
        site.send(event("meanwhile"))
        site.start_live()
        self.shows(page, 2)
        page.until("document.getElementById('notice').hidden")
        page.close()
