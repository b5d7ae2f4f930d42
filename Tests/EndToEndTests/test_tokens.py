"""`waybill token`: new tokens and the digests of those that are there."""
import hashlib
import pathlib
import tempfile
import unittest

from harness import run, succeed

BADINPUT, NOINPUT = 65, 66


class TokenTests(unittest.TestCase):
    def test_a_new_token_has_256_bits_and_comes_with_its_digest(self):
        tokens = set()
        for _ in range(3):
            result = succeed("token")
            self.assertRegex(result.stdout, rb"\A[A-Za-z0-9_-]{43}\n\Z")
            token = result.stdout.strip()
            self.assertIn(f"sha256:{hashlib.sha256(token).hexdigest()}", result.stderr.decode())
            self.assertNotIn(token, result.stderr)
            tokens.add(token)
        self.assertEqual(len(tokens), 3)

    def test_the_digest_of_a_file_and_of_standard_input(self):
        token = b"a token of 16 bytes or more".replace(b" ", b"-")
        digest = f"sha256:{hashlib.sha256(token).hexdigest()}\n".encode()
        with tempfile.TemporaryDirectory() as directory:
            path = pathlib.Path(directory) / "token"
            for text in (token, token + b"\n"):
                path.write_bytes(text)
                self.assertEqual(run("token", "--digest", path).stdout, digest)
                self.assertEqual(run("token", "--digest", stdin=text).stdout, digest)

    def test_short_tokens_are_refused_and_not_shown(self):
        for text in (b"", b"\n", b"15-bytes-secret", b"15-bytes-secret\n"):
            result = run("token", "--digest", stdin=text)
            self.assertEqual((result.returncode, result.stdout), (BADINPUT, b""))
            self.assertIn(b"fewer than 16 bytes", result.stderr)
            self.assertNotIn(b"15-bytes-secret", result.stderr)
        self.assertEqual(run("token", "--digest", "/nowhere/token").returncode, BADINPUT)
