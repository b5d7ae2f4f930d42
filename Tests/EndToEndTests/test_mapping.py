"""Operators' mappings, options of providers, sets of environments and custom providers: what the files say is what is
written, what is wrong in them is said with its line, and reading them anew under load loses and repeats nothing.

Shows T36. WAYBILL_RELOADS says how many reloads.
"""

import collections
import csv
import io
import json
import random
import re
import signal

from harness import REPOSITORY, SiteTest, VECTORS, ended, failure, run, succeed, until
from ledger import EventMaker, Ledger, stored, whole
from scale import SEED, THOROUGH, amount, at_night

GOLDEN = (VECTORS / "providers" / "golden-events.ndjson").read_bytes()

MAPPING = """\
# What the marketing project gets.
version: 3
take:
  kinds: [screen, action]
leave:
  names: [debug_*, "Product Shown"]
rename:
  Product Tapped: product_tap
fields:
  - rename: {productName: item_name}
    drop: [productPosition]
    constant: {channel: app}
  - names: [screen_*]
    constant: {first: true, rank: 1.50, zip: "0010"}
"""

WAREHOUSE = """\
version: 1
format: csv
kinds: [screen, action]
columns:
  - {name: at, from: ts, type: time, required: true}
  - {name: event, from: name, max: 14}
  - {name: price, from: data.productPrice, type: number, default: 0}
  - {name: fields, from: data, type: json}
part: {records: 1000, mib: 1}
"""


class FileTest(SiteTest):
    def write(self, name, text):
        return self.site.write(name, text)

    def configuration(self, exports, name="waybill.yaml"):
        return self.write(name, f"receiver:\n  data: {self.site.data}\n  listen: {self.site.address}\n  exports:\n"
                                + "".join(f"    - {export}\n" for export in exports))

    def transform(self, provider, exports, events=GOLDEN):
        result = succeed("transform", "--provider", provider, "--config", self.configuration(exports), stdin=events)
        return result.stdout.decode(), json.loads(result.stderr)


