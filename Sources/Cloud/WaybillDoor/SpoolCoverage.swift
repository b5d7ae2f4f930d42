internal import WaybillEvent
internal import WaybillSpool
internal import WaybillSystem

/// Since when everything that was stored in a spool is still there, as far as its segments show it.
///
/// An agent deletes a writer's segments in the order in which they were written. Of a writer whose first segment is gone,
/// everything is there since the first one that is left began; what was there before the oldest writer that is left may be
/// gone, unless that writer made the folder. Without any segment something may have been deleted until the folder changed.
struct SpoolCoverage {
    private struct Beginning {
        let sequence: UInt64
        /// Nanoseconds since 1970.
        let time: Int64
    }

    /// Of each writer, the first segment that is there.
    private var beginnings: [String: Beginning] = [:]

    /// Adds a file of the folder that is a segment, or was one before it was shipped.
    ///
    /// - Parameter created: when it was created, or a later time; nanoseconds since 1970.
    mutating func add(_ name: String, created: Int64) {
        guard
            let segment = KeptSegmentName(parsing: name)?.segment
                ?? SegmentName(parsing: KeptSegmentName.plain(name))
        else { return }
        if let found = self.beginnings[segment.writer], found.sequence <= segment.firstSequence { return }
        let start = segment.firstSequence == 1 ? Self.start(of: segment.writer) : nil
        self.beginnings[segment.writer] = Beginning(sequence: segment.firstSequence, time: start ?? created)
    }

    /// - Parameters:
    ///   - folderCreated: when the folder was created, nanoseconds since 1970; 0: unknown.
    ///   - folderChanged: when it got or lost its last name.
    /// - Returns: nanoseconds since 1970; `nil`: since there is a spool.
    func since(folderCreated: Int64, folderChanged: Int64) -> Int64? {
        guard let oldest = self.beginnings.values.map(\.time).min() else { return folderChanged }
        if let cut = self.beginnings.values.filter({ $0.sequence > 1 }).map(\.time).max() { return cut }
        // The system's times of files are a few milliseconds behind.
        let isFirst = folderCreated > 0 && oldest <= folderCreated.saturatingSum(1_000_000_000)
        return isFirst ? nil : oldest
    }

    /// When a writer began, nanoseconds since 1970, as its version 7 UUID says.
    private static func start(of writer: String) -> Int64? {
        UniqueID(text: writer).map { Int64($0.high >> 16).saturatingProduct(1_000_000) }
    }
}
