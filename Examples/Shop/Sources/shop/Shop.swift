/// A shop that tells Waybill what its visitors do.
///
///     GET  /               HomeScreen         POST /cart       AddedToCart
///     GET  /products       ProductListScreen  POST /login      LoggedIn
///     GET  /products/:id   ProductScreen      POST /checkout   Purchased, or CheckoutRefused
///
/// One request's life: ``VisitorMiddleware`` finds out whose it is, the route answers and tracks its event by that visitor,
/// and the event is in the kernel's hands before the response is written. An agent ships the spool from there.
///
/// An app has one user, whom it tells the client of. A server has many at once: it calls none of `setUser`, `setVendorID`,
/// `setConsent` and `reset`, which are about the process, and says with each event whose it is.
import Hummingbird
import Logging
import Waybill

@main
struct Shop {
    static func main() async throws {
        let options = try Options(CommandLine.arguments.dropFirst(), Environment())
        let logger = Logger(label: "shop")
        // One for the process: every request's thread may use it.
        let waybill = try WaybillClient(options.waybill)
        waybill.track(ServerEvent(name: "server_started")) { $0.put("port", options.port) }

        let application = Application(
            router: Storefront(waybill: waybill, logger: logger).router,
            configuration: ApplicationConfiguration(address: .hostname("127.0.0.1", port: options.port)),
            logger: logger)
        // Returns once SIGTERM or SIGINT came and the last response is written.
        try await application.runService()
        waybill.track(ServerEvent(name: "server_stopped"))
        // Until here, a power cut takes the last second.
        try waybill.flush()
        logger.info("stopped", metadata: ["events": "\(waybill.counters.stored)"])
    }
}

/// What the shop is told at its start: `--port 8080 --spool ./spool`, else `SHOP_PORT` and `SHOP_SPOOL`.
struct Options {
    var port = 8080
    /// A folder of the shop's own; an agent is given the same.
    var spool = "./spool"
    /// `SHOP_ENV`: dev, internal or prod.
    var environment = DeploymentEnvironment.dev

    init(_ arguments: some Sequence<String>, _ variables: Environment) throws {
        var given: [String: String] = [:]
        var words = arguments.makeIterator()
        while let option = words.next() {
            guard ["--port", "--spool"].contains(option), let value = words.next() else {
                throw OptionError(description: "usage: shop [--port PORT] [--spool FOLDER]; not \(option)")
            }
            given[option] = value
        }
        if let port = given["--port"] ?? variables.get("SHOP_PORT") {
            guard let number = Int(port), (1...65_535).contains(number) else {
                throw OptionError(description: "\(port) is no port")
            }
            self.port = number
        }
        self.spool = given["--spool"] ?? variables.get("SHOP_SPOOL") ?? self.spool
        if let name = variables.get("SHOP_ENV") {
            guard let environment = DeploymentEnvironment(rawValue: name) else {
                throw OptionError(description: "SHOP_ENV is dev, internal or prod, not \(name)")
            }
            self.environment = environment
        }
    }

    /// Each provider gets what it is for: GA4 four types, Mixpanel and `visits` everything.
    var waybill: WaybillClient.Configuration {
        var configuration = WaybillClient.Configuration(
            spool: self.spool, environment: self.environment, bundle: "com.example.shop.server", version: "1.0.0",
            build: "1",
            providers: [
                .only(.ga4, ProductScreen.self, AddedToCart.self, Purchased.self, LoggedIn.self), .all(.mixpanel),
                .all("visits"),
            ])
        // A stored event survives the death of the process at once, and a power cut a second later.
        configuration.durability = .power(every: .seconds(1))
        return configuration
    }
}

/// Options that make no sense.
struct OptionError: Error, CustomStringConvertible {
    let description: String
}
