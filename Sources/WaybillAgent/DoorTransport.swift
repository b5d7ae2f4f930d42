internal import WaybillSystem

/// Carries requests to a door over HTTP, for one link; `WaybillDispatch` has one for each family of platforms.
package protocol DoorTransport: Sendable {
    /// Sends one request, and calls `done` once, on any thread, with the whole answer or the reason why there is none.
    func send(_ request: DoorCall, _ done: @escaping @Sendable (Result<DoorAnswer, DoorCallFailure>) -> Void)
    /// Ends it, at the end of each link; a request that is on its way may get no answer.
    func close()
}

/// A request to a door.
package struct DoorCall: Hashable, Sendable {
    package var method: String
    /// What follows the door's address, with the query.
    package var path: String
    /// Names and values of headers, secrets among them.
    package var headers: [Header]
    package var body: [UInt8]

    /// A header of a request.
    package struct Header: Hashable, Sendable {
        package let name: String
        package let value: String
    }

    /// From the first byte of a request to the last of its answer.
    package static let timeout = Duration.seconds(45)
    /// The most bytes of an answer.
    package static let answerByteCountMax = 64 << 10
}

/// A door's answer.
package struct DoorAnswer: Hashable, Sendable {
    package var status: Int
    /// Incarnation and start of the receiver that answered; `nil`: no receiver was asked.
    package var receiver: String?
    package var body: [UInt8]

    package init(status: Int, receiver: String?, body: [UInt8]) {
        self.status = status
        self.receiver = receiver
        self.body = body
    }
}

/// Why there is no answer, for people.
package struct DoorCallFailure: Error, Hashable, Sendable {
    package let reason: String

    package init(reason: String) {
        self.reason = reason
    }
}

/// Opens a transport to a door, for one connection of the pump.
package typealias DoorOpener = @Sendable () -> any DoorTransport
