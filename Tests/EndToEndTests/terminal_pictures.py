"""Makes the pictures of `waybill status` and `waybill top` under load: python3 terminal_pictures.py [FOLDER]

tmux is the terminal; the browser draws what it shows.
"""

import html
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

from browser import Browser
from harness import REPOSITORY, Site, binary, until
from ledger import EventMaker, Ledger

COLUMNS, ROWS = 118, 36
BYTES_MAX = 300_000
STYLE = "margin:0;padding:12px;background:#16181d;color:#d8dee9;font:14px/18px 'DejaVu Sans Mono'"
COLORS = {"1": "font-weight:bold", "2": "opacity:.6", "7": "background:#d8dee9;color:#16181d", "31": "color:#ff6b6b",
          "32": "color:#7bd88f", "33": "color:#ffd866"}


def write(site, ended):
    """5,000 events a second into a spool and four logs, of which one has lines that are no events."""
    maker, ledger, turn = EventMaker(3), Ledger(), 0
    while not ended.is_set():
        turn += 1
        if turn % 25 == 0:
            maker.spool(site.spool, ledger, 500_000)
        for index, name in enumerate(["web", "api", "checkout", "search"]):
            with open(site.root / "sources" / f"{name}.json", "ab") as file:
                file.write(b"".join(maker.foreign(15)) + (b"not JSON\n" if index == 3 else b""))
        time.sleep(0.02)


def markup(text):
    """What a terminal shows, with its escapes as elements."""
    shown, is_open = [], False
    for piece in re.split(r"(\x1b\[[\d;]*m)", text):
        if not piece.startswith("\x1b"):
            shown.append(html.escape(piece))
            continue
        looks = ";".join(COLORS[number] for number in piece[2:-1].split(";") if number in COLORS)
        shown.append("</span>" * is_open + f'<span style="{looks}">' * bool(looks))
        is_open = bool(looks)
    return "".join(shown) + "</span>" * is_open


class Terminal:
    def __init__(self, folder):
        self.command = ["tmux", "-S", folder / "tmux.sock", "-f", "/dev/null"]
        self.do("new-session", "-d", "-x", str(COLUMNS), "-y", str(ROWS), "-s", "one", "env", "PS1=$ ", "sh")

    def do(self, *arguments):
        return subprocess.run([*self.command, *arguments], capture_output=True, check=True, timeout=20).stdout.decode()

    def type(self, text):
        self.do("send-keys", "-t", "one", text, "Enter")

    def text(self):
        return self.do("capture-pane", "-e", "-p", "-t", "one")

    def picture(self, browser, path):
        page = f'<body style="{STYLE}"><pre style="margin:0;font:inherit">{markup(self.text())}</pre>'
        shown = browser.page("data:text/html;charset=utf-8," + urllib.parse.quote(page),
                             width=COLUMNS * 9 + 8, height=ROWS * 18 + 24)
        size = len(shown.screenshot(path))
        assert size <= BYTES_MAX, f"{path} has {size} bytes"
        print(f"{path}: {size} bytes")


def make(folder, site, browser):
    sockets = {name: site.root / f"{name}.sock" for name in ("receiver", "agent")}
    (site.root / "sources").mkdir()
    site.receiver("--status-socket", sockets["receiver"], exports="ga4,mixpanel,csv")
    ended = threading.Event()
    writer = threading.Thread(target=write, args=(site, ended))
    writer.start()
    with tempfile.TemporaryDirectory() as place:
        terminal = Terminal(pathlib.Path(place))
        try:
            site.agent("--spool", site.spool, "--glob", str(site.root / "sources/*.json"), "--env", "prod", "--bundle",
                       "com.example.web", "--name", "web-1", "--status-socket", sockets["agent"])
            terminal.type(f"cd {site.root} && alias waybill={binary()} && clear")
            time.sleep(12)
            terminal.type("waybill status receiver.sock agent.sock --rows 8")
            until(lambda: "FILE" in terminal.text(), 30, "the status is shown")
            terminal.picture(browser, folder / "status.png")
            terminal.type("waybill top receiver.sock agent.sock")
            until(lambda: "waybill top" in terminal.text(), 30, "top is shown")
            time.sleep(3)
            terminal.picture(browser, folder / "top.png")
        finally:
            terminal.do("kill-server")
            ended.set()
            writer.join()


def main():
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else REPOSITORY / "Documentation" / "images"
    site, browser = Site(), Browser()
    try:
        make(folder, site, browser)
    finally:
        browser.close()
        site.close()


if __name__ == "__main__":
    main()
