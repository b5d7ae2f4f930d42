"""Makes the pictures of Documentation/live.md and reports.md: python3 live_pictures.py [FOLDER]

A seeded crowd visits a shop for the pictures of events; those of names and reports have the demo's data.
"""

import datetime
import pathlib
import random
import re
import sys
import time
import urllib.parse
import uuid

from browser import Browser
from harness import REPOSITORY, run, until
from ledger import timestamp, utc_now
from live_site import ROWS, LiveSite, event, identifier, screen

SCREENS = {
    "Home": ["Product", "Search", "Login"], "Search": ["Product", "Home"], "Product": ["Cart", "Home", "Product"],
    "Login": ["Home", "SignUp"], "SignUp": ["Home"], "Cart": ["Checkout", "Product"], "Checkout": ["Home"],
}
ACTIONS = {"Product": "Product Tapped", "Cart": "Quantity Changed", "Checkout": "purchase", "Search": "search"}
APP = {"bundle": "com.example.shop", "source": "/var/spool/waybill/shop.ndjson"}
WEB = {"bundle": "com.example.web", "source": "/var/log/web/access.json", "form": "ndjson"}
WIDTH, HEIGHT = 1360, 800
BYTES_MAX = 300_000
SECONDS = 20


class Visitor:
    """A person with an install, who walks from screen to screen and may sign in on the way."""

    def __init__(self, number, chance):
        self.user, self.chance = f"u-{number}", chance
        self.anon, self.session = str(uuid.UUID(int=chance.getrandbits(128), version=4)), identifier()
        self.is_known = chance.random() < 0.6
        self.screen, self.since = None, time.time() - chance.uniform(1, 20)

    def step(self):
        """The lines of the next thing that this person does."""
        late = datetime.timedelta(milliseconds=self.chance.choice([6, 46, 53, 70, 205, 305, 905, 2300]))
        shared = {
            "anon": self.anon, "session": self.session, "user": self.user if self.is_known else None,
            "app": self.chance.choice(["1.3.0", "1.4.0", "1.4.0"]), "ts": timestamp(utc_now() - late),
            "env": "dev" if self.user == "u-3" else "prod",
        }
        if self.chance.random() < 0.06:
            shared["ids"] = None
        if self.screen == "Login" and not self.is_known:
            self.is_known = True
            shared["user"] = self.user
            return [event("set_user", "user", screen="Login", **shared),
                    event("login", "event", screen="Login", data={"method": self.chance.choice(["kakao", "email"])}, **shared)]
        if self.screen in ACTIONS and self.chance.random() < 0.45:
            name = ACTIONS[self.screen]
            data = {"price": self.chance.randrange(5, 90), "item": f"item-{self.chance.randrange(40)}"}
            return [event(name, "event" if name.islower() else "action", screen=self.screen, data=data, **shared)]
        before, self.screen = self.screen, self.chance.choice(SCREENS.get(self.screen, ["Home"]))
        stayed, self.since = int((time.time() - self.since) * 1000), time.time()
        return [screen(self.screen, before, stayed if before else None, **shared)]


def visit(site, chance):
    """Twenty seconds in the shop, as they pass."""
    people = [Visitor(number, chance) for number in range(1, 26)]
    for turn in range(SECONDS * 4):
        site.send(*(line for person in chance.sample(people, chance.randrange(1, 5)) for line in person.step()), **APP)
        if turn % 5 == 0:
            site.send(b'{"time":"%s","event":"request","path":"/pay","status":200}\n' % timestamp(utc_now()).encode(),
                      stream="web", **WEB)
        if turn % 20 == 0:
            site.send(b"this line is not JSON\n", b'["an","array"]\n', stream="web", **WEB)
        time.sleep(0.25)


def save(page, path):
    size = len(page.screenshot(path))
    assert size <= BYTES_MAX, f"{path} has {size} bytes"
    print(f"{path}: {size} bytes")


def make(folder, site, browser):
    site.start_receiver()
    site.send(screen("Home"), **APP)
    _, address = site.start_live()
    page = browser.page(address, width=WIDTH, height=HEIGHT)
    page.until("document.getElementById('state').dataset.state === 'live'")
    visit(site, random.Random(21))
    # The receiver's numbers follow at its checkpoints.
    page.until("document.querySelector('#providers .bad') && document.getElementById('agents').innerText.includes('shop-host')")
    save(page, folder / "live.png")
    page.press(" ")
    key = page.evaluate(f"[...document.querySelectorAll({ROWS!r})].find((row) => row.innerText.includes('refused: ga4'))?.dataset.key")
    page.evaluate(f"location.hash = '#/event/' + encodeURIComponent({key!r})")
    page.until("document.querySelectorAll('.outcome').length === 11")
    save(page, folder / "live-event.png")
    page.look(WIDTH, HEIGHT, dark=True)
    page.evaluate("location.hash = '#/person/u-7'")
    page.until("document.querySelector('.timeline')")
    save(page, folder / "live-person-dark.png")
    page.look(390, 760)
    page.evaluate("location.hash = '#/'")
    page.until("document.getElementById('detail').hidden")
    save(page, folder / "live-narrow.png")
    assert not page.problems, page.problems


def make_reports(folder, site, browser):
    """The views of names and reports over the demo's two days."""
    run("demo", "--directory", site.root / "demo")
    live = site.start("live", "--data", site.root / "demo/data", "--listen", "127.0.0.1:0", log="reports.log")
    address = until(lambda: re.search(r"http://\S+#t=\S+", live.log()), 30, "live prints its address")[0]
    page = browser.page(address, width=WIDTH, height=HEIGHT)
    page.until("document.getElementById('state').dataset.state === 'live'")
    page.evaluate("location.hash = '#/names'")
    page.until("document.querySelector('.names .conflict')")
    save(page, folder / "live-names.png")
    page.look(WIDTH, 1150)
    days = [utc_now() - datetime.timedelta(days=2), utc_now() - datetime.timedelta(days=1)]
    steps = ["screen=SignUp", "Sign Up Tapped", "login"]
    words = urllib.parse.urlencode(
        {"names": "funnel,screens,paths", "from": f"{days[0]:%Y-%m-%d}", "to": f"{days[1]:%Y-%m-%d}", "step": steps,
         "within": "10m", "before": "error"}, doseq=True)
    page.evaluate(f"location.hash = '#/reports?{words}'")
    page.until("document.querySelectorAll('.report svg').length === 3")
    save(page, folder / "live-reports.png")
    assert not page.problems, page.problems


def main():
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else REPOSITORY / "Documentation" / "images"
    folder.mkdir(parents=True, exist_ok=True)
    site, browser = LiveSite(), Browser()
    try:
        make(folder, site, browser)
        make_reports(folder, site, browser)
    finally:
        browser.close()
        site.close()


if __name__ == "__main__":
    main()
