internal import WaybillData
internal import WaybillEvent
internal import WaybillExport
internal import WaybillProtocol
package import WaybillSystem

/// The lines of a batch that count on the day of its receipt, because their own day was one too many.
package struct ShiftedRanges: Hashable, Sendable {
    /// Of the stream, ascending.
    private let ranges: [Range<UInt64>]

    package static let none = ShiftedRanges([])
    package static let all = ShiftedRanges([0..<UInt64.max])

    package init(_ ranges: [Range<UInt64>]) {
        self.ranges = ranges
    }

    /// Whether the line that begins at an offset of the stream is one.
    @inline(__always)
    package func contains(_ offset: UInt64) -> Bool {
        !self.ranges.isEmpty && self.search(offset)
    }

    private func search(_ offset: UInt64) -> Bool {
        var low = 0
        var high = self.ranges.count
        while low < high {
            let middle = (low + high) / 2
            if self.ranges[middle].upperBound <= offset { low = middle + 1 } else { high = middle }
        }
        return low < self.ranges.count && self.ranges[low].contains(offset)
    }
}

/// What the archive decided about the days of batches, from its `.sources`, for those who read the journal behind it.
///
///     archive/env=prod/bundle=_overflow/date=<day of receipt>/part-00001.sources      SHIFTED … <position of the batch>
///
/// The archive's checkpoint must be behind a batch of which it has decided something (``Projection/undecided``). The
/// entries are in the journal's order, so each file is read once, from batch to batch. Memory is the end of each file.
package struct ShiftedLines<Files: FileSystem> {
    /// Where to continue in a file: after the last line read, which is still there unless the file was cut meanwhile.
    private struct Place {
        var end = 0
        var lastLine: [UInt8] = []

        var start: Int { self.lastLine.isEmpty ? self.end : self.end - self.lastLine.count - 1 }
    }

    private let root: String
    private let files: Files
    private var places: [String: Place] = [:]
    private var position: JournalPosition?

    private static var placeCountMax: Int { 64 }

    package init(root: String, files: Files) {
        self.root = root
        self.files = files
    }

    /// The shifted lines of a batch; the disk is not asked if all of its events are of the time of its receipt.
    mutating func lines(of batch: ProjectedBatch) throws(FileSystemError) -> ShiftedRanges {
        let isParsed = batch.parse.map { $0.lines.end >= batch.raw.count } ?? false
        guard isParsed, Self.isUsual(batch.parse?.lines.times, batch.receivedAt) else {
            return try self.ranges(of: batch)
        }
        return .none
    }

    /// Whether all times are of the day of receipt, the one before or the one after, in whatever zone.
    private static func isUsual(_ times: ClosedRange<WallTime>?, _ receivedAt: WallTime) -> Bool {
        guard let times else { return true }
        let (first, last, received) = (
            times.lowerBound.milliseconds, times.upperBound.milliseconds, receivedAt.milliseconds
        )
        return first >= received - self.usualMilliseconds && last <= received + self.usualMilliseconds
    }

    /// Less than any day has.
    private static var usualMilliseconds: Int64 { 20 * 3_600_000 }

    /// The shifted lines of a batch; a batch at or before the last one begins again.
    package mutating func ranges(of batch: ProjectedBatch) throws(FileSystemError) -> ShiftedRanges {
        if self.position.map({ batch.position <= $0 }) ?? true || self.places.count > Self.placeCountMax {
            self.places = [:]
        }
        self.position = batch.position
        var ranges: [Range<UInt64>] = []
        for environment in DeploymentEnvironment.allCases {
            let folder = "archive/env=\(environment.rawValue)/bundle=\(PartitionPath.overflowBundle)"
            guard try self.files.status(at: Path.join(self.root, folder)) != nil else { continue }
            let day = Int32(clamping: batch.receivedAt.milliseconds / 86_400_000)
            // In the archive's zone, whichever that was.
            for day in day - 1...day + 1 {
                try self.read(
                    Path.join(self.root, "\(folder)/date=\(CalendarDay(daysSince1970: day))"), batch.position, &ranges)
            }
        }
        return ranges.isEmpty ? .none : ShiftedRanges(ranges.sorted { $0.lowerBound < $1.lowerBound })
    }

    private mutating func read(
        _ folder: String, _ position: JournalPosition, _ ranges: inout [Range<UInt64>]
    ) throws(FileSystemError) {
        guard try self.files.status(at: folder) != nil else { return }
        for name in try self.files.list(folder) where name.hasSuffix(".sources") {
            let path = Path.join(folder, name)
            let byteCount = try self.files.status(at: path)?.byteCount ?? 0
            var place = self.places[path] ?? Place()
            guard byteCount != place.end else { continue }
            if try !self.read(path, byteCount, from: &place, position, &ranges) {
                place = Place()
                _ = try self.read(path, byteCount, from: &place, position, &ranges)
            }
            self.places[path] = place
        }
    }

    /// Reads up to the entries of later batches.
    ///
    /// - Returns: `false` if the file is not the same before `place` any more.
    private func read(
        _ path: String, _ byteCount: Int, from place: inout Place, _ position: JournalPosition,
        _ ranges: inout [Range<UInt64>]
    ) throws(FileSystemError) -> Bool {
        guard byteCount >= place.end else { return false }
        var lines = try LineReader(path: path, from: place.start, byteCount: byteCount, files: self.files)
        if !place.lastLine.isEmpty {
            guard let line = try lines.next(), line.isTerminated, line.bytes == place.lastLine else { return false }
        }
        while let line = try lines.next(), line.isTerminated {
            if let run = ShiftedRun(line.bytes) {
                if run.position > position { break }
                if run.position == position {
                    ranges.append(run.offset.rawValue..<(run.offset.rawValue + UInt64(run.byteCount)))
                }
            }
            place.end = line.range.upperBound
            place.lastLine = line.bytes
        }
        return true
    }
}
