/// What tells one event of a writer from the next.
package struct EventStamp: Hashable, Sendable {
    package var id: UniqueID
    package var sequence: UInt64
    /// Wall clock, milliseconds since 1970.
    package var wallMilliseconds: Int64
    /// Milliseconds since the writer started.
    package var upMilliseconds: UInt64
    /// Milliseconds since the writer's previous event; `nil` for its first.
    package var sincePreviousMilliseconds: UInt64?
    /// Milliseconds that the previous screen was shown; used by screen events that have one.
    package var onScreenMilliseconds: UInt64

    package init(
        id: UniqueID, sequence: UInt64, wallMilliseconds: Int64, upMilliseconds: UInt64,
        sincePreviousMilliseconds: UInt64?, onScreenMilliseconds: UInt64
    ) {
        self.id = id
        self.sequence = sequence
        self.wallMilliseconds = wallMilliseconds
        self.upMilliseconds = upMilliseconds
        self.sincePreviousMilliseconds = sincePreviousMilliseconds
        self.onScreenMilliseconds = onScreenMilliseconds
    }
}

/// Who uses the app, as events say it.
package struct EventIdentity: Hashable, Sendable {
    package var session: UniqueID
    package var sessionNumber: UInt64
    package var user: String?
    package var anonymous: String
    /// Ids that only a vendor's SDK can issue, in the order they were set.
    package var vendor: [VendorID]

    package struct VendorID: Hashable, Sendable {
        package let provider: ProviderID
        package let id: String

        package init(provider: ProviderID, id: String) {
            self.provider = provider
            self.id = id
        }
    }

    package init(
        session: UniqueID, sessionNumber: UInt64, user: String?, anonymous: String, vendor: [VendorID] = []
    ) {
        self.session = session
        self.sessionNumber = sessionNumber
        self.user = user
        self.anonymous = anonymous
        self.vendor = vendor
    }
}

/// Where the app runs, as events say it.
package struct EventOrigin: Hashable, Sendable {
    package var app: String
    package var build: String
    package var bundle: String
    package var os: String
    package var osVersion: String?
    package var model: String?
    package var language: String?
    package var environment: DeploymentEnvironment

    package init(
        app: String, build: String, bundle: String, os: String, osVersion: String?, model: String?,
        language: String?, environment: DeploymentEnvironment
    ) {
        self.app = app
        self.build = build
        self.bundle = bundle
        self.os = os
        self.osVersion = osVersion
        self.model = model
        self.language = language
        self.environment = environment
    }
}

