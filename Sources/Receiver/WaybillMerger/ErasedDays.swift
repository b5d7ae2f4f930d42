internal import Logging
package import WaybillData
package import WaybillFleet
internal import WaybillHost
package import WaybillSystem

/// The sealed days from which people were erased, and when each is compared with the bucket again.
///
/// Another merger may have been paused in the middle of a `PUT` with the lines still in it, and wake up now. So each day is
/// looked at ten minutes after it was published, an hour after that, and a day after that.
///
///     <path of the day>         <looks that were made> <milliseconds of the next one>
///     digested                  how many requests, from the first on, have a digest in place of the id
package struct ErasedDays<Files: FileSystem>: ~Copyable {
    private let path: String
    private let files: Files
    /// `nil` before the first use.
    private var state: StateStore<Files>?
    private var entries: [String: String] = [:]
    /// When ids are to be replaced by digests, if they can be.
    private var nextDigests = WallTime(milliseconds: 0)

    private static var digestedKey: String { "digested" }
    private static var digestInterval: Int64 { 3_600_000 }

    private static var pauses: [Int64] { [600_000, 3_600_000, 86_400_000] }

    package init(_ data: DataDirectory<Files>) {
        self.path = data.statePath("erased-days")
        self.files = data.files
        self.state = nil
    }

    private mutating func open() throws(FileSystemError) {
        guard self.state == nil else { return }
        let state = try StateStore(path: self.path, files: self.files)
        self.entries = state.entries
        self.state = consume state
    }

    private mutating func commit(_ path: String, _ value: String?) throws(UploadFailure) {
        do throws(FileSystemError) {
            try self.open()
            try self.state?.commit([path: value])
        } catch {
            // What the log has after a failed write is read again.
            self.state = nil
            throw .disk(error)
        }
        self.entries[path] = value
    }

    /// A day from which people were erased is in the bucket.
    package mutating func published(_ path: String, now: WallTime) throws(UploadFailure) {
        try self.plan(path, 0, now)
    }

    private mutating func plan(_ path: String, _ count: Int, _ now: WallTime) throws(UploadFailure) {
        let pauses = Self.pauses
        let next = count < pauses.count ? "\(count) \(now.milliseconds + pauses[count])" : nil
        try self.commit(path, next)
    }

    /// The days whose time has come, sorted.
    package mutating func due(_ now: WallTime) throws(UploadFailure) -> [String] {
        try UploadFailure.onDisk(self.open())
        return self.looks.compactMap { $0.value.time <= now ? $0.key : nil }.sorted()
    }

    private var looks: [String: (count: Int, time: WallTime)] {
        self.entries.filter { $0.key != Self.digestedKey }.mapValues { value in
            let numbers = value.split(separator: " ").compactMap { Int64($0) }
            guard numbers.count == 2 else { return (0, WallTime(milliseconds: 0)) }
            return (Int(numbers[0]), WallTime(milliseconds: numbers[1]))
        }
    }

    /// A day was compared with the bucket.
    ///
    /// - Parameter isQuiet: whether nothing had to be put right; otherwise it begins again.
    package mutating func looked(at path: String, isQuiet: Bool, now: WallTime) throws(UploadFailure) {
        let count = self.looks[path]?.count ?? 0
        try self.plan(path, isQuiet ? count + 1 : 0, now)
    }

    /// Replaces ids in requests by digests, once an hour.
    package mutating func replaceIDs(
        now: WallTime, _ digests: ErasureDigests<Files>
    ) throws(UploadFailure) {
        guard now >= self.nextDigests else { return }
        try UploadFailure.onDisk(self.open())
        let known = self.entries[Self.digestedKey].flatMap { Int($0) } ?? 0
        let count = try digests.run(from: known)
        self.nextDigests = WallTime(milliseconds: now.milliseconds + Self.digestInterval)
        guard count > known else { return }
        try self.commit(Self.digestedKey, String(count))
    }

    /// The day is not in the data directory any more.
    package mutating func forget(_ path: String) throws(UploadFailure) {
        try self.plan(path, Self.pauses.count, WallTime(milliseconds: 0))
    }
}

extension MergeService {
    /// Compares erased days with the bucket again, and replaces ids by digests, when it is time.
    func lookAgain(
        _ publisher: borrowing Publisher<POSIXFileSystem>, _ data: DataDirectory<POSIXFileSystem>,
        _ turns: ErasureTurns, _ erased: inout ErasedDays<POSIXFileSystem>
    ) -> UploadFailure? {
        do throws(UploadFailure) {
            for path in try erased.due(POSIXClock().wallTime()) {
                let outcome = try turns.exchange.withLock { (_) throws(UploadFailure) in try publisher.publish(path) }
                guard outcome.revision > 0 else {
                    try erased.forget(path)
                    continue
                }
                let isQuiet = outcome.createdCount + outcome.replacedCount + outcome.deletedCount == 0
                if !isQuiet {
                    self.published(path, outcome)
                    self.logger.warning(
                        .erasedDayRepaired,
                        "the bucket had older bytes of a day from which people were erased; they are replaced",
                        metadata: ["day": "\(path)", "objects": .number(outcome.replacedCount + outcome.createdCount)])
                }
                try erased.looked(at: path, isQuiet: isQuiet, now: POSIXClock().wallTime())
            }
            // The record of erasures is read, which an erasure writes.
            try turns.exchange.withLock { (_) throws(UploadFailure) in
                try erased.replaceIDs(now: POSIXClock().wallTime(), ErasureDigests(data, self.setup.store))
            }
            return nil
        } catch {
            return error
        }
    }
}
