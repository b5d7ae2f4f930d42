internal import WaybillData
internal import WaybillFleet
internal import WaybillProtocol
internal import WaybillReceiver
internal import WaybillSystem
internal import WaybillTestSupport

/// What a process of a fleet's receiver uploads: the shipped uploader, and who hears how far it is.
final class SimulatedUpload {
    private let bucket: FleetBucket
    private let receiver: SimulatedReceiver
    private let files: FaultyFiles
    private let retirement: JournalRetirement
    private let membership: FleetMembership?
    private var uploader: Uploader<FaultyFiles>

    private var life: any Life { self.receiver.life }

    /// The name under which the uploader reads the journal.
    static let reader = "store"

    init(
        to bucket: FleetBucket, of receiver: SimulatedReceiver, _ data: DataDirectory<FaultyFiles>,
        end: JournalPosition, _ retirement: JournalRetirement, _ membership: FleetMembership?
    ) throws(FileSystemError) {
        self.bucket = bucket
        self.receiver = receiver
        self.files = data.files
        self.retirement = retirement
        self.membership = membership
        self.uploader = try Uploader(
            receiver: receiver.name, fleet: bucket.fleet.text, journalDirectory: data.journal, end: end,
            statePath: UploadState.path(in: data.root), pieceByteCount: bucket.life.pieceByteCount, files: data.files,
            store: BucketAccess(bucket, isMerger: false, receiver.clock),
            SeededGenerator(seed: receiver.life.dice.next()))
    }

    /// How far the bucket has the journal.
    var stored: JournalPosition { self.uploader.stored }

    /// Milliseconds from one look at the journal to the next.
    var pause: ClosedRange<Int> { self.life.isCalm ? 50...200 : self.bucket.life.uploadPause }

    func begin() { self.reached(self.stored) }

    /// Uploads some pieces.
    func act(upTo end: JournalPosition) {
        do throws(UploadFailure) {
            for _ in 0..<(self.life.isCalm ? 20 : self.life.dice.int(1...3)) {
                switch try self.uploader.step(upTo: end) {
                case .idle: return
                case .stored(let piece, let creation):
                    self.life.note("\(self.receiver.label) \(creation) \(self.uploader.chain) up to \(piece.end)")
                    guard !self.files.isStopped else { return }
                    self.reached(piece.end)
                case .diverged(let position, let former):
                    self.life.note("\(self.receiver.label) leaves \(former) at \(position)")
                    // A chain is left when others have written under its name; no one does so again and again.
                    if self.uploader.divergenceCount > 20 {
                        return self.life.violate("\(self.receiver.label) begins one chain after the other")
                    }
                }
            }
        } catch {
            if case .disk(let error) = error, self.life.isCalm, !self.files.isStopped {
                self.life.violate("\(self.receiver.label) has a disk without faults, and says \(error)")
            }
        }
    }

    private func reached(_ position: JournalPosition) {
        self.retirement.checkpointed(Self.reader, at: position)
        self.membership?.advance(to: position)
    }
}
