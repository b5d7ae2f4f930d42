"""`keep`: shipped segments stay in the spool for a while, and a receiver that lost its data gets them again."""

import shutil

import ledger
from harness import SiteTest, until


class KeepTests(SiteTest):
    def setUp(self):
        super().setUp()
        self.maker = ledger.EventMaker(seed=11)
        self.lines = []
        self.configuration = self.site.root / "agent.yaml"
        self.configuration.write_text(
            f"agent:\n  state: {self.site.state}\n  to: [{self.site.address}]\n  name: keeper\n"
            f"  keep: {{hours: 24, gib: 1}}\n  sources:\n    - {{spool: {self.site.spool}}}\n", encoding="utf-8")

    def segment(self, count):
        """A complete segment of a writer of its own."""
        lines = self.maker.lines(count)
        self.maker.segment(self.site.spool, lines)
        self.lines += lines

    def agent(self):
        return self.site.start("agent", "--config", self.configuration, log="agent.log")

    def archived(self):
        return sorted(ledger.archived(self.site.data))

    def is_archived(self):
        return len(self.archived()) >= len(self.lines)

    def kept(self):
        return sorted(path.name for path in self.site.spool.iterdir() if ".ndjson.shipped-" in path.name)

    def assert_everything_once(self):
        self.assertEqual(self.archived(), sorted(self.lines))
        self.assert_verified()

    def start(self, segments=5):
        for _ in range(segments):
            self.segment(40)
        receiver = self.site.receiver(exports="none")
        agent = self.agent()
        until(lambda: self.is_archived() and len(self.kept()) == segments, 60, "everything is shipped and kept")
        return receiver, agent

    def test_a_receiver_whose_data_directory_was_deleted_gets_everything_again(self):
        receiver, agent = self.start()
        receiver.kill()
        shutil.rmtree(self.site.data)
        receiver = self.site.receiver(exports="none")
        # At one address an agent takes in an unknown receiver once a minute at most.
        until(self.is_archived, 120, "it is archived again")
        until(lambda: len(self.kept()) == 5, 60, "it is kept again")
        self.stop_all(agent, receiver)
        self.assert_everything_once()
        self.assertIn("segments that were kept are shipped again", agent.log())
