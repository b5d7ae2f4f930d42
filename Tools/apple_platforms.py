"""Apple's platforms for a compiler without Apple's SDK: the toolchain's own standard library, under a platform's name.

The compiler refuses a module that was built for another platform. The modules of the standard library carry the
availability of every declaration on every platform of Apple's, wherever they were built, and the name of the platform in
one place. With another name there, the compiler checks our sources against that availability: it says, for instance,
that `Mutex` needs iOS 18. What it cannot show is in Tools/AppleStubs/README.md.
"""

import dataclasses
import json
import pathlib
import re
import shutil
import subprocess
import sys

from swift_modules import (
    LANGUAGE, ROOT, STUBS, MODULES, module_folder, swift_files, upcoming_features, write_c_module)

STANDARD_LIBRARY = ["Swift", "_Concurrency", "_StringProcessing", "SwiftOnoneSupport"]
# In the order in which they import each other.
SYSTEM_STUBS = ["Darwin", "CoreFoundation", "os"]
# The client's modules, and what the dispatcher needs of ours that imports no package. There is no Foundation here but the
# toolchain's, which has no availability.
CHECKED = [*(name for name in MODULES if name != "WaybillFoundation"), "WaybillProtocol", "WaybillTail"]


@dataclasses.dataclass(frozen=True)
class Platform:
    """One of Package.swift's platforms."""

    name: str
    # The name in a target triple, and that of the folder with the standard library.
    system: str
    folder: str
    frameworks: tuple[str, ...]


# visionOS reads the standard library's availability through a table of Apple's SDK, which maps it from iOS.
PLATFORMS = [
    Platform("iOS", "ios", "iphoneos", ("UIKit", "SwiftUI")),
    Platform("macOS", "macosx", "macosx", ("SwiftUI",)),
    Platform("tvOS", "tvos", "appletvos", ("UIKit", "SwiftUI")),
    Platform("watchOS", "watchos", "watchos", ("SwiftUI",)),
]


def floors():
    """The lowest version of each platform, as Package.swift declares it."""
    text = (ROOT / "Package.swift").read_text()
    declared = re.search(r"^    platforms: \[(.*?)\]", text, re.S | re.M).group(1)
    found = dict(re.findall(r"\.(\w+)\(\.v(\d+)\)", declared))
    if set(found) != {platform.name for platform in PLATFORMS} | {"visionOS"}:
        sys.exit(f"apple_platforms: Package.swift declares {sorted(found)}; complete PLATFORMS")
    return found


def toolchain():
    """The triple of this machine's compiler, and the folder with its standard library."""
    information = json.loads(subprocess.run(
        ["swiftc", "-print-target-info"], check=True, capture_output=True, text=True).stdout)
    return information["target"]["triple"], pathlib.Path(information["paths"]["runtimeResourcePath"])


def write_standard_library(folder, platform, floor):
    """Copies the standard library as that of a platform."""
    triple, library = toolchain()
    name = f"arm64-apple-{platform.system}{floor}.".ljust(len(triple), "0")
    if len(name) != len(triple):
        sys.exit(f"apple_platforms: {name} does not fit into {triple}")
    folder.mkdir()
    for linked in ["shims", "clang"]:
        (folder / linked).symlink_to((library / linked).resolve())
    for module in STANDARD_LIBRARY:
        content = (library / "linux" / f"{module}.swiftmodule" / f"{triple}.swiftmodule").read_bytes()
        if content.count(triple.encode()) != 1:
            sys.exit(f"apple_platforms: {module} does not name its platform once; has the format of modules changed?")
        place = folder / platform.folder / f"{module}.swiftmodule"
        place.mkdir(parents=True)
        arch = f"arm64-apple-{'macos' if platform.system == 'macosx' else platform.system}"
        (place / f"{arch}.swiftmodule").write_bytes(content.replace(triple.encode(), name.encode()))


class FloorCheck:
    """Compiles modules for a platform's lowest version, up to the stage before machine code."""

    def __init__(self, platform, floor, base):
        self.platform, self.floor = platform, floor
        self.folder = base / platform.name
        self.folder.mkdir()
        write_c_module(self.folder)
        write_standard_library(self.folder / "library", platform, floor)

    def compile(self, name, sources, *flags):
        subprocess.run(
            ["swiftc", "-frontend", "-emit-sil", "-o", "/dev/null", "-emit-module-path",
             str(self.folder / f"{name}.swiftmodule"), "-module-name", name, "-parse-as-library",
             "-target", f"arm64-apple-{self.platform.system}{self.floor}.0", "-resource-dir",
             str(self.folder / "library"), "-disable-objc-interop", "-Xcc", "-ffreestanding", "-I", str(self.folder),
             "-I", str(STUBS / "Darwin"), *flags, *map(str, sources)], check=True)

    def stub(self, name):
        self.compile(
            name, swift_files(STUBS / name), "-swift-version", "6", "-enable-library-evolution", "-suppress-warnings")

    def run(self):
        for name in [*SYSTEM_STUBS, "Foundation", *self.platform.frameworks]:
            self.stub(name)
        for name in [*CHECKED, "WaybillUI"]:
            self.compile(
                name, swift_files(module_folder(name)), *LANGUAGE, *upcoming_features(), "-warnings-as-errors")
        shutil.rmtree(self.folder)
        return f"{self.platform.name} {self.floor}"
