import WaybillAgent
import WaybillDelivery
import WaybillHost
import WaybillMerger
import WaybillReceiver

/// `Protocol/metrics.md`, generated from the metrics of all programs.
enum MetricsReference {
    /// - Parameter tunnels: a door's with `ingest.line`.
    static func text(door: [Metric], tunnels: [Metric]) -> String {
        var text = Self.head + Self.status
        text += "## Several programs\n\n" + Self.table(Metric.common)
        text += "## Receiver\n\nA receiver has these, and those of archive and exports.\n\n"
        text += Self.table(Metric.receiver) + Self.lineDelay
        text += "## Archive and exports\n\nA receiver and a merger have these.\n\n" + Self.table(Metric.files)
        text += "## Agent\n\n" + Self.table(Metric.agent)
        text += "## Mergers\n\nA merger has these, and those of archive and exports.\n\n" + Self.table(Metric.merger)
        text += "## Events over HTTP\n\nA door has these. Counts of events are durable in a spool.\n\n"
        text += Self.table(door) + Self.keys
        text += "With `ingest.line` it has these, too.\n\n" + Self.table(tunnels)
        text += "## Deliveries\n\n`waybill deliver --config FILE` has these.\n\n"
        text += Self.table(Metric.deliveries) + Self.deliveries
        return text
    }

    private static func table(_ metrics: [Metric]) -> String {
        var text = "| metric | kind | labels | |\n| --- | --- | --- | --- |\n"
        var before = ""
        for metric in metrics {
            let labels = metric.labels.map { "`\($0.name)`\($0.text.isEmpty ? "" : ": \($0.text)")" }
                .joined(separator: "; ")
            // A list of values stands once.
            let cell = labels == before && labels.contains(",") ? "as above" : labels
            before = labels
            let meaning = metric.more.isEmpty ? "\(metric.help)" : "\(metric.help) \(metric.more)"
            text += "| `\(metric.name)` | \(metric.kind.rawValue) | \(cell) | \(meaning) |\n"
        }
        return text + "\n"
    }

    private static let head = """
        # Metrics

        The page is made by `waybill explain --metrics`: its tables are what the programs know of their metrics.

        `waybill receiver --metrics HOST:PORT`, `waybill agent --metrics HOST:PORT`, `waybill merge --metrics HOST:PORT`
        and `waybill deliver --config FILE` (`metrics:` in the configuration file) answer at that address, and with
        `--status-socket PATH` (`status_socket:`) at a UNIX socket, which only its owner and its group may open (mode
        0660). Both are off by default; the systemd units serve `/run/waybill/receiver.sock`, `agent.sock`,
        `deliver.sock` and `merge.sock`.

        | request | answer |
        | --- | --- |
        | `GET /metrics` | Prometheus' text format, version 0.0.4 |
        | `GET /livez` | 200 and `alive` if the program's threads work: the receiver's event loops, the agent's thread \
        that ships, the merger's thread that merges (it may wait for the bucket for 5 minutes) |
        | `GET /readyz` | 200 and `ready`, or 503 and `not ready`; then one line for each problem that an operator \
        must look at |
        | `GET /status` | JSON with everything ([below](#status)) |

        `/metrics`, `/livez` and `/readyz` have no access control, and name no agent, address, file or user; projections
        they do name. Use a loopback or a management address.

        A receiver is ready while it commits, no projection fails, and its disk has more free space than its reserve
        (`reserve_mib`). An agent is ready while a receiver accepts what it sends. A merger is ready while the bucket
        and the disk answer, the objects that the fleet's log names are there, no projection fails, and its disk has
        more free space than its reserve. What makes none of them unready is a line of the answer all the same: a clock
        that is doubted, exports that wait for space, files that cannot be read, a bucket that does not take a
        receiver's journal, missing bytes.

        Counters start at 0 with the process. Labels come from closed sets: `projection` is `archive` or a configured
        export, and `delivery` a name in the configuration; the tables list the others.

        ## Conservation

        For each projection, at every moment:

            waybill_projection_read_lines_total
                =  the sum of waybill_projection_lines_total  +  waybill_projection_held_lines

        The left side is the sum of the line counts in batch headers; the right side is counted where each line ends up.
        Both are as of the last checkpoint, so the lines they count are durable in the projection's files.
        `waybill_projection_unaccounted_lines` is the difference. Alert when it is not 0: that is a bug in Waybill.
        Received data that is not yet in a checkpoint is `waybill_projection_pending_bytes`; when that is 0, every line
        in the journal is accounted for. `waybill inspect --verify` makes the same check on the files themselves.

        For an agent: bytes seen in files = acknowledged + pending + lost. Bytes skipped on purpose (`skipped`) are
        acknowledged too, because the receiver records their place.

        """ + "\n"

    private static let lineDelay = """
        ### A line's delay

        `waybill_line_delay_seconds` has one value per batch, not per line: the time from the batch's first line, its
        oldest one as a rule, to the moment when the batch was durable. The line's time is the one that its app wrote
        (`ts`, or the member that the source names), so the delay includes everything: a phone without network, a
        stopped agent, a backlog. It also includes the difference of two clocks. A time in the future counts as no
        delay, and a line without a readable time, or with more than 16 KiB, is left out. A batch that is sent again
        counts once, when it is stored. The buckets reach from 10 milliseconds to a week.

        How long lines wait on one machine, by that machine's own clock, is `waybill_agent_oldest_unacked_seconds`.

        """ + "\n"

    private static let keys = """
        No metric has a label for the key or the app that events came by: an operator may configure any number of keys,
        each label would multiply the series, and the page names no one; `/status` has the counts of each key.

        """ + "\n"

    private static let deliveries = """
        Counts of what waits are at most 10 seconds old while there is something to send. `GET /readyz` lists the
        problems: `nothing-sent` (files, options or credentials keep something from being sent), `provider-refused` (the
        provider refuses credentials, address, quota or every record), `provider-waiting` (it cannot be reached or asks
        to wait), and in a fleet `bucket-waiting` (the bucket does not say which merger sends what) and `held-elsewhere`
        (a merger holds parts for more than half an hour). There a delivery has `claimed_parts`, `elsewhere_parts` and
        `waiting_parts`, too. `GET /status` has the same as JSON, for the service's own machine:

            {"part":"deliver","name":"deliveries","software":"waybill/0.1.0","time":…,"started":…,"health":"degraded",
             "problems":["provider-waiting: segment: …"],"lines":1200,
             "deliveries":[{"name":"segment","provider":"segment","state":"backing-off","sent":1200,
                            "refused":{"too_old":4},"requests":300,"retried":2,"waiting":80,"open":12,
                            "oldest_unsent_s":41,"last_success":…,"problems":[{"code":"provider-waiting","text":"…"}]}]}
        """ + "\n"
}
