internal import WaybillSystem

/// A page of metrics in Prometheus' text format, version 0.0.4, which OpenMetrics readers accept as well.
///
///     # HELP waybill_received_lines_total Lines that are durable in the journal, since the start.
///     # TYPE waybill_received_lines_total counter
///     waybill_received_lines_total 1204
///
/// Names, help and label names come from the program's source; label values are escaped, and come from closed sets.
///
/// - SeeAlso: https://prometheus.io/docs/instrumenting/exposition_formats/
package struct MetricsPage: Sendable {
    package enum Kind: String, Sendable {
        /// Only grows until the process restarts.
        case counter
        case gauge
        /// Counts of values up to each of some bounds, their sum, and how many there were.
        case histogram
    }

    /// The samples of one metric.
    package struct Family: ~Copyable {
        fileprivate let name: StaticString
        fileprivate var text = ""

        /// One value, in the metric's unit, with its labels.
        ///
        /// - Parameter suffix: what the name has in addition, as the parts of a histogram do.
        package mutating func sample(
            _ value: Int, _ labels: [(name: StaticString, value: String)] = [], suffix: StaticString = ""
        ) {
            self.add("\(value)", labels, suffix)
        }

        /// One value, in the metric's unit, with its labels.
        package mutating func sample(
            _ value: Double, _ labels: [(name: StaticString, value: String)] = [], suffix: StaticString = ""
        ) {
            self.add("\(value)", labels, suffix)
        }

        private mutating func add(
            _ value: String, _ labels: [(name: StaticString, value: String)], _ suffix: StaticString
        ) {
            self.text += "\(self.name)\(suffix)"
            if !labels.isEmpty {
                let pairs = labels.map { "\($0.name)=\"\(Self.escaped($0.value))\"" }
                self.text += "{\(pairs.joined(separator: ","))}"
            }
            self.text += " \(value)\n"
        }

        private static func escaped(_ value: String) -> String {
            var escaped = ""
            for character in value.unicodeScalars {
                switch character {
                case "\\": escaped += #"\\"#
                case "\"": escaped += #"\""#
                case "\n": escaped += #"\n"#
                default: escaped.unicodeScalars.append(character)
                }
            }
            return escaped
        }
    }

    package private(set) var text = ""

    package init() {}

    /// Adds a metric, unless it has no sample.
    ///
    /// - Parameters:
    ///   - name: letters, digits and `_`; a counter's ends in `_total`.
    ///   - help: one line, without a backslash.
    package mutating func add(
        _ name: StaticString, _ kind: Kind, _ help: StaticString, _ samples: (inout Family) -> Void
    ) {
        var family = Family(name: name)
        samples(&family)
        guard !family.text.isEmpty else { return }
        self.text += "# HELP \(name) \(help)\n# TYPE \(name) \(kind.rawValue)\n\(family.text)"
    }

    /// Adds a metric with one value and no labels.
    package mutating func add(_ name: StaticString, _ kind: Kind, _ help: StaticString, _ value: Int) {
        self.add(name, kind, help) { $0.sample(value) }
    }
}

extension MetricsPage {
    /// Adds the metrics that every Prometheus client reports of its process: start, processor time, memory, open files.
    package mutating func addProcess() {
        self.add("process_cpu_seconds_total", .counter, "User and system time of the process.") {
            $0.sample(Double(ProcessUsage.processorTime.nanoseconds) / 1e9)
        }
        self.add("process_start_time_seconds", .gauge, "When the process started, in seconds since 1970.") {
            if let time = ProcessUsage.startTime { $0.sample(Double(time.milliseconds) / 1000) }
        }
        self.add("process_resident_memory_bytes", .gauge, "Resident memory, including pages of files.") {
            if let count = ProcessUsage.residentByteCount { $0.sample(count) }
        }
        self.add("process_open_fds", .gauge, "Open file descriptors.") {
            if let count = ProcessUsage.openFileCount { $0.sample(count) }
        }
    }

    /// Adds which program this is.
    ///
    /// - Parameters:
    ///   - software: the program and its version, such as `waybill/0.1.0`.
    ///   - versions: of the line protocol, that it speaks.
    package mutating func addBuild(_ software: String?, protocol versions: [UInt64]) {
        let version = software?.split(separator: "/").last.map(String.init) ?? "unknown"
        self.add("waybill_build_info", .gauge, "Always 1; the labels say which program this is.") {
            $0.sample(
                1, [("version", version), ("protocol", versions.map { "\($0)" }.joined(separator: ","))])
        }
    }
}
