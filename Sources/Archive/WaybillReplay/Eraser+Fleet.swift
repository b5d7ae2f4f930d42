internal import WaybillData
package import WaybillExport
internal import WaybillProjection
package import WaybillSystem

/// A person that a fleet erases, with the fleet's key.
package struct FleetErasure: Sendable {
    package let person: ErasedPeople.Person
    package let key: [UInt8]

    package init(person: ErasedPeople.Person, key: [UInt8]) {
        self.person = person
        self.key = key
    }
}

/// An erasure of a fleet in a merger's data directory, while its projections rest at the erasure's position.
///
/// The result depends on what the projections wrote up to there and on nothing else: not on how far the merged journal goes,
/// nor on what is kept of it. The caller holds the directory's lock.
extension Eraser {
    /// - Parameter id: the person's; `nil` once the fleet knows only the digest. Records without an id of an event are then
    ///   not found, and nothing in the bucket has lines that could make any.
    package init(
        ofFleet fleet: FleetErasure, _ kind: ErasedPeople.Kind, id: String?, dataDirectory: String, files: Files
    ) {
        self.init(dataDirectory: dataDirectory, kind, id ?? "", isDryRun: false, files: files)
        self.fleet = fleet
    }

    /// What stands in the way now; looked at while the projections run, and cheap.
    ///
    /// It may take a moment's hold of the deliveries' locks.
    package func obstacle() throws(FileSystemError) -> Failure? {
        if let unrest = try self.unrest(), !unrest.isLackOfCheckpoint { return unrest }
        do throws(Failure) {
            for lock in try self.lockDeliveries() { self.files.close(lock) }
        } catch {
            switch error {
            case .disk(let error): throw error
            case .data, .noArchive, .underWay, .delivering, .deliveryRuns, .otherKey, .merger: return error
            }
        }
        let unfinished = try self.begunDeliveries()
        return unfinished.isEmpty ? nil : .delivering(unfinished)
    }

    /// The parts that a delivery has begun and not finished, of any person's records.
    private func begunDeliveries() throws(FileSystemError) -> [String] {
        var parts: [String] = []
        for delivery in try self.data.stateNames() where delivery.hasPrefix("deliver-") {
            let provider = delivery.dropFirst("deliver-".utf8.count)
            for key in try self.entries(of: delivery).keys where key.hasPrefix("part:") {
                let part = key.dropFirst("part:".utf8.count)
                let stem = "exports/\(provider)/\(part)"
                let root = Path.join(self.data.root, stem)
                // A delivery that died after the mark leaves the entry, and so does one whose part a replay has replaced.
                guard try self.files.status(at: root + ".manifest.json") != nil,
                    try self.files.status(at: root + ".delivered") == nil
                else { continue }
                parts.append(stem)
            }
        }
        return parts.sorted()
    }

    /// Whether a merger writes here.
    func isMergers() throws(Failure) -> Bool {
        do throws(FileSystemError) {
            return try self.data.hasState("merge")
        } catch {
            throw .disk(error)
        }
    }
}

extension Eraser.Failure {
    /// Whether projections have not come to a first checkpoint.
    fileprivate var isLackOfCheckpoint: Bool {
        if case .underWay(let what, _) = self { what == Self.noCheckpoint } else { false }
    }

    static var noCheckpoint: String { "the archive has no checkpoint" }
}