class MappingTests(FileTest):
    def test_events_come_out_as_the_file_says(self):
        self.write("mixpanel.yaml", MAPPING)
        output, counts = self.transform("mixpanel", ["{provider: mixpanel, mapping: mixpanel.yaml}"])
        screen, tap, like = map(json.loads, output.splitlines())
        self.assertEqual((counts["lines"], counts["exported"], counts["skipped"]), (4, 3, 1))
        self.assertEqual([event["event"] for event in (screen, tap, like)],
                         ["Screen View", "product_tap", "moment_like"])
        fields = list(tap["properties"].items())
        self.assertEqual(fields[-4:], [("channel", "app"), ("item_name", '=cmd "토스터", 2구'), ("productPrice", 39900),
                                       ("productIndex", 7)])
        self.assertIn('"channel":"app","first":true,"rank":1.50,"zip":"0010","method":"email"', output.splitlines()[0])
        self.assertNotIn("first", tap["properties"])

    def test_a_custom_provider_writes_its_columns(self):
        self.write("warehouse.yaml", WAREHOUSE)
        exports = ["{provider: custom, name: warehouse, file: warehouse.yaml}", "{provider: csv}"]
        output, counts = self.transform("warehouse", exports)
        rows = list(csv.reader(io.StringIO(output, newline="")))
        self.assertEqual(rows[0], ["at", "event", "price", "fields"])
        self.assertEqual(rows[2][:3], ["2025-03-01T09:14:19.003Z", "Product Tapped", "39900"])
        self.assertEqual(json.loads(rows[2][3])["productName"], '=cmd "토스터", 2구')
        self.assertEqual([row[2] for row in rows[1:]], ["0", "39900", "0"])
        self.assertEqual(counts["skipped"], 1)
        self.write("warehouse.yaml", WAREHOUSE.replace("csv", "ndjson"))
        output, _ = self.transform("warehouse", exports)
        self.assertEqual([json.loads(line)["price"] for line in output.splitlines()], [0, 39900, 0])

    def test_a_custom_export_lives_like_any_other(self):
        """Live, replayed and verified: the same records, each event once, and parts with manifests."""
        self.write("warehouse.yaml", WAREHOUSE.replace("1000", "100"))
        config = self.configuration(["{provider: custom, name: warehouse, file: warehouse.yaml}", "{provider: csv}"])
        maker, ledger = EventMaker(5), Ledger()
        receiver = self.start(config)
        maker.spool(self.site.spool, ledger, 1_500_000)
        self.site.once()
        self.assertEqual(receiver.stop(), 0)
        self.assertTrue(ledger.compare(stored(self.site.data)).is_clean)
        live = self.rows("exports/warehouse")
        self.assertEqual(sum(live.values()), sum(1 for _ in stored(self.site.data)))
        manifests = [json.loads(path.read_text()) for path in self.site.data.glob("exports/warehouse/*/*/*.manifest.json")]
        self.assertTrue(manifests)
        self.assertEqual({(entry["provider"], entry["mapping"]) for entry in manifests}, {("warehouse", 1)})
        verified = succeed("inspect", "--verify", "--config", config, self.site.data)
        self.assertIn("warehouse", verified.stdout.decode())
        ended(64, "replay", "--data", self.site.data, "--provider", "warehouse")
        succeed("replay", "--data", self.site.data, "--provider", "warehouse", "--config", config)
        self.assertEqual(self.rows("exports/warehouse"), live)

    def start(self, config):
        return self.site.configured(config)

    def rows(self, folder):
        found = collections.Counter()
        for path in (self.site.data / folder).glob("*/*/part-*.csv*"):
            found.update(whole(path).split(b"\r\n")[1:-1])
        return found

    def test_a_replay_wants_to_know_the_mapping_of_the_live_export(self):
        self.write("mixpanel.yaml", MAPPING)
        config = self.configuration(["{provider: mixpanel, mapping: mixpanel.yaml}"])
        receiver = self.start(config)
        EventMaker(6).spool(self.site.spool, Ledger(), 50_000)
        self.site.once()
        self.assertEqual(receiver.stop(), 0)
        self.assertIn("--config", failure(64, "replay", "--data", self.site.data, "--provider", "mixpanel"))
        self.write("mixpanel.yaml", MAPPING.replace("channel: app", "channel: web"))
        for command in (["replay", "--data", self.site.data, "--provider", "mixpanel"], ["receiver"]):
            told = failure(78, *command, "--config", config)
            self.assertNotIn("Usage", told)
            self.assertIn("version 3 had different content", told)
        self.write("mixpanel.yaml", MAPPING.replace("channel: app", "channel: web").replace("version: 3", "version: 4"))
        self.assertEqual(run("replay", "--data", self.site.data, "--provider", "mixpanel", "--config", config).returncode, 0)


