"""`waybill top` in a terminal: tmux draws what it writes, and sends it keys."""

import os
import subprocess

import health
from harness import binary, failure, patience, until
from test_agent import AgentTest


class TopTests(AgentTest):
    def setUp(self):
        super().setUp()
        self.socket = self.site.root / "agent.sock"
        # A server of its own, without the user's settings.
        self.tmux = ["tmux", "-S", str(self.site.root / "tmux.sock"), "-f", "/dev/null"]
        self.addCleanup(subprocess.run, [*self.tmux, "kill-server"], capture_output=True, check=False)
        for index in range(60):
            self.append(f"{index:02}.json", self.maker.foreign(1 + index))
        self.site.agent(*self.globbing(), "--name", "host-1", "--status-socket", self.socket)
        until(lambda: health.ask(self.socket) and health.status(self.socket)["followed"] == 60, 30, "the agent follows")

    def do(self, *arguments):
        return subprocess.run(
            [*self.tmux, *arguments], capture_output=True, check=True, timeout=patience(20)).stdout.decode()

    def start(self, columns=100, rows=20):
        """A shell in a terminal of that size, with the program in it."""
        env = {name: value for name, value in os.environ.items() if name not in ("TMUX", "NO_COLOR")}
        subprocess.run(
            [*self.tmux, "new-session", "-d", "-x", str(columns), "-y", str(rows), "-s", "top", "env", "PS1=prompt ", "sh"],
            check=True, env={**env, "LC_ALL": "C.UTF-8"}, timeout=patience(20))
        self.type("echo before")
        until(lambda: "before" in self.screen()[1:], 20, "the shell works")
        self.type(f"{binary()} top {self.socket}; echo ended $?")
        until(lambda: "waybill top" in self.screen()[0], 30, "top is shown")

    def type(self, text):
        self.do("send-keys", "-t", "top", text, "Enter")

    def key(self, *names):
        self.do("send-keys", "-t", "top", *names)

    def screen(self):
        return self.do("capture-pane", "-p", "-t", "top").split("\n")[:-1]

    def until_shown(self, condition, what):
        return until(lambda: next((screen for screen in [self.screen()] if condition(screen)), None), 20, what)

    def assert_given_back(self, ended):
        """The shell's screen, echo and cursor are there again."""
        screen = self.until_shown(lambda screen: "before" in screen, "the shell's screen is back")
        # A shell ends its line of commands with one that was interrupted.
        if ended is not None:
            self.until_shown(lambda screen: f"ended {ended}" in screen, f"it ends with {ended}")
        self.type("echo after $((1 + 1))")
        screen = self.until_shown(lambda screen: "after 2" in screen, "the shell continues")
        # Typed text is echoed.
        self.assertTrue(any(line.endswith("echo after $((1 + 1))") for line in screen), screen)
        self.assertEqual(self.do("display-message", "-p", "-t", "top", "#{cursor_flag}").strip(), "1")

    def test_it_fills_the_terminal_and_follows_its_size_and_keys(self):
        """The table in the terminal's size; scrolling, sorting, resizing; q gives the terminal back."""
        self.start()
        screen = self.until_shown(lambda screen: "FILE" in screen[5], "the table is shown")
        self.assertEqual(len(screen), 20)
        self.assertRegex(screen[0], r"^waybill top  \d\d:\d\d:\d\dZ  order: worst \(s\)  lines 1-19 of \d+ \(j, k\)  q quits$")
        self.assertRegex(screen[1], r"^agent host-1 \(waybill/.*: degraded, up ")
        self.assertIn("/59.json", screen[6])
        first = screen[1]
        self.key("j")
        self.until_shown(lambda screen: "lines 2-20" in screen[0] and screen[1] != first, "j scrolls")
        self.key("Down")
        self.until_shown(lambda screen: "lines 3-21" in screen[0], "the arrow scrolls")
        self.key("Up")
        self.key("k")
        self.until_shown(lambda screen: "lines 1-19" in screen[0], "back")
        self.key("G")
        self.until_shown(lambda screen: "/00.json" in screen[-1], "the end")
        self.key("g")
        self.key("s")
        self.until_shown(lambda screen: "order: name" in screen[0] and "/00.json" in screen[6], "by name")
        self.do("resize-window", "-t", "top", "-x", "60", "-y", "12")
        screen = self.until_shown(lambda screen: len(screen) == 12 and "lines 1-11" in screen[0], "a smaller terminal")
        self.assertTrue(all(len(line) <= 60 for line in screen))
        # It is live.
        self.key("s")
        self.append("07.json", self.maker.foreign(500))
        self.until_shown(lambda screen: "/07.json" in screen[6], "the file that has grown is first")
        self.key("q")
        self.assert_given_back(0)

    def test_the_terminal_is_given_back_after_signals_and_crashes(self):
        """Interrupt, termination, hang-up and a crash leave a terminal that works."""
        self.start()
        self.until_shown(lambda screen: "FILE" in screen[5], "the table is shown")
        self.key("C-c")
        self.assert_given_back(None)
        for signal, code in (("TERM", 143), ("HUP", 129), ("SEGV", 139)):
            self.do("clear-history", "-t", "top")
            self.type(f"clear; echo before; {binary()} top {self.socket}; echo ended $?")
            self.until_shown(lambda screen: "FILE" in screen[5], "the table is shown")
            pane = self.do("display-message", "-p", "-t", "top", "#{pane_pid}").strip()
            child = subprocess.run(["pgrep", "-P", pane], capture_output=True, check=True).stdout.split()[0].decode()
            subprocess.run(["kill", f"-{signal}", child], check=True)
            self.assert_given_back(code)

    def test_without_a_terminal_it_says_what_to_use(self):
        self.assertIn("waybill status prints the same once", failure(64, "top", self.socket))
