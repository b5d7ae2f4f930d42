package import WaybillProtocol
package import WaybillSystem

/// What the network, and the process, tell the pump.
package enum LinkEvent: Sendable {
    case connected
    case received([UInt8])
    case closed(reason: String)
    /// The process is told to stop.
    case stop
    /// Somebody wants to know where the agent stands; `nil` is the answer of one that has stopped.
    case measure(reply: @Sendable (AgentStanding?) -> Void)
}

/// One connection to a receiver, as the pump sees it: bytes out; what comes in are ``LinkEvent``s.
package protocol AgentLink: Sendable {
    /// Sends a message, and the payload behind it when it is a batch; nothing, once the connection is gone.
    func send(_ message: Message, payload: UnsafeRawBufferPointer?)
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
