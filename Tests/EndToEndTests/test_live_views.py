"""The live page's views of one event, one person, names and reports; hostile values; and how the page looks and reads."""

import json
import re
import urllib.parse

from harness import until
from ledger import timestamp, utc_now
from live_site import NUMBERS, PROVIDERS, ROWS, LiveTest, event, identifier, screen
from scale import at_night
from schemas import violations

HOSTILE = [
    "<img src=x onerror=document.title='hit'>", "</script><script>document.title='hit'</script>",
    "<svg onload=document.title='hit'>", "\"'><b>bold</b>", "javascript:document.title='hit'", "{{7*7}}${7*7}",
    "\u202egnp.exe\u202c", "\u0000\u0007\ufeff\u2028", "مرحبا שלום", "a" * 300, "\U0001f468\u200d\U0001f469\u200d\U0001f467",
]


class DetailTests(LiveTest):
    """An event, a person, a name: each has an address of its own."""

    def test_a_refusal_names_its_reason_and_leads_to_others(self):
        self.site.send(event(self.name, ids=None, anon=None, user=None))
        page = self.page(f"#/q/{urllib.parse.quote(self.word)}")
        self.shows(page, 1)
        self.assertIn("refused", page.text("#rows .pill.refused"))
        page.click("#rows .col-received")
        page.until("document.querySelector('.outcome .pill.refused')")
        self.assertIn("no_app_instance_id", page.text(".outcome:has(.pill.refused)"))
        page.evaluate(f"location.hash = '#/q/' + encodeURIComponent('refused:ga4 ' + {json.dumps(self.word)})")
        self.shows(page, 1)
        page.evaluate(f"location.hash = '#/q/' + encodeURIComponent('-refused:ga4 ' + {json.dumps(self.word)})")
        self.shows(page, 0)

    def test_a_link_opens_the_same_event_in_a_fresh_page(self):
        self.send(1)
        page = self.page(f"#/q/{urllib.parse.quote(self.word)}")
        self.shows(page, 1)
        page.click("#rows .col-received")
        page.until("document.querySelector('#detail .outcome')")
        address = page.evaluate("location.href")
        self.assertRegex(address, r"#/event/[\w-]+$")
        fresh = self.browser.page(address, self.context)
        self.pages.append(fresh)
        fresh.until(f"document.querySelector('#detail-title')?.innerText === {json.dumps(self.name + ' 1')}")
        self.assertIn("What each provider gets", fresh.text("#detail"))

    def test_the_feed_stays_while_an_event_is_open(self):
        page = self.filtered()
        self.send(1)
        self.shows(page, 1)
        page.click("#rows .col-received")
        page.until("document.querySelector('#detail .outcome')")
        self.send(2)
        self.shows(page, 3)
        self.assertEqual(page.text("#detail-title"), f"{self.name} 1")
        page.press("Escape")
        page.until("document.getElementById('detail').hidden && !document.getElementById('overview').hidden")

    def test_a_link_to_what_is_not_kept_says_so(self):
        page = self.page("#/event/019550fc-0000-7000-8000-ffffffffffff")
        page.until("document.getElementById('detail-title')?.innerText === 'This event is not kept here.'")
        self.quiet = False

    def test_a_person_has_a_timeline_on_both_sides_of_the_sign_in(self):
        anon, user = identifier(4), f"user-{next(NUMBERS)}"
        before = {"anon": anon, "user": None}
        after = {"anon": anon, "user": user}
        self.site.send(
            screen("Home", **before), screen("Login", "Home", 4200, **before), event("set_user", "user", **after),
            screen("Feed", "Login", 9000, **after))
        page = self.page(f"#/person/{user}")
        page.until("document.querySelectorAll('.timeline li').length === 5")
        self.assertEqual(page.text("#detail-title"), user)
        entries = page.texts(".timeline li")
        self.assertIn("Feed after 9.0 s on Login", entries[0].replace("\n", " "))
        self.assertIn(f"signed in as {user}", entries[2])
        self.assertEqual(page.evaluate("document.querySelectorAll('.timeline .unsigned').length"), 2)
        self.site.send(event("Liked", **after))
        page.until("document.querySelector('.timeline li')?.innerText.includes('Liked')")
        self.assertIn(anon[:8], page.text("#detail .facts"))
        page.click("#detail .actions .button")
        page.until(f"document.getElementById('filter').value === 'user:{user}'")

    def test_the_keys_work(self):
        page = self.filtered()
        self.send(3)
        self.shows(page, 3)
        page.press("j")
        page.press("j")
        self.assertEqual(page.evaluate("document.activeElement.querySelector('.event-link')?.innerText"), f"{self.name} 2")
        page.press("k")
        self.assertEqual(page.evaluate("document.activeElement.querySelector('.event-link')?.innerText"), f"{self.name} 3")
        page.press("Enter")
        page.until(f"document.querySelector('#detail-title')?.innerText === {json.dumps(self.name + ' 3')}")
        page.press("j")
        page.until(f"document.querySelector('#detail-title')?.innerText === {json.dumps(self.name + ' 2')}")
        page.press("u")
        page.until("location.hash === '#/person/u-1' && document.querySelector('.timeline')")
        page.press("Escape")
        page.until("document.getElementById('detail').hidden")
        page.press("j")
        page.press("f")
        page.until(f"document.getElementById('filter').value.startsWith({json.dumps('name:' + chr(34) + self.name)})")
        page.press("?")
        page.until("document.getElementById('keys-dialog').open")
        page.press("Escape")
        page.until("!document.getElementById('keys-dialog').open")
        page.evaluate("document.activeElement.blur()")
        page.press(" ")
        page.until("document.getElementById('pause').getAttribute('aria-pressed') === 'true'")
        page.press("/")
        page.press(" ")
        self.assertEqual(page.evaluate("document.getElementById('pause').getAttribute('aria-pressed')"), "true")

    def test_the_names_are_listed_with_properties_and_conflicts(self):
        self.site.send(event(self.name, data={"price": 12}), event(self.name, data={"price": "12"}))
        page = self.page("#/names")
        page.until(f"document.getElementById('view-names').innerText.includes({json.dumps(self.name)})")
        page.click("#name-search")
        page.write(self.name)
        self.shows(page, 1, ".names tbody tr")
        row = page.text(".names tbody tr")
        for text in ["data.price", "two types", "integer × 1 in 1.4.2", "string × 1 in 1.4.2"]:
            self.assertIn(text, row)
        self.assertEqual(violations("names.schema.json", self.site.json("/api/names")), [])

    def test_the_pipeline_is_shown(self):
        self.send(5)
        self.site.send(b"this line is not JSON\n", b'{"name":"no time"}\n')
        page = self.page()
        page.until("document.getElementById('agents').innerText.includes('shop-host')")
        page.until("document.getElementById('quarantine').innerText.includes('this line is not JSON')")
        page.until("document.querySelectorAll('#providers tbody th').length === 11")
        self.assertEqual(sorted(page.texts("#providers tbody th")), sorted(PROVIDERS))
        page.until("/^0$/m.test(document.getElementById('figures').innerText)", "nothing is unaccounted")
        self.assertIn("unaccounted", page.text("#figures"))
        page.until("document.getElementById('sources').innerText.includes('web prod')")
        page.click("#quarantine a")
        page.until("document.getElementById('detail').innerText.includes('put this line into the quarantine')")


