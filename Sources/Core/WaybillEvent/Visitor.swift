/// One of the many users of a server, passed with each of their events.
///
///     var visitor = Visitor(user: account.id, anonymous: cookie)
///     visitor.readHeaders { name in request.headers[name] }
///     waybill.track(Checkout(cart: cart), by: visitor)
///
/// An app has one user, set with `setUser`; a server has a different one with each request. A visitor's event has
/// nothing that belongs to the process: no current screen, no time since the previous event, no session, system or
/// language, no user or consent of the client. It has what the visitor says of these. Events of visitors without
/// consent to analytics are not stored. An address is never part of an event.
public struct Visitor: Hashable, Sendable {
    /// The app's id of the user, at most 256 bytes of UTF-8.
    public var user: String?
    /// The id of the browser or device, 5 to 256 bytes.
    ///
    /// Without it, a hash of the user's id is used.
    public var anonymous: String?
    /// The session: a version 7 UUID in lower case, as created by `Visitor.newSession()`; without it, events have none.
    public var session: String?
    /// The system, such as "Android"; without it, the one that ``userAgent`` names without doubt, if any.
    public var os: String?
    /// The system's version.
    public var osVersion: String?
    /// The model of the device.
    public var model: String?
    /// The language as a BCP 47 tag, such as "ko-KR".
    public var language: String?
    /// The country as two letters of ISO 3166-1, such as "KR"; events have them in upper case.
    public var country: String?
    /// The browser or app as it names itself in the header `User-Agent`; truncated to 512 bytes.
    public var userAgent: String?
    /// The time zone in minutes east of UTC.
    public var zoneMinutes: Int?
    /// Ids issued by vendors' SDKs.
    public var vendorIDs: [ProviderID: String] = [:]
    /// The visitor's consent; `nil` if unknown.
    public var consent: Consent?

    /// Creates a visitor; at least one of `user` and `anonymous` is required.
    public init(user: String? = nil, anonymous: String? = nil, session: String? = nil) {
        self.user = user
        self.anonymous = anonymous
        self.session = session
    }

    /// Whether the visitor is valid in events.
    var isValid: Bool {
        guard self.user != nil || self.anonymous != nil else { return false }
        if let user, user.isEmpty || user.utf8.count > EventLimits.userByteCountMax { return false }
        if let anonymous, !(5...EventLimits.userByteCountMax).contains(anonymous.utf8.count) { return false }
        if let session, !Self.isSession(session) { return false }
        if let language, !Self.isLanguage(language[...]) { return false }
        if let country, !Self.isCountry(country) { return false }
        if let zoneMinutes, !(-1440...1440).contains(zoneMinutes) { return false }
        if let os, !Self.isDeviceText(os) { return false }
        if let osVersion, !Self.isDeviceText(osVersion) { return false }
        if let model, !Self.isDeviceText(model) { return false }
        return true
    }

    /// Whether a text has the form of a session's id.
    package static func isSession(_ text: String) -> Bool {
        let bytes = Array(text.utf8)
        return Self.isUUID(text) && bytes[14] == UInt8(ascii: "7") && "89ab".utf8.contains(bytes[19])
    }

    /// Whether a text has the form of a UUID in lower case.
    package static func isUUID(_ text: String) -> Bool {
        text.utf8.count == 36
            && text.utf8.enumerated().allSatisfy { index, byte in
                [8, 13, 18, 23].contains(index) ? byte == UInt8(ascii: "-") : "0123456789abcdef".utf8.contains(byte)
            }
    }

    /// Appends `,"session":…`, or nothing.
    func appendSession(to line: inout LineBuffer) {
        guard let session else { return }
        line.append(",\"session\":")
        line.appendString(session)
    }

    /// Appends what is known of the members from `,"os":…` to `,"tz":…`; returns 1 if it truncates the user agent.
    func appendDevice(to line: inout LineBuffer) -> Int {
        let os = self.os ?? self.userAgent.flatMap(UserAgent.system(of:))
        EventIdentity.append(",\"os\":", os, to: &line)
        EventIdentity.append(",\"os_version\":", self.osVersion, to: &line)
        EventIdentity.append(",\"model\":", self.model, to: &line)
        EventIdentity.append(",\"lang\":", self.language, to: &line)
        EventIdentity.append(",\"country\":", self.country?.uppercased(), to: &line)
        if let userAgent {
            line.append(",\"user_agent\":")
            line.appendString(userAgent, byteCountMax: EventLimits.userAgentByteCountMax)
        }
        if let zoneMinutes {
            line.append(",\"tz\":")
            line.appendNumber(Int64(zoneMinutes))
        }
        return (self.userAgent?.utf8.count ?? 0) > EventLimits.userAgentByteCountMax ? 1 : 0
    }

