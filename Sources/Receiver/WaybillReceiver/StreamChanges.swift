internal import WaybillProtocol

/// The streams that a process has changed, as long as the fleet's store lacks what the process before left.
///
/// Of the others the receiver can say at once what the fleet has.
struct StreamChanges {
    private let membership: FleetMembership?
    private var names: Set<StreamName> = []

    init(_ membership: FleetMembership?) {
        self.membership = membership
    }

    mutating func note(_ name: StreamName) {
        if self.membership?.formerEnd != nil { self.names.insert(name) }
    }

    /// Whether a stream may have been changed before the store had what is older; afterwards it makes no difference, and
    /// nothing is remembered.
    mutating func contains(_ name: StreamName) -> Bool {
        guard self.membership?.formerEnd != nil else {
            self.names = []
            return true
        }
        return self.names.contains(name)
    }
}