class ReportTests(LiveTest):
    """The second view: the numbers of the command, at an address that can be shared."""

    def test_a_report_is_shown_with_its_definition_and_its_numbers(self):
        self.site.send(screen("Home"), screen("Feed", "Home", 4000), screen("Home", "Feed", 2000))
        today = utc_now().strftime("%Y-%m-%d")
        until(lambda: list(self.site.data.glob("archive/env=prod/*/*/part-*")), what="the archive has the day")
        page = self.page(f"#/reports?names=overview,screens&from={today}&to={today}")
        self.shows(page, 2, ".report")
        answer = self.site.json(f"/api/report?names=overview,screens&from={today}&to={today}")
        for report, shown in zip(answer["reports"], page.texts(".report"), strict=True):
            self.assertIn(report["title"], shown)
            self.assertIn(report["definition"][:60], shown)
            self.assertIn(report["columns"][0]["name"], shown)
        self.assertEqual(page.evaluate("document.querySelectorAll('.report svg').length"),
                         sum(report["svg"] is not None for report in answer["reports"]))
        self.assertIn(f"waybill report overview,screens --data DIRECTORY --from {today} --to {today}", page.text(".terminal"))

    def test_the_form_makes_an_address(self):
        page = self.page("#/reports")
        page.until("document.getElementById('report-form')")
        self.assertFalse(page.evaluate("document.querySelector('[name=step]').closest('label').offsetWidth > 0"))
        page.click("[name=report][value=funnel]")
        page.click("[name=step]")
        page.write("screen=SignUp\nSign Up Tapped")
        page.hold("/api/report")
        page.click("#report-form .primary")
        page.answer("/api/report", json.dumps({"reports": [self.REPORT]}), "application/json")
        self.shows(page, 1, ".report")
        address = urllib.parse.parse_qs(page.evaluate("location.hash").partition("?")[2])
        self.assertEqual(address["step"], ["screen=SignUp", "Sign Up Tapped"])
        self.assertIn("funnel", address["names"][0].split(","))
        self.assertIn("--step screen=SignUp --step 'Sign Up Tapped'", page.text(".terminal"))

    REPORT = {
        "name": "screens", "title": "Screens", "definition": "Views of each screen.", "notes": ["2026-11-23 is open."],
        "columns": [{"name": "screen", "unit": "text"}, {"name": "share", "unit": "share"}, {"name": "mean", "unit": "seconds"}],
        "rows": [["<b>Home</b>", 0.421, 16.8], ["Feed", None, 90]],
        "svg": "<svg class='chart' viewBox='0 0 10 10'><rect class='bar' x='0' y='0' width='5' height='5' fill='red'/>"
               "<a href='http://evil.example/'><text class='mid'>linked</text></a><image href='http://evil.example/'/>"
               "<foreignObject><p>html</p></foreignObject><text class='end'>Home</text></svg>",
    }

    def test_a_drawing_keeps_only_what_draws(self):
        page = self.page("#/names")
        page.hold("/api/report")
        page.evaluate("location.hash = '#/reports?names=screens'")
        page.answer("/api/report", json.dumps({"reports": [self.REPORT]}), "application/json")
        self.shows(page, 1, ".report")
        self.assertEqual(page.evaluate("[...document.querySelectorAll('.report svg, .report svg *')].map((one) => one.localName)"),
                         ["svg", "rect", "text"])
        self.assertEqual(page.evaluate("[...document.querySelector('.report rect').attributes].map((one) => one.name)"),
                         ["class", "x", "y", "width", "height"])
        self.assertEqual(page.texts(".report td"), ["<b>Home</b>", "42.1 %", "16.8 s", "Feed", "", "2 min"])
        self.assertIn("2026-11-23 is open.", page.text(".report-notes"))

    def test_a_range_that_cannot_be_reported_is_explained(self):
        page = self.page("#/reports?names=nosuchreport&from=2026-11-01&to=2026-11-02")
        self.quiet = False
        page.until("document.querySelector('#report-result .problem')?.innerText.includes('nosuchreport')")


