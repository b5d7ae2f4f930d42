internal import NIOCore
internal import WaybillAgent
internal import WaybillSystem

/// What a tunnel needs of a system's WebSocket.
///
/// It sends and receives one message at a time, and calls back on any thread.
protocol WebSocketTask: Sendable {
    func send(_ bytes: [UInt8], _ done: @escaping @Sendable ((any Error)?) -> Void)
    /// - Parameter take: the bytes of a message; `nil` of one that is text.
    func receive(_ take: @escaping @Sendable (Result<[UInt8]?, any Error>) -> Void)
    /// Ends it; what was called for fails.
    func end()
}

/// A tunnel over a system's own WebSocket: on an iPhone that uses the system's proxies, VPNs and certificates that a company
/// installed, and the system knows how to put its connections to sleep.
final class WebSocketCarrier: LinkCarrier {
    private struct Piece {
        let bytes: [UInt8]
        var written: (@Sendable () -> Void)?
    }

    private struct State {
        var task: (any WebSocketTask)?
        var waiting = CircularBuffer<Piece>()
        var isSending = false
        var isReceiving = false
        var isOpen = false
        var isClosed = false
    }

    private let state = Lock(State())
    private let events: CarrierEvents

    init(_ events: CarrierEvents) {
        self.events = events
    }

    // MARK: The link's side

    func write(_ bytes: ByteBuffer, isFollowed: Bool, written: (@Sendable () -> Void)?) {
        var bytes = bytes
        self.state.withLock { state in
            guard !state.isClosed else { return }
            while let piece = bytes.readBytes(length: min(bytes.readableBytes, TunnelMessage.byteCountMax)) {
                let isLast = bytes.readableBytes == 0
                state.waiting.append(Piece(bytes: piece, written: isLast ? written : nil))
                if isLast { break }
            }
        }
        self.advance()
    }

    func read() {
        let task = self.state.withLock { state -> (any WebSocketTask)? in
            guard state.isOpen, !state.isClosed, !state.isReceiving else { return nil }
            state.isReceiving = true
            return state.task
        }
        task?.receive { self.received($0) }
    }

    func close() { self.end(nil) }

    // MARK: The system's side

    /// The task to use; it is not open yet.
    func use(_ task: any WebSocketTask) {
        let isClosed = self.state.withLock { state in
            state.task = task
            return state.isClosed
        }
        if isClosed { task.end() }
    }

    func opened() {
        let isNews = self.state.withLock { state in
            defer { state.isOpen = true }
            return !state.isOpen && !state.isClosed
        }
        if isNews { self.events.opened() }
    }

    /// - Parameter reason: for people.
    func failed(_ reason: String) { self.end(reason) }

    private func advance() {
        let next = self.state.withLock { state -> (any WebSocketTask, Piece)? in
            guard !state.isSending, !state.isClosed, let task = state.task, let piece = state.waiting.popFirst() else {
                return nil
            }
            state.isSending = true
            return (task, piece)
        }
        guard let (task, piece) = next else { return }
        task.send(piece.bytes) { error in
            piece.written?()
            if let error { return self.failed("the tunnel broke: \(error)") }
            self.state.withLock { $0.isSending = false }
            self.advance()
        }
    }

    private func received(_ result: Result<[UInt8]?, any Error>) {
        self.state.withLock { $0.isReceiving = false }
        switch result {
        case .success(let bytes?): self.events.received(bytes)
        case .success(nil): self.failed("the door sent text, which no tunnel has")
        case .failure(let error): self.failed("the tunnel ended: \(error)")
        }
    }

    private func end(_ reason: String?) {
        let (task, isNews) = self.state.withLock { state in
            defer {
                state.isClosed = true
                state.waiting = CircularBuffer()
            }
            return (state.task, !state.isClosed)
        }
        guard isNews else { return }
        task?.end()
        self.events.closed(reason ?? "the connection was closed")
    }
}
