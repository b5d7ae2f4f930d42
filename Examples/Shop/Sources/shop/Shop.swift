/// A shop that tells Waybill what its visitors do.
///
///     GET  /               HomeScreen         POST /cart       AddedToCart
///     GET  /products       ProductListScreen  POST /login      LoggedIn
///     GET  /products/:id   ProductScreen      POST /checkout   Purchased, or CheckoutRefused
///
/// One request's life: ``VisitorMiddleware`` finds out whose it is, the route answers and tracks one event, and that
/// event is in the kernel's hands before the response is written. An agent ships the spool from there.
import Hummingbird
import Logging
import Waybill

@main
struct Shop {
    static func main() async throws {
        let options = try Options(CommandLine.arguments.dropFirst(), Environment())
        let logger = Logger(label: "shop")
        // One for the process: every request's thread may use it.
        let waybill = try Waybill(options.waybill)
        if let instance = options.ga4Instance { waybill.setVendorID(instance, for: .ga4) }
        waybill.track("server_started") { $0.put("port", options.port) }

        let application = Application(
            router: Storefront(waybill: waybill, logger: logger).router,
            configuration: ApplicationConfiguration(address: .hostname("127.0.0.1", port: options.port)),
            logger: logger)
        // Returns once SIGTERM or SIGINT came and the last response is written.
        try await application.runService()
        waybill.track("server_stopped")
        // Until here, events survive the death of the process; from here on, also a power cut.
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
    /// `SHOP_GA4_INSTANCE`: the app instance id that GA4 files events under, without which it takes none.
    ///
    /// It is the process's too: GA4 counts all visitors as one device.
    var ga4Instance: String?

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
        self.ga4Instance = variables.get("SHOP_GA4_INSTANCE")
    }

    /// Each provider gets what it is for: GA4 four types, Mixpanel and CSV everything.
    var waybill: Waybill.Configuration {
        Waybill.Configuration(
            spool: self.spool, environment: self.environment, bundle: "com.example.shop.server", version: "1.0.0",
            build: "1",
            providers: [
                .only(.ga4, ProductScreen.self, AddedToCart.self, Purchased.self, LoggedIn.self), .all(.mixpanel),
                .all(.csv),
            ])
    }
}

/// Options that make no sense.
struct OptionError: Error, CustomStringConvertible {
    let description: String
}
