import ArgumentParser
import Waybill
import WaybillEvent
import WaybillSystem

/// The demo's app: tracks typed events with the client library and writes each to a ledger after `track()` returns.
struct DemoAppCommand: ParsableCommand {
    static let configuration = CommandConfiguration(commandName: "demo-app", shouldDisplay: false)

    @Option var spool: String
    @Option var ledger: String
    @Option var app: Int
    @Option var events: Int
    @Flag(help: "Simulate two days of visitors instead of one user's taps now.")
    var visitors = false
    @Flag(help: "Track as fast as possible.")
    var unpaused = false
    @Option(help: "The group that shares the spool.")
    var group: String?

    private static let providers: [ProviderSubscription] = [
        .all(.mixpanel), .all(.csv), .only(.ga4, ShopScreen.self, ProductTapped.self),
    ]

    private func configuration(of release: DemoRelease) -> WaybillClient.Configuration {
        var configuration = WaybillClient.Configuration(
            spool: self.spool, environment: .prod, bundle: "com.example.shop", version: release.version,
            build: release.build, providers: Self.providers)
        configuration.group = self.group
        // The demo expects every event to arrive, however late it is shipped.
        configuration.quota.byteCountMax = .max
        configuration.quota.freeByteCountMin = 0
        return configuration
    }

    func run() throws {
        let ledger = try POSIXFileSystem().open(self.ledger, .append)
        if self.visitors {
            try self.play(ledger)
        } else {
            try self.tap(ledger)
        }
    }

    /// Tracks one user's screens and taps.
    private func tap(_ ledger: FileID) throws {
        let waybill = try WaybillClient(self.configuration(of: .first))
        waybill.setVendorID(Self.vendorID, for: .ga4)
        waybill.setUser("u-\(self.app)", traits: ["tier": "PREMIUM"])
        var generator = SeededGenerator(seed: UInt64(self.app))
        for number in 0..<self.events {
            let outcome =
                switch Int.random(in: 0..<5, using: &generator) {
                case 0: waybill.track(ShopScreen(app: self.app, number: number, title: "ShoppingList"))
                case 1: waybill.track(SignUpTapped(app: self.app, number: number))
                default: waybill.track(ProductTapped(app: self.app, number: number, price: 39_900))
                }
            try self.write(outcome, number, to: ledger)
        }
        try waybill.synchronize()
    }

    /// Simulates visitors, one after the other.
    private func play(_ ledger: FileID) throws {
        let clock = PlayedClock(daysAgo: 2)
        var visitors = DemoVisitors(app: self.app)
        var number = 0
        for release in DemoRelease.releases(of: self.app) {
            var configuration = self.configuration(of: release)
            configuration.device = DemoVisitors.device(of: self.app)
            let core = try ClientCore(
                configuration, on: POSIXFileSystem(.spool), clock: clock, seed: SystemRandom.seed(), zone: { _ in 0 })
            var user: String?
            while number < self.events {
                // Visits are spread evenly over both days, whatever their number of steps; the last ends before midnight.
                clock.advance(toShare: number, of: self.events, hours: 47)
                guard clock.dayNumber < release.endDay else { break }
                let visitor = visitors.next()
                if visitor.isOnOtherDevice {
                    try core.reset()
                    core.setVendorID(Self.vendorID, for: .ga4)
                } else if user != nil {
                    _ = core.setUser(nil, traits: [:])
                }
                user = visitor.isSignedIn ? visitor.user : nil
                if let user { _ = core.setUser(user, traits: [:]) }
                for step in visitor.steps where number < self.events {
                    clock.advance(milliseconds: step.pauseMilliseconds)
                    let outcome = self.track(step.event, number, release, with: core)
                    try self.write(outcome, number, to: ledger)
                    if step.signsIn {
                        user = visitor.user
                        _ = core.setUser(visitor.user, traits: ["tier": .string(visitor.tier)])
                    }
                    number += 1
                }
            }
            try core.synchronize()
        }
    }

