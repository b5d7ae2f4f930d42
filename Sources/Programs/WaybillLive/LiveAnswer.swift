/// An answer to one request.
package struct LiveAnswer: Sendable {
    package let status: Int
    package let contentType: String
    package let body: [UInt8]

    init(json: [UInt8]) {
        self.status = 200
        self.contentType = "application/json"
        self.body = json
    }

    init(_ refusal: Access.Refusal) {
        self.status = refusal.status
        self.contentType = "text/plain; charset=utf-8"
        self.body = Array((refusal.text + "\n").utf8)
    }
}

/// The connection of a stream.
protocol StreamSink: Sendable {
    /// Bytes that were sent and that the peer's system has not taken.
    var pendingByteCount: Int { get }
    /// The stream was opened.
    func begin()
    func send(_ bytes: [UInt8])
    func end()
}
