internal import Logging
internal import WaybillData
internal import WaybillProjection
internal import WaybillSystem

/// A delivery and an erasure that waits for it, as a merger's does.
///
/// Until all parts that were begun are finished it is unknown which events the provider has. So these are delivered, no
/// other is begun, and then the erasure has the files until it takes its mark away (``DeliveryPause``).
extension Deliverer {
    private var data: DataDirectory<Files> {
        DataDirectory(root: self.configuration.dataDirectory, files: self.files)
    }

    func erasureWaits() throws(FileSystemError) -> Bool {
        try self.files.status(ofEntry: DeliveryPause.path(in: self.data)) != nil
    }

    /// How long the files are released while a part that was begun cannot be finished, as one that waits for its day to
    /// be sent again: the erasure may find that the part has nothing of the person.
    private static var turn: Duration { .seconds(30) }

    /// Whether parts were begun that are not finished.
    private var hasBegunParts: Bool {
        self.state.entries.keys.contains { $0.hasPrefix(PendingPart.keyPrefix) }
    }

    /// Lets an erasure by that waits; returns at once if none does.
    ///
    /// - Returns: whether the files may have changed.
    func makeWay() async throws -> Bool {
        guard try self.erasureWaits() else { return false }
        self.logger.info("an erasure waits; no part is begun until it is done")
        let hasBegun = self.hasBegunParts
        self.releaseLock()
        let start = self.clock.monotonicTime()
        while try self.erasureWaits() {
            let waited = self.clock.monotonicTime() - start
            if hasBegun, self.configuration.isFollowing, waited >= Self.turn, try self.retakesLock() { return true }
            if !self.configuration.isFollowing, waited > self.configuration.patience {
                throw DeliveryError.erasing(dataDirectory: self.configuration.dataDirectory)
            }
            try self.show()
            try await self.rest(.seconds(1))
        }
        try self.retakeLock()
        self.logger.info("the erasure is done; delivery continues")
        return true
    }

    /// - Returns: `false` while the erasure has the files.
    private func retakesLock() throws(DeliveryError) -> Bool {
        do throws(DeliveryError) {
            try self.retakeLock()
            return true
        } catch {
            switch error {
            case .locked, .erasing:
                self.releaseLock()
                return false
            case .noExport, .disk, .credentials, .endpoint, .missingCredentials, .damagedState, .notValidated,
                .mergerWithoutClaims, .notRestored:
                throw error
            }
        }
    }
}
