"""A Ceph of one monitor, one OSD and one gateway in a folder of its own: an S3 store that checks signatures for real.

Nothing of the system is used but Debian's programs (ceph-mon, ceph-osd, ceph-common, radosgw): no service, no file in
/etc or /var, no manager. The OSD keeps its objects in a file (BlueStore), so SIGKILL takes nothing from it that it has
answered. All listen on the loopback address alone.
"""

import pathlib
import shutil
import subprocess
import time
import urllib.error
import urllib.request
import uuid

from bucket_requests import BucketRequests
from harness import free_port, patience

KEY, SECRET = "WAYBILLTESTTESTTEST0", "a/very+secret/key/of/a/gateway/00000000"
PROGRAMS = ("monmaptool", "ceph-authtool", "ceph-mon", "ceph", "ceph-osd", "radosgw", "radosgw-admin")
# They read no configuration.
OFFLINE = ("monmaptool", "ceph-authtool")
RIGHTS = {"mon.": ["mon"], "client.admin": ["mon", "osd", "mgr"], "osd.0": ["mon", "osd"], "client.rgw": ["mon", "osd"]}
PACKAGES = "ceph-mon ceph-osd ceph-common radosgw"

CONFIGURATION = """[global]
fsid = {fsid}
mon host = v2:127.0.0.1:{port}
public addr = 127.0.0.1
keyring = {folder}/keyring
ms bind msgr1 = false
run dir = {folder}
admin socket = {folder}/$name.asok
pid file = {folder}/$name.pid
crash dir = {folder}/crash
log file = {folder}/$name.log
mon cluster log file = {folder}/cluster.log
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 4
osd pool default pgp num = 4
osd pool default pg autoscale mode = off
osd crush chooseleaf type = 0
mon allow pool size one = true
mon max pg per osd = 1000
mon data avail crit = 1
mon data avail warn = 2
[mon]
mon data = {folder}/mon
[osd]
osd data = {folder}/osd
osd objectstore = bluestore
bluestore block size = 8589934592
bluestore block wal create = false
bluestore block db create = false
osd memory target = 939524096
osd heartbeat grace = 60
[client]
rgw data = {folder}/rgw
rgw dns name = localhost
rgw enable usage log = false
rgw enable gc threads = false
rgw enable lc threads = false
rgw thread pool size = 32
"""


class CannotStart(Exception):
    """Why there is no gateway: a program that is missing, or what the one that ended said last."""


def missing_programs():
    return [name for name in PROGRAMS if shutil.which(name) is None]


class Radosgw:
    """The three daemons; `start` returns when a bucket can be made, `close` ends them and deletes the folder."""

    def __init__(self, folder: pathlib.Path):
        missing = missing_programs()
        if missing:
            raise CannotStart(f"there is no {', no '.join(missing)}; apt-get install --no-install-recommends {PACKAGES}")
        self.folder, self.running = pathlib.Path(folder), {}
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        try:
            self.start()
        except BaseException:
            self.close()
            raise

    # Processes

    def start(self):
        for name in ("mon", "osd", "rgw", "crash"):
            (self.folder / name).mkdir(parents=True)
        fsid, port = str(uuid.uuid4()), free_port()
        self.configuration = self.folder / "ceph.conf"
        self.configuration.write_text(CONFIGURATION.format(fsid=fsid, port=port, folder=self.folder))
        self.run("monmaptool", "--create", "--fsid", fsid, "--addv", "a", f"v2:127.0.0.1:{port}", self.folder / "monmap")
        # One file of keys for all of them; the gateway will not start without one.
        keyring = self.folder / "keyring"
        for number, (name, parts) in enumerate(RIGHTS.items()):
            rights = [word for part in parts for word in ("--cap", part, "allow *")]
            self.run(
                "ceph-authtool", *([] if number else ["--create-keyring"]), keyring, "--gen-key", "--name", name, *rights)
        self.run("ceph-mon", "--mkfs", "--keyring", keyring, "--id", "a", "--monmap", self.folder / "monmap")
        self.launch("mon")
        self.run("ceph", "--connect-timeout", "60", "osd", "new", identity := str(uuid.uuid4()))
        self.run("ceph-osd", "--mkfs", "--id", "0", "--osd-uuid", identity)
        self.launch("osd")
        self.launch("gateway")
        self.until_answering()
        self.run(
            "radosgw-admin", "user", "create", "--uid", "waybill", "--display-name", "waybill", "--access-key", KEY,
            "--secret-key", SECRET)

    def run(self, program, *arguments):
        """One command to its end."""
        with open(self.folder / "setup.log", "ab") as log:
            log.write(f"$ {program} {' '.join(map(str, arguments))}\n".encode())
            log.flush()
            result = subprocess.run(
                [program, *([] if program in OFFLINE else ["--conf", self.configuration]), *arguments],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, timeout=patience(120), check=False)
        if result.returncode != 0:
            raise CannotStart(f"{program} ended with {result.returncode}: {self.tail('setup')}")

    def launch(self, name):
        arguments = {
            "mon": ["ceph-mon", "--id", "a"],
            "osd": ["ceph-osd", "--id", "0"],
            "gateway": ["radosgw", "--name", "client.rgw", "--rgw-frontends", f"beast endpoint=127.0.0.1:{self.port}"],
        }[name]
        with open(self.folder / f"{name}.out", "ab") as output:
            self.running[name] = subprocess.Popen(
                [arguments[0], "--conf", self.configuration, "--foreground", *arguments[1:]], stdin=subprocess.DEVNULL,
                stdout=output, stderr=output)

    def kill(self, name):
        """SIGKILL for the `gateway`, the `osd` or the `mon`."""
        self.running[name].kill()
        self.running[name].wait()

    def restart(self, name):
        """Starts a killed daemon again and returns the seconds until a key can be read."""
        started = time.monotonic()
        self.launch(name)
        self.until_answering()
        return time.monotonic() - started

    def until_answering(self):
        deadline = time.monotonic() + patience(120)
        while not self.is_answering():
            for name, process in self.running.items():
                if process.poll() is not None:
                    raise CannotStart(f"{name} ended with {process.returncode}: {self.tail(name)}")
            if time.monotonic() > deadline:
                raise CannotStart(f"the gateway does not answer within {patience(120)} s: {self.tail('gateway')}")
            time.sleep(0.1)

    def is_answering(self):
        try:
            # It asks the OSD for the bucket's name, and so answers when both are there.
            with urllib.request.urlopen(f"{self.url}/absent-{time.monotonic_ns()}", timeout=10) as answer:
                return answer.status < 500
        except urllib.error.HTTPError as error:
            with error:
                return error.code < 500
        except OSError:
            return False

    def tail(self, name):
        paths = [path for path in self.folder.glob(f"*{name}*.*") if path.suffix in (".out", ".log")]
        texts = [path.read_text(errors="replace")[-1500:] for path in paths]
        return "\n".join(texts)[-3000:]

    def close(self):
        for name in ("gateway", "osd", "mon"):
            if name in self.running:
                self.kill(name)
        shutil.rmtree(self.folder, ignore_errors=True)

    # Buckets

    def bucket(self, name="events", secret=SECRET):
        return BucketRequests(self.url, name, KEY, secret)

    def make(self, name):
        self.bucket(name).make()
