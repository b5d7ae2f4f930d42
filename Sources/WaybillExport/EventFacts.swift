package import WaybillEvent
internal import WaybillJSON
package import WaybillSystem

/// What the agent's configuration says about the source of a line.
package struct SourceDescription: Hashable, Sendable {
    package var env: DeploymentEnvironment
    package var bundle: String
    /// The lines were written by something else than the Waybill library: any NDJSON.
    package var isForeign: Bool
    /// The top-level member that holds the time of a foreign line.
    package var timeMember: String?
    /// The top-level member that holds the name of a foreign line.
    package var nameMember: String?

    package init(
        env: DeploymentEnvironment, bundle: String, isForeign: Bool = false, timeMember: String? = nil,
        nameMember: String? = nil
    ) {
        self.env = env
        self.bundle = bundle
        self.isForeign = isForeign
        self.timeMember = timeMember
        self.nameMember = nameMember
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
}

/// What is known about an event after one look; ranges are byte ranges of its line, inside the quotes.
package struct EventFacts: Hashable, Sendable {
    package var time: WallTime
    package var env: DeploymentEnvironment
    /// The app's identifier, which may hold escapes; `nil`: the source's.
    package var bundle: Range<Int>?
    /// `nil`: "log".
    package var name: Range<Int>?
    /// `nil`: a kind of a later version, treated as ``EventKind/event``.
    package var kind: EventKind?
    /// Where the value begins from which `time` was read.
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

/// The judgement on one line.
package enum EventReading: Hashable, Sendable {
    case event(EventFacts)
    case quarantine(QuarantineReason)
}
