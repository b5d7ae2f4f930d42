"""What the Markdown files and the tutorial name exists: links, anchors, tests, files, commands, the version.

The commands of README.md and Documentation/*.md are run by `test_readme`.
"""
import functools
import pathlib
import re
import subprocess
import unittest

from harness import binary
from test_readme import PAGES, ROOT, blocks

RESOURCES = ROOT / "Sources/App/Waybill/Waybill.docc/Resources"
FENCE = re.compile(r"^ *```.*?^ *```\n?", re.MULTILINE | re.DOTALL)
# Tables in these pages name tests, files and commands.
TABLED = [ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *PAGES]


@functools.cache
def markdown():
    """The Markdown files of the repository, without those that are built or downloaded."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.md"], cwd=ROOT, check=True,
        capture_output=True, text=True).stdout
    return [path for path in map(ROOT.joinpath, filter(None, listed.split("\0"))) if path.exists()]


@functools.cache
def prose(page):
    """A page without its blocks of code."""
    return FENCE.sub("", page.read_text(encoding="utf-8"))


@functools.cache
def anchors(page):
    """The anchors of a page's headings, as GitHub makes them."""
    found = set()
    for heading in re.findall(r"^#{1,6} +(.+?) *$", prose(page), re.MULTILINE):
        text = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        count = sum(1 for known in found if re.fullmatch(re.escape(text) + r"(-\d+)?", known))
        found.add(f"{text}-{count}" if count else text)
    return found


def links(page):
    """The targets of a page's links within the repository."""
    text = re.sub(r"`[^`\n]*`", "`code`", prose(page))
    targets = re.findall(r"\]\(<?([^)\s>]+)>?\)", text) + re.findall(r"^\[[^\]]+\]: +(\S+)", text, re.MULTILINE)
    return [target for target in targets if not re.match(r"[a-z]+:", target)]


class LinkTests(unittest.TestCase):
    def test_every_link_leads_somewhere(self):
        found = [(page, target) for page in markdown() for target in links(page)]
        broken = [f"{page.relative_to(ROOT)}: {target}" for page, target in found if not self.leads(page, target)]
        self.assertEqual(broken, [])
        self.assertGreater(len(found), 100)

    @staticmethod
    def leads(page, target):
        path, _, anchor = target.partition("#")
        other = (page.parent / path).resolve() if path else page
        return other.exists() and other.is_relative_to(ROOT) and (not anchor or anchor in anchors(other))

    def test_a_broken_link_is_found(self):
        page = ROOT / "README.md"
        for target in ["none.md", "#none", "ARCHITECTURE.md#none", "../"]:
            self.assertFalse(self.leads(page, target), target)
        self.assertTrue(self.leads(page, "ARCHITECTURE.md#the-life-of-one-event"))


class Names:
    """What a table of the documentation may name."""

    def __init__(self):
        sources = {path: path.read_text(encoding="utf-8") for path in (ROOT / "Tests").rglob("test_*.py")}
        self.python_files = {path.stem: path for path in sources}
        self.python_tests = {stem: set(re.findall(r"(?:class|def) (\w+)", sources[path]))
                             for stem, path in self.python_files.items()}
        swift = [path for folder in ("Tests", "Sources") for path in (ROOT / folder).rglob("*.swift")]
        self.swift_files = {path.name for path in swift}
        self.swift_suites = set(re.findall(r'"(\w+Tests)"', (ROOT / "Package.swift").read_text(encoding="utf-8")))
        self.commands = set(re.findall(
            r'commandName: "(?:waybill )?([\w-]+)"', "".join(
                path.read_text(encoding="utf-8") for path in swift if "Command" in path.name)))

    def problem(self, name, python_file):
        """What is wrong with a name in code; `python_file` is the test file that its row named last."""
        words = name.split()
        if re.match(r"(Sources|Tests|Tools|Protocol|Examples|Documentation|\.github|\.ci)/[^…]*$", words[0]):
            if words[0] == "Tools/fuzz" and len(words) > 1:
                return None if list((ROOT / "Tools/Fuzzing/Corpus").glob(words[1] + "*")) else "no such fuzz target"
            return None if (ROOT / words[0]).exists() else "no such path"
        if words[0] == "waybill" and len(words) > 1:
            return None if words[1] in self.commands or words[1].startswith("--") else "no such command"
        if re.fullmatch(r"test_\w+(\.py)?", name) and name.removesuffix(".py") in self.python_files:
            return None
        if re.fullmatch(r"test_\w+…?", name):
            known = self.python_tests.get(python_file, set())
            return None if any(
                test == name or name.endswith("…") and test.startswith(name[:-1]) for test in known
            ) else f"no such test in {python_file}"
        if re.fullmatch(r"\w+Tests", name) and name not in self.swift_suites and not (ROOT / "Tests" / name).exists():
            known = name in self.python_tests.get(python_file, set()) or f"{name}.swift" in self.swift_files
            return None if known else f"no Swift suite, and no class in {python_file}"
        if re.fullmatch(r"[\w+]+\.swift", name) and name not in self.swift_files:
            return "no such file"
        return None


