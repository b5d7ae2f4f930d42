/// The values that are new with each event of a writer.
package struct EventStamp: Hashable, Sendable {
    package var id: UniqueID
    package var sequence: UInt64
    /// Wall clock, milliseconds since 1970.
    package var wallMilliseconds: Int64
    /// Milliseconds since the writer started.
    package var upMilliseconds: UInt64
    /// Milliseconds since the writer's previous event; `nil` for its first.
    package var sincePreviousMilliseconds: UInt64?
    /// Milliseconds that the previous screen was shown, for screen events that have one; `nil` if already reported.
    package var onScreenMilliseconds: UInt64?

    package init(
        id: UniqueID, sequence: UInt64, wallMilliseconds: Int64, upMilliseconds: UInt64,
        sincePreviousMilliseconds: UInt64?, onScreenMilliseconds: UInt64?
    ) {
        self.id = id
        self.sequence = sequence
        self.wallMilliseconds = wallMilliseconds
        self.upMilliseconds = upMilliseconds
        self.sincePreviousMilliseconds = sincePreviousMilliseconds
        self.onScreenMilliseconds = onScreenMilliseconds
    }
}

/// The user and device as described in events.
package struct EventIdentity: Hashable, Sendable {
    package var session: UniqueID
    package var sessionNumber: UInt64
    package var user: String?
    package var anonymous: String
    /// Ids issued by vendors' SDKs, in the order they were set.
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

extension EventIdentity {
    /// Appends the members `,"user":…,"anon":…,"ids":…`.
    static func append(user: String?, anonymous: String, vendor: [VendorID], to line: inout LineBuffer) {
        self.append(",\"user\":", user, to: &line)
        self.append(",\"anon\":", anonymous, to: &line)
        guard !vendor.isEmpty else { return }
        line.append(",\"ids\":{")
        for (index, vendor) in vendor.enumerated() {
            if index > 0 { line.append(UInt8(ascii: ",")) }
            line.appendString(vendor.provider.description)
            line.append(UInt8(ascii: ":"))
            line.appendString(vendor.id)
        }
        line.append(UInt8(ascii: "}"))
    }

    static func append(_ key: StaticString, _ value: String?, to line: inout LineBuffer) {
        guard let value else { return }
        line.append(key)
        line.appendString(value)
    }
}

/// The app and its environment as described in events.
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

/// The members shared by a writer's lines, encoded when they change and copied into each line.
package struct EventContext: ~Copyable {
    /// From the id's last quote to the sequence: `","writer":"…","seq":`.
    private var writer = LineBuffer()
    /// The members `,"session":…,"session_n":…,"user":…,"anon":…,"ids":…`.
    private var identity = LineBuffer()
    /// The members `,"app":…,"build":…,"bundle":…`.
    private var app = LineBuffer()
    /// From `,"os":…` over `"os_version"`, `"model"` and `"lang"` to `,"tz":`.
    private var device = LineBuffer()
    /// The member `,"env":…`.
    private var environment = LineBuffer()
    /// `app`, `device`, the zone, and `environment`.
    private var place = LineBuffer()
    /// The member `,"consent":…`; empty if consent was never set.
    private var consent = LineBuffer()
    /// The current screen's members, `,"screen":…`; empty before the first.
    private var screen = LineBuffer()
    private var screenName = 0..<0
    private var timestamp = Timestamp()
    /// The position of the sequence number in the last line.
    package private(set) var sequenceDigits = 0..<0
    /// Fields added to every screen, action and event.
    package var common: EventDraftBox?
    /// Minutes east of UTC.
    package var zoneMinutes = 0 {
        didSet { self.encodePlace() }
    }

    package init(writer: UniqueID, origin: EventOrigin) {
        self.writer.append("\",\"writer\":\"")
        self.writer.append(writer)
        self.writer.append("\",\"seq\":")
        EventIdentity.append(",\"app\":", origin.app, to: &self.app)
        EventIdentity.append(",\"build\":", origin.build, to: &self.app)
        EventIdentity.append(",\"bundle\":", origin.bundle, to: &self.app)
        EventIdentity.append(",\"os\":", origin.os, to: &self.device)
        EventIdentity.append(",\"os_version\":", origin.osVersion, to: &self.device)
        EventIdentity.append(",\"model\":", origin.model, to: &self.device)
        EventIdentity.append(",\"lang\":", origin.language, to: &self.device)
        self.device.append(",\"tz\":")
        EventIdentity.append(",\"env\":", origin.environment.rawValue, to: &self.environment)
        self.encodePlace()
    }

    /// Sets the user from the next line on.
    package mutating func setIdentity(_ identity: EventIdentity) {
        self.identity.removeAll()
        self.identity.append(",\"session\":\"")
        self.identity.append(identity.session)
        self.identity.append("\",\"session_n\":")
        self.identity.appendDecimal(identity.sessionNumber)
        EventIdentity.append(
            user: identity.user, anonymous: identity.anonymous, vendor: identity.vendor, to: &self.identity)
    }

    private mutating func encodePlace() {
        self.place.removeAll()
        self.place.append(self.app)
        self.place.append(self.device)
        self.place.appendNumber(Int64(self.zoneMinutes))
        self.place.append(self.environment)
    }

    /// Sets the consent from the next line on.
    package mutating func setConsent(_ consent: Consent) {
        self.consent.removeAll()
        self.consent.append(consent)
    }

    package var hasScreen: Bool {
        !self.screen.isEmpty
    }

    /// Makes the event's screen the current screen for later events.
    package mutating func enterScreen(of draft: borrowing EventDraft) {
        self.screen.removeAll()
        self.screen.append(draft.screen)
        self.screenName = draft.screenName
    }

    /// Removes the current screen.
    package mutating func leaveScreen() {
        self.screen.removeAll()
    }

    /// Replaces `line` with the event's line including its LF; sets `line.isOverflowing` if it is too long.
    package mutating func encode(_ draft: borrowing EventDraft, _ stamp: EventStamp, into line: inout LineBuffer) {
        line.removeAll()
        self.encodeStamp(stamp, into: &line)
        if !draft.hasVisitor, let milliseconds = stamp.sincePreviousMilliseconds {
            let digitCount = LineCursor.digitCount(of: milliseconds)
            line.fill(6 + digitCount) { cursor in
                cursor.put(",\"dt\":")
                cursor.putDecimal(milliseconds, digitCount: digitCount)
            }
        }
        line.append(draft.kind.member)
        line.append(draft.encodedName)
        self.encodeScreen(draft, stamp, into: &line)
        self.encodeIdentity(draft, into: &line)
        self.encodeFields(draft, into: &line)
        self.encodeEnd(draft, into: &line)
    }

    private mutating func encodeStamp(_ stamp: EventStamp, into line: inout LineBuffer) {
        let sequenceDigitCount = LineCursor.digitCount(of: stamp.sequence)
        let upDigitCount = LineCursor.digitCount(of: stamp.upMilliseconds)
        let sequenceStart = 13 + 36 + self.writer.count
        self.sequenceDigits = sequenceStart..<sequenceStart + sequenceDigitCount
        line.fill(sequenceStart + sequenceDigitCount + 7 + Timestamp.byteCount + 7 + upDigitCount) { cursor in
            cursor.put("{\"v\":1,\"id\":\"")
            cursor.put(stamp.id)
            cursor.put(self.writer)
            cursor.putDecimal(stamp.sequence, digitCount: sequenceDigitCount)
            cursor.put(",\"ts\":\"")
            self.timestamp.put(stamp.wallMilliseconds, to: &cursor)
            cursor.put("\",\"up\":")
            cursor.putDecimal(stamp.upMilliseconds, digitCount: upDigitCount)
        }
    }

    private func encodeScreen(_ draft: borrowing EventDraft, _ stamp: EventStamp, into line: inout LineBuffer) {
        if !draft.screen.isEmpty {
            line.append(draft.screen)
        } else if !draft.hasVisitor, draft.time == nil {
            line.append(self.screen)
        }
        guard draft.kind == .screen, !draft.hasVisitor, draft.time == nil, self.hasScreen else { return }
        line.append(",\"prev\":")
        line.append(self.screen, self.screenName)
        guard let milliseconds = stamp.onScreenMilliseconds else { return }
        line.append(",\"prev_ms\":")
        line.appendDecimal(milliseconds)
    }

    private func encodeIdentity(_ draft: borrowing EventDraft, into line: inout LineBuffer) {
        guard draft.hasVisitor else { return line.append(self.identity) }
        draft.visitor.appendIdentity(to: &line)
    }

    /// Appends traits, app and environment, and the event's fields.
    private func encodeFields(_ draft: borrowing EventDraft, into line: inout LineBuffer) {
        if draft.kind == .user {
            line.append(draft.traitChange.memberStart)
            line.append(draft.fields.buffer)
            line.append(UInt8(ascii: "}"))
        }
        if draft.hasVisitor {
            line.append(self.app)
            line.append(draft.visitor.device)
            line.append(self.environment)
        } else {
            line.append(self.place)
        }
        line.append(draft.log)
        guard draft.kind != .user else { return }
        let common = self.common(for: draft.kind)
        guard !draft.fields.isEmpty || common?.draft.fields.isEmpty == false else { return }
        line.append(",\"data\":{")
        line.append(draft.fields.buffer)
        common?.draft.fields.appendMembers(to: &line, without: draft.fields)
        line.append(UInt8(ascii: "}"))
    }

    /// The registered fields, for kinds of events that get them.
    private func common(for kind: EventKind) -> EventDraftBox? {
        kind == .user || kind == .meta ? nil : self.common
    }

    private func encodeEnd(_ draft: borrowing EventDraft, into line: inout LineBuffer) {
        line.append(draft.providers)
        draft.overrides.append(to: &line, draft.fields, self.common(for: draft.kind))
        if draft.hasVisitor {
            line.append(draft.visitor.consent)
        } else {
            line.append(self.consent)
        }
        if let sampling = draft.sampling, sampling.rate < 1 {
            sampling.member.withUnsafeBufferPointer { line.append($0) }
        }
        line.append("}\n")
    }
}

extension LineBuffer {
    /// Appends the member `,"consent":…`.
    package mutating func append(_ consent: Consent) {
        self.append(",\"consent\":{\"analytics\":")
        self.appendBoolean(consent.analytics)
        self.append(",\"ads\":")
        self.appendBoolean(consent.ads)
        for category in consent.writtenCategories {
            self.append(UInt8(ascii: ","))
            self.appendString(category.name)
            self.append(UInt8(ascii: ":"))
            self.appendBoolean(category.isAllowed)
        }
        self.append(UInt8(ascii: "}"))
    }
}

extension TraitChange {
    /// The bytes before the traits; an event of kind ``EventKind/user`` always has the member `traits`.
    fileprivate var memberStart: StaticString {
        switch self {
        case .set: ",\"traits\":{"
        case .setOnce: ",\"traits\":{},\"traits_once\":{"
        case .add: ",\"traits\":{},\"traits_add\":{"
        }
    }
}

extension EventKind {
    /// Appends the members from `"kind"` to the name.
    fileprivate var member: StaticString {
        switch self {
        case .screen: ",\"kind\":\"screen\",\"name\":"
        case .action: ",\"kind\":\"action\",\"name\":"
        case .event: ",\"kind\":\"event\",\"name\":"
        case .user: ",\"kind\":\"user\",\"name\":"
        case .meta: ",\"kind\":\"meta\",\"name\":"
        }
    }
}
