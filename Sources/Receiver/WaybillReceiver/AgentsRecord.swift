internal import Logging
internal import WaybillData
package import WaybillFleet
internal import WaybillHost
internal import WaybillJSON
package import WaybillSystem

/// What a receiver says in the bucket of its `agents:`, so that another one that differs is found.
///
///     agents/collector-1.json     {"receiver":"collector-1","principals":3,"digest":"…","time":1795165200000}
///
/// Replaced at each start and reload. The digest is of names, patterns, quotas, and of the digests of tokens: no token can
/// be found from it.
///
/// - SeeAlso: `Protocol/formats/fleet.md`.
package struct AgentsRecord: Hashable, Sendable {
    package let receiver: String
    /// SHA-256 in hexadecimal; `nil`: the receiver has no `agents:`.
    package let digest: String?
    package let principalCount: Int
    package var time: WallTime

    private static let folder = "agents/"
    private static let suffix = ".json"
    private static let byteCountMax = 4096
    /// Of more receivers the others are not read.
    private static let countMax = 5000

    package init(receiver: String, agents: [Principal]?, time: WallTime) {
        self.receiver = receiver
        self.digest = agents.map(Self.digest)
        self.principalCount = agents?.count ?? 0
        self.time = time
    }

    package var key: String { Self.folder + self.receiver + Self.suffix }

    package var encoded: [UInt8] {
        JSONWriter.object { json in
            json.member("receiver", self.receiver)
            json.member("principals", self.digest == nil ? nil : self.principalCount)
            json.member("digest", self.digest)
            json.member("time", self.time.milliseconds)
        }
    }

    /// Reads what ``encoded`` is; `nil` for anything else.
    package init?(_ bytes: [UInt8]) {
        guard let json = JSONValue(bytes), let receiver = json["receiver"]?.string, ChainName.isReceiver(receiver),
            let time = json["time"]?.count
        else { return nil }
        let digest = json["digest"]?.string
        if let digest, !SHA256Digest.isText(digest) { return nil }
        self.receiver = receiver
        self.digest = digest
        self.principalCount = json["principals"]?.count ?? 0
        self.time = WallTime(milliseconds: Int64(time))
    }

    private static func digest(of agents: [Principal]) -> String {
        let text = agents.map(Self.text).sorted().joined(separator: "\n")
        return Hexadecimal.text(SHA256.digest(text.utf8))
    }

    /// One line with all that decides about an agent.
    private static func text(of principal: Principal) -> String {
        var json = JSONWriter()
        func list(_ name: StaticString, _ texts: [String]) {
            json.key(name)
            json.beginArray()
            for text in texts { json.string(text) }
            json.endArray()
        }
        json.beginObject()
        json.member("name", principal.name)
        list("tokens", principal.tokens.map(\.text).sorted())
        list("certificates", principal.certificates.map(\.description).sorted())
        list("env", principal.environments.sorted())
        list("bundle", principal.bundles.sorted())
        list("formerly", principal.formerly)
        json.member("adopt", principal.adopts)
        json.member("devices", principal.hasDevices)
        json.member("share", principal.share)
        json.member("skipped", "\(principal.skippedByteCountMax)")
        json.member("quotas", "\(principal.quotas)")
        json.endObject()
        return String(decoding: json.output.bytes, as: UTF8.self)
    }

    // MARK: In the bucket

    /// All records, by receiver.
    package static func all(in store: any ObjectStore) throws(StoreError) -> [AgentsRecord] {
        var records: [AgentsRecord] = []
        var pages = ListingPages(store, Self.folder, isFolded: false)
        while let page = try pages.next() {
            for object in page.objects where object.key.hasSuffix(Self.suffix) && records.count < Self.countMax {
                guard let bytes = try store.read(object.key, 0..<Self.byteCountMax) else { continue }
                if let record = AgentsRecord(bytes), record.key == object.key { records.append(record) }
            }
        }
        return records
    }

    /// How one receiver's `agents:` stands among others'.
    package struct Comparison: Hashable, Sendable {
        /// Receivers that have `agents:`, while this one has none.
        package var having: [String] = []
        /// Receivers that have none, while this one has.
        package var lacking: [String] = []
        /// Receivers whose `agents:` is another one.
        package var differing: [String] = []

        package var isEqual: Bool { self.having.isEmpty && self.lacking.isEmpty && self.differing.isEmpty }

        package var text: String {
            var parts: [String] = []
            if !self.having.isEmpty {
                parts.append("there is no agents:, which these receivers have: \(self.having.joined(separator: ", "))")
            }
            if !self.lacking.isEmpty {
                parts.append("these receivers have no agents:, \(self.lacking.joined(separator: ", "))")
            }
            if !self.differing.isEmpty {
                parts.append("agents: differs from that of \(self.differing.joined(separator: ", "))")
            }
            return parts.joined(separator: "; ")
        }
    }

    package func comparison(with others: [AgentsRecord]) -> Comparison {
        var comparison = Comparison()
        for other in others.sorted(by: { $0.receiver < $1.receiver })
        where other.receiver != self.receiver && other.digest != self.digest {
            if self.digest == nil {
                comparison.having.append(other.receiver)
            } else if other.digest == nil {
                comparison.lacking.append(other.receiver)
            } else {
                comparison.differing.append(other.receiver)
            }
        }
        return comparison
    }
}

/// Puts a receiver's record into the bucket after each start and reload, and says so when others differ.
final class AgentsAnnouncement: Sendable {
    private let pending: Lock<AgentsRecord?>

    init(_ record: AgentsRecord?) {
        self.pending = Lock(record)
    }

    /// What the next announcement says.
    func set(_ record: AgentsRecord) {
        self.pending.withLock { $0 = record }
    }

    /// Called after a piece is in the bucket, on the uploader's thread; tries once, and again after the next piece.
    func announce(in store: any ObjectStore, _ telemetry: ReceiverTelemetry) {
        guard let record = self.pending.withLock({ $0 }) else { return }
        do throws(StoreError) {
            try store.replace(record.key, ObjectBody(record.encoded))
            let comparison = record.comparison(with: try AgentsRecord.all(in: store))
            self.pending.withLock { if $0 == record { $0 = nil } }
            if !comparison.isEqual { telemetry.agentsDiffer(comparison) }
        } catch {
            switch error.kind {
            case .forbidden, .notAllowedHere, .refused:
                // The policy is of a version before; pieces are more important.
                self.pending.withLock { if $0 == record { $0 = nil } }
                telemetry.agentsNotAnnounced(error)
            default: break
            }
        }
    }
}

extension ReceiverTelemetry {
    func agentsDiffer(_ comparison: AgentsRecord.Comparison) {
        self.logger.warning(
            .agentsDiffer, "agents: is not the same on all receivers of the fleet",
            metadata: ["difference": "\(comparison.text)"])
    }

    func agentsNotAnnounced(_ error: StoreError) {
        self.logger.notice(
            "what agents: is cannot be written to the bucket, so store check does not compare it",
            metadata: ["cause": "\(error)"])
    }
}
