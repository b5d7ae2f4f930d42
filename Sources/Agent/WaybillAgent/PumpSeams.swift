package import WaybillProtocol
package import WaybillSystem

/// Events from the network and the process to the pump.
package enum LinkEvent: Sendable {
    case connected
    case received([UInt8])
    /// What the kernel says, after ``AgentLink/lookAtPeer()``.
    case peer(TCPPeer)
    case closed(reason: String)
    /// The process was asked to stop.
    case stop
    /// A buffer is free again after ``BatchBuffers/take()`` found none.
    case bufferFreed
    case asked(AgentQuestion)
}

/// One connection to a receiver, as the pump sees it: messages go out in the order given, and ``LinkEvent``s come in.
package protocol AgentLink: Sendable {
    /// Sends a message other than a batch; does nothing once the connection is gone.
    func send(_ message: Message)
    /// Compresses a batch and sends it; its buffer returns to its owner.
    func send(_ batch: RawBatch)
    /// Requests the next bytes; none arrive without a call.
    func read()
    /// Asks the kernel what it knows about the other end; the answer comes as an event, where there is one.
    func lookAtPeer()
    func close()
}

/// Begins a connection in the background; its events come back as ``LinkEvent`` with `generation`.
package typealias LinkOpener = (_ address: NetworkAddress, _ generation: Int) -> any AgentLink

extension AgentLink {
    /// For a link that never brings more than the pump takes.
    package func read() {}

    /// For a link without a kernel below it.
    package func lookAtPeer() {}
}

/// Hints about which files changed; a look at them remains authoritative.
package protocol ChangeHints: ~Copyable {
    /// The file that becomes readable when there are hints; `nil` when there never are any.
    var file: FileID? { get }
    /// Whether every change is a hint, so that looks may be rare.
    var isComplete: Bool { get }
    /// Folders that could not be watched because the system's limit is reached.
    var unwatchedCount: Int { get }
    /// Folders that could not be watched because this user may not read them.
    var deniedFolders: [String] { get }
    /// Folders in which the system does not see every change.
    var blindFolders: [String] { get }
    /// Begins a look at everything.
    mutating func beginLook()
    /// Watches a folder that is about to be listed.
    mutating func watch(_ folder: String, isPolled: Bool)
    /// Watches the folders that these links lead through; returns those whose changes until now were no hints.
    mutating func watch(links: [String]) -> [String]
    /// Ends a look: what it did not name is watched no more.
    mutating func endLook()
    /// Watches what each path leads to now, and tells what changed; `nil` for nothing.
    mutating func check() -> DirectoryWatcher.Hint?
    /// Takes the gathered hints; `nil` when there are none.
    mutating func read() -> DirectoryWatcher.Hint?
    /// Takes the mounts as they are now, and makes calls again on those that answer.
    func refreshMounts(_ now: MonotonicTime)
    /// The mounts that do not answer.
    var hangingMounts: [HangingMount] { get }
    /// The mount that a path leads to, if it does not answer.
    func hangingMount(of path: String) -> String?
}

/// Where every call returns.
extension ChangeHints where Self: ~Copyable {
    package func refreshMounts(_ now: MonotonicTime) {}
    package var hangingMounts: [HangingMount] { [] }
    package func hangingMount(of path: String) -> String? { nil }
}

extension DirectoryWatcher: ChangeHints {}

/// Whole lines of one stream as they were read, not yet compressed.
package struct RawBatch: Sendable {
    package let id: StreamID
    /// Without the length on the wire and the checksum, which compression determines.
    package let header: BatchHeader
    /// The lines are its first `header.rawByteCount` bytes.
    package let buffer: BatchBuffer
}

/// Room for the lines of one batch.
///
/// `@unchecked Sendable`: one thread at a time owns it, the pump that fills it or the thread that compresses it.
package final class BatchBuffer: @unchecked Sendable {
    package let bytes: UnsafeMutableRawBufferPointer

    package init(byteCount: Int) {
        self.bytes = .allocate(byteCount: byteCount, alignment: 4096)
    }

    deinit {
        self.bytes.deallocate()
    }
}

/// The pool of buffers: its size limits how many batches are read ahead of compression.
package protocol BatchBuffers: Sendable {
    /// Takes a buffer; `nil` while all are in use, then ``LinkEvent/bufferFreed`` comes when one returns.
    func take() -> BatchBuffer?
    /// Compressed bytes so far.
    var wireByteCount: Int { get }
}

/// Room for the next batch, from a pool that another one may replace.
struct BatchRoom {
    private var pool: any BatchBuffers
    /// Compressed bytes of pools that were replaced.
    private var formerWireByteCount = 0
    /// Was taken, and does not hold a batch yet.
    private var buffer: BatchBuffer?

    init(_ pool: any BatchBuffers) {
        self.pool = pool
    }

    /// Compressed bytes so far.
    var wireByteCount: Int { self.formerWireByteCount + self.pool.wireByteCount }

    /// The buffer to read the next batch into: the same one until it is sent; `nil` if none is free, then an event comes
    /// when one is.
    mutating func next() -> BatchBuffer? {
        if self.buffer == nil { self.buffer = self.pool.take() }
        return self.buffer
    }

    /// The next buffer holds a batch, which is on its way.
    mutating func sent() { self.buffer = nil }

    /// Another pool takes the place of the present one, which gets no buffer back.
    mutating func replacePool(_ make: () -> any BatchBuffers) {
        let former = self.pool
        self.buffer = nil
        self.pool = make()
        self.formerWireByteCount += former.wireByteCount
    }
}
