"""Other products on the same job: spool files -> sender -> TCP -> receiver -> daily files by the event's own date.

They are fetched from Debian into `.build/rivals` and run from there; nothing is installed. Their configurations, with
what each promises, are the templates in `rivals/`.
"""
import dataclasses
import functools
import os
import pathlib
import shutil
import subprocess

import bench

CONFIGURATIONS = pathlib.Path(__file__).resolve().parent / "rivals"
PLACE = bench.REPOSITORY / ".build/rivals"
PACKAGES = {
    "rsyslog": ["rsyslog", "rsyslog-relp", "librelp0", "libestr0", "libfastjson4", "liblognorm5"],
    "syslog-ng": ["syslog-ng-core", "libivykis0", "libjson-c5", "libnet1", "libwrap0", "libpcre3"],
    "libdeflate": ["libdeflate0"],
}


@dataclasses.dataclass(frozen=True)
class Rival:
    """One product with one pair of configurations."""
    name: str
    product: str
    sender: str
    receiver: str

    def version(self):
        return f"{self.product} {version(self.product)}"

    def commands(self, workplace, port, spool, data):
        """The receiver's and the sender's commands, and the environment of both."""
        root, libraries = fetched(self.product)
        commands = []
        for side, template in (("receiver", self.receiver), ("sender", self.sender)):
            work = workplace.folder(side)
            text = (CONFIGURATIONS / (template + ".conf")).read_text()
            for word, value in {"WORK": work, "PORT": str(port), "SPOOL": spool, "DATA": data}.items():
                text = text.replace(f"@{word}@", value)
            path = workplace.path(side + ".conf")
            with open(path, "w") as file:
                file.write(text)
            if self.product == "rsyslog":
                modules = next(root.glob("usr/lib/*/rsyslog"))
                commands.append([root / "usr/sbin/rsyslogd", "-n", "-i", "NONE", "-f", path, "-M", modules])
            else:
                commands.append([
                    root / "usr/sbin/syslog-ng", "--foreground", "--no-caps", "--cfgfile", path,
                    "--module-path", root / "usr/lib/syslog-ng/3.38", "--persist-file", work + "/persist",
                    "--pidfile", work + "/pid", "--control", work + "/control"])
        return commands, environment(libraries)


RIVALS = [
    Rival("rsyslog-safe", "rsyslog", "rsyslog-sender-safe", "rsyslog-receiver-safe"),
    Rival("rsyslog-fast", "rsyslog", "rsyslog-sender-fast", "rsyslog-receiver-fast"),
    Rival("rsyslog-json", "rsyslog", "rsyslog-sender-fast", "rsyslog-receiver-json"),
    Rival("syslog-ng", "syslog-ng", "syslog-ng-sender", "syslog-ng-receiver"),
]


def environment(libraries):
    return {"LD_LIBRARY_PATH": ":".join(map(str, libraries))}


def fetch(product):
    """Downloads and unpacks a product, once. Raises `Failure` where that is not possible."""
    root = PLACE / product
    if (root / "complete").exists():
        return root
    if not shutil.which("apt-get") or not shutil.which("dpkg"):
        raise bench.Failure(f"{product}: rivals come as Debian packages, and this machine has no apt-get")
    shutil.rmtree(root, ignore_errors=True)
    packages = root / "packages"
    packages.mkdir(parents=True)
    result = subprocess.run(
        ["apt-get", "download", *PACKAGES[product]], cwd=packages, capture_output=True, text=True, timeout=300)
    if result.returncode != 0:
        raise bench.Failure(f"{product}: apt-get download: {result.stderr.strip()[-300:]}; `apt-get update` may help")
    for package in sorted(packages.glob("*.deb")):
        subprocess.run(["dpkg", "-x", package, root], check=True, timeout=60)
    (root / "complete").touch()
    return root


@functools.cache
def fetched(product):
    """Where a product is and where its libraries are; makes sure that the machine has the rest of them."""
    root = fetch(product)
    libraries = sorted({path.parent for pattern in ("usr/lib/*/*.so.*", "lib/*/*.so.*") for path in root.glob(pattern)})
    program = root / ("usr/sbin/rsyslogd" if product == "rsyslog" else "usr/sbin/syslog-ng")
    result = subprocess.run(
        ["ldd", program], capture_output=True, text=True, env={**os.environ, **environment(libraries)}, timeout=20)
    missing = [line.split()[0] for line in result.stdout.splitlines() if "not found" in line]
    if missing:
        raise bench.Failure(f"{product}: this machine lacks {', '.join(missing)}")
    return root, libraries


def version(product):
    for package in (fetch(product) / "packages").glob(PACKAGES[product][0] + "_*.deb"):
        return package.name.split("_")[1].replace("%3a", ":")
    return "?"