class OptionTests(FileTest):
    """Each option of the table in `Protocol/formats/providers.md`, with the value it shows."""

    # What tells that the option is on; events come from the golden file, two of them odd.
    SIGNS = {
        ("ga4", "user_event"): lambda text: '"name":"profile_set"' in text,
        ("ga4", "device"): lambda text: '"device":{' in text,
        ("mixpanel", "id_merge"): lambda text: '"distinct_id":"b5372db0' in text,
        ("mixpanel", "screen_event"): lambda text: '"event":"Page"' in text,
        ("mixpanel-profiles", "id_merge"): lambda text: '"$distinct_id":"u-8812345"' in text,
        ("posthog", "personless"): lambda text: '"$process_person_profile":false' in text,
        ("snowplow", "vendor"): lambda text: "iglu:com.example/" in text,
        ("csv", "zone"): lambda text: "\r\n2025-03-01 18:14:15," in text,
        ("csv", "millis"): lambda text: "09:14:15.926," in text,
        ("csv", "bom"): lambda text: text.startswith("\ufeff"),
        ("csv", "guard"): lambda text: ",=1+1," in text,
        ("csv", "others"): lambda text: ",productPrice=39900," in text,
        ("csv", "users"): lambda text: ",set_user," in text,
        ("csv", "id"): lambda text: ",Others,Id\r\n" in text,
        ("syslog", "facility"): lambda text: text.startswith("<190>1 "),
        ("syslog", "host"): lambda text: " collector " in text,
        ("syslog", "enterprise"): lambda text: "[wb@4711 " in text,
        ("syslog", "max"): lambda text: 'more="' in text,
        ("syslog", "user"): lambda text: ' user="u-8812345"' in text,
        ("journald", "facility"): lambda text: "SYSLOG_FACILITY=23\n" in text,
        ("journald", "user"): lambda text: "WB_USER=u-8812345\n" in text,
        ("amplitude", "mode"): None,
        ("ga4", "too_old"): None,
    }

    def test_every_option_of_the_table_is_taken_and_shows(self):
        page = (REPOSITORY / "Protocol" / "formats" / "providers.md").read_text()
        table = page.split("## Options")[1].split("\n## ")[0]
        rows = [tuple(cell.strip().strip("`") for cell in row.split("|")[1:4])
                for row in table.splitlines() if row.startswith("| `")]
        self.assertEqual({row[:2] for row in rows}, set(self.SIGNS))
        long = GOLDEN.splitlines()[1].replace(b'"data":{', b'"data":{"long":"' + 300 * b"x" + b'",')
        events = GOLDEN + (VECTORS / "providers" / "guard-event.ndjson").read_bytes() + long + b"\n"
        for provider, option, value in rows:
            value = value.split(" ")[0].strip("`,")
            sign = self.SIGNS[provider, option]
            with self.subTest(provider=provider, option=option):
                output, _ = self.transform(provider, [f"{{provider: {provider}, options: {{{option}: {value}}}}}"], events)
                plain, _ = self.transform(provider, [f"{{provider: {provider}}}"], events)
                if sign:
                    self.assertTrue(sign(output), output[:600])
                    if (provider, option) != ("mixpanel-profiles", "id_merge"):
                        self.assertFalse(sign(plain), plain[:600])

    def test_old_events_are_clamped_on_wish(self):
        config = self.configuration(["{provider: ga4, options: {too_old: clamp}}"])
        arguments = ["transform", "--provider", "ga4", "--as-of", "2025-04-01T00:00:00Z"]
        clamped = run(*arguments, "--config", config, stdin=GOLDEN)
        self.assertEqual(clamped.stdout.count(b'"original_ts":"2025-03-01T'), 4)
        self.assertEqual(json.loads(run(*arguments, stdin=GOLDEN).stderr)["refused"], 4)


