"""Every command, every printed output and every file in README.md and Documentation/*.md, run and compared.

A page has one temporary folder and one shell. In a block marked `console`, lines that begin with "$ " are commands, and
what follows is what they print: "…" in a line stands for anything, a line that is "…" for any number of lines. What a page
starts in the background ends with the page. A block whose first line is a comment with the name of a file
(`# waybill.yaml`, `-- product.sql`) is that file. Swift blocks are compiled by `Tools/check-docs`. A block marked `sh` is
not run: it builds, releases, or changes the repository.
"""
import concurrent.futures
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

from harness import binary, free_port

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "Documentation").glob("*.md"))]
README_LINE_COUNT_MAX = 150
# Marks where the output of a command begins.
# What a command that takes seconds says meanwhile.
PROGRESS = re.compile(r"^waybill: \w+: \d+ %, .* left\n", re.MULTILINE)
MARK = "\x01"
# The ports in the pages, which may be taken on the machine that tests.
PORTS = ("4390", "4380")


def blocks(page, language=r"\w+"):
    """The language and the text of each block of a page."""
    fenced = re.compile(rf"^ *```({language})\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
    return fenced.findall(page.read_text(encoding="utf-8"))


def page_files(page):
    """The files that a page shows, by name."""
    named = re.compile(r"(?:#|--) ([\w-]+\.\w+)\n")
    return {match[1]: text for language, text in blocks(page) if language != "sh" and (match := named.match(text))}


def commands(page):
    """Each command of a page, and what the page says that it prints."""
    parts = [part for _, text in blocks(page, "console") for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]]
    return [tuple(part.split("\n", 1)) for part in parts]


def pattern(printed):
    """What the output must match as a whole."""
    lines = (r"(?:.*\n)*?" if line == "…" else ".*".join(map(re.escape, line.split("…"))) + "\n"
             for line in printed.splitlines())
    return re.compile("".join(lines))


def moved(text, ports):
    """A text of a page with other ports."""
    for known, port in zip(PORTS, ports):
        text = text.replace(known, port)
    return text


def run(page, ports):
    """Runs the commands of a page in one shell; returns how it ended, and what each printed."""
    with tempfile.TemporaryDirectory() as directory:
        return run_in(pathlib.Path(directory), page, ports)


def run_in(directory, page, ports):
    for name, text in page_files(page).items():
        (directory / name).write_text(moved(text, ports), encoding="utf-8")
    (directory / "bin").mkdir()
    os.symlink(os.path.abspath(binary()), directory / "bin" / "waybill")
    script = ["set -e", "trap 'kill $(jobs -p) 2>/dev/null || true; wait' EXIT"]
    for command, _ in commands(page):
        script += [f"echo '{MARK}'", moved(command, ports)]
    paths = [str(directory / "bin"), str(ROOT / ".build/python/bin"), os.environ["PATH"]]
    result = subprocess.run(
        ["bash", "-c", "\n".join(script)], cwd=directory, env={**os.environ, "PATH": os.pathsep.join(paths)},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=600, text=True)
    return result.returncode, result.stdout.split(MARK + "\n")[1:]


class PageTests(unittest.TestCase):
    maxDiff = None

    def test_commands_print_what_the_pages_say(self):
        pages = [page for page in PAGES if commands(page)]
        ports = [[str(free_port()) for _ in PORTS] for _ in pages]
        with concurrent.futures.ThreadPoolExecutor() as workers:
            results = list(workers.map(run, pages, ports))
        for page, own, (status, printed) in zip(pages, ports, results):
            with self.subTest(page.name):
                self.check_commands(page, own, status, printed)

    def check_commands(self, page, ports, status, printed):
        for (command, expected), output in zip(commands(page), printed):
            expected = moved(expected, ports)
            output = PROGRESS.sub("", output)
            if not pattern(expected).fullmatch(output):
                self.assertEqual(output, expected, f"is printed by: {command}")
        self.assertEqual(status, 0, f"{page.name}: the last command that ran, of {len(printed)}, failed")
        self.assertEqual(len(printed), len(commands(page)))

    def test_every_page_is_run_or_says_why_not(self):
        # A block marked `nginx`, `haproxy` or `prometheus` belongs to the configuration of another program; one marked `html`
        # to a page, as test_ingest_browser has it; one marked `bash` is a file that test_sealed_recipes runs.
        known = {"console", "sql", "yaml", "swift", "sh", "nginx", "haproxy", "prometheus", "html", "bash"}
        for page in PAGES:
            if page.name == "fleet.md":
                continue  # test_store and test_fleet run its files.
            for language, text in blocks(page):
                self.assertIn(language, known, f"{page.name}: a block that no test runs:\n{text}")
            files = page_files(page)
            for language, text in blocks(page, "sql|yaml|bash"):
                self.assertIn(text, files.values(), f"{page.name}: a block of {language} that names no file")
            for name in files:
                # What a block of `sh` names, the test of its subject runs.
                used = any(name in text for text in [*(command for command, _ in commands(page)), *(text for _, text in blocks(page, "sh"))])
                self.assertTrue(used, f"{page.name}: no command uses {name}")

    def test_the_readme_is_short(self):
        self.assertLessEqual(len(PAGES[0].read_text(encoding="utf-8").splitlines()), README_LINE_COUNT_MAX)

    def test_the_example_is_the_one_that_the_tests_compile(self):
        example = (ROOT / "Tests/WaybillTests/ReadmeExample.swift").read_text(encoding="utf-8")
        self.assertIn(blocks(PAGES[0], "swift")[0][1], example)
