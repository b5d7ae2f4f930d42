internal import WaybillSystem

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
