package import WaybillData
package import WaybillExport
package import WaybillProjection
internal import WaybillProtocol
package import WaybillSystem
package import WaybillTestSupport

/// The death of a simulated process, by a fault of its own or from outside.
///
/// What a dying process leaves is what the next one finds; what it still does afterwards reaches no disk.
package final class ProcessDeath {
    private let places: ReadingPlaces
    private let files: FaultyFiles
    /// What the process left; `nil` while it lives.
    package private(set) var left: ReadingPlaces?
    /// Hears of the death, once.
    package var died: () -> Void = {}

    package init(of places: ReadingPlaces, _ files: FaultyFiles) {
        self.places = places
        self.files = files
    }

    /// A fault of the program, while a reader reads.
    package func fault(of reader: String) {
        guard self.left == nil else { return }
        self.places.place(of: reader).mark(signal: 11)
        self.kill()
    }

    /// SIGKILL: nothing says why.
    package func kill() {
        guard self.left == nil else { return }
        self.left = ReadingPlaces(leftBy: self.places)
        self.files.die()
        self.died()
    }
}

/// A projection whose process dies when it reads a line with a mark.
package struct MortalProjection<Base: Projection & ~Copyable>: ~Copyable, Projection {
    /// How reading a marked line ends the process.
    package enum End: Hashable, Sendable {
        case fault
        case kill
    }

    private var base: Base
    private let mark: [UInt8]
    private let end: End
    private let death: ProcessDeath

    /// - Parameter mark: what a line holds that ends the process.
    package init(_ base: consuming Base, mark: String, end: End = .fault, death: ProcessDeath) {
        self.base = base
        self.mark = Array(mark.utf8)
        self.end = end
        self.death = death
    }

    package static var takesParsedLines: Bool { Base.takesParsedLines }

    /// Ends the process if a line with the mark would be read.
    private func read(_ batch: ProjectedBatch) throws(FileSystemError) {
        let poison = self.base.poison?.readers(of: batch.description.name)
        var isDead = false
        batch.raw.forEachLine { range in
            let offset = batch.offset.rawValue + UInt64(range.lowerBound)
            guard !(poison?.has(offset, for: self.base.name) ?? false) else { return }
            isDead = isDead || range.contains { batch.raw[$0..<range.upperBound].starts(with: self.mark) }
        }
        guard isDead else { return }
        switch self.end {
        case .fault: self.death.fault(of: self.base.name)
        case .kill: self.death.kill()
        }
        throw .stopped("read", path: self.base.name)
    }

    package func rehearse(_ line: ProjectedBatch) throws(FileSystemError) {
        try self.read(line)
        try self.base.rehearse(line)
    }

    package mutating func project(_ batch: ProjectedBatch) throws(FileSystemError) {
        try self.read(batch)
        try self.base.project(batch)
    }

    // MARK: The base's

    package var name: String { self.base.name }
    package var erased: ErasedPeople? { self.base.erased }
    package var poison: PoisonedLines? { self.base.poison }
    package var needsMarks: Bool { self.base.needsMarks }
    package var nextDue: WallTime? { self.base.nextDue }
    package var isSealing: Bool { self.base.isSealing }
    package var isSealingUrgent: Bool { self.base.isSealingUrgent }
    package var mayBeginSeals: Bool { self.base.mayBeginSeals }
    package var tally: ProjectionTally { self.base.tally }
    package var report: String { self.base.report }

    package mutating func use(_ poison: PoisonedLines) { self.base.use(poison) }
    package mutating func recover() throws(FileSystemError) -> ProjectionRecovery { try self.base.recover() }
    package func setLinksAside() throws(FileSystemError) -> [String] { try self.base.setLinksAside() }
    package mutating func pass(_ time: WallTime) throws(FileSystemError) { try self.base.pass(time) }
    package mutating func checkpoint(
        at position: JournalPosition, sealing moment: SealMoment?
    ) throws(FileSystemError) {
        try self.base.checkpoint(at: position, sealing: moment)
    }
    package mutating func correctDueTimes(now: WallTime) { self.base.correctDueTimes(now: now) }
    package mutating func useCutOff(_ secondOfDay: Int) { self.base.useCutOff(secondOfDay) }
    package mutating func continueSealing() throws(FileSystemError) { try self.base.continueSealing() }
    package mutating func retire(
        _ policy: RetentionPolicy, now: WallTime
    ) throws(FileSystemError) -> RetentionReport {
        try self.base.retire(policy, now: now)
    }
    package mutating func takeSealed() -> [SealedDay] { self.base.takeSealed() }
    package mutating func takeFailures() -> [ClosingFailure] { self.base.takeFailures() }
    package mutating func takeQuarantined() -> QuarantineCounts { self.base.takeQuarantined() }
    package mutating func takeOutcomes() -> OutcomeCensus { self.base.takeOutcomes() }
}