    private func track(
        _ event: DemoVisitors.Event, _ number: Int, _ release: DemoRelease,
        with core: ClientCore<POSIXFileSystem, PlayedClock>
    ) -> TrackOutcome {
        func take(_ event: some WaybillEvent.Event) -> TrackOutcome { core.track { $0.take(event, $1, $2) { _ in } } }
        return switch event {
        case .screen(let name): take(ShopScreen(app: self.app, number: number, title: name))
        case .product(let price): take(ProductTapped(app: self.app, number: number, price: price))
        case .signUp: take(SignUpTapped(app: self.app, number: number))
        case .login(let method): take(LoggedIn(app: self.app, number: number, method: method))
        case .order(let amount): take(Ordered(app: self.app, number: number, amount: amount))
        case .declined: take(PaymentFailed(app: self.app, number: number, code: release.declined))
        }
    }

    private static let vendorID = "0a1b2c3d4e5f60718293a4b5c6d7e8f9"

    /// Writes to the ledger what `track()` promised.
    private func write(_ outcome: TrackOutcome, _ number: Int, to ledger: FileID) throws {
        if case .stored = outcome { try POSIXFileSystem().writeAll(ledger, Array("\(self.app) \(number)\n".utf8)) }
        // Real apps do not track as fast as possible, and the demo needs time to kill processes.
        if number % 200 == 199, !self.unpaused { Worker.sleep(for: .milliseconds(10)) }
    }
}

/// The clock of an app that simulates whole past days.
private final class PlayedClock: SystemClock {
    private let start: Int64
    private let played = Lock<Int64>(0)

    private static let dayMilliseconds: Int64 = 86_400_000

    init(daysAgo: Int64) {
        let today = POSIXClock().wallTime().milliseconds / Self.dayMilliseconds
        self.start = (today - daysAgo) * Self.dayMilliseconds
    }

    /// How many days have passed.
    var dayNumber: Int { Int(self.played.withLock { $0 } / Self.dayMilliseconds) }

    func advance(milliseconds: Int) {
        self.played.withLock { $0 += Int64(milliseconds) }
    }

    /// Advances to `done` `total`ths of this many hours, unless it is later already.
    func advance(toShare done: Int, of total: Int, hours: Int64) {
        self.played.withLock { $0 = max($0, hours * 3_600_000 / Int64(total) * Int64(done)) }
    }

    func wallTime() -> WallTime {
        WallTime(milliseconds: self.start + self.played.withLock { $0 })
    }

    func monotonicTime() -> MonotonicTime {
        MonotonicTime(nanoseconds: self.played.withLock { $0 } * 1_000_000)
    }
}

private struct ShopScreen: ScreenEvent {
    let app: Int
    let number: Int
    let title: String

    var screen: ScreenRef? { ScreenRef(self.title, type: "\(self.title)View") }

    func encode(into fields: inout Fields) {
        fields.put("app", self.app)
        fields.put("number", self.number)
    }
}

private struct ProductTapped: ActionEvent {
    let app: Int
    let number: Int
    let price: Int

    var name: String { "Product Tapped" }

    func encode(into fields: inout Fields) {
        fields.put("app", self.app)
        fields.put("number", self.number)
        fields.put("productName", "토스터, 2구")
        fields.put("productPrice", self.price)
    }
}

/// Encoded by the compiler, so that tests that kill the app kill it in both ways.
private struct SignUpTapped: ActionEvent, Encodable {
    let app: Int
    let number: Int

    var name: String { "Sign Up Tapped" }
}

private struct LoggedIn: Event {
    let app: Int
    let number: Int
    let method: String

    var name: String { "login" }

    func encode(into fields: inout Fields) {
        fields.put("app", self.app)
        fields.put("number", self.number)
        fields.put("method", self.method)
    }
}

private struct Ordered: Event {
    let app: Int
    let number: Int
    let amount: Int

    var name: String { "order" }

    func encode(into fields: inout Fields) {
        fields.put("app", self.app)
        fields.put("number", self.number)
        fields.put("amount", self.amount)
    }
}

private struct PaymentFailed: Event {
    let app: Int
    let number: Int
    let code: DemoRelease.Code

    var name: String { "error" }

    func encode(into fields: inout Fields) {
        fields.put("app", self.app)
        fields.put("number", self.number)
        switch self.code {
        case .number(let code): fields.put("code", code)
        case .text(let code): fields.put("code", code)
        }
    }
}