class TableTests(unittest.TestCase):
    def test_every_name_in_the_tables_exists(self):
        names = Names()
        problems, count = [], 0
        for page in TABLED:
            for row in re.findall(r"^\|.*$", prose(page), re.MULTILINE):
                python_file = None
                for name in re.findall(r"`([^`]+)`", row):
                    stem = pathlib.PurePath(name).stem
                    python_file = stem if stem in names.python_files else python_file
                    problem = names.problem(name, python_file)
                    if problem:
                        problems.append(f"{page.relative_to(ROOT)}: {name}: {problem}")
                    count += 1
        self.assertEqual(problems, [])
        self.assertGreater(count, 200)

    def test_every_tool_in_commands_that_are_not_run_exists(self):
        count = 0
        for page in TABLED:
            for _, text in blocks(page, "sh"):
                for name in re.findall(r"(?<![\w/])(?:Tools|Tests)/[\w/-]+(?:\.\w+)?", text):
                    self.assertTrue((ROOT / name).exists(), f"{page.relative_to(ROOT)}: {name}")
                    count += 1
        self.assertGreater(count, 3)

    def test_what_does_not_exist_is_found(self):
        names = Names()
        for name in [
            "Tests/NoTests", "Tools/none", "waybill none", "test_none", "NoneTests", "None.swift", "test_a_none…",
            "Tools/fuzz none",
        ]:
            self.assertIsNotNone(names.problem(name, "test_kills"), name)


class VersionTests(unittest.TestCase):
    def test_the_version_is_that_of_the_newest_entry_in_the_changelog(self):
        entry = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
        source = (ROOT / "Sources/Programs/WaybillCommands/Version.swift").read_text(encoding="utf-8")
        version = re.search(r'packageVersion = "(.*)"', source)
        self.assertEqual(entry[1], version[1])
        printed = subprocess.run([binary(), "--version"], capture_output=True, check=True, text=True, timeout=60)
        self.assertEqual(printed.stdout.strip(), version[1])

    def test_no_other_file_has_a_version_of_its_own(self):
        source = (ROOT / "Sources/Programs/WaybillCommands/Version.swift").read_text(encoding="utf-8")
        version = re.search(r'packageVersion = "(.*)"', source)[1]
        for page in markdown():
            for line in re.findall(r'waybill", from: "([^"]+)"', page.read_text(encoding="utf-8")):
                self.assertEqual(line, version, page.relative_to(ROOT))
        for path in (ROOT / "Sources").rglob("*.swift"):
            if path.name != "Version.swift":
                self.assertNotRegex(path.read_text(encoding="utf-8"), rf'version: "{re.escape(version)}"', path.name)


class LineCountTests(unittest.TestCase):
    def test_five_events_take_the_lines_that_the_table_says(self):
        page = (ROOT / "Documentation/client.md").read_text(encoding="utf-8")
        part = page[page.index("## The same five events in six SDKs"):]
        table = dict(re.findall(r"^\| (\w[^|]*?) \| (\d+) \|", part, re.MULTILINE))
        counted = {}
        for section in re.split(r"^### ", part, flags=re.MULTILINE)[1:-1]:
            code = "".join(re.findall(r"^```\w*\n(.*?)^```", section, re.MULTILINE | re.DOTALL))
            counted[section.split("\n", 1)[0]] = str(sum(1 for line in code.splitlines() if line.strip()))
            self.assertLessEqual(max(map(len, code.splitlines())), 120)
        self.assertEqual(table, counted)
        self.assertEqual(len(table), 6)


class TutorialTests(unittest.TestCase):
    def test_ga4_gets_what_the_tutorial_says(self):
        with open(RESOURCES / "arrive-2-event.ndjson", "rb") as event:
            result = subprocess.run(
                [binary(), "transform", "--provider", "ga4"], stdin=event, capture_output=True, check=True, timeout=60)
        self.assertEqual(result.stdout, (RESOURCES / "arrive-3-ga4.ndjson").read_bytes())

    def test_the_configuration_is_good(self):
        path = RESOURCES / "arrive-1-receiver.yaml"
        subprocess.run([binary(), "check", path], capture_output=True, check=True, timeout=60)