class HostileTests(LiveTest):
    """Whatever an event holds is text."""

    def test_hostile_values_do_nothing(self):
        page = self.page("#/q/kind:action")
        for number, value in enumerate(HOSTILE):
            self.site.send(event(
                value[:250] or "x", screen=value, user=value[:250], anon=f"hostile-{number}-{value[:60]}", app=value, lang=value,
                data={"value": value, value[:60]: value}, prev=value))
        self.site.send(*(line.encode() + b"\n" for line in HOSTILE if "\u0000" not in line))
        page.until(f"document.querySelectorAll({json.dumps(ROWS)}).length >= {len(HOSTILE)}")
        for row in page.evaluate(f"[...document.querySelectorAll({json.dumps(ROWS)})].slice(0, {len(HOSTILE)}).map((row) => row.dataset.key)"):
            page.evaluate(f"location.hash = '#/event/' + encodeURIComponent({json.dumps(row)})")
            page.until(f"document.querySelector('#rows tr[aria-current]')?.dataset.key === {json.dumps(row)} && document.querySelector('#detail .outcome')")
        for value in HOSTILE:
            page.evaluate(f"location.hash = '#/person/' + encodeURIComponent({json.dumps(value[:250])})")
            page.until("document.querySelector('.timeline') || document.querySelector('#detail .facts')")
        page.evaluate("location.hash = '#/names'")
        page.until("document.querySelector('.names tbody tr')")
        self.assertNotEqual(page.evaluate("document.title"), "hit")
        self.assertEqual(page.evaluate("document.querySelectorAll('img, iframe, object, embed, body script, #main b b, [onerror], [onload]').length"), 0)
        self.assertEqual(page.evaluate("[...document.querySelectorAll('a')].filter((one) => !/^(#|http:|\\/api)/.test(one.getAttribute('href'))).length"), 0)
        shown = page.evaluate("document.getElementById('view-live').textContent + document.getElementById('view-names').textContent")
        self.assertIn("<img src=x onerror=document.title='hit'>", shown)
        self.assertIn("⟨U+202E⟩", shown)
        self.assertNotIn("\u202e", shown)

    def test_a_megabyte_of_text_is_cut(self):
        text = "<b>" + "x" * 1_000_000
        self.site.send(b'{"time":"%s","event":"%s","body":"%s"}\n' % (
            timestamp(utc_now()).encode(), self.name.encode(), text.encode()), stream="large", form="ndjson")
        page = self.page(f"#/q/{urllib.parse.quote(self.word)}")
        self.shows(page, 1)
        page.click("#rows .col-received")
        page.until("document.querySelector('#detail .outcome')")
        self.assertLess(page.evaluate("document.documentElement.outerHTML.length"), 600_000)
        self.assertIn("characters", page.text("#detail"))

    def test_what_the_policy_forbids_is_found_by_these_tests(self):
        page = self.page()
        self.quiet = False
        page.evaluate("document.body.setAttribute('style', 'color: red')")
        until(lambda: any("Content Security Policy" in problem for problem in page.problems), what="a refused style is noted")
        page.evaluate("setTimeout(() => { throw new Error('planted'); }, 0)")
        until(lambda: any("planted" in problem for problem in page.problems), what="an exception is noted")


