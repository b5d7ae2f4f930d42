package import NIOCore

/// What carries a link's bytes to a receiver and back, once it is connected.
package protocol LinkCarrier: Sendable {
    /// Sends bytes after those that were given before.
    ///
    /// - Parameters:
    ///   - isFollowed: whether more comes at once.
    ///   - written: called when the system has the bytes, or never will.
    func write(_ bytes: ByteBuffer, isFollowed: Bool, written: (@Sendable () -> Void)?)
    /// Brings the next bytes; none come without a call.
    func read()
    func close()
}

/// What a carrier of another system tells its link.
package struct CarrierEvents: Sendable {
    package let opened: @Sendable () -> Void
    package let received: @Sendable ([UInt8]) -> Void
    /// The last one; with the reason, for people.
    package let closed: @Sendable (String) -> Void

    package init(
        opened: @escaping @Sendable () -> Void, received: @escaping @Sendable ([UInt8]) -> Void,
        closed: @escaping @Sendable (String) -> Void
    ) {
        self.opened = opened
        self.received = received
        self.closed = closed
    }
}

/// Opens a tunnel at the address of a door's `v1/line`, for one connection of the pump.
package typealias TunnelOpener = @Sendable (_ url: String, CarrierEvents) -> any LinkCarrier

/// A connection of the event loop's.
struct ChannelCarrier: LinkCarrier {
    let channel: any Channel

    func write(_ bytes: ByteBuffer, isFollowed: Bool, written: (@Sendable () -> Void)?) {
        let promise = written.map { _ in self.channel.eventLoop.makePromise(of: Void.self) }
        if let promise, let written { promise.futureResult.whenComplete { _ in written() } }
        if isFollowed {
            self.channel.write(bytes, promise: promise)
        } else {
            self.channel.writeAndFlush(bytes, promise: promise)
        }
    }

    func read() { self.channel.read() }
    func close() { self.channel.close(promise: nil) }
}
