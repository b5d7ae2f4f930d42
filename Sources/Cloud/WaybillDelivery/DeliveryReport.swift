package import WaybillEvent
package import WaybillExport
package import WaybillSystem

internal import WaybillJSON

/// The operator's configuration of a delivery.
package struct DeliveryConfiguration: Hashable, Sendable {
    package var dataDirectory: String
    package var provider: DeliverableProvider
    /// Only this environment.
    package var env: DeploymentEnvironment?
    package var region: ProviderRegion?
    package var endpoint: String?
    package var ambiguity = AmbiguityPolicy.skip
    /// Replaces the provider's limit.
    package var eventsPerSecond: Double?
    /// Also deliver days that were regenerated after some of their events were sent.
    package var isForced = false
    /// In a restored directory: what is closed of earlier days counts as sent, and later days are sent.
    package var sentBefore: CalendarDay?
    /// Continue until stopped, with parts that are closed later.
    package var isFollowing = false
    /// Delivery ends if no record is settled for this long.
    package var patience = Duration.seconds(300)
    package var backoffLongest = Duration.seconds(60)

    package init(dataDirectory: String, provider: DeliverableProvider) {
        self.dataDirectory = dataDirectory
        self.provider = provider
    }

    /// The address of requests, without their query.
    package func address() throws(EndpointError) -> String {
        try RequestTemplate(self.provider, region: self.region, endpoint: self.endpoint).address
    }
}

/// Why delivery cannot start.
package enum DeliveryError: Error, Hashable, Sendable, CustomStringConvertible {
    case locked(path: String, provider: DeliverableProvider)
    /// Parts may still have the events of a person who is being erased.
    case erasing(dataDirectory: String)
    case noExport(path: String)
    case disk(FileSystemError)
    case credentials(CredentialError)
    case endpoint(EndpointError)
    case missingCredentials([String])
    /// Another merger may have sent the parts.
    case mergerWithoutClaims(dataDirectory: String)
    /// It is no longer known what was sent, and sending it again would count it twice.
    case damagedState(path: String, notes: [String])
    /// Nothing is in doubt here.
    case notRestored(dataDirectory: String)
    /// The endpoint that validates requests did not answer as expected.
    case notValidated(String)

    package var description: String {
        switch self {
        case .locked(let path, let provider):
            "another delivery to \(provider.rawValue) has locked \(path); stop it, or let it finish"
        case .erasing(let path):
            "an erasure in \(path) is not finished, and parts may still have the person's events; run the same waybill erase "
                + "again; a merger finishes its own: let it run"
        case .noExport(let path):
            "\(path) does not exist; name a receiver's data directory with this export, or configure the export "
                + "(--exports)"
        case .disk(let error): "\(error)"
        case .credentials(let error): "\(error)"
        case .endpoint(let error): "\(error)"
        case .missingCredentials(let variables):
            "there are no credentials: set \(variables.joined(separator: ", ")), or name a file with --credentials"
        case .mergerWithoutClaims(let path):
            "\(path) is a merger's, and another merger of the fleet may send the same parts; deliver with --config FILE that "
                + "has the sections store: and deliver:"
        case .damagedState(let path, let notes):
            "\(path) is damaged, so it is unknown what was sent (\(notes.joined(separator: "; "))); "
                + "--ambiguous resend continues, and sends again what was sent since"
        case .notRestored(let path):
            "\(path) was not restored from a bucket, so what was sent is known; leave --sent-before out"
        case .notValidated(let detail): "the records could not be validated: \(detail)"
        }
    }
}

/// The result of a delivery.
package struct DeliveryReport: Hashable, Sendable {
    /// How it ended.
    package enum Outcome: Hashable, Sendable {
        /// Nothing is left that can be sent now.
        case finished
        /// It was asked to stop.
        case interrupted
        case stopped(DeliveryStop)
        /// No record was settled for too long.
        case unreachable(detail: String)

        var name: String {
            switch self {
            case .finished: "finished"
            case .interrupted: "interrupted"
            case .stopped: "stopped"
            case .unreachable: "unreachable"
            }
        }
    }

    package var outcome = Outcome.finished
    /// Parts completed by this delivery.
    package var partCount = 0
    package var requestCount = 0
    /// Requests that had to be repeated.
    package var retryCount = 0
    /// The bytes of all requests' bodies.
    package var byteCount = 0
    /// Events.
    package var sentCount = 0
    /// Events, by reason.
    package var dead: [String: Int] = [:]
    /// Accepted events that the provider did not include in its counts.
    package var unconfirmedCount = 0
    /// Events of closed parts that wait for another day.
    package var heldCount = 0
    /// Events of closed parts that were neither sent nor given up.
    package var remainingCount = 0
    /// What cannot be sent yet.
    package var open = OpenParts()
    /// The time of the oldest event in the closed parts that are not delivered.
    package var oldestClosed: WallTime?
    /// When the provider last accepted a record.
    package var lastSuccess: WallTime?
    /// Why the last request was not accepted; `nil` once one was.
    package var trouble: String?
    /// Who sends the parts that are not delivered; `nil` outside a fleet.
    package var claims: ClaimCounts?
    /// Why the bucket does not say who sends which part; `nil` once it does.
    package var claimTrouble: String?
    /// Parts whose files do not match their manifests.
    package var damagedParts: [String] = []
    /// Days that were regenerated after some of their events were sent.
    package var remadeDays: [String] = []
    /// Days that may have been sent from a directory that was lost.
    package var doubtfulDays: [String] = []
    /// Environments with something to send but without credentials.
    package var envsWithoutCredentials: [DeploymentEnvironment] = []

    package var deadCount: Int { self.dead.values.reduce(0, +) }

    /// One line of JSON.
    package func json(_ provider: DeliverableProvider) -> String {
        JSONWriter.text { json in
            json.member("provider", provider.rawValue)
            json.member("outcome", self.outcome.name)
            json.member("parts", self.partCount)
            json.member("requests", self.requestCount)
            json.member("retries", self.retryCount)
            json.member("bytes", self.byteCount)
            json.member("sent", self.sentCount)
            json.member("unconfirmed", self.unconfirmedCount)
            json.member("held", self.heldCount)
            json.member("remaining", self.remainingCount)
            json.member("open_records", self.open.recordCount)
            if let seconds = self.open.oldestSeconds { json.member("oldest_open_s", seconds) }
            json.member("closing_records", self.open.closingRecordCount)
            if let claims = self.claims {
                json.member("claimed_parts", claims.claimed)
                json.member("elsewhere_parts", claims.elsewhere)
                json.member("waiting_parts", claims.waiting)
            }
            json.member("damaged_parts", self.damagedParts.count)
            json.member("remade_days", self.remadeDays.count)
            if !self.doubtfulDays.isEmpty { json.member("doubtful_days", self.doubtfulDays.count) }
            json.member("dead", self.dead)
        }
    }
}
