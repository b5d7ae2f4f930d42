internal import CWaybillSystem

/// What the kernel knows about the other end of a TCP connection, whatever the program there does.
package struct TCPPeer: Equatable, Sendable {
    /// Bytes that the peer's kernel has not acknowledged, whether they were sent yet or not.
    package var unacknowledgedByteCount: Int
    /// How often they, or a probe of the peer's window, were sent again since the peer's kernel answered anything.
    package var unansweredTryCount: Int
    /// How long ago the peer's kernel last acknowledged bytes or answered a probe.
    package var silence: Duration

    package init(unacknowledgedByteCount: Int, unansweredTryCount: Int, silence: Duration) {
        self.unacknowledgedByteCount = unacknowledgedByteCount
        self.unansweredTryCount = unansweredTryCount
        self.silence = silence
    }

    #if os(Linux)
        /// Asks the kernel.
        ///
        /// - Parameter descriptor: a socket that no one closes meanwhile.
        /// - Returns: `nil` where the kernel does not tell.
        package init?(of descriptor: Int32) {
            var peer = waybill_tcp_peer()
            guard waybill_look_at_tcp_peer(descriptor, &peer) == 0 else { return nil }
            self.init(
                unacknowledgedByteCount: Int(peer.unacknowledged_byte_count),
                unansweredTryCount: Int(peer.unanswered_try_count), silence: .milliseconds(peer.silent_milliseconds))
        }
    #endif
}
