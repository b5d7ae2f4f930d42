"""The client's modules, built one by one with swiftc.

They are for checks that need no build of the package and no Apple SDK. They are built in the order of
MODULES, as Package.swift says, and each imports only those before it. The checks share them: they are built once, and
again when one of their sources has changed.
"""

import fcntl
import hashlib
import pathlib
import re
import shutil
import subprocess
import sys

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
