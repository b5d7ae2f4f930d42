package import WaybillProtocol
package import WaybillSystem

/// What the network, and the process, tell the pump.
package enum LinkEvent: Sendable {
    case connected
    case received([UInt8])
    case closed(reason: String)
    /// The process is told to stop.
    case stop
    /// There is a buffer again for somebody who got none.
    case bufferFreed
    /// Somebody wants to know where the agent stands; `nil` is the answer of one that has stopped.
    case measure(reply: @Sendable (AgentStanding?) -> Void)
}

/// One connection to a receiver, as the pump sees it: messages out, in the order in which they are given; what comes in
/// are ``LinkEvent``s.
package protocol AgentLink: Sendable {
    /// Sends a message that is no batch; nothing, once the connection is gone.
    func send(_ message: Message)
    /// Compresses a batch and sends it; its buffer goes back to where it came from.
    func send(_ batch: RawBatch)
    /// Lets the next bytes come; none come before the first call, and none in between.
    func read()
    func close()
}

extension AgentLink {
    /// For a link that brings no more than the pump takes.
    package func read() {}
}

/// Hints about which files changed; a scan stays the truth.
package protocol ChangeHints: ~Copyable {
    /// What becomes readable when there are hints; `nil` when there never are.
    var file: FileID? { get }
    /// Whether every folder is watched, so that scans may be rare.
    var isComplete: Bool { get }
    /// Folders that could not be watched.
    var unwatchedCount: Int { get }
    /// Watches these folders and no others.
    mutating func watch(_ directories: [String])
    /// Takes what has gathered; `nil` when it is nothing.
    mutating func read() -> DirectoryWatcher.Hint?
}

extension DirectoryWatcher: ChangeHints {}

/// Whole lines of one stream as they were read, on their way to be compressed.
package struct RawBatch: Sendable {
    package let id: StreamID
    /// Without what compression tells: length on the wire and checksum.
    package let header: BatchHeader
    /// The lines are its first `header.rawByteCount` bytes.
    package let buffer: BatchBuffer
}

/// Room for the lines of one batch.
///
/// `@unchecked Sendable`: one at a time has it, the pump that fills it or the thread that compresses it.
package final class BatchBuffer: @unchecked Sendable {
    package let bytes: UnsafeMutableRawBufferPointer

    package init(byteCount: Int) {
        self.bytes = .allocate(byteCount: byteCount, alignment: 4096)
    }

    deinit {
        self.bytes.deallocate()
    }
}

/// The buffers that there are: so many batches are read ahead of their compression.
package protocol BatchBuffers: Sendable {
    /// `nil` while all of them are under way; ``LinkEvent/bufferFreed`` comes when one is back.
    func take() -> BatchBuffer?
    /// Compressed bytes so far.
    var wireByteCount: Int { get }
}
