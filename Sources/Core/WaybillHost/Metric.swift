internal import WaybillSystem

/// Something that a program counts or measures: `/metrics` has its values, and `Protocol/metrics.md` is made from all of
/// these.
///
///     | `waybill_reloads_total` | counter | `outcome`: `taken`, `partial` (…) | Times that SIGHUP … | Receivers …
///       name                      kind      labels, a value with its meaning    help                  more
///
/// Each module has a table of its own, in the order of the page. Name, kind, labels and texts of a metric stand there alone.
package struct Metric: Sendable {
    package enum Kind: String, Sendable {
        /// Only grows until the process restarts.
        case counter
        case gauge
        /// Counts of values up to each of some bounds, their sum, and how many there were.
        case histogram
    }

    /// Letters, digits and `_`; a counter's ends in `_total`, a histogram's in `_seconds`.
    package let name: StaticString
    package let kind: Kind
    /// One sentence, without a backslash: what it counts or measures.
    package let help: StaticString
    /// What the page says in addition, such as a limit, or when the metric is missing.
    package let more: String
    package let labels: [MetricLabel]

    package init(
        _ name: StaticString, _ kind: Kind, _ help: StaticString, more: String = "", labels: [MetricLabel] = []
    ) {
        (self.name, self.kind, self.help, self.more, self.labels) = (name, kind, help, more, labels)
    }
}

/// A label of a metric.
package struct MetricLabel: Sendable {
    package let name: StaticString
    /// All values that it can have; empty if the configuration or a peer decides.
    package let values: [String]
    /// Its values, as the page has them; empty if the page says them once for many metrics.
    package let text: String

    /// A label whose values are a closed set.
    ///
    /// - Parameter meanings: what the page says of a value whose name does not say it.
    package init<Value: RawRepresentable<String> & Hashable>(
        _ name: StaticString, _ values: [Value], _ meanings: [Value: String] = [:]
    ) {
        self.name = name
        self.values = values.map(\.rawValue)
        self.text = values.map { "`\($0.rawValue)`\(meanings[$0].map { " (\($0))" } ?? "")" }.joined(separator: ", ")
    }

    /// A label whose values are not known here.
    package init(_ name: StaticString, any text: String = "") {
        (self.name, self.values, self.text) = (name, [], text)
    }
}

/// The metrics that several programs have.
extension Metric {
    package static let common = [
        build, reloads, certificateExpiry, processTime, processStart, processMemory, processFiles,
    ]

    static let build = Metric(
        "waybill_build_info", .gauge, "Always 1; the labels say which program this is.",
        more: "Deliveries do not have it.",
        labels: [
            MetricLabel("version", any: "the program's"),
            MetricLabel("protocol", any: "versions of the line protocol; a door has none"),
        ])
    static let reloads = Metric(
        "waybill_reloads_total", .counter, "Times that SIGHUP made the program read its configuration again.",
        more: "Receivers, mergers and doors have it.", labels: [reloadOutcome])
    package static let certificateExpiry = Metric(
        "waybill_tls_certificate_expiry_seconds", .gauge,
        "When the program's certificate expires, in seconds since 1970.",
        more: "Receivers and doors with TLS have it: alert some weeks before.")
    static let processTime = Metric(
        "process_cpu_seconds_total", .counter, "User and system time of the process.",
        more: "This one and the next three are as every Prometheus client has them.")
    static let processStart = Metric(
        "process_start_time_seconds", .gauge, "When the process started, in seconds since 1970.")
    static let processMemory = Metric(
        "process_resident_memory_bytes", .gauge, "Resident memory, including pages of files.")
    static let processFiles = Metric("process_open_fds", .gauge, "Open file descriptors.")

    /// Of the metrics that count reloads.
    package static let reloadOutcome = MetricLabel(
        "outcome", ReloadTelemetry.Outcome.allCases, [.partial: "some changes need a restart"])
}
