package import WaybillData
internal import WaybillProjection
package import WaybillProtocol
internal import WaybillSystem

/// What the archive has to do for a batch that is durable.
struct CommittedTurn {
    /// Where the batch ends in the journal.
    let end: JournalPosition
    let charge: AdmissionCharge
    let account: Account
}

/// Bounds what unanswered messages hold in memory, and the work that waits in front of the archive.
///
///     message, OPEN ──▶ short ──▶ committer
///     short batch ──▶ short ──▶ turn (the archive's time) ──▶ committer
///     long batch ──▶ wire, piece by piece as it arrives ──▶ turn ──▶ raw ──▶ committer
///
/// A connection takes room before it reads; without room it stops reading, and is called back. Each room has a queue in
/// which accounts take turns (``FairQueue``), so an account that sends little never waits for one that sends much.
/// Short messages have room of their own.
///
/// The archive's time: a batch may be small on the wire and take long to archive. What is committed and not yet archived
/// is bounded by the work that the archive does in 0.4 s (0.1 s more for short batches), measured while it runs; so a
/// line is archived soon, whatever others send. While the archive cannot work (its disk refuses, or it is catching up
/// after a start), nothing waits for it.
package final class AdmissionBudget: Sendable {
    typealias Room = AdmissionCharge.Room
    typealias Resume = @Sendable () -> Void

    private struct State {
        var short: FairQueue<Resume>
        var wire: ArrivalMemory<Resume>
        var raw: FairQueue<Resume>
        var pace: ArchiveBacklog<Resume>
        /// How often something had to wait.
        var waitCounts: [Room: Int] = [:]
    }

    /// How a long payload arrives: it takes room for so many bytes at a time.
    static let pieceByteCount = 64 << 10

    private let state: Lock<State>
    private let total: Int

    /// - Parameter journalEnd: where the journal ends; nothing waits for the archive before it is that far.
    package init(
        byteCount: Int, limits: ProtocolLimits = ProtocolLimits(), journalEnd: JournalPosition = JournalPosition(0)
    ) {
        self.total = byteCount
        self.state = Lock(
            State(
                short: FairQueue(capacity: byteCount / 8),
                wire: ArrivalMemory(
                    capacity: byteCount / 8 * 3, payloadByteCountMax: limits.wireByteCountMax),
                raw: FairQueue(capacity: byteCount / 2), pace: ArchiveBacklog(journalEnd: journalEnd)))
    }

    /// A number for a long payload that is about to arrive.
    func nextPayloadNumber() -> Int {
        self.state.withLock { $0.wire.nextNumber() }
    }

    /// Takes room now, or later calls `resume` on some thread once it is taken.
    ///
    /// - Returns: whether it was taken now.
    func reserve(_ amount: Int, in room: Room, for account: Account, otherwise resume: @escaping Resume) -> Bool {
        self.take(room) { state in
            switch room {
            case .short: state.short.request(amount, for: account, resume)
            case .raw: state.raw.request(amount, for: account, resume)
            case .turn, .shortTurn: state.pace.request(amount, isShort: room == .shortTurn, for: account, resume)
            case .wire: preconditionFailure("a payload arrives in pieces")
            }
        }
    }

    /// Takes room for the first piece of a long payload.
    func reserveFirst(
        _ amount: Int, ofPayload number: Int, for account: Account, otherwise resume: @escaping Resume
    ) -> Bool {
        self.take(.wire) { $0.wire.begin(number, amount, for: account, resume) }
    }

    /// Takes room for another piece of a long payload.
    func reserveMore(_ amount: Int, ofPayload number: Int, otherwise resume: @escaping Resume) -> Bool {
        self.take(.wire) { $0.wire.more(number, amount, resume) }
    }

    private func take(_ room: Room, _ request: (inout State) -> Bool) -> Bool {
        self.state.withLock { state in
            let isAdmitted = request(&state)
            if !isAdmitted { state.waitCounts[room, default: 0] += 1 }
            return isAdmitted
        }
    }

    /// How often a message waited for room.
    func waitCount(_ room: Room) -> Int {
        self.state.withLock { $0.waitCounts[room] ?? 0 }
    }

    /// Whether a connection waits for memory.
    var hasWaiters: Bool {
        self.state.withLock { $0.short.waiterCount > 0 || $0.wire.hasWaiters || $0.raw.waiterCount > 0 }
    }

    /// The bytes that are not taken; negative while more than the whole budget is in memory.
    package var freeByteCount: Int {
        self.state.withLock { self.total - $0.short.used - $0.wire.used - $0.raw.used }
    }

    /// The payload has arrived or will not: the next one is the oldest.
    func payloadEnded(_ number: Int) {
        self.change { $0.wire.end(number) }
    }

    /// Returns room and resumes connections that now have some.
    func release(_ charge: AdmissionCharge) {
        self.change { state in
            state.short.release(charge[.short])
            state.wire.release(charge[.wire])
            state.raw.release(charge[.raw])
            state.pace.release(charge[.turn], short: charge[.shortTurn])
        }
    }

    /// Lets everyone in who waits.
    package func open() {
        self.change { state in
            state.short.capacity = Int.max / 2
            state.raw.capacity = Int.max / 2
            state.pace.stop()
            state.wire.open()
        }
    }

    private func change(_ body: (inout State) -> Void) {
        let resumed = self.state.withLock { state in
            body(&state)
            return state.wire.admitted() + state.short.admitted() + state.raw.admitted() + state.pace.admitted()
        }
        for resume in resumed { resume() }
    }

    // MARK: The archive

    /// A batch that ends at `end` of the journal is durable; its share of the archive's time is given back once it is
    /// archived.
    func committed(_ batches: [CommittedTurn]) {
        self.change { state in
            for batch in batches {
                state.pace.committed(
                    batch.charge[.turn], short: batch.charge[.shortTurn], of: batch.account, end: batch.end)
            }
        }
    }

    /// The archive has begun at `position`; nothing waits for it until it has read what is in the journal now.
    func archiveStarted(at position: JournalPosition) {
        self.change { $0.pace.start(at: position) }
    }

    /// The archive has read up to `position`, in that time.
    func archived(upTo position: JournalPosition, took: Duration) {
        self.change { $0.pace.archived(upTo: position, nanoseconds: Int(took.nanoseconds)) }
    }

    /// Who brought the next batch that the archive reads, which ends there; `nil` if that is not known.
    func account(ofBatchEndingAt end: JournalPosition) -> Account? {
        self.state.withLock { $0.pace.account(ofBatchEndingAt: end) }
    }

    /// The archive cannot work for now.
    func archiveStopped() {
        self.change { $0.pace.stop() }
    }

    /// The work in front of the archive, in nanoseconds of its time.
    var archiveBacklogNanoseconds: Int {
        self.state.withLock { $0.pace.backlogNanoseconds }
    }
}
