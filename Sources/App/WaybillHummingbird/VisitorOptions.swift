#if Hummingbird
    public import Hummingbird

    /// How a server knows its visitors again, and which requests it tracks.
    @available(macOS 14, iOS 17, tvOS 17, *)
    public struct VisitorOptions: Sendable {
        /// The name of the cookie with the visitor's anonymous id.
        public var anonymousCookie = "wb_anonymous"
        /// How long a browser keeps the anonymous id, from the first request on.
        public var anonymousLifetime = Duration.seconds(365 * 86_400)
        /// The name of the cookie with the session.
        public var sessionCookie = "wb_session"
        /// How long a session lasts after its last request.
        public var sessionTimeout = Duration.seconds(30 * 60)
        /// Whether browsers send the cookies over HTTPS alone; `false` only for development without TLS.
        public var isSecure = true
        /// The header in which a content delivery network in front of the server sends the visitor's country, such as
        /// `CF-IPCountry`; `nil` if there is none, because then it would be what the visitor writes.
        public var countryHeader: String?
        /// The name of the event of a request.
        public var eventName = "http_request"
        /// Whether a request is tracked; its visitor is in the context in any case.
        public var tracks: @Sendable (Request) -> Bool = { _ in true }

        /// Creates the default options: each request is tracked.
        public init() {}
    }
#endif
