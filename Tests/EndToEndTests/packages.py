"""The Debian package and the image's folder, made once for each process that tests them."""

import functools
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

from harness import REPOSITORY, binary

UNITS = ["waybill-receiver.service", "waybill-agent.service", "waybill-live.service", "waybill-deliver.service",
         "waybill-deliver@ga4.service", "waybill-merge.service", "waybill-ingest.service"]


def execute(*command, **options):
    """Runs a command that must work; returns what it printed."""
    result = subprocess.run(
        list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **options)
    if result.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))}: {result.returncode}\n{result.stdout[-4000:]}")
    return result.stdout


@functools.cache
def folder():
    """A folder that goes when the process does."""
    made = tempfile.TemporaryDirectory(prefix="waybill-package-")
    folder.kept = made
    return pathlib.Path(made.name)


@functools.cache
def package():
    """$WAYBILL_PACKAGE, else a package of the programs under test, which is not for other machines."""
    named = os.environ.get("WAYBILL_PACKAGE")
    if named:
        return pathlib.Path(named)
    execute(REPOSITORY / "Tools/package", "--programs", pathlib.Path(binary()).parent, folder())
    return next(folder().glob("*.deb"))


@functools.cache
def contents():
    """The package's files."""
    path = folder() / "contents"
    execute("dpkg-deb", "--extract", package(), path)
    return path


@functools.cache
def image():
    """The folder that an image is made of."""
    path = folder() / "image"
    execute(REPOSITORY / "Tools/package", "--programs", pathlib.Path(binary()).parent, "--image", path)
    return path


def repacked(version, change=lambda root: None):
    """The package with another version, and what `change` does to its files."""
    root = folder() / f"repacked-{version}"
    execute("dpkg-deb", "--raw-extract", package(), root)
    control = root / "DEBIAN/control"
    text = control.read_text(encoding="utf-8")
    control.write_text(re.sub("^Version: .*$", f"Version: {version}", text, flags=re.MULTILINE), encoding="utf-8")
    change(root)
    made = folder() / f"waybill-{version}.deb"
    execute("dpkg-deb", "--root-owner-group", "-Znone", "--build", root, made)
    shutil.rmtree(root)
    return made


def settings(unit):
    """The settings of a unit's section [Service], with those of the drop-in that all share; the last of a name counts."""
    units = contents() / "usr/lib/systemd/system"
    found = {}
    for path in [units / unit, *(units / "waybill-.service.d").iterdir()]:
        for line in path.read_text(encoding="utf-8").splitlines():
            name, equals, value = line.partition("=")
            if equals and not line.startswith("#"):
                found[name] = value
    return found


def members(user):
    """The groups that sysusers.d puts a user into."""
    text = (contents() / "usr/lib/sysusers.d/waybill.conf").read_text(encoding="utf-8")
    return [line.split()[2] for line in text.splitlines() if line.split()[:2] == ["m", user]]