class CheckTests(FileTest):
    """`waybill check` names every problem with file, line, key and remedy."""

    def problems(self, path):
        result = ended(78, "check", path)
        lines = result.stderr.decode().splitlines()
        self.assertTrue(all(re.match(r"waybill: error: \S+: line \d+: \S+: .+", line) for line in lines), lines)
        return [re.sub(r"^waybill: error: (\S+/)?", "", line) for line in lines]

    def test_good_files_are_good(self):
        self.write("ga4.yaml", MAPPING)
        self.write("warehouse.yaml", WAREHOUSE)
        config = self.configuration([
            "{provider: ga4, zone: Asia/Seoul, env: [prod], mapping: ga4.yaml, options: {too_old: clamp, device: on}}",
            "{provider: custom, name: warehouse, file: warehouse.yaml}"])
        for path, text in ((config, "with 2 exports"), (self.site.root / "ga4.yaml", "mapping of version 3"),
                           (self.site.root / "warehouse.yaml", "version 1 with 4 columns of csv")):
            result = run("check", path)
            self.assertEqual((result.returncode, result.stderr), (0, b""))
            self.assertIn(text, result.stdout.decode())

    def test_each_problem_of_a_mapping_has_its_line(self):
        text = ("version: 0\n"
                "take:\n"
                "  kinds: [screen, tap]\n"
                "  names: [a*b]\n"
                "  colour: red\n"
                "rename: {a: a, b*: c}\n"
                "fields:\n"
                "  - drop: []\n"
                "  - constant:\n"
                "      ok: 1\n"
                "      list: [1]\n"
                "      nothing: null\n"
                "  - names: [x]\n"
                "constants: {a: 1}\n")
        problems = self.problems(self.write("ga4.yaml", text))
        self.assertEqual([problem.split(": ")[:3] for problem in problems], [
            ["ga4.yaml", "line 1", "version"], ["ga4.yaml", "line 3", "take.kinds"], ["ga4.yaml", "line 4", "take.names"],
            ["ga4.yaml", "line 5", "take.colour"], ["ga4.yaml", "line 6", "rename"], ["ga4.yaml", "line 6", "rename"],
            ["ga4.yaml", "line 8", "fields[0].drop"], ["ga4.yaml", "line 8", "fields[0].rename"],
            ["ga4.yaml", "line 11", "fields[1].constant"], ["ga4.yaml", "line 12", "fields[1].constant"],
            ["ga4.yaml", "line 13", "fields[2].rename"], ["ga4.yaml", "line 14", "constants"]])

    def test_each_problem_of_columns_has_its_line(self):
        text = ("version: 1\n"
                "format: xml\n"
                "columns:\n"
                "  - {name: a, from: colour}\n"
                "  - {name: a, from: data.a, type: money}\n"
                "  - {name: b, from: data.b, type: number, max: 3, default: x}\n"
                "  - {name: c, from: data.c, required: true, default: d}\n"
                "  - {from: name}\n"
                "part: {records: 0}\n")
        problems = self.problems(self.write("w.yaml", text))
        self.assertEqual([problem.split(": ")[1:3] for problem in problems], [
            ["line 2", "format"], ["line 4", "columns[0].from"], ["line 5", "columns[1].type"],
            ["line 5", "columns[1].name"], ["line 6", "columns[2].max"], ["line 6", "columns[2].default"],
            ["line 7", "columns[3].required"], ["line 8", "columns[4].name"], ["line 9", "part.records"]])

    def test_problems_of_the_files_that_a_configuration_names_are_its_own(self):
        self.write("ga4.yaml", "version: 1\nrenam: {a: b}\n")
        self.write("w.yaml", WAREHOUSE)
        config = self.configuration([
            "{provider: ga4, mapping: ga4.yaml, env: [test], options: {too_old: maybe, user_event: session_start}}",
            "{provider: segment, mapping: nowhere.yaml, options: {anything: on}}",
            "{provider: csv, mapping: w.yaml, zone: Mars/Phobos}",
            "{provider: custom, name: csv, file: w.yaml}", "{provider: custom, name: w}",
            "{provider: syslog, options: {facility: 24, host: a b, enterprise: 0, max: 100, user: maybe}}",
            "{provider: csv}"])
        problems = [problem.split(": ")[:3] for problem in self.problems(config)]
        self.assertEqual(problems, [
            ["waybill.yaml", "line 5", "receiver.exports[0].env"],
            ["waybill.yaml", "line 5", "receiver.exports[0].options.too_old"],
            ["waybill.yaml", "line 5", "receiver.exports[0].options.user_event"],
            ["waybill.yaml", "line 6", "receiver.exports[1].options.anything"],
            ["waybill.yaml", "line 7", "receiver.exports[2].mapping"],
            ["waybill.yaml", "line 7", "receiver.exports[2].zone"],
            ["waybill.yaml", "line 8", "receiver.exports[3].name"],
            ["waybill.yaml", "line 9", "receiver.exports[4].file"],
            ["waybill.yaml", "line 10", "receiver.exports[5].options.facility"],
            ["waybill.yaml", "line 10", "receiver.exports[5].options.host"],
            ["waybill.yaml", "line 10", "receiver.exports[5].options.enterprise"],
            ["waybill.yaml", "line 10", "receiver.exports[5].options.max"],
            ["waybill.yaml", "line 10", "receiver.exports[5].options.user"],
            ["waybill.yaml", "line 11", "receiver.exports[6].provider"],
            ["ga4.yaml", "line 2", "renam"],
            ["nowhere.yaml", "line 1", "file"]])

    def test_what_is_no_yaml_is_said_with_its_line(self):
        for text, line in (("version: 1\ntake: {kinds: [screen\n", 3), ("version: 1\nversion: 2\n", 2),
                           ("version: 1\nrename:\n  a: b\n c: d\n", 4)):
            problems = self.problems(self.write("m.yaml", text))
            self.assertEqual(len(problems), 1)
            self.assertIn(f"line {line}:", problems[0])


