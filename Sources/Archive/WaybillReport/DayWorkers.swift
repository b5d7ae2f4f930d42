internal import WaybillData
internal import WaybillSystem

/// Reads days' folders with several workers, and adds them up in the order of the days.
struct DayWorkers<Files: FileSystem> {
    /// What came of one folder.
    private enum Outcome: Sendable {
        /// The failure is one of writing the cache, which changes nothing else.
        case table(DayTable, failure: FileSystemError?)
        case damaged(String)
        case failed(FileSystemError)
        case stopped
    }

    /// What the workers share.
    private struct Shared {
        var next = 0
        /// Folders that are read and not yet added.
        var outcomes: [Int: Outcome] = [:]
        var addedCount = 0
        var byteCount = 0
        var isOver = false
    }

    private let data: DataDirectory<Files>
    private let days: [DayFiles]
    private let rules: DayRules
    /// The folders that were left out, with the reason.
    private(set) var damagedDays: [String] = []
    /// Why the cache cannot be used.
    private(set) var cacheFailure: FileSystemError?
    private let cache: DayCache<Files>?
    /// The bytes of all folders, and of those that were added.
    private let byteCount: Int
    private var addedByteCount = 0

    /// - Parameter cache: the folder of the cache; `nil` for none.
    init(data: DataDirectory<Files>, days: [DayFiles], rules: DayRules, cache: String?) {
        self.data = data
        self.days = days
        self.rules = rules
        self.cache = cache.map { DayCache($0, data, rules) }
        self.byteCount = days.reduce(0) { $0 + $1.byteCount }
    }

    mutating func read(
        _ jobCount: Int, _ observer: Reporter<Files>.Observer
    ) throws(ReportFailure) -> EventTable {
        var table = EventTable(width: self.rules.options.properties.count)
        let total = self.byteCount
        let jobCount = max(1, min(jobCount, self.days.count))
        guard jobCount > 1 else {
            var done = 0
            for day in self.days {
                let outcome = Self.read(day, self.data, self.rules, self.cache) { count in
                    done += count
                    observer.progressed(done, total)
                    return !observer.isStopped()
                }
                try self.take(outcome, of: day, &table)
            }
            return table
        }
        let shared = Monitor(Shared())
        let workers = (0..<jobCount).map { number in
            let (data, days, rules, cache, isStopped) = (
                self.data, self.days, self.rules, self.cache, observer.isStopped
            )
            return Worker(name: "report-\(number)") {
                Self.work(shared, data, days, rules, cache, jobCount: jobCount, isStopped: isStopped)
            }
        }
        defer {
            shared.update { $0.isOver = true }
            for worker in workers { worker.join() }
        }
        for (number, day) in self.days.enumerated() {
            try self.take(Self.wait(for: number, shared, observer, total), of: day, &table)
        }
        return table
    }

    private mutating func take(
        _ outcome: Outcome, of day: DayFiles, _ table: inout EventTable
    ) throws(ReportFailure) {
        switch outcome {
        case .table(let found, let failure):
            self.addedByteCount += day.byteCount
            table.add(found, share: Double(self.addedByteCount) / Double(max(1, self.byteCount)))
            if self.cacheFailure == nil { self.cacheFailure = failure }
        case .damaged(let reason): self.damagedDays.append("\(day.folder.path): \(reason)")
        case .failed(let error): throw .disk(error)
        case .stopped: throw .interrupted
        }
    }

    private static func wait(
        for number: Int, _ shared: Monitor<Shared>, _ observer: Reporter<Files>.Observer, _ total: Int
    ) -> Outcome {
        while true {
            let deadline = POSIXClock().monotonicTime() + .milliseconds(100)
            let outcome = shared.wait(until: deadline) { $0.outcomes.removeValue(forKey: number) }
            observer.progressed(shared.withLock { $0.byteCount }, total)
            if let outcome {
                shared.update { $0.addedCount = number + 1 }
                return outcome
            }
        }
    }

    private static func work(
        _ shared: Monitor<Shared>, _ data: DataDirectory<Files>, _ days: [DayFiles], _ rules: DayRules,
        _ cache: DayCache<Files>?, jobCount: Int, isStopped: @escaping @Sendable () -> Bool
    ) {
        while true {
            // A worker that is far ahead waits, so that few folders are in memory at once.
            let next = shared.wait { shared -> Int? in
                if shared.isOver || shared.next == days.count { return -1 }
                guard shared.next < shared.addedCount + 2 * jobCount else { return nil }
                shared.next += 1
                return shared.next - 1
            }
            guard let next, next >= 0 else { return }
            let outcome = Self.read(days[next], data, rules, cache) { count in
                shared.withLock { shared in
                    shared.byteCount += count
                    return !shared.isOver
                } && !isStopped()
            }
            shared.update { $0.outcomes[next] = outcome }
        }
    }

    private static func read(
        _ day: DayFiles, _ data: DataDirectory<Files>, _ rules: DayRules, _ cache: DayCache<Files>?,
        _ progressed: (Int) -> Bool
    ) -> Outcome {
        var failure: FileSystemError?
        var key: String?
        do throws(FileSystemError) {
            key = try cache?.key(of: day)
            if let key, let table = try cache?.read(key) {
                return progressed(day.byteCount) ? .table(table, failure: nil) : .stopped
            }
        } catch {
            failure = error
        }
        var reader = DayReader(data, rules)
        do throws(PartReadError) {
            guard let table = try reader.read(day, progressed: progressed) else { return .stopped }
            if let key, failure == nil { failure = Self.keep(table, key, cache) }
            return .table(table, failure: failure)
        } catch {
            switch error {
            case .damaged: return .damaged(error.description)
            case .disk(let cause):
                // The disk cannot read a file of the day, or it is gone although a checkpoint has it.
                let isOfDay = cause.path.hasPrefix(Path.join(data.root, day.folder.path))
                return isOfDay && (cause.errno == Errno.inputOutput || cause.errno == Errno.noEntry)
                    ? .damaged(cause.description) : .failed(cause)
            }
        }
    }

    private static func keep(_ table: DayTable, _ key: String, _ cache: DayCache<Files>?) -> FileSystemError? {
        do throws(FileSystemError) {
            try cache?.write(table, key)
            return nil
        } catch {
            return error
        }
    }
}
