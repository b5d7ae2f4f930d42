"""`waybill store`: a fleet's bucket is named, checked and listed; what is unsafe is refused; no secret is printed."""

import json
import os
import re

from buckets import KEY, REGION, SECRET, Moto, SmallStore
from harness import REPOSITORY, SiteTest, run, succeed

TOKEN = "a-session-token-that-never-prints"


class StoreTest(SiteTest):
    def setUp(self):
        super().setUp()
        self.store = SmallStore()
        self.addCleanup(self.store.close)

    def environment(self, **changes):
        """No credentials but the test's own, from anywhere; an empty variable is none."""
        variables = {name: "" for name in os.environ if name.startswith("AWS_")}
        variables |= {
            "HOME": str(self.site.root), "AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": REGION,
            "AWS_EC2_METADATA_DISABLED": "true"}
        return variables | changes

    def waybill(self, *arguments, code=0, url="s3://events/way/bill", options=None, **changes):
        """Runs `waybill store`; whatever it ends with, it says no secret."""
        options = ["--store", url, "--endpoint", self.store.url] if options is None else options
        result = run("store", arguments[0], *options, *arguments[1:], env=self.environment(**changes), timeout=240)
        said = (result.stdout + result.stderr).decode()
        for secret in (SECRET, TOKEN, "Signature="):
            self.assertNotIn(secret, said)
        self.assertEqual(result.returncode, code, said)
        return said


class InitTests(StoreTest):
    def test_the_first_call_names_the_fleet_and_the_second_finds_it(self):
        first = json.loads(self.waybill("init", "--json"))
        self.assertEqual((first["created"], first["level"], len(first["fleet"])), (True, "stored", 32))
        content, _ = self.store.objects["way/bill/fleet-00001.json"]
        self.assertEqual(json.loads(content), {"fleet": first["fleet"], "level": "stored", "shards": 1, "seal_seconds": 300})
        second = json.loads(self.waybill("init", "--json"))
        self.assertEqual(second, first | {"created": False})
        self.assertIn(f"fleet {first['fleet']}, level stored (it was there before)", self.waybill("init"))


class CheckTests(StoreTest):
    def test_a_good_store_passes_and_keeps_nothing_of_it(self):
        said = self.waybill("check")
        self.assertIn("s3://events/way/bill, credentials from the environment", said)
        for name in ("write", "one after the other", "8 at once", "read", "list", "clock", "delete"):
            self.assertIn(f"  good  {name}", said)
        self.assertEqual(self.store.objects, {})
        found = json.loads(self.waybill("check", "--json"))
        self.assertTrue(found["good"])
        self.assertEqual({finding["outcome"] for finding in found["findings"]}, {"good"})

    def test_wrong_credentials(self):
        self.assertIn("SignatureDoesNotMatch", self.waybill("check", code=77, AWS_SECRET_ACCESS_KEY="another"))
        self.assertIn("InvalidAccessKeyId", self.waybill("check", code=77, AWS_ACCESS_KEY_ID="AKIAOTHER"))
        self.assertIn("no credentials", self.waybill("check", code=77, AWS_ACCESS_KEY_ID="", AWS_SECRET_ACCESS_KEY=""))
        self.assertEqual(self.store.objects, {})

    def test_the_configuration_names_the_store_and_no_secret(self):
        file = self.site.root / "waybill.yaml"
        file.write_text(f"store:\n  url: s3://events/way/bill\n  endpoint: {self.store.url}\n  region: {REGION}\n")
        self.waybill("check", options=["--config", str(file)], AWS_REGION="")
        self.assertEqual(run("check", file).returncode, 0)
        file.write_text("store:\n  url: s3://x\n  secret: abc\n  addressing: sideways\n")
        problems = run("check", file).stderr.decode()
        for text in ("store.url", "store.secret: is not a key", "store.addressing"):
            self.assertIn(text, problems)


class PageTests(StoreTest):
    def test_the_check_says_what_the_page_shows(self):
        page = (REPOSITORY / "Documentation" / "fleet.md").read_text(encoding="utf-8")
        shown = re.search(r"```\n(s3://.*?)```", page, re.DOTALL)[1]
        said = self.waybill("check", url="s3://events/waybill")

        def shape(text):
            """Without what differs from run to run: the bucket, times, and on which side the clock is."""
            text = re.sub(r"s3://[\w-]+/", "s3://", text)
            return re.sub(r"\d+(\.\d)? m?s\b", "TIME", text).replace("behind the", "ahead of the").splitlines()

        self.assertEqual(shape(said), shape(shown))

    def test_the_policies_are_json_and_the_section_is_good(self):
        page = (REPOSITORY / "Documentation" / "fleet.md").read_text(encoding="utf-8")
        policies = [json.loads(text) for text in re.findall(r"```json\n(.*?)```", page, re.DOTALL)]
        self.assertEqual(len(policies), 2)
        file = self.site.root / "waybill.yaml"
        file.write_text(re.search(r"```yaml\n(.*?)```", page, re.DOTALL)[1])
        succeed("check", file)


class ListTests(StoreTest):
    def test_chains_with_their_ends(self):
        self.waybill("init")
        for receiver, positions in (("a~0123456789abcdef", (0, 900, 1800)), ("b~fedcba9876543210", (0,))):
            for position in positions:
                self.store.objects[f"way/bill/journal/{receiver}/{position:020}.wbj"] = (b"x" * 100, self.store.now())
        self.store.page = 2
        said = self.waybill("ls")
        self.assertRegex(said, r" 3 +300  00000000000000001800 +\d+ s  a~0123456789abcdef\n")
        self.assertRegex(said, r" 1 +100  00000000000000000000 +\d+ s  b~fedcba9876543210\n")
        rows = [json.loads(line) for line in self.waybill("ls", "--json").splitlines()]
        self.assertEqual([row.get("pieces") for row in rows], [None, 3, 1])
        keys = [line.split()[-1] for line in self.waybill("ls", "journal/a~").splitlines()]
        self.assertEqual(keys, [f"journal/a~0123456789abcdef/{position:020}.wbj" for position in (0, 900, 1800)])

    def test_an_empty_bucket(self):
        self.assertIn("no fleet yet; waybill store init names one", self.waybill("ls"))


class MotoTests(StoreTest):
    def test_another_implementation_agrees(self):
        moto = Moto(self.site.root / "moto.log")
        self.addCleanup(moto.close)
        moto.make("events")
        options = ["--store", "s3://events/env=prod/p", "--endpoint", moto.url]
        first = json.loads(self.waybill("init", "--json", options=options))
        self.assertEqual(json.loads(self.waybill("init", "--json", options=options)), first | {"created": False})
        self.assertTrue(json.loads(self.waybill("check", "--json", options=options))["good"])
        self.assertIn(first["fleet"], self.waybill("ls", options=options))
        self.assertIn("fleet-00001.json", self.waybill("ls", "fleet", options=options))
        missing = ["--store", "s3://absent/p", "--endpoint", moto.url]
        self.assertIn("NoSuchBucket", self.waybill("check", options=missing, code=78))
