"""`waybill token`, the token in a file, and `waybill reship`."""
import hashlib
import pathlib
import re
import tempfile
import unittest

from harness import SiteTest, run, until

WRITER = "0195505e-aaaa-7000-8000-0000000000aa"
SEGMENT = f"{WRITER}-00000000000000000001"
BADINPUT, NOINPUT = 65, 66


class TokenTests(unittest.TestCase):
    def test_a_new_token_has_256_bits_and_comes_with_its_digest(self):
        tokens = set()
        for _ in range(3):
            result = run("token")
            self.assertEqual(result.returncode, 0, result.stderr)
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


class TokenFileTests(SiteTest):
    def test_an_agent_reads_its_token_at_each_connection(self):
        good, bad = "the-right-token-of-agents", "a-wrong-token-of-agents"
        self.site.receiver(env={"WAYBILL_TOKEN": good})
        token = self.site.root / "token"
        token.write_text(bad)
        agent = self.site.agent("--token-file", token)
        agent.until_logged("token")
        agent.terminate()
        agent.wait()
        # Without a file the attempt fails, and the next one after a moment reads what is there by then.
        token.unlink()
        agent = self.site.agent("--token-file", token)
        agent.until_logged("there is no token file")
        segment = self.site.spool / f"{SEGMENT}.ndjson"
        segment.write_bytes(b'{"v":1,"first":true}\n')
        token.write_text(good + "\n")
        until(lambda: not segment.exists(), 60, "the segment is delivered and deleted")
        for secret in (good, bad):
            self.assertNotIn(secret, agent.log())


class ReshipTests(SiteTest):
    def test_a_segment_whose_id_is_taken_arrives_under_another(self):
        line = b'{"v":1,"another":true}\n'
        self.site.receiver()
        (self.site.spool / f"{SEGMENT}.ndjson").write_bytes(b'{"v":1,"first":true}\n')
        self.site.once()
        path = self.site.spool / f"{SEGMENT}.ndjson"
        path.write_bytes(line)
        agent = self.site.agent()
        agent.until_logged("does not prove that it holds this segment")
        self.assertEqual(path.read_bytes(), line)
        result = run("reship", path)
        self.assertEqual(result.returncode, 0, result.stderr)
        digest = hashlib.sha256(line).hexdigest()[:16]
        new = path.with_name(f"{SEGMENT}:{digest}.ndjson")
        self.assertIn(str(new), result.stdout.decode())
        until(lambda: not new.exists(), 30, "the segment is delivered and deleted")
        self.assertFalse(path.exists())
        result = run("reship", new)
        self.assertEqual(result.returncode, NOINPUT)
        other = self.site.logs / "app.log"
        other.write_bytes(line)
        result = run("reship", other)
        self.assertEqual(result.returncode, BADINPUT)
        self.assertTrue(re.search(rb"not a segment", result.stderr))


if __name__ == "__main__":
    unittest.main()
