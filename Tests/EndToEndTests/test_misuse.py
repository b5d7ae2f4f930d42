"""What is misspelt or forgotten in an app's events does not compile, or at the least warns; what is right compiles.

The compiler checks all cases at once, each in a file of its own, against the client's modules.
"""
import collections
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from harness import REPOSITORY

sys.path.insert(0, str(REPOSITORY / "Tools"))

from swift_modules import client_modules  # noqa: E402

# What an app writes, and what the compiler says about it: an error, or a warning.
MISUSES = {
    "forgotten_fields": (
        """
        struct Order: ActionEvent {
            let price: Int
            var name: String { "order" }
        }
        """,
        "error: type 'Order' does not conform to protocol 'Event'"),
    "misspelt_encode": (
        """
        struct Order: ActionEvent {
            let price: Int
            var name: String { "order" }
            func encode(in fields: inout Fields) { fields.put("price", price) }
        }
        """,
        "error: type 'Order' does not conform to protocol 'Event'"),
    "unencodable_member": (
        """
        struct Order: ActionEvent, Encodable {
            let items: [Item]
            var name: String { "order" }
            struct Item { let id: String }
        }
        """,
        "error: type 'Order' does not conform to protocol 'Encodable'"),
    "misspelt_customize": (
        """
        struct Order: ActionEvent, CustomizedEvent, FieldlessEvent {
            var name: String { "order" }
            func customise(_ overrides: inout Overrides) { overrides[.ga4].name = "purchase" }
        }
        """,
        "error: .*is it misspelt"),
    "misspelt_customize_in_an_extension": (
        """
        struct Order { var name: String { "order" } }
        extension Order: ActionEvent, FieldlessEvent {
            func customise(_ overrides: inout Overrides) { overrides[.ga4].name = "purchase" }
        }
        """,
        "warning: .*'customise' nearly matches defaulted requirement 'customize'"),
    "misspelt_provider": (
        'let subscriptions: [ProviderSubscription] = [.all(.mixpannel)]',
        "error: type 'ProviderID' has no member 'mixpannel'"),
    "provider_as_text": (
        'let subscriptions: [ProviderSubscription] = [.all("mixpanel")]',
        "error: cannot convert value of type 'String' to expected argument type 'ProviderID'"),
    "provider_of_an_override_as_text": (
        """
        struct Order: FieldlessEvent {
            var name: String { "order" }
            func customize(_ overrides: inout Overrides) { overrides["ga4"].name = "purchase" }
        }
        """,
        "error: cannot convert value of type 'String' to expected argument type 'ProviderID'"),
    "fields_of_an_override": (
        """
        struct Order: FieldlessEvent {
            var name: String { "order" }
            func customize(_ overrides: inout Overrides) { overrides[.ga4].fields.put("value", 1) }
        }
        """,
        "error: value of type 'ProviderOverride' has no member 'fields'"),
    "date_without_the_product": (
        """
        import Foundation

        struct Booked: Event {
            let at: Date
            var name: String { "booked" }
            func encode(into fields: inout Fields) { fields.put("at", at) }
        }
        """,
        "error: .*requires that 'Date' conform to 'FieldValue'"),
}

RIGHT = """
import Foundation
import WaybillFoundation

enum Method: String, ScalarFieldValue { case mail, apple }
extension ProviderID { static let warehouse = ProviderID("warehouse") }
let subscriptions: [ProviderSubscription] = [.all(.mixpanel), .only(.warehouse, Booked.self)]

struct Booked: Event, CustomizedEvent {
    let at: Date
    let method: Method?
    var name: String { "booked" }

    func encode(into fields: inout Fields) {
        fields.put("at", at)
        fields.put("method", method)
        fields.put("first", Method.mail)
        fields.put("methods", [Method.mail, .apple])
        fields.put("utm", ["source": "x", "medium": "y"])
        fields.put("holes", ["a", nil])
        fields.put("level", Level.high)
        fields.put("byte", UInt8(1))
    }

    func customize(_ overrides: inout Overrides) {
        overrides[.ga4].rename("at", to: "item_id")
        overrides[.ga4].set("value", 1)
        overrides[.ga4].set("level", Level.high)
        overrides[.warehouse].remove("at", "utm")
        overrides[.warehouse].replaceAll { $0.put("n", 1) }
    }
}

enum Level: Int { case low, high }
"""


def own(name, text):
    """The text with names that no other case has: all are checked as one module."""
    return re.sub(r"\b(Order|Booked|subscriptions)\b", rf"\1_{name}", text)


def diagnostics():
    """The compiler's errors and warnings by case."""
    with tempfile.TemporaryDirectory() as directory:
        folder = pathlib.Path(directory)
        for name, (source, _) in MISUSES.items():
            (folder / f"{name}.swift").write_text("import Waybill\n" + own(name, source))
        return typecheck(sorted(folder.glob("*.swift")))


def typecheck(files):
    """What the compiler says about the files of a module, by file."""
    result = subprocess.run(
        ["swiftc", "-typecheck", "-wmo", "-swift-version", "6", "-parse-as-library", "-module-name", "Misuse", "-I",
         str(client_modules()), *map(str, files)],
        check=False, capture_output=True, text=True, timeout=600)
    found = collections.defaultdict(set)
    for name, text in re.findall(r"^.*?/(\w+)\.swift:\d+:\d+: ((?:error|warning): .*)$", result.stderr, re.MULTILINE):
        found[name].add(text)
    return found


class MisuseTests(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.found = diagnostics()

    def test_each_misuse_is_named_by_the_compiler(self):
        for name, (_, expected) in MISUSES.items():
            with self.subTest(name):
                self.assertTrue(
                    any(re.search(own(name, expected), text) for text in self.found[name]), sorted(self.found[name]))

    def test_what_is_right_compiles(self):
        # A module of its own: its import of WaybillFoundation would reach the cases.
        with tempfile.TemporaryDirectory() as directory:
            file = pathlib.Path(directory) / "right.swift"
            file.write_text(RIGHT)
            self.assertEqual(typecheck([file]), {})
