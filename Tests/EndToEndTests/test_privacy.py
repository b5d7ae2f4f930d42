"""The privacy manifest for the App Store: it declares what the products call of Apple's required-reason APIs, no more and
no less, and no product links Foundation because of it.

Apple reads an upload's symbols and rejects an app that calls one of these functions without a declared reason (ITMS-91053).
The list is Apple's, "Describing use of required reason API", read 2026-11-23.
"""
import functools
import json
import pathlib
import plistlib
import re
import subprocess
import unittest

from harness import REPOSITORY, binary

MANIFEST = REPOSITORY / "Sources" / "C" / "CWaybillSystem" / "PrivacyInfo.xcprivacy"
PREFIX = "NSPrivacyAccessedAPICategory"
# Functions of C, and names of Foundation and UIKit; sizes and times of files are read by the same functions.
CATEGORIES = {
    "FileTimestamp": [
        "stat", "stat64", "fstat", "fstat64", "lstat", "lstat64", "fstatat", "fstatat64", "statx", "getattrlist",
        "fgetattrlist", "getattrlistat", "getattrlistbulk", "NSFileCreationDate", "NSFileModificationDate",
        "fileModificationDate", "contentModificationDateKey", "creationDateKey",
    ],
    "DiskSpace": [
        "statfs", "statfs64", "fstatfs", "fstatfs64", "statvfs", "statvfs64", "fstatvfs", "fstatvfs64",
        "volumeAvailableCapacityKey", "volumeAvailableCapacityForImportantUsageKey",
        "volumeAvailableCapacityForOpportunisticUsageKey", "volumeTotalCapacityKey", "systemFreeSize", "systemSize",
    ],
    "SystemBootTime": ["mach_absolute_time", "systemUptime"],
    "ActiveKeyboards": ["activeInputModes"],
    "UserDefaults": ["UserDefaults"],
}
REASONS = {
    "FileTimestamp": {"DDA9.1", "C617.1", "3B52.1", "0A2A.1"}, "DiskSpace": {"85F4.1", "E174.1", "7D9E.1", "B728.1"},
    "SystemBootTime": {"35F9.1", "8FFB.1", "3D61.1"}, "ActiveKeyboards": {"3EC4.1", "54BD.1"},
    "UserDefaults": {"CA92.1", "1C8F.1", "C56D.1", "AC6B.1"},
}


@functools.cache
def package():
    return json.loads(subprocess.run(
        ["swift", "package", "dump-package"], cwd=REPOSITORY, check=True, capture_output=True, text=True).stdout)


def modules(product):
    """The package's own targets that a product links."""
    targets = {target["name"]: target for target in package()["targets"]}
    found, rest = set(), [target for each in package()["products"] if each["name"] == product
                          for target in each["targets"]]
    while rest:
        name = rest.pop()
        if name in found or name not in targets:
            continue
        found.add(name)
        for dependency in targets[name]["dependencies"]:
            rest.append(next(iter(dependency.values()))[0])
    return found


def libraries():
    return [product["name"] for product in package()["products"] if "library" in product["type"]]


def categories(names):
    return {category for category, calls in CATEGORIES.items() if not names.isdisjoint(calls)}


def called(module):
    """The functions that a module's objects leave to others."""
    objects = list((pathlib.Path(binary()).parent / f"{module}.build").rglob("*.o"))
    if not objects:
        return set()
    listed = subprocess.run(["nm", "-u", *objects], check=True, capture_output=True, text=True).stdout
    return {line.split()[-1].split("@")[0] for line in listed.splitlines() if line.startswith(" ")}


def named(module):
    """The words of a module's code, which the branches for Apple's systems are part of."""
    words = set()
    for path in next((REPOSITORY / "Sources").glob(f"*/{module}")).rglob("*"):
        if path.suffix in {".swift", ".c", ".h"} and ".docc" not in str(path):
            code = re.sub(r'//[^\n]*|"[^"\n]*"', "", path.read_text(encoding="utf-8"))
            words |= set(re.findall(r"(?<![.\w])\w+(?=\()|\b(?:" + "|".join(FOUNDATION) + r")\b", code))
    return words


FOUNDATION = sorted({name for names in CATEGORIES.values() for name in names if re.search("[A-Z]", name)})


class ManifestTests(unittest.TestCase):
    def setUp(self):
        self.manifest = plistlib.loads(MANIFEST.read_bytes(), fmt=plistlib.FMT_XML)

    def declared(self):
        return {
            entry["NSPrivacyAccessedAPIType"].removeprefix(PREFIX): entry["NSPrivacyAccessedAPITypeReasons"]
            for entry in self.manifest["NSPrivacyAccessedAPITypes"]}

    def test_every_product_declares_what_it_calls(self):
        self.assertIn("Waybill", libraries())
        for product in libraries():
            linked = modules(product)
            objects = set().union(*(called(module) for module in linked))
            self.assertIn("memcpy", objects, f"{product}: its objects have not been read")
            needed = categories(objects) | categories(set().union(*(named(module) for module in linked)))
            self.assertIn(MANIFEST.parent.name, linked, product)
            self.assertEqual(needed, set(self.declared()), product)

    def test_what_is_called_is_found(self):
        self.assertEqual(categories({"fstat", "write"}), {"FileTimestamp"})
        # On Linux alone it asks which file system holds a folder.
        self.assertEqual(categories(named("CWaybillSystem")), {"FileTimestamp", "DiskSpace"})
        self.assertEqual(categories(named("WaybillSystem")), {"FileTimestamp", "DiskSpace"})
        self.assertEqual(categories(called("WaybillSystem")), {"FileTimestamp", "DiskSpace"})

    def test_each_reason_is_one_of_apples(self):
        for category, reasons in self.declared().items():
            self.assertTrue(reasons, category)
            self.assertLessEqual(set(reasons), REASONS[category])

    def test_what_the_app_collects_is_not_used_for_tracking(self):
        self.assertIs(self.manifest["NSPrivacyTracking"], False)
        self.assertEqual(self.manifest["NSPrivacyTrackingDomains"], [])
        collected = self.manifest["NSPrivacyCollectedDataTypes"]
        self.assertEqual(
            {entry["NSPrivacyCollectedDataType"].removeprefix("NSPrivacyCollectedDataType") for entry in collected},
            {"ProductInteraction", "DeviceID", "UserID"})
        for entry in collected:
            self.assertIs(entry["NSPrivacyCollectedDataTypeTracking"], False)
            self.assertIs(entry["NSPrivacyCollectedDataTypeLinked"], True)
            self.assertEqual(
                entry["NSPrivacyCollectedDataTypePurposes"], ["NSPrivacyCollectedDataTypePurposeAnalytics"])
        self.assertEqual(
            set(self.manifest),
            {"NSPrivacyTracking", "NSPrivacyTrackingDomains", "NSPrivacyAccessedAPITypes", "NSPrivacyCollectedDataTypes"})

    def test_no_target_gets_generated_code(self):
        """Only a Swift target does, and one of Objective-C; here, the manifest is not even a resource."""
        manifests = list((REPOSITORY / "Sources").rglob("*.xcprivacy"))
        self.assertEqual(manifests, [MANIFEST])
        self.assertFalse(list(MANIFEST.parent.rglob("*.swift")) + list(MANIFEST.parent.rglob("*.m")))
        target = next(each for each in package()["targets"] if each["name"] == MANIFEST.parent.name)
        self.assertEqual((target["exclude"], target["resources"]), ([MANIFEST.name], []))
        accessors = pathlib.Path(binary()).parent.glob("*Waybill*.build/**/resource_bundle_accessor*")
        self.assertEqual(list(accessors), [])
