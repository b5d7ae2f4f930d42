package import WaybillEvent
internal import WaybillJSON
package import WaybillSystem

/// The agent's configuration of the source of a line.
package struct SourceDescription: Hashable, Sendable {
    package var env: DeploymentEnvironment
    package var bundle: String
    /// Whether the lines were not written by the Waybill library: any NDJSON.
    package var isForeign: Bool
    /// The top-level member that has the time of a foreign line.
    package var timeMember: String?
    /// The top-level member that has the name of a foreign line.
    package var nameMember: String?
    /// The top-level member that has the user of a foreign line; `nil`: `user`.
    package var userMember: String?
    /// The top-level member that has the anonymous id of a foreign line; `nil`: `anon`.
    package var anonymousMember: String?
    /// `nil` if it is not known where the lines are from; foreign lines without an id then stay without one.
    package var stream: LineStream?
    /// Which events the source may write.
    package var patterns: LinePatterns

    package init(
        env: DeploymentEnvironment, bundle: String, isForeign: Bool = false, timeMember: String? = nil,
        nameMember: String? = nil, userMember: String? = nil, anonymousMember: String? = nil, stream: LineStream? = nil,
        patterns: LinePatterns = .all
    ) {
        self.env = env
        self.bundle = bundle
        self.isForeign = isForeign
        self.timeMember = timeMember
        self.nameMember = nameMember
        self.userMember = userMember
        self.anonymousMember = anonymousMember
        self.stream = stream
        self.patterns = patterns
    }
}

/// Why a line is not an event; the raw value names the quarantine's file.
package enum QuarantineReason: String, Hashable, Sendable, CaseIterable {
    case notJSON = "not-json"
    case notObject = "not-object"
    case badUTF8 = "bad-utf8"
    case nul
    case tooLong = "too-long"
    case empty
    case badVersion = "bad-version"
    case noTime = "no-time"
    case badTime = "bad-time"
    case timeOutOfRange = "time-out-of-range"
    case noName = "no-name"
    case noEnv = "no-env"
    case badEnv = "bad-env"
    case noBundle = "no-bundle"
    /// An event whose `env` or `bundle` the stream's owner may not write.
    case notAllowed = "not-allowed"
    /// A line of a person whose events were erased: it is counted, and not stored.
    case erased
    /// A line that ended the program that read it, twice: it is not read.
    case poison
}

/// What one scan of an event's line finds; ranges are byte ranges of the line, inside the quotes.
package struct EventFacts: Hashable, Sendable {
    package var time: WallTime
    package var env: DeploymentEnvironment
    /// The app's identifier, which may contain escapes; `nil`: the source's.
    package var bundle: Range<Int>?
    /// `nil`: "log".
    package var name: Range<Int>?
    /// `nil`: a kind of a later version, handled as ``EventKind/event``.
    package var kind: EventKind?
    /// Where the value of `time` begins.
    package var timeOffset: Int

    package init(
        time: WallTime, env: DeploymentEnvironment, bundle: Range<Int>?, name: Range<Int>?, kind: EventKind?,
        timeOffset: Int
    ) {
        self.time = time
        self.env = env
        self.bundle = bundle
        self.name = name
        self.kind = kind
        self.timeOffset = timeOffset
    }

    /// The app's identifier, from the line or its source.
    package func bundleText(in line: UnsafeRawBufferPointer, source: SourceDescription) -> String {
        guard let bundle = self.bundle else { return source.bundle }
        return JSONText.string(UnsafeRawBufferPointer(rebasing: line[bundle]))
    }
}

/// The result of reading one line.
package enum EventReading: Hashable, Sendable {
    case event(EventFacts)
    case quarantine(QuarantineReason)
}
