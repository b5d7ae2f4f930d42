internal import WaybillData
package import WaybillFleet
internal import WaybillSystem

/// The bucket of a receiver, and what goes there.
package struct StoreAttachment: Sendable {
    package let store: any ObjectStore
    /// The bucket's fleet, 32 hexadecimal digits.
    package let fleet: String
    /// How often the fleet's days may be sealed; a receiver that gets nothing says its time as often.
    package let sealInterval: Duration

    package init(store: any ObjectStore, fleet: String, sealInterval: Duration) {
        self.store = store
        self.fleet = fleet
        self.sealInterval = sealInterval
    }
}

/// What the uploader's thread does: puts the journal into the bucket, piece by piece, and says how far it is.
///
///     wait for the journal ─▶ until a piece is full or old ─▶ step ─▶ retirement, `stored`
///            ▲                                                 │ bucket or disk refuse
///            └────────────────── 0.1 to 30 s ◀─────────────────┘
///
/// The journal keeps what is not in the bucket, so nothing else waits for it: agents are acknowledged, and told `STORED`
/// later. A stop puts what is left into the bucket, for as long as a stop may take.
struct UploadLoop: ~Copyable {
    static let name = "store"

    private let attachment: StoreAttachment
    private let configuration: ReceiverConfiguration
    private let feed: JournalFeed
    private let retirement: JournalRetirement
    private let telemetry: ReceiverTelemetry
    private let clock: any SystemClock
    private var backoff: Backoff
    private var failureCount = 0
    private let stored: @Sendable (JournalPosition) -> Void
    private let announcement: AgentsAnnouncement

    /// - Parameter stored: called with each position up to which the bucket has the journal.
    init(
        _ attachment: StoreAttachment, _ configuration: ReceiverConfiguration, feed: JournalFeed,
        retirement: JournalRetirement, telemetry: ReceiverTelemetry, clock: any SystemClock,
        announcement: AgentsAnnouncement, stored: @escaping @Sendable (JournalPosition) -> Void
    ) {
        self.attachment = attachment
        self.configuration = configuration
        self.feed = feed
        self.retirement = retirement
        self.telemetry = telemetry
        self.clock = clock
        self.backoff = Backoff(from: .milliseconds(200), to: .seconds(30), SeededGenerator(seed: SystemRandom.seed()))
        self.stored = stored
        self.announcement = announcement
    }

    /// The thread's body.
    mutating func run(on files: POSIXFileSystem) {
        while true {
            do throws(FileSystemError) {
                let data = self.configuration.dataDirectory
                let uploader = try Uploader(
                    receiver: self.configuration.name, fleet: self.attachment.fleet,
                    journalDirectory: Path.join(data, "journal"),
                    end: self.feed.end, statePath: UploadState.path(in: data),
                    pieceByteCount: self.configuration.pieceByteCount, files: files,
                    store: MeteredStore(self.attachment.store, self.telemetry.host.storeRequests),
                    SeededGenerator(seed: SystemRandom.seed()))
                return self.follow(uploader)
            } catch {
                guard self.pause(after: .disk(error)) else { return }
            }
        }
    }

    private mutating func follow(_ uploader: consuming Uploader<POSIXFileSystem>) {
        var uploader = uploader
        self.telemetry.uploads.started(
            uploader.chain.description, at: uploader.stored, journalEnd: self.feed.end)
        self.reached(uploader.stored)
        while true {
            let waiting = self.feed.waitForEnd(beyond: uploader.stored, until: nil)
            if waiting.isAbandoned || waiting.isClosed && waiting.end <= uploader.stored { return }
            if !waiting.isClosed { self.gather(from: uploader.stored) }
            do throws(UploadFailure) {
                let start = self.clock.monotonicTime()
                switch try uploader.step(upTo: self.feed.end) {
                case .idle: continue
                case .stored(let piece, let creation):
                    self.succeed()
                    self.reached(piece.end)
                    self.telemetry.uploads.uploaded(
                        byteCount: piece.byteCount, creation, upTo: piece.end, took: self.clock.monotonicTime() - start)
                    self.announcement.announce(in: self.attachment.store, self.telemetry)
                case .diverged(let position, let former):
                    self.telemetry.uploads.diverged(
                        at: position, from: former.description, to: uploader.chain.description)
                }
            } catch {
                guard self.pause(after: error) else { return }
            }
        }
    }

    /// Waits until a piece is full or old.
    private func gather(from position: JournalPosition) {
        let full = JournalPosition(position.rawValue + self.configuration.pieceByteCount)
        _ = self.feed.waitForEnd(
            beyond: full, until: self.clock.monotonicTime() + self.configuration.pieceInterval)
    }

    private func reached(_ position: JournalPosition) {
        self.retirement.checkpointed(Self.name, at: position)
        self.stored(position)
    }

    private mutating func succeed() {
        self.backoff.succeed()
        guard self.failureCount > 0 else { return }
        self.telemetry.uploads.recovered(afterAttempts: self.failureCount)
        self.failureCount = 0
    }

    /// - Returns: whether to continue; a receiver that stops does not wait for a bucket that refuses.
    private mutating func pause(after failure: UploadFailure) -> Bool {
        self.failureCount += 1
        let pause = self.backoff.fail()
        self.telemetry.uploads.failed(failure, attempt: self.failureCount, retryingIn: pause)
        return !self.feed.waitForClose(until: self.clock.monotonicTime() + pause)
    }
}
