internal import WaybillData
internal import WaybillEvent
internal import WaybillExport
internal import WaybillProjection
internal import WaybillProtocol
internal import WaybillSystem

/// The units of work of a worker, each an environment's day for all providers, and the parts of the archive that may
/// contain lines of each.
///
/// `@unchecked Sendable`: the index is an immutable value.
struct ReplayPlan<Files: FileSystem>: @unchecked Sendable {
    let index: ArchiveIndex<Files>
    let units: [ExportDay]
    /// Indexes of parts, ascending, for each of ``units``.
    let parts: [[Int]]
    /// The lines that are not read.
    let poison: PoisonedLines?

    /// - Parameters:
    ///   - poison: the lines that are not read; their dead letters are on the day of their receipt.
    ///   - zones: of the exports.
    init(
        index: ArchiveIndex<Files>, request: Replay.Request, poison: PoisonedLines?, zones: [TimeZoneRules]
    ) throws(FileSystemError) {
        self.index = index
        self.poison = poison
        let offsets = Dictionary(grouping: poison?.lines ?? [], by: \.stream).mapValues { $0.map(\.offset) }
        let bundles = Set(request.bundles.map(PartitionPath.component) + [PartitionPath.overflowBundle])
        var found: [ExportDay: [Int]] = [:]
        for (number, part) in index.parts.enumerated() {
            guard let environment = DeploymentEnvironment(rawValue: part.environment),
                request.bundles.isEmpty || bundles.contains(part.bundle)
            else { continue }
            var units = Set(
                (-ReplayReach.days...ReplayReach.days).map {
                    ExportDay(env: environment, day: CalendarDay(daysSince1970: part.day.daysSince1970 + $0))
                })
            if !offsets.isEmpty {
                try index.visitRuns(of: part) { run in
                    let bytes = run.offset.rawValue..<run.end.rawValue
                    guard offsets[run.description.name]?.contains(where: bytes.contains) ?? false else { return }
                    for zone in zones {
                        let day = zone.day(of: run.receivedAt)
                        units.insert(ExportDay(env: environment, day: day))
                        units.insert(ExportDay(env: run.description.sourceDescription.env, day: day))
                    }
                }
            }
            for unit in units where request.range.admits(unit.day, unit.env) {
                found[unit, default: []].append(number)
            }
        }
        self.units = found.keys.sorted()
        self.parts = self.units.map { found[$0] ?? [] }
    }

    /// The maximum number of bytes to read for a unit.
    func byteCount(of unit: Int) -> Int {
        self.parts[unit].reduce(0) { $0 + self.index.parts[$1].byteCount }
    }

    /// Every part that a unit may need, ascending.
    var allParts: [Int] { Set(self.parts.joined()).sorted() }
}

/// How many days a report's folder may be away from an archive's: zones are up to 26 hours apart.
///
/// A line that the archive has at the day of its receipt is in a report at that day, too.
enum ReplayReach {
    static let days: Int32 = 2
}

/// Facts learned by reading a part of the archive to its end.
struct PartFacts: Hashable, Sendable {
    /// Milliseconds since 1970 of the first and the last time that decides the day of one of its lines; `nil` without any.
    var times: ClosedRange<Int64>?
    var unexplainedByteCount = 0
    /// Lines that are not events, or belong to another environment.
    var strayLineCount = 0

    mutating func add(_ time: WallTime) {
        let time = time.milliseconds
        self.times = min(self.times?.lowerBound ?? time, time)...max(self.times?.upperBound ?? time, time)
    }
}

/// The facts of each part already read, so that no other unit reads it needlessly.
///
/// A part contains only lines of its day, but the archive's zone may have been different when it was written.
final class PartCatalog: Sendable {
    private let facts = Monitor<[Int: PartFacts]>([:])

    /// `nil` for a part that has not been read yet.
    func facts(of part: Int) -> PartFacts? {
        self.facts.update { $0[part] }
    }

    func record(_ facts: PartFacts, of part: Int) {
        self.facts.update { $0[part] = facts }
    }
}
