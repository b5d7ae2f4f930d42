import Foundation
import Hummingbird
import Logging
import Waybill

/// The routes: each answers, and tracks what happened.
struct Storefront {
    let waybill: Waybill
    let logger: Logger
    private let tills = Tills()

    init(waybill: Waybill, logger: Logger) {
        self.waybill = waybill
        self.logger = logger
    }

    var router: Router<ShopContext> {
        let router = Router(context: ShopContext.self)
        router.add(middleware: VisitorMiddleware(tills: self.tills))
        router.get("/") { _, context in
            self.track(HomeScreen(visitor: context.visitor))
            return "Welcome to the shop."
        }
        router.get("/products") { _, context in
            self.track(ProductListScreen(visitor: context.visitor, productCount: Product.all.count))
            return Product.all
        }
        router.get("/products/:id") { _, context in
            let product = try Product.find(context.parameters.require("id"))
            self.track(ProductScreen(visitor: context.visitor, product: product))
            return product
        }
        router.post("/cart") { request, context in
            let product = try Product.find(try await request.decode(as: CartRequest.self, context: context).product)
            let cart = await self.tills.add(product, for: context.visitor)
            self.track(AddedToCart(visitor: context.visitor, product: product, cartCount: cart.count))
            return cart
        }
        router.post("/login") { request, context in
            let user = try await request.decode(as: LoginRequest.self, context: context).user
            guard (1...64).contains(user.utf8.count) else {
                throw HTTPError(.badRequest, message: "A user has 1 to 64 bytes.")
            }
            var visitor = context.visitor
            visitor.user = user
            await self.tills.logIn(visitor)
            self.track(LoggedIn(visitor: visitor))
            return "Hello, \(user)."
        }
        router.post("/checkout") { _, context in
            let cart = await self.tills.empty(for: context.visitor)
            guard !cart.isEmpty else {
                self.track(CheckoutRefused(visitor: context.visitor, reason: "empty_cart"))
                throw HTTPError(.conflict, message: "The cart is empty.")
            }
            let order = UUID().uuidString.lowercased()
            self.track(Purchased(visitor: context.visitor, order: order, products: cart))
            return Receipt(order: order, cents: cart.reduce(0) { $0 + $1.cents })
        }
        return router
    }

    /// Takes microseconds and never waits, so a request's thread may call it; what could not be stored is said.
    private func track(_ event: some Event) {
        if case .dropped(let reason) = self.waybill.track(event) {
            self.logger.warning("an event was dropped", metadata: ["name": "\(event.name)", "reason": "\(reason)"])
        }
    }
}

/// A request's context with its visitor.
struct ShopContext: RequestContext {
    var coreContext: CoreRequestContextStorage
    /// Set by ``VisitorMiddleware``.
    var visitor = Visitor(id: "")

    init(source: Source) {
        self.coreContext = CoreRequestContextStorage(source: source)
    }
}

/// Finds out whose request it is by the cookie `visitor`, or gives one out.
struct VisitorMiddleware: RouterMiddleware {
    let tills: Tills

    func handle(
        _ request: Request, context: ShopContext, next: (Request, ShopContext) async throws -> Response
    ) async throws -> Response {
        // What anyone can send becomes a field only in the form that this server gives out.
        let known = request.cookies["visitor"].flatMap { UUID(uuidString: $0.value) }
        let id = (known ?? UUID()).uuidString.lowercased()
        var context = context
        context.visitor = Visitor(id: id, user: await self.tills.user(of: id))
        var response = try await next(request, context)
        if known == nil { response.setCookie(Cookie(name: "visitor", value: id, path: "/", sameSite: .lax)) }
        return response
    }
}

/// Who is logged in, and what is in the carts; gone when the server ends.
actor Tills {
    private var users: [String: String] = [:]
    private var carts: [String: [Product]] = [:]

    func user(of visitor: String) -> String? { self.users[visitor] }

    func logIn(_ visitor: Visitor) { self.users[visitor.id] = visitor.user }

    func add(_ product: Product, for visitor: Visitor) -> [Product] {
        self.carts[visitor.id, default: []].append(product)
        return self.carts[visitor.id, default: []]
    }

    func empty(for visitor: Visitor) -> [Product] { self.carts.removeValue(forKey: visitor.id) ?? [] }
}

/// Something to buy.
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
}

private struct Receipt: ResponseEncodable {
    let order: String
    let cents: Int
}
