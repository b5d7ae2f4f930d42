internal import WaybillData
internal import WaybillEvent
internal import WaybillExport
package import WaybillFleet
internal import WaybillProjection
package import WaybillSystem

/// Makes this merger the holder of the parts that another one holds and has not finished (`--take-over NAME`).
///
/// It sends nothing: the delivery that runs finds them.
package struct TakeOver<Files: FileSystem, Clock: SystemClock> {
    /// What was found.
    package struct Counts: Hashable, Sendable {
        /// Parts that were taken over now.
        package var taken = 0
        /// Pending parts that are this merger's, were finished, or that no one holds.
        package var others = 0
        /// Pending parts that another merger holds.
        package var elsewhere = 0
        /// Pending parts whose claims cannot be read.
        package var damaged = 0

        package init() {}

        package mutating func add(_ other: Counts) {
            self.taken += other.taken
            self.others += other.others
            self.elsewhere += other.elsewhere
            self.damaged += other.damaged
        }
    }

    /// Why it ended early; what was taken over before stays so.
    package enum Failure: DiskFailure, Hashable, Sendable {
        case store(StoreError)
        case disk(FileSystemError)
        /// The delivery has not begun on this machine, so it has no life that can hold anything.
        case notBegun(path: String)
    }

    private let configuration: DeliveryConfiguration
    private let claims: DeliveryClaims
    private let former: String
    private let files: Files
    private let clock: Clock

    /// - Parameter former: the name of the merger, or ``PartClaim/damagedName``.
    package init(
        _ configuration: DeliveryConfiguration, claims: DeliveryClaims, from former: String, files: Files, clock: Clock
    ) {
        self.configuration = configuration
        self.claims = claims
        self.former = former
        self.files = files
        self.clock = clock
    }

    /// - Parameter show: takes a line for each part that is taken over.
    package func run(_ show: (String) -> Void) async throws(Failure) -> Counts {
        let provider = self.configuration.provider.rawValue
        let life = try self.life()
        let identity: ClaimIdentity
        do throws(StoreError) {
            guard let fleet = try await self.claims.bucket.fleet() else {
                throw StoreError(
                    .configuration, code: "no-fleet", detail: "the bucket names no fleet",
                    remedy: "prepare it with waybill store init")
            }
            identity = ClaimIdentity(fleet: fleet, merger: self.claims.merger, life: life)
        } catch {
            throw .store(error)
        }
        var counts = Counts()
        for part in try self.pending() {
            var claim = PartClaim(.takeOver(from: self.former), as: identity)
            let own = ClaimObject.claim(of: identity, part: "\(part.day)/\(part.name)", at: self.clock.wallTime())
            let outcome: PartClaim.Outcome
            do throws(StoreError) {
                outcome = try await claim.ask(
                    self.claims.bucket, provider, part.env.rawValue, part.manifest.claimSHA256, claim: own,
                    fleet: identity.fleet)
            } catch {
                throw .store(error)
            }
            switch outcome {
            case .held where claim.hasCreated:
                counts.taken += 1
                show("taken over: \(provider)/\(part.day)/\(part.name)")
            case .held, .free, .done: counts.others += 1
            case .elsewhere: counts.elsewhere += 1
            case .damaged: counts.damaged += 1
            }
        }
        return counts
    }

    private func life() throws(Failure) -> String {
        let data = DataDirectory(root: self.configuration.dataDirectory, files: self.files)
        let path = data.statePath("deliver-\(self.configuration.provider.rawValue)")
        do throws(FileSystemError) {
            let entries = try StateImage.read(path, files: self.files)?.entries
            if let life = entries?[ClaimIdentity.stateKey], ClaimIdentity.isDigits(life) { return life }
        } catch {
            throw .disk(error)
        }
        throw .notBegun(path: path)
    }

    private func pending() throws(Failure) -> [PendingPart] {
        let data = DataDirectory(root: self.configuration.dataDirectory, files: self.files)
        var parts = ClosedParts(
            root: Path.join(data.exports, self.configuration.provider.rawValue), files: self.files)
        return try Failure.onDisk(parts.pending(only: self.configuration.env).parts)
    }
}
