/// A shop that tracks what its visitors do.
///
///     GET  /               HomeScreen         POST /cart       AddedToCart
///     GET  /products       ProductListScreen  POST /login      LoggedIn
///     GET  /products/:id   ProductScreen      POST /checkout   Purchased, or CheckoutRefused
///
/// Life of a request: WaybillHummingbird's middleware determines its visitor; the route answers and tracks an event of that
/// visitor; the event is written to the kernel before the response. From there an agent ships the spool.
///
/// An app has one user, which it sets in the client. A server has many at once: it passes the visitor with each event,
/// and does not call `setUser`, `setVendorID`, `setConsent` or `reset`, which apply to the process.
import Hummingbird
import Logging
import Waybill

@main
struct Shop {
    static func main() async throws {
        let options = try Options(CommandLine.arguments.dropFirst(), Environment())
        let logger = Logger(label: "shop")
        // One client per process: the threads of all requests may use it.
        let waybill = try WaybillClient(options.waybill)
        waybill.track(ServerEvent(name: "server_started")) { $0.put("port", options.port) }

        let application = Application(
            router: Storefront(waybill: waybill, logger: logger).router,
            configuration: ApplicationConfiguration(address: .hostname("127.0.0.1", port: options.port)),
            logger: logger)
        // Returns after SIGTERM or SIGINT, when the last response is written.
        try await application.runService()
        waybill.track(ServerEvent(name: "server_stopped"))
        // Without this, a power failure could lose the last second.
        try waybill.synchronize()
        logger.info("stopped", metadata: ["events": "\(waybill.counters.stored)"])
    }
}

/// The options: `--port 8080 --spool ./spool`, or else `SHOP_PORT` and `SHOP_SPOOL`.
struct Options {
    var port = 8080
    /// The shop's own spool folder; the agent uses the same path.
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
                throw OptionError(description: "\(port) is not a valid port")
            }
            self.port = number
        }
        self.spool = given["--spool"] ?? variables.get("SHOP_SPOOL") ?? self.spool
        if let name = variables.get("SHOP_ENV") {
            guard let environment = DeploymentEnvironment(rawValue: name) else {
                throw OptionError(description: "SHOP_ENV must be dev, internal or prod, not \(name)")
            }
            self.environment = environment
        }
    }

    /// The client's configuration: GA4 gets four event types, Mixpanel and `visits` get all events.
    var waybill: WaybillClient.Configuration {
        var configuration = WaybillClient.Configuration(
            spool: self.spool, environment: self.environment, bundle: "com.example.shop.server", version: "1.0.0",
            build: "1",
            providers: [
                .only(.ga4, ProductScreen.self, AddedToCart.self, Purchased.self, LoggedIn.self), .all(.mixpanel),
                .all(.visits),
            ])
        // A stored event survives the death of the process at once, and a power failure after a second.
        configuration.durability = .power(every: .seconds(1))
        return configuration
    }
}

/// An invalid option.
struct OptionError: Error, CustomStringConvertible {
    let description: String
}
