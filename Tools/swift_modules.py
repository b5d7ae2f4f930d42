#!/usr/bin/env python3
"""What each of the package's modules imports; and the client's modules, built one by one with swiftc.

    Tools/swift_modules.py graph     prints the picture of the modules that stands in ARCHITECTURE.md

The client's modules are for checks that need no build of the package and no Apple SDK. They are built in the order of
MODULES, as Package.swift says, and each imports only those before it. The checks share them: they are built once, and
again when one of their sources has changed.
"""

import fcntl
import hashlib
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCES = ROOT / "Sources"
STUBS = ROOT / "Tools" / "AppleStubs"

MODULES = [
    "WaybillSystem", "WaybillJSON", "WaybillEvent", "WaybillCommerce", "WaybillSpool", "Waybill", "WaybillFoundation",
    "WaybillTesting", "WaybillSystemLog",
]

LANGUAGE = ["-swift-version", "6", "-package-name", "waybill"]
# Importers see declarations; what bodies hold, the build judges. It takes half the time.
DECLARATIONS_ONLY = ["-Xfrontend", "-experimental-skip-non-inlinable-function-bodies"]


def module_folder(name):
    """The folder of a module, in whichever room."""
    folder = next(SOURCES.glob(f"*/{name}"), None)
    return folder or sys.exit(f"{pathlib.Path(sys.argv[0]).name}: no module {name} below {SOURCES}")


def upcoming_features():
    """Flags for what Package.swift turns on for every target."""
    names = re.findall(r'enableUpcomingFeature\("(\w+)"\)', (ROOT / "Package.swift").read_text())
    if not names:
        sys.exit(f"{pathlib.Path(sys.argv[0]).name}: Package.swift names no upcoming feature; has its `settings` moved?")
    return [flag for name in names for flag in ("-enable-upcoming-feature", name)]


def swift_files(folder):
    """The Swift sources of a target; a documentation catalogue holds code that is no part of it."""
    files = sorted(path for path in folder.rglob("*.swift") if not any(".docc" in part for part in path.parts))
    if not files:
        sys.exit(f"{pathlib.Path(sys.argv[0]).name}: no Swift sources in {folder}")
    return files


def swiftc(*arguments):
    """Runs the compiler, its messages shown; raises when it fails."""
    subprocess.run(["swiftc", *map(str, arguments)], check=True)


def emit_module(name, sources, folder, *flags):
    swiftc(
        "-emit-module", "-module-name", name, "-emit-module-path", folder / f"{name}.swiftmodule",
        "-parse-as-library", "-I", folder, *flags, *sources)


def compile_module(name, sources, folder, *flags):
    """Compiles to an object: what crosses actors unsafely is found after type-checking, in the compiler's next stage."""
    swiftc(
        "-emit-object", "-whole-module-optimization", "-o", folder / f"{name}.o", "-module-name", name,
        "-parse-as-library", "-warnings-as-errors", "-I", folder, *flags, *sources)


def typecheck_module(name, sources, folder, *flags):
    """Type-checks alone: for sources that import a module which was made without its packages."""
    swiftc(
        "-typecheck", "-module-name", name, "-parse-as-library", "-warnings-as-errors", "-I", folder, *flags, *sources)


def write_c_module(folder):
    """The module map that the package manager would make."""
    header = module_folder("CWaybillSystem") / "include" / "CWaybillSystem.h"
    text = f'module CWaybillSystem {{\n    umbrella header "{header}"\n    export *\n}}\n'
    (folder / "module.modulemap").write_text(text)