/// All that the lines of one writer share, encoded when it changes and copied into each line.
package struct EventContext: ~Copyable {
    /// From the id's last quote to the sequence: `","writer":"…","seq":`.
    private var writer = LineBuffer()
    /// The members `,"session":…,"session_n":…,"user":…,"anon":…,"ids":…`.
    private var identity = LineBuffer()
    /// From `,"app":…` over `"build"`, `"bundle"`, `"os"`, `"os_version"`, `"model"` and `"lang"` to `,"tz":`.
    private var origin = LineBuffer()
    /// The member `,"env":…`.
    private var environment = LineBuffer()
    /// The member `,"consent":…`; empty when the user was never asked.
    private var consent = LineBuffer()
    /// The current screen's members, `,"screen":…`; empty before the first.
    private var screen = LineBuffer()
    private var screenName = 0..<0
    private var timestamp = Timestamp()
    /// Fields of every screen, action and event.
    package var common: EventPartsBox?
    /// Minutes east of UTC.
    package var zoneMinutes = 0

    package init(writer: UniqueID, origin: EventOrigin) {
        self.writer.append("\",\"writer\":\"")
        self.writer.append(writer)
        self.writer.append("\",\"seq\":")
        Self.append(",\"app\":", origin.app, to: &self.origin)
        Self.append(",\"build\":", origin.build, to: &self.origin)
        Self.append(",\"bundle\":", origin.bundle, to: &self.origin)
        Self.append(",\"os\":", origin.os, to: &self.origin)
        Self.append(",\"os_version\":", origin.osVersion, to: &self.origin)
        Self.append(",\"model\":", origin.model, to: &self.origin)
        Self.append(",\"lang\":", origin.language, to: &self.origin)
        self.origin.append(",\"tz\":")
        Self.append(",\"env\":", origin.environment.rawValue, to: &self.environment)
    }

    /// Says who uses the app from the next line on.
    package mutating func setIdentity(_ identity: EventIdentity) {
        self.identity.removeAll()
        self.identity.append(",\"session\":\"")
        self.identity.append(identity.session)
        self.identity.append("\",\"session_n\":")
        self.identity.appendDecimal(identity.sessionNumber)
        Self.append(",\"user\":", identity.user, to: &self.identity)
        Self.append(",\"anon\":", identity.anonymous, to: &self.identity)
        guard !identity.vendor.isEmpty else { return }
        self.identity.append(",\"ids\":{")
        for (index, vendor) in identity.vendor.enumerated() {
            if index > 0 { self.identity.append(UInt8(ascii: ",")) }
            self.identity.appendString(vendor.provider.description)
            self.identity.append(UInt8(ascii: ":"))
            self.identity.appendString(vendor.id)
        }
        self.identity.append(UInt8(ascii: "}"))
    }

    /// Says what the user allowed, from the next line on.
    package mutating func setConsent(analytics: Bool, ads: Bool) {
        self.consent.removeAll()
        self.consent.append(",\"consent\":{\"analytics\":")
        self.consent.appendBoolean(analytics)
        self.consent.append(",\"ads\":")
        self.consent.appendBoolean(ads)
        self.consent.append(UInt8(ascii: "}"))
    }

    package var hasScreen: Bool {
        !self.screen.isEmpty
    }

    /// Makes the event's screen the one that following events happen on.
    package mutating func enterScreen(of parts: borrowing EventParts) {
        self.screen.removeAll()
        self.screen.append(parts.screen)
        self.screenName = parts.screenName
    }

    /// Forgets the current screen.
    package mutating func leaveScreen() {
        self.screen.removeAll()
    }

    private static func append(_ key: StaticString, _ value: String?, to buffer: inout LineBuffer) {
        guard let value else { return }
        buffer.append(key)
        buffer.appendString(value)
    }

    /// Replaces `line` by the event's line with its LF; `line.isOverflowing` when it is too long.
    package mutating func encode(_ parts: borrowing EventParts, _ stamp: EventStamp, into line: inout LineBuffer) {
        line.removeAll()
        self.encodeStamp(stamp, into: &line)
        line.append(",\"kind\":\"")
        line.append(parts.kind.text)
        line.append("\",\"name\":")
        line.append(parts.name)
        self.encodeScreen(parts, stamp, into: &line)
        line.append(self.identity)
        if parts.kind == .user {
            line.append(",\"traits\":{")
            line.append(parts.fields.buffer)
            line.append(UInt8(ascii: "}"))
        }
        line.append(self.origin)
        if self.zoneMinutes < 0 { line.append(UInt8(ascii: "-")) }
        line.appendDecimal(UInt64(self.zoneMinutes.magnitude))
        line.append(self.environment)
        line.append(parts.log)
        self.encodeFields(parts, into: &line)
        line.append(parts.routing)
        line.append(self.consent)
        line.append("}\n")
    }

    private mutating func encodeStamp(_ stamp: EventStamp, into line: inout LineBuffer) {
        line.append("{\"v\":1,\"id\":\"")
        line.append(stamp.id)
        line.append(self.writer)
        line.appendDecimal(stamp.sequence)
        line.append(",\"ts\":\"")
        self.timestamp.append(stamp.wallMilliseconds, to: &line)
        line.append("\",\"up\":")
        line.appendDecimal(stamp.upMilliseconds)
        if let milliseconds = stamp.sincePreviousMilliseconds {
            line.append(",\"dt\":")
            line.appendDecimal(milliseconds)
        }
    }

    private func encodeScreen(_ parts: borrowing EventParts, _ stamp: EventStamp, into line: inout LineBuffer) {
        if parts.screen.isEmpty {
            line.append(self.screen)
        } else {
            line.append(parts.screen)
        }
        guard parts.kind == .screen, self.hasScreen else { return }
        line.append(",\"prev\":")
        line.append(self.screen, self.screenName)
        line.append(",\"prev_ms\":")
        line.appendDecimal(stamp.onScreenMilliseconds)
    }

    private func encodeFields(_ parts: borrowing EventParts, into line: inout LineBuffer) {
        guard parts.kind != .user else { return }
        let common = parts.kind == .meta ? nil : self.common
        guard !parts.fields.isEmpty || common?.parts.fields.isEmpty == false else { return }
        line.append(",\"data\":{")
        line.append(parts.fields.buffer)
        common?.parts.fields.appendMembers(to: &line, without: parts.fields)
        line.append(UInt8(ascii: "}"))
    }
}

extension EventKind {
    fileprivate var text: StaticString {
        switch self {
        case .screen: "screen"
        case .action: "action"
        case .event: "event"
        case .user: "user"
        case .meta: "meta"
        }
    }
}
