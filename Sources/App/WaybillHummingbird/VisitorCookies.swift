#if Hummingbird
    internal import Hummingbird
    internal import WaybillEvent

    /// The cookies by which a visitor is known again.
    ///
    ///     wb_anonymous=0195505e-bbbb-4000-8000-0000000000bb; Max-Age=31536000; Path=/; Secure; HttpOnly; SameSite=Lax
    ///     wb_session=019550fb-32b4-7000-8000-000000000001; Max-Age=1800; Path=/; Secure; HttpOnly; SameSite=Lax
    ///
    /// Cookies come from clients: a value of another form counts as none.
    @available(macOS 14, iOS 17, tvOS 17, *)
    struct VisitorCookies {
        private let options: VisitorOptions
        private let hasAnonymous: Bool
        private let hasSession: Bool
        let anonymous: String?
        let session: String?

        init(in request: Request, _ options: VisitorOptions) {
            let cookies = request.cookies
            let anonymous = cookies[options.anonymousCookie]?.value
            let session = cookies[options.sessionCookie]?.value
            self.options = options
            self.hasAnonymous = anonymous != nil
            self.hasSession = session != nil
            self.anonymous = anonymous.flatMap { Visitor.isUUID($0) ? $0 : nil }
            self.session = session.flatMap { Visitor.isSession($0) ? $0 : nil }
        }

        static func newAnonymous() -> String {
            var generator = SystemRandomNumberGenerator()
            return UniqueID.random(&generator).text
        }

        /// Sets a new anonymous id and prolongs the session; removes both if the visitor does not consent.
        func write(to response: inout Response, for visitor: Visitor) {
            guard visitor.consent?.analytics == true else {
                if self.hasAnonymous { self.set(self.options.anonymousCookie, "", .zero, in: &response) }
                if self.hasSession { self.set(self.options.sessionCookie, "", .zero, in: &response) }
                return
            }
            if let anonymous = visitor.anonymous, anonymous != self.anonymous {
                self.set(self.options.anonymousCookie, anonymous, self.options.anonymousLifetime, in: &response)
            }
            if let session = visitor.session {
                self.set(self.options.sessionCookie, session, self.options.sessionTimeout, in: &response)
            }
        }

        private func set(_ name: String, _ value: String, _ lifetime: Duration, in response: inout Response) {
            response.setCookie(
                Cookie(
                    name: name, value: value, maxAge: Int(lifetime.components.seconds), path: "/",
                    secure: self.options.isSecure, httpOnly: true, sameSite: .lax))
        }
    }
#endif
