"""Modules of Sources, built one by one with swiftc: for checks that need no .build and no Apple SDK.

Each check says which modules it wants; they are built in the order of MODULES, as Package.swift says, and each imports only
those before it.
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCES = ROOT / "Sources"
STUBS = ROOT / "Tools" / "AppleStubs"

MODULES = [
    "WaybillSystem", "WaybillJSON", "WaybillEvent", "WaybillSpool", "Waybill", "WaybillPresentation", "WaybillTesting",
    "WaybillSystemLog",
]

LANGUAGE = ["-swift-version", "6", "-package-name", "waybill"]
# Importers see declarations; what bodies hold, the build judges. It takes half the time.
DECLARATIONS_ONLY = ["-Xfrontend", "-experimental-skip-non-inlinable-function-bodies"]


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
    header = SOURCES / "CWaybillSystem" / "include" / "CWaybillSystem.h"
    text = f'module CWaybillSystem {{\n    umbrella header "{header}"\n    export *\n}}\n'
    (folder / "module.modulemap").write_text(text)


def emit_modules(names, folder):
    """Builds modules of Sources into a folder, in the order in which they import each other."""
    features = upcoming_features()
    write_c_module(folder)
    for name in MODULES:
        if name in names:
            emit_module(name, swift_files(SOURCES / name), folder, *LANGUAGE, *features, *DECLARATIONS_ONLY)


def emit_stub(name, folder):
    """Builds a stand-in for a framework; Apple's have library evolution: their enumerations may grow."""
    emit_module(
        name, swift_files(STUBS / name), folder, "-swift-version", "6", "-enable-library-evolution",
        "-suppress-warnings")


def failed_module(error):
    """The name of the module that a failed run of the compiler was for."""
    return error.cmd[error.cmd.index("-module-name") + 1]
