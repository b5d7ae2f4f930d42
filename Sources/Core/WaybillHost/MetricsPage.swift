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
    /// The samples of one metric.
    package struct Family: ~Copyable {
        fileprivate let metric: Metric
        fileprivate var text = ""

        /// One value, in the metric's unit.
        ///
        /// - Parameter labels: the values of the metric's labels, in their order; the last ones may be missing.
        package mutating func sample(_ value: Int, _ labels: String...) {
            self.add("\(value)", self.named(labels))
        }

        /// One value, in the metric's unit.
        ///
        /// - Parameter labels: the values of the metric's labels, in their order; the last ones may be missing.
        package mutating func sample(_ value: Double, _ labels: String...) {
            self.add("\(value)", self.named(labels))
        }

        private func named(_ labels: [String]) -> [(name: StaticString, value: String)] {
            precondition(labels.count <= self.metric.labels.count, "\(self.metric.name) has no label for \(labels)")
            return zip(self.metric.labels, labels).map { ($0.name, $1) }
        }

        /// - Parameter suffix: what the name has in addition, as the parts of a histogram do.
        mutating func add(
            _ value: String, _ labels: [(name: StaticString, value: String)] = [], suffix: StaticString = ""
        ) {
            self.text += "\(self.metric.name)\(suffix)"
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
    package mutating func add(_ metric: Metric, _ samples: (inout Family) -> Void) {
        var family = Family(metric: metric)
        samples(&family)
        guard !family.text.isEmpty else { return }
        self.text += "# HELP \(metric.name) \(metric.help)\n# TYPE \(metric.name) \(metric.kind.rawValue)\n"
        self.text += family.text
    }

    /// Adds a metric with one value and no labels, unless the value is not known.
    package mutating func add(_ metric: Metric, _ value: Int?) {
        self.add(metric) { if let value { $0.sample(value) } }
    }

    /// Adds a metric with one value and no labels, unless the value is not known.
    package mutating func add(_ metric: Metric, _ value: Double?) {
        self.add(metric) { if let value { $0.sample(value) } }
    }

    /// Adds a metric with a value for each value of its only label.
    package mutating func add<Value: RawRepresentable<String>>(
        _ metric: Metric, by _: Value.Type, _ value: (Value) -> Int
    ) {
        precondition(metric.labels.count == 1, "\(metric.name) has \(metric.labels.count) labels")
        self.add(metric) { family in
            for text in metric.labels[0].values {
                guard let label = Value(rawValue: text) else {
                    preconditionFailure("\(metric.name): \(text) is not a \(Value.self)")
                }
                family.sample(value(label), text)
            }
        }
    }
}

extension MetricsPage {
    /// Adds the metrics that every Prometheus client reports of its process: start, processor time, memory, open files.
    package mutating func addProcess() {
        self.add(.processTime, Double(ProcessUsage.processorTime.nanoseconds) / 1e9)
        self.add(.processStart, ProcessUsage.startTime.map { Double($0.milliseconds) / 1000 })
        self.add(.processMemory, ProcessUsage.residentByteCount)
        self.add(.processFiles, ProcessUsage.openFileCount)
    }

    /// Adds which program this is.
    ///
    /// - Parameters:
    ///   - software: the program and its version, such as `waybill/0.1.0`.
    ///   - versions: of the line protocol, that it speaks.
    package mutating func addBuild(_ software: String?, protocol versions: [UInt64]) {
        let version = software?.split(separator: "/").last.map(String.init) ?? "unknown"
        self.add(.build) { $0.sample(1, version, versions.map { "\($0)" }.joined(separator: ",")) }
    }
}
