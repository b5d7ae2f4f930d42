"""Authorities and certificates that live as long as a test, made with the `openssl` command line."""

import os
import shutil
import subprocess
import unittest

CONFIGURATION = """
[ca]
default_ca = authority
[authority]
new_certs_dir = {folder}
database = {folder}/{name}.index
serial = {folder}/{name}.serial
default_md = sha256
policy = any
unique_subject = no
[any]
commonName = optional
"""


def openssl(*arguments):
    try:
        return subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True).stdout
    except FileNotFoundError:
        raise unittest.SkipTest("there is no openssl command") from None
    except subprocess.CalledProcessError as error:
        raise AssertionError(f"openssl {' '.join(map(str, arguments))}: {error.stderr.decode()}") from None


def new_key(path):
    openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-out", path)
    return path


def install(identity, *targets):
    """Replaces a certificate and its key at once, as programs that renew them do."""
    for source, target in zip(identity, targets):
        shutil.copy(source, f"{target}.new")
        os.replace(f"{target}.new", target)


class Authority:
    """A root of its own; signs what it is asked to."""

    def __init__(self, folder, name="authority"):
        self.folder, self.name = folder, name
        folder.mkdir(parents=True, exist_ok=True)
        self.key, self.certificate = new_key(folder / f"{name}.key"), folder / f"{name}.pem"
        openssl(
            "req", "-x509", "-new", "-key", self.key, "-out", self.certificate, "-subj", f"/CN={name}", "-days", "2",
            "-addext", "keyUsage=critical,keyCertSign,cRLSign")
        (folder / f"{name}.index").touch()
        (folder / f"{name}.serial").write_text("1000\n")
        (folder / f"{name}.conf").write_text(CONFIGURATION.format(folder=folder, name=name))

    def issue(self, name, alternatives="IP:127.0.0.1,DNS:localhost", days=("-1", "1"), kind="serverAuth", is_authority=False):
        """A certificate that is valid between `days` from now; returns the paths of it and its key."""
        key, request, path = (self.folder / f"{name}.{end}" for end in ("key", "csr", "pem"))
        new_key(key)
        openssl("req", "-new", "-key", key, "-out", request, "-subj", f"/CN={name}")
        lines = ["basicConstraints=critical,CA:TRUE"] if is_authority else [f"extendedKeyUsage={kind}"]
        lines += [f"subjectAltName={alternatives}"] if alternatives else []
        extensions = self.folder / f"{name}.ext"
        extensions.write_text("\n".join(lines) + "\n")
        start, end = (
            subprocess.run(
                ["date", "-u", "-d", f"{day} days", "+%Y%m%d%H%M%SZ"], check=True, capture_output=True, text=True
            ).stdout.strip() for day in days)
        openssl(
            "ca", "-batch", "-notext", "-config", self.folder / f"{self.name}.conf", "-cert", self.certificate,
            "-keyfile", self.key, "-in", request, "-out", path, "-extfile", extensions, "-startdate", start,
            "-enddate", end)
        return path, key
