package import Hummingbird
import Store
package import Waybill
import WaybillCommerce
import WaybillHummingbird

/// The shop of Tests/OutsideTests as a server: its events, each with its visitor.
package struct StoreContext: VisitorContext {
    package var coreContext: CoreRequestContextStorage
    package var visitor = Visitor()

    package init(source: Source) { self.coreContext = CoreRequestContextStorage(source: source) }
}

/// The shop's routes.
package func storeRouter(_ waybill: WaybillClient) -> Router<StoreContext> {
    let router = Router(context: StoreContext.self)
    router.add(
        middleware: VisitorMiddleware(waybill) { request, _ in
            request.cookies["consent"].map { Consent(analytics: $0.value == "yes", ads: false) }
        })
    router.get("/products/:name") { _, context in
        let product = try product(named: context.parameters.require("name"))
        waybill.track(ViewItem(items: [product.item], currency: "EUR"), by: context.visitor)
        return product.rawValue
    }
    router.post("/orders/:name") { _, context in
        let product = try product(named: context.parameters.require("name"))
        waybill.track(Purchase(transactionID: "o-1", items: [product.item], currency: "EUR"), by: context.visitor)
        return HTTPResponse.Status.created
    }
    return router
}

private func product(named name: String) throws -> Product {
    guard let product = Product(rawValue: name) else { throw HTTPError(.notFound) }
    return product
}