    /// Appends the members `,"user":…,"anon":…,"ids":…`.
    func appendPerson(to line: inout LineBuffer, _ salt: PrivacySalt?) {
        let vendor = self.vendorIDs.sorted { $0.key.description < $1.key.description }
        EventIdentity.append(
            user: self.user, anonymous: self.anonymous ?? salt?.hash((self.user ?? "").utf8) ?? "unknown",
            vendor: vendor.map { EventIdentity.VendorID(provider: $0.key, id: $0.value) }, to: &line)
    }
}

/// What the line of an event says of a server's visitor, in place of the client's user and its device.
///
/// Its memory is used again for the next event.
struct VisitorMembers: ~Copyable {
    /// The members with the visitor; empty for the client's user.
    private var person = LineBuffer(capacity: 64)
    /// The member with the visitor's session; empty if it is not known.
    private var session = LineBuffer(capacity: 64)
    /// The members with what is known of the visitor's device and place.
    private(set) var device = LineBuffer(capacity: 64)
    /// The member `,"consent":…` of a visitor with known consent.
    private(set) var consent = LineBuffer(capacity: 64)
    /// Whether the visitor has given consent, or it is not known.
    private(set) var isAllowed = true
    /// The id by which the visitor is sampled; `nil` for the client's user.
    private(set) var hash: UInt64?
    private(set) var isValid = true

    /// Whether the event is of the client's user.
    var isEmpty: Bool { self.person.isEmpty }

    /// Encodes the visitor of the next event; returns 1 if its user agent is truncated.
    mutating func take(_ visitor: Visitor?, _ salt: PrivacySalt?) -> Int {
        self.person.removeAll()
        self.session.removeAll()
        self.device.removeAll()
        self.consent.removeAll()
        self.hash = nil
        self.isValid = true
        self.isAllowed = true
        guard let visitor else { return 0 }
        self.isValid = visitor.isValid
        self.hash = Sampling.hash(visitor.user ?? visitor.anonymous ?? "")
        visitor.appendPerson(to: &self.person, salt)
        visitor.appendSession(to: &self.session)
        if let consent = visitor.consent {
            self.consent.append(consent)
            self.isAllowed = consent.analytics
        }
        return visitor.appendDevice(to: &self.device)
    }

    /// Appends the members `,"session":…,"user":…,"anon":…,"ids":…`.
    func appendIdentity(to line: inout LineBuffer) {
        line.append(self.session)
        line.append(self.person)
    }
}

/// The consent of a user or visitor.
public struct Consent: Hashable, Sendable {
    /// Consent to analytics; without it the user's events are not stored.
    public var analytics: Bool
    /// Consent to advertising.
    public var ads: Bool
    /// Consent to the app's own categories, such as "personalization"; part of events, for reports and exports.
    public var categories: [String: Bool] = [:]

    /// Creates a consent.
    public init(analytics: Bool, ads: Bool, categories: [String: Bool] = [:]) {
        self.analytics = analytics
        self.ads = ads
        self.categories = categories
    }

    /// The categories that are written, by name: at most 32, with names of 1 to 64 bytes.
    package var writtenCategories: [(name: String, isAllowed: Bool)] {
        let isWritten = { (name: String) in (1...64).contains(name.utf8.count) && name != "analytics" && name != "ads" }
        return self.categories.filter { isWritten($0.key) }.sorted { $0.key < $1.key }.prefix(32)
            .map { (name: $0.key, isAllowed: $0.value) }
    }

    /// Both answers together: nothing is allowed that one of them denies.
    package func restricted(by other: Consent) -> Consent {
        Consent(
            analytics: self.analytics && other.analytics, ads: self.ads && other.ads,
            categories: self.categories.merging(other.categories) { $0 && $1 })
    }
}

/// What a browser's user agent says without doubt: its system.
///
///     Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 …    Android
///     Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) …          nothing: an iPad says the same
///
/// Browsers freeze versions and models and imitate each other's names, so that only a list which is updated every month
/// reads the rest; providers that have one get the text as it is.
enum UserAgent {
    /// The beginnings of the first comment that one system alone has.
    private static let systems: [(start: String, name: String)] = [
        ("iPhone;", "iOS"), ("iPad;", "iOS"), ("iPod", "iOS"), ("Linux; Android", "Android"),
        ("Linux; U; Android", "Android"), ("Android", "Android"), ("Windows NT", "Windows"), ("X11; CrOS", "Chrome OS"),
    ]

    /// The system; `nil` if more than one says the same.
    static func system(of text: String) -> String? {
        guard text.hasPrefix("Mozilla/5.0 (") else { return nil }
        let comment = text.dropFirst(13)
        return self.systems.first { comment.hasPrefix($0.start) }?.name
    }
}