class ReloadTests(FileTest):
    """SIGHUP to a receiver."""

    def setUp(self):
        super().setUp()
        self.chance = random.Random(SEED)
        self.maker, self.ledger = EventMaker(SEED), Ledger()

    def mapping(self, version, extra=""):
        """Every record of a version says which one wrote it; each leaves another name out."""
        return self.write("mixpanel.yaml", f"version: {version}\n"
                          f"leave: {{names: [{('search', 'app_open', 'cart_add')[version % 3]}]}}\n"
                          f"fields: [{{constant: {{written_by: {version}}}}}]\n{extra}")

    def start(self, config):
        return self.site.configured(config)

    def records(self):
        """For each part, the versions that wrote it, its manifest's version, and its events."""
        for path in sorted(self.site.data.glob("exports/mixpanel/*/*/part-*.ndjson*")):
            lines = [json.loads(line) for line in whole(path).splitlines()]
            manifest = path.parent / (path.name.split(".")[0] + ".manifest.json")
            version = json.loads(manifest.read_text())["mapping"] if manifest.exists() else None
            yield {line["properties"]["written_by"] for line in lines}, version, lines

    def assert_exactly_once(self, receiver):
        self.assertEqual(receiver.stop(), 0, receiver.log()[-800:])
        lines = list(stored(self.site.data))
        comparison = self.ledger.compare(lines)
        self.assertTrue(comparison.is_clean, f"seed {SEED}: {comparison}")
        exported = collections.Counter()
        for writers, version, records in self.records():
            self.assertLessEqual(len(writers), 1, f"seed {SEED}: two mappings in one part")
            if version is not None:
                self.assertEqual(writers, {version}, f"seed {SEED}")
            exported.update(record["properties"]["$insert_id"] for record in records)
        self.assertEqual(max(exported.values()), 1, f"seed {SEED}: an event is exported twice")
        names = {}
        for line in lines:
            event = json.loads(line)
            names[event["id"]] = event["name"]
        # What is not exported is what a mapping of the time left out.
        left_out = collections.Counter(names[identifier] for identifier in names.keys() - exported.keys())
        self.assertLessEqual(set(left_out), {"search", "app_open", "cart_add"}, f"seed {SEED}")
        stopped = next(line for line in receiver.log().splitlines() if "projection stopped" in line and "mixpanel" in line)
        skipped = int(re.search(r"skipped (\d+)", stopped).group(1))
        self.assertEqual(len(exported) + skipped, len(names), f"seed {SEED}: conservation")

    def test_reloads_under_load_lose_and_repeat_nothing(self):
        """Valid and invalid files in turn, while lines flow: the old configuration stays on an error, each part has one
        mapping, each event is in one part or left out by the mapping of its time (T36)."""
        count = amount("WAYBILL_RELOADS", 40, 500)
        config, version, refused, taken = self.configuration(["{provider: mixpanel, mapping: mixpanel.yaml}"]), 1, 0, 0
        self.mapping(version)
        receiver, agent = self.start(config), self.site.agent()
        for turn in range(count):
            if turn % 4 == 0:
                self.maker.spool(self.site.spool, self.ledger, 300_000, 100_000)
            kind = self.chance.randrange(5)
            if kind == 0:
                self.mapping(version, extra="nonsense: 1\n")
            elif kind == 1:
                self.write("mixpanel.yaml", "version: [\n")
            elif kind == 2:
                # The same version, another content.
                self.mapping(version, extra="rename: {a: b}\n")
            else:
                version += 1
                self.mapping(version)
            refused, taken = refused + (kind < 3), taken + (kind >= 3)
            receiver.child.send_signal(signal.SIGHUP)
            until(lambda: receiver.log().count("the old one stays") == refused
                  and receiver.log().count("configuration reloaded") == taken, 20, "the reload is answered")
        until(lambda: not any(self.site.spool.glob("*.ndjson")), 120, "the spool is empty")
        self.assertEqual(agent.stop(), 0)
        self.assert_exactly_once(receiver)
        self.assertGreater(len(list(self.records())), 3)
        self.assertIn(f'"refused_reloads":{refused}', receiver.log())
        self.assertIn(f'"reloads":{taken}', receiver.log())
        print(f"mapping: {count} reloads, {refused} of them refused, version {version} at the end")

    @at_night
    def test_kills_between_reloads_leave_the_old_or_the_new_mapping(self):
        config, version = self.configuration(["{provider: mixpanel, mapping: mixpanel.yaml}"]), 1
        self.mapping(version)
        receiver, agent = self.start(config), self.site.agent()
        for _ in range(20 if THOROUGH else 6):
            self.maker.spool(self.site.spool, self.ledger, 300_000, 100_000)
            version += 1
            self.mapping(version)
            receiver.child.send_signal(signal.SIGHUP)
            until(lambda: self.chance.random() < 0.02, 5, "a moment")
            receiver.kill()
            receiver = self.start(config)
        until(lambda: not any(self.site.spool.glob("*.ndjson")), 120, "the spool is empty")
        self.stop_all(agent, receiver)
        receiver = self.start(config)
        for writers, part_version, _ in self.records():
            self.assertLessEqual(len(writers), 1, f"seed {SEED}")
            self.assertIn(part_version, {None, *writers}, f"seed {SEED}")
        identifiers = [record["properties"]["$insert_id"] for _, _, records in self.records() for record in records]
        self.assertEqual(len(identifiers), len(set(identifiers)), f"seed {SEED}: an event is exported twice")
        self.assertEqual(receiver.stop(), 0)
        self.assertTrue(self.ledger.compare(stored(self.site.data)).is_clean, f"seed {SEED}")
        verified = succeed("inspect", "--verify", "--config", config, self.site.data)
        self.assertIn("its options changed while it ran", verified.stdout.decode())
        succeed("replay", "--data", self.site.data, "--provider", "mixpanel", "--config", config)
        verified = succeed("inspect", "--verify", "--config", config, self.site.data)
        self.assertNotIn("options", verified.stdout.decode())

    def test_what_needs_a_restart_is_said(self):
        receiver = self.start(self.configuration(["{provider: csv}"]))
        self.write("waybill.yaml", f"receiver:\n  data: {self.site.data}\n  listen: {self.site.address}\n  connections: 7\n"
                                   "  archive: {zone: Asia/Seoul}\n  exports:\n    - {provider: ga4}\n")
        receiver.child.send_signal(signal.SIGHUP)
        receiver.until_logged("need a restart")
        line = next(line for line in receiver.log().splitlines() if "need a restart" in line)
        for change in ("receiver.connections: 10000 -> 7", "receiver.archive.zone: UTC -> Asia/Seoul",
                       "receiver.exports.ga4: absent -> present", "receiver.exports.csv: present -> absent"):
            self.assertIn(change, line)
        self.assertEqual(receiver.stop(), 0)
