internal import WaybillSystem

extension MetricsPage {
    /// Adds the metrics that every Prometheus client reports of its process: processor time, memory, open files.
    package mutating func addProcess() {
        self.add("process_cpu_seconds_total", .counter, "User and system time of the process.") {
            $0.sample(Double(ProcessUsage.processorTime.nanoseconds) / 1e9)
        }
        self.add("process_resident_memory_bytes", .gauge, "Resident memory, including pages of files.") {
            if let count = ProcessUsage.residentByteCount { $0.sample(count) }
        }
        self.add("process_open_fds", .gauge, "Open file descriptors.") {
            if let count = ProcessUsage.openFileCount { $0.sample(count) }
        }
    }
}
