/// Visitors and requests of a server on Hummingbird.
///
///     router.add(middleware: VisitorMiddleware(waybill) { request, _ in consent(in: request) })
///     router.get("/products/:id") { _, context in
///         waybill.track(ProductScreen(), by: context.visitor)
///         …
///
///     request ─▶ cookies, headers ─▶ Visitor ─▶ context ─▶ route ─▶ response, Set-Cookie
///                                                            └────▶ event: method, route, status, duration
///
/// Life of a request: its visitor is made of cookies and headers and put into the context; the route answers; one event
/// with the route's template is stored. Neither path nor query nor address is read: they hold what the user typed.
///
/// Everything here needs the trait `Hummingbird`. Without it the module is empty.
#if Hummingbird
    public import Hummingbird
    internal import HTTPTypes
    public import Waybill
    internal import WaybillEvent
    internal import WaybillSystem

    /// The context of a request that has a visitor.
    @available(macOS 14, iOS 17, tvOS 17, *)
    public protocol VisitorContext: RequestContext {
        /// The visitor of the request, set by ``VisitorMiddleware``.
        var visitor: Visitor { get set }
    }

    /// Gives each request its visitor, and tracks the request.
    ///
    /// Add it after the middleware that finds out who is signed in, and before the routes.
    @available(macOS 14, iOS 17, tvOS 17, *)
    public struct VisitorMiddleware<Context: VisitorContext>: RouterMiddleware {
        /// Returns the visitor's consent; `nil` if the visitor was never asked.
        public typealias ConsentSource = @Sendable (Request, Context) async throws -> Consent?
        /// Returns the id of the user who is signed in; `nil` if there is none.
        public typealias UserSource = @Sendable (Request, Context) async throws -> String?

        private let waybill: WaybillClient
        private let options: VisitorOptions
        private let user: UserSource
        private let consent: ConsentSource

        /// Creates the middleware.
        ///
        /// - Parameters:
        ///   - waybill: the process's client.
        ///   - options: names and lifetimes of cookies, and which requests are tracked.
        ///   - user: who is signed in; by default no one.
        ///   - consent: what the visitor consented to, for example according to a cookie of your own. Without consent to
        ///     analytics, or without an answer, no event of the visitor is stored and no cookie is set.
        public init(
            _ waybill: WaybillClient, _ options: VisitorOptions = VisitorOptions(),
            user: @escaping UserSource = { _, _ in nil }, consent: @escaping ConsentSource
        ) {
            self.waybill = waybill
            self.options = options
            self.user = user
            self.consent = consent
        }

        /// Sets the context's visitor, lets the request be answered, and tracks it.
        public func handle(
            _ request: Request, context: Context, next: (Request, Context) async throws -> Response
        ) async throws -> Response {
            let start = POSIXClock().monotonicTime()
            var context = context
            let cookies = VisitorCookies(in: request, self.options)
            context.visitor = try await self.visitor(of: request, context, cookies)
            do {
                var response = try await next(request, context)
                cookies.write(to: &response, for: context.visitor)
                self.track(request, context, response.status.code, since: start)
                return response
            } catch {
                // Hummingbird answers an error that is not an HTTP error with 500.
                self.track(request, context, (error as? any HTTPResponseError)?.status.code ?? 500, since: start)
                throw error
            }
        }

        private func visitor(
            of request: Request, _ context: Context, _ cookies: VisitorCookies
        ) async throws -> Visitor {
            var visitor = Visitor(user: try await self.user(request, context))
            visitor.readHeaders(countryHeader: self.options.countryHeader) { name in
                HTTPField.Name(name).flatMap { request.headers[$0] }
            }
            // Without an answer there is no consent.
            visitor.consent = try await self.consent(request, context) ?? Consent(analytics: false, ads: false)
            if visitor.consent?.analytics == true {
                visitor.anonymous = cookies.anonymous ?? VisitorCookies.newAnonymous()
                visitor.session = cookies.session ?? Visitor.newSession()
            }
            return visitor
        }

        private func track(_ request: Request, _ context: Context, _ status: Int, since start: MonotonicTime) {
            guard self.options.tracks(request) else { return }
            let duration = POSIXClock().monotonicTime() - start
            self.waybill.track(
                RequestHandled(
                    name: self.options.eventName, method: RequestHandled.method(request.method.rawValue),
                    // A path that no route has is not the app's own text.
                    route: context.endpointPath.flatMap { $0.hasPrefix("/") ? $0 : nil }, status: status,
                    durationMilliseconds: Int(duration.nanoseconds / 1_000_000)),
                by: context.visitor)
        }
    }
#endif