@at_night
class LookTests(LiveTest):
    """Small windows, dark ones, calm ones, and what a screen reader is told."""

    def fill(self):
        self.send(30)
        self.site.send(b"not JSON\n")

    def test_every_control_has_a_name(self):
        self.fill()
        page = self.page(f"#/q/{urllib.parse.quote(self.word)}")
        self.shows(page, 30)
        for step in [
            lambda: None, lambda: page.click("#rows .col-received"), lambda: page.evaluate("location.hash = '#/person/u-1'"),
            lambda: page.evaluate("location.hash = '#/names'"), lambda: page.evaluate("location.hash = '#/reports'"),
            lambda: page.press("?"),
        ]:
            step()
            page.until("document.querySelector('#detail .outcome, .timeline, .names td, #report-form, #keys-dialog[open], #overview table')")
            tree = page.accessible()
            unnamed = [role for role, name in tree if not name.strip() and role in (
                "button", "link", "textbox", "searchbox", "checkbox", "combobox", "Date", "dialog", "navigation",
                "complementary", "region", "search", "table")]
            self.assertEqual(unnamed, [])
            self.assertGreater(sum(role in ("button", "link") for role, _ in tree), 0)
        roles = {role for role, _ in page.accessible()}
        page.press("Escape")
        page.evaluate("location.hash = '#/'")
        page.until("!document.getElementById('view-live').hidden && document.querySelector('#providers table')")
        roles |= {role for role, _ in page.accessible()}
        self.assertLessEqual({"banner", "navigation", "main", "complementary", "search", "table", "columnheader", "status"}, roles)

    def test_an_unnamed_control_is_found(self):
        page = self.page()
        page.evaluate("document.querySelector('.top').append(document.createElement('button'))")
        self.assertIn(("button", ""), page.accessible())

    def test_small_windows_show_what_matters(self):
        self.fill()
        for width, columns in [(1440, 7), (900, 7), (390, 4)]:
            page = self.page(f"#/q/{urllib.parse.quote(self.word)}", width=width, height=800)
            self.shows(page, 30)
            visible = page.evaluate("[...document.querySelectorAll('#feed-head th')].filter((one) => one.offsetWidth).length")
            self.assertEqual(visible, columns)
            self.assertLessEqual(page.evaluate("document.documentElement.scrollWidth"), width)
            page.click("#rows .col-received")
            page.until("document.querySelector('#detail .outcome')")
            left = page.evaluate("document.getElementById('side').getBoundingClientRect().left")
            self.assertLessEqual(0, left)
            if width < 1000:
                self.assertEqual(page.evaluate("document.getElementById('side').getBoundingClientRect().top"), 0)
            page.close()
            self.pages.remove(page)

    def test_the_page_is_dark_when_the_system_is(self):
        self.fill()
        light, dark = (self.page(dark=is_dark) for is_dark in (False, True))
        brightness = []
        for page in (light, dark):
            page.until("document.querySelector('#rows tr')")
            color = page.evaluate("getComputedStyle(document.body).backgroundColor")
            brightness.append(sum(map(int, re.findall(r"\d+", color)[:3])) / 3)
        self.assertGreater(brightness[0], 230)
        self.assertLess(brightness[1], 40)
        self.assertNotEqual(light.screenshot(self.site.root / "light.png"), dark.screenshot(self.site.root / "dark.png"))

    def test_nothing_moves_for_those_who_ask_for_calm(self):
        pages = [self.filtered(reduced=is_reduced) for is_reduced in (False, True)]
        for page in pages:
            page.evaluate("window.moved = 0; document.addEventListener('animationstart', () => { moved += 1; })")
        self.send(1)
        for page in pages:
            self.shows(page, 1)
        self.send(1)
        for page in pages:
            self.shows(page, 2)
        pages[0].until("moved > 0")
        self.assertEqual(pages[1].evaluate("moved"), 0)