def fingerprint():
    """Differs when the compiler, its flags or a source of the modules does."""
    digest = hashlib.sha256(subprocess.run(["swiftc", "--version"], check=True, capture_output=True).stdout)
    digest.update(" ".join([*LANGUAGE, *upcoming_features(), *DECLARATIONS_ONLY]).encode())
    headers = sorted(module_folder("CWaybillSystem").rglob("*.h"))
    for path in [*headers, *(path for name in MODULES for path in swift_files(module_folder(name)))]:
        digest.update(f"\0{path}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def client_modules():
    """The folder with the modules of MODULES, built in the order in which they import each other."""
    place = ROOT / ".build" / "client-modules"
    place.mkdir(parents=True, exist_ok=True)
    folder = place / fingerprint()
    with open(place / "lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            for earlier in place.glob("*/"):
                shutil.rmtree(earlier)
            new = folder.with_suffix(".new")
            new.mkdir()
            write_c_module(new)
            for name in MODULES:
                emit_module(
                    name, swift_files(module_folder(name)), new, *LANGUAGE, *upcoming_features(), *DECLARATIONS_ONLY)
            new.rename(folder)
    return folder


def emit_stub(name, folder):
    """Builds a stand-in for a framework; Apple's have library evolution: their enumerations may grow."""
    emit_module(
        name, swift_files(STUBS / name), folder, "-swift-version", "6", "-enable-library-evolution",
        "-suppress-warnings", "-I", STUBS / name)


def failed_module(error):
    """The name of the module that a failed run of the compiler was for."""
    return error.cmd[error.cmd.index("-module-name") + 1]


# MARK: What imports what

IMPORT = re.compile(
    r"^ *(?:@\w+(?:\(\w+\))? +)*(?:\w+ +)?import +(?:(?:class|enum|func|let|protocol|struct|typealias|var) +)?(\w+)",
    re.MULTILINE)


class ModuleGraph:
    """The Swift modules with their rooms (`Core`, `Tests/Support`), what each imports, and the packages' modules."""

    def __init__(self, rooms, imports, packages):
        self.rooms, self.imports, self.packages = rooms, imports, packages

    def reached(self, name):
        """The modules that one imports, itself or through others of ours, each with a shortest way to it."""
        ways, waiting = {name: [name]}, [name]
        for module in waiting:
            new = sorted(self.imports.get(module, set()) - ways.keys())
            ways.update((other, [*ways[module], other]) for other in new)
            waiting += new
        del ways[name]
        return ways

    def named(self, term):
        """The modules that a term of the table stands for: packages, a room, or a name in backticks, `…` for its end."""
        if term == "packages":
            return self.packages
        if not term.startswith("`"):
            return {name for name, room in self.rooms.items() if room == term}
        name = term.strip("`")
        known = set(self.rooms).union(*self.imports.values())
        return {other for other in known if other == name or name[-1] == "…" and other.startswith(name[:-1])}

    def problems(self, forbidden):
        """What is wrong with the modules or with `forbidden`, the terms for each module and each room."""
        rows = sorted({*self.rooms, *self.rooms.values()})
        found = [f"{name}: its row does not say what it may not import" for name in rows if not forbidden.get(name)]
        terms = sorted({term for row in forbidden.values() for term in row})
        found += [f"{term} names no room, no module and no import" for term in terms if not self.named(term)]
        for name, room in self.rooms.items():
            ways = self.reached(name)
            for term in [*forbidden.get(room, []), *forbidden.get(name, [])]:
                met = sorted(self.named(term) & ways.keys())
                found += [f"{name} may not import {term}: {' → '.join(ways[other])}" for other in met]
        return found

    def picture(self):
        """The modules of the products as a Mermaid flowchart, without imports that others imply."""
        shown = {name for name, room in self.rooms.items() if room != "Tests/Support"}
        lines = ["flowchart LR"]
        for room in sorted({self.rooms[name] for name in shown}):
            names = sorted(name for name in shown if self.rooms[name] == room)
            lines += [f"    subgraph {room}", *(f"        {name}" for name in names), "    end"]
        for name in sorted(shown):
            direct = self.imports[name] & shown
            implied = set().union(*(self.reached(other) for other in direct))
            lines += [f"    {name} --> {other}" for other in sorted(direct - implied)]
        return "\n".join(lines) + "\n"


def module_graph():
    """The graph of this package: what the manifest declares, as SwiftPM reads it, and what the sources import."""
    # A folder of its own: a build may hold the lock of the package's.
    with tempfile.TemporaryDirectory() as scratch:
        dump = subprocess.run(
            ["swift", "package", "--scratch-path", scratch, "dump-package"], cwd=ROOT, check=True, capture_output=True)
    rooms, imports, packages = {}, {}, set()
    for target in json.loads(dump.stdout)["targets"]:
        if target["type"] == "test" or not list((ROOT / target["path"]).rglob("*.swift")):
            continue
        folder = ROOT / target["path"]
        declared = [(kind, words[0]) for dependency in target["dependencies"] for kind, words in dependency.items()]
        packages |= {module for kind, module in declared if kind == "product"}
        rooms[target["name"]] = str(folder.parent.relative_to(ROOT)).removeprefix("Sources/")
        imports[target["name"]] = {module for _, module in declared}.union(
            *(IMPORT.findall(path.read_text()) for path in swift_files(folder)))
    return ModuleGraph(rooms, imports, packages)


def module_table(page):
    """The rows of ARCHITECTURE's table of rooms and modules, by name: what each may not import, and what to read first."""
    section = page[page.index("## Modules"):page.index("## Threads")]
    rows = re.findall(r"^\| (?:`|\*\*)([\w/-]+)[`*][^|]*\|[^|]*\|([^|]*)\|([^|]*)\|$", section, re.MULTILINE)
    return {name: [re.findall(r"[^,\s]+", cell) for cell in cells] for name, *cells in rows}


if __name__ == "__main__":
    if sys.argv[1:] != ["graph"]:
        sys.exit("usage: Tools/swift_modules.py graph")
    print(module_graph().picture(), end="")
