"""Runs unittest classes and writes down the outcome of each test, for Tools/run-tests.

    python3 Tools/python_suite.py FOLDER                  prints the names of the folder's tests as a JSON array
    python3 Tools/python_suite.py FOLDER NAME RESULT      runs a module, class or test; RESULT gets an object as JSON:
                                                          "passed" and "failed", counts, and "skipped", names and reasons
"""

import faulthandler
import json
import re
import signal
import sys
import time
import unittest


class Result(unittest.TextTestResult):
    """The usual text, and the tests by their outcome and time."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.bad, self.started, self.seconds = set(), 0.0, []

    def startTest(self, test):
        super().startTest(test)
        self.started = time.monotonic()

    def stopTest(self, test):
        super().stopTest(test)
        self.seconds.append((time.monotonic() - self.started, test.id()))

    def addError(self, test, error):
        super().addError(test, error)
        self.bad.add(test.id())

    def addFailure(self, test, error):
        super().addFailure(test, error)
        self.bad.add(test.id())

    def addSubTest(self, test, subtest, error):
        super().addSubTest(test, subtest, error)
        if error is not None:
            self.bad.add(test.id())

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self.bad.add(test.id())

    def outcome(self):
        """A class that skips itself in setUpClass is one skip, by its own name: its tests do not run."""
        skipped = [(re.sub(r"^setUpClass \((.+)\)$", r"\1", test.id()), reason) for test, reason in self.skipped]
        ended = {name for _, name in self.seconds}
        return {"passed": len(ended - self.bad - {name for name, _ in skipped}), "failed": len(self.bad), "skipped": skipped}


def names(suite):
    for item in suite:
        if isinstance(item, unittest.TestSuite):
            yield from names(item)
        else:
            yield item.id()


def main():
    # A suite that takes too long is ended by SIGTERM; its log then says where it was.
    faulthandler.register(signal.SIGTERM, chain=True)
    folder, *rest = sys.argv[1:]
    sys.path.insert(0, folder)
    loader = unittest.TestLoader()
    if not rest:
        suite = loader.discover(folder, top_level_dir=folder)
        if loader.errors:
            sys.exit("\n".join(loader.errors))
        print(json.dumps(sorted(names(suite))))
        return
    name, path = rest
    result = unittest.TextTestRunner(resultclass=Result, verbosity=2).run(loader.loadTestsFromName(name))
    for seconds, test in sorted(result.seconds, reverse=True):
        print(f"{seconds:8.1f} s  {test}")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(result.outcome(), file)
    sys.exit(0 if result.wasSuccessful() else 1)


if __name__ == "__main__":
    main()
