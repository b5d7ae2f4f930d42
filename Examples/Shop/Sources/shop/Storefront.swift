import Foundation
import Hummingbird
import Logging
import Waybill
import WaybillHummingbird

/// The routes: each one answers and tracks an event.
struct Storefront {
    let waybill: WaybillClient
    let logger: Logger
    private let tills = Tills()

    init(waybill: WaybillClient, logger: Logger) {
        self.waybill = waybill
        self.logger = logger
    }

    var router: Router<ShopContext> {
        let router = Router(context: ShopContext.self)
        router.add(middleware: TillMiddleware())
        router.add(middleware: self.visitors)
        router.add(middleware: AppMiddleware())
        router.get("/") { _, context in
            self.track(HomeScreen(), by: context.visitor)
            return "Welcome to the shop."
        }
        router.get("/products") { _, context in
            self.track(ProductListScreen(productCount: Product.all.count), by: context.visitor)
            return Product.all
        }
        router.get("/products/:id") { _, context in
            let product = try Product.find(context.parameters.require("id"))
            self.track(ProductScreen(product: product), by: context.visitor)
            return product
        }
        router.post("/cart") { request, context in
            let product = try Product.find(try await request.decode(as: CartRequest.self, context: context).product)
            let cart = await self.tills.add(product, for: context.till)
            self.track(AddedToCart(product: product, cartCount: cart.count), by: context.visitor)
            return cart
        }
        router.post("/login") { request, context in
            let login = try await request.decode(as: LoginRequest.self, context: context)
            guard (1...64).contains(login.user.utf8.count) else {
                throw HTTPError(.badRequest, message: "A user has 1 to 64 bytes.")
            }
            var visitor = context.visitor
            visitor.user = login.user
            await self.tills.logIn(login.user, for: context.till)
            let traits = self.waybill.setTraits(["newsletter": .boolean(login.newsletter ?? false)], of: visitor)
            self.report(traits, of: "set_user")
            self.track(LoggedIn(), by: visitor)
            return "Hello, \(login.user)."
        }
        router.post("/checkout") { _, context in
            let cart = await self.tills.empty(for: context.till)
            guard !cart.isEmpty else {
                self.track(CheckoutRefused(reason: "empty_cart"), by: context.visitor)
                throw HTTPError(.conflict, message: "The cart is empty.")
            }
            let order = UUID().uuidString.lowercased()
            self.track(Purchased(order: order, products: cart), by: context.visitor)
            return Receipt(order: order, cents: cart.reduce(0) { $0 + $1.cents })
        }
        return router
    }

    /// Gives each request its visitor; the routes track what the visitor does.
    private var visitors: VisitorMiddleware<ShopContext> {
        var options = VisitorOptions()
        // This example listens without TLS. A server that has it keeps the default.
        options.isSecure = false
        // A request in itself is no event here.
        options.tracks = { _ in false }
        return VisitorMiddleware(
            self.waybill, options, user: { _, context in await self.tills.user(of: context.till) },
            consent: { request, _ in
                switch request.cookies["consent"]?.value {
                case "all": Consent(analytics: true, ads: true)
                case "analytics": Consent(analytics: true, ads: false)
                case "none": Consent(analytics: false, ads: false)
                default: nil
                }
            })
    }

    /// Takes microseconds and never waits, so it is safe on a request's thread.
    private func track(_ event: some Event, by visitor: Visitor) {
        self.report(self.waybill.track(event, by: visitor), of: event.name)
    }

    /// Logs dropped events, except those of visitors without consent.
    private func report(_ outcome: TrackOutcome, of name: String) {
        if case .dropped(let reason) = outcome, reason != .optedOut {
            self.logger.warning("an event was dropped", metadata: ["name": "\(name)", "reason": "\(reason)"])
        }
    }
}

/// The context of a request, with its visitor.
struct ShopContext: VisitorContext {
    var coreContext: CoreRequestContextStorage
    /// The id of the visitor's cart, set by ``TillMiddleware``.
    var till = ""
    var visitor = Visitor()

    init(source: Source) {
        self.coreContext = CoreRequestContextStorage(source: source)
    }
}

/// Knows a visitor's cart again by the cookie `till`, which the shop needs whatever the visitor consents to.
struct TillMiddleware: RouterMiddleware {
    func handle(
        _ request: Request, context: ShopContext, next: (Request, ShopContext) async throws -> Response
    ) async throws -> Response {
        let known = request.cookies["till"].flatMap { UUID(uuidString: $0.value) }
        var context = context
        context.till = (known ?? UUID()).uuidString.lowercased()
        var response = try await next(request, context)
        if known == nil { response.setCookie(Cookie(name: "till", value: context.till, path: "/", sameSite: .lax)) }
        return response
    }
}

/// Gives the visitor the id of Google's SDK in the app that embeds the shop, from the cookie `ga4`.
///
/// GA4 accepts no event without it. Cookies come from clients, so events accept only 32 hexadecimal digits.
struct AppMiddleware: RouterMiddleware {
    func handle(
        _ request: Request, context: ShopContext, next: (Request, ShopContext) async throws -> Response
    ) async throws -> Response {
        var context = context
        if let id = request.cookies["ga4"]?.value, id.utf8.count == 32, id.utf8.allSatisfy(Self.isHexadecimal) {
            context.visitor.vendorIDs[.ga4] = id
        }
        return try await next(request, context)
    }

    private static func isHexadecimal(_ byte: UInt8) -> Bool { "0123456789abcdefABCDEF".utf8.contains(byte) }
}

/// The logged-in users and the carts by cookie, kept only in memory.
actor Tills {
    private var users: [String: String] = [:]
    private var carts: [String: [Product]] = [:]

    func user(of cookie: String) -> String? { self.users[cookie] }

    func logIn(_ user: String, for cookie: String) { self.users[cookie] = user }

    func add(_ product: Product, for cookie: String) -> [Product] {
        self.carts[cookie, default: []].append(product)
        return self.carts[cookie, default: []]
    }

    func empty(for cookie: String) -> [Product] { self.carts.removeValue(forKey: cookie) ?? [] }
}

/// A product in the shop.
struct Product: ResponseCodable, Sendable {
    let id: String
    let name: String
    let cents: Int

    static let all = [
        Product(id: "p-1", name: "Toaster, 2 slices", cents: 3990),
        Product(id: "p-2", name: "Tea kettle", cents: 2450),
        Product(id: "p-3", name: "Käsereibe", cents: 899),
    ]

    static func find(_ id: String) throws -> Product {
        guard let product = Self.all.first(where: { $0.id == id }) else {
            throw HTTPError(.notFound, message: "There is no such product.")
        }
        return product
    }
}

private struct CartRequest: Decodable {
    let product: String
}

private struct LoginRequest: Decodable {
    let user: String
    let newsletter: Bool?
}

private struct Receipt: ResponseEncodable {
    let order: String
    let cents: Int
}
