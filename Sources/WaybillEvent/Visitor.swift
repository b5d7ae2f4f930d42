/// One of the many users of a server, said with each of their events.
///
///     waybill.track(Checkout(cart: cart), by: Visitor(user: account.id, anonymous: cookie))
///
/// An app has one user and says so with `setUser`; a server has as many as it has requests. A visitor's event says nothing
/// that belongs to the process: no current screen, no time since the event before, no user, no consent of its own. One
/// of a visitor who does not allow analytics is not stored.
public struct Visitor: Hashable, Sendable {
    /// The app's own id of the user, at most 256 bytes.
    public var user: String?
    /// The id of the browser or device, 5 to 256 bytes.
    ///
    /// Without one, a hash of the user's stands in its place.
    public var anonymous: String?
    /// The session, a version 7 UUID in lower case, as `Visitor.newSession()` makes them; without one, the server's own.
    public var session: String?
    /// Ids that only a vendor's SDK can issue.
    public var vendorIDs: [ProviderID: String] = [:]
    /// What the visitor allowed; `nil`: never asked.
    public var consent: Consent?

    /// A visitor; one of `user` and `anonymous` must be given.
    public init(user: String? = nil, anonymous: String? = nil, session: String? = nil) {
        self.user = user
        self.anonymous = anonymous
        self.session = session
    }

    /// Whether events can say it.
    var isValid: Bool {
        guard self.user != nil || self.anonymous != nil else { return false }
        if let user, user.isEmpty || user.utf8.count > EventLimits.userByteCountMax { return false }
        if let anonymous, !(5...EventLimits.userByteCountMax).contains(anonymous.utf8.count) { return false }
        if let session, !Self.isSession(session) { return false }
        return true
    }

    private static func isSession(_ text: String) -> Bool {
        let bytes = Array(text.utf8)
        guard bytes.count == 36, bytes[14] == UInt8(ascii: "7"), "89ab".utf8.contains(bytes[19]) else { return false }
        return bytes.enumerated().allSatisfy { index, byte in
            [8, 13, 18, 23].contains(index) ? byte == UInt8(ascii: "-") : "0123456789abcdef".utf8.contains(byte)
        }
    }

    /// Appends `,"session":…`, or nothing.
    func appendSession(to line: inout LineBuffer) {
        guard let session else { return }
        line.append(",\"session\":")
        line.appendString(session)
    }

    /// Appends the members `,"user":…,"anon":…,"ids":…`.
    func appendPerson(to line: inout LineBuffer, _ salt: PrivacySalt?) {
        let vendor = self.vendorIDs.sorted { $0.key.description < $1.key.description }
        EventIdentity.append(
            user: self.user, anonymous: self.anonymous ?? salt?.hash((self.user ?? "").utf8) ?? "unknown",
            vendor: vendor.map { EventIdentity.VendorID(provider: $0.key, id: $0.value) }, to: &line)
    }
}

/// What somebody allowed.
public struct Consent: Hashable, Sendable {
    /// Analytics; without it their events are not stored.
    public var analytics: Bool
    /// Advertising.
    public var ads: Bool

    /// What somebody allowed.
    public init(analytics: Bool, ads: Bool) {
        self.analytics = analytics
        self.ads = ads
    }
}
