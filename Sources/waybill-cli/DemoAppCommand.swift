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

    private var configuration: WaybillClient.Configuration {
        var configuration = WaybillClient.Configuration(
            spool: self.spool, environment: .prod, bundle: "com.example.shop", version: "1.4.2", build: "118",
            providers: Self.providers)
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
        let waybill = try WaybillClient(self.configuration)
        waybill.setVendorID(Self.vendorID, for: .ga4)
        waybill.setUser("u-\(self.app)", traits: ["tier": "PREMIUM"])
        var generator = SeededGenerator(seed: UInt64(self.app))
        for number in 0..<self.events {
            let outcome =
                Int.random(in: 0..<5, using: &generator) == 0
                ? waybill.track(ShopScreen(app: self.app, number: number, title: "ShoppingList"))
                : waybill.track(ProductTapped(app: self.app, number: number, price: 39_900))
            try self.write(outcome, number, to: ledger)
        }
        try waybill.synchronize()
    }

    /// Simulates visitors, one after the other.
    private func play(_ ledger: FileID) throws {
        let clock = PlayedClock(daysAgo: 2)
        let core = try ClientCore(
            self.configuration, on: POSIXFileSystem(.spool), clock: clock, seed: SystemRandom.seed(), zone: { _ in 0 })
        var visitors = DemoVisitors(app: self.app)
        var number = 0
        while number < self.events {
            let visitor = visitors.next()
            // Visits are spread evenly over both days, whatever their number of steps; the last one ends before midnight.
            clock.advance(toShare: number, of: self.events, hours: 47)
            try core.reset()
            core.setVendorID(Self.vendorID, for: .ga4)
            if visitor.isMember { _ = core.setUser(visitor.user, traits: [:]) }
            for step in visitor.steps where number < self.events {
                clock.advance(milliseconds: step.pauseMilliseconds)
                let outcome =
                    switch step.event {
                    case .screen(let name):
                        core.track { $0.take(ShopScreen(app: self.app, number: number, title: name), $1, $2) { _ in } }
                    case .product(let price):
                        core.track {
                            $0.take(ProductTapped(app: self.app, number: number, price: price), $1, $2) { _ in }
                        }
                    case .signUp:
                        core.track { $0.take(SignUpTapped(app: self.app, number: number), $1, $2) { _ in } }
                    }
                try self.write(outcome, number, to: ledger)
                if step.signsUp { _ = core.setUser(visitor.user, traits: ["tier": "FREE"]) }
                number += 1
            }
        }
        try core.synchronize()
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

/// A shop's visitors and their actions; the same in every run of an app.
private struct DemoVisitors {
    /// One event of a visit and its consequences.
    struct Step {
        enum Event {
            case screen(String)
            case product(price: Int)
            case signUp
        }

        /// The pause before the event.
        let pauseMilliseconds: Int
        let event: Event
        /// Whether the shop responds by creating an account.
        var signsUp = false
    }

    struct Visitor {
        let user: String
        let isMember: Bool
        let steps: [Step]
    }

    private let app: Int
    private var generator: SeededGenerator
    private var members: Set<Int>

    private static let visitorCount = 400

    init(app: Int) {
        self.app = app
        self.generator = SeededGenerator(seed: UInt64(app))
        self.members = Set(0..<100)
    }

    mutating func next() -> Visitor {
        let visitor = Int.random(in: 0..<Self.visitorCount, using: &self.generator)
        let isMember = self.members.contains(visitor)
        var steps = [Step(pauseMilliseconds: 0, event: .screen("Home"))]
        for _ in 0..<Int.random(in: 1...4, using: &self.generator) {
            steps.append(self.step(after: 2...9, .screen("ShoppingList")))
            guard self.chance(70) else { continue }
            let price = Int.random(in: 5...60, using: &self.generator) * 1000 - 100
            steps.append(self.step(after: 3...20, .product(price: price)))
            steps.append(Step(pauseMilliseconds: 40, event: .screen("Product")))
            if self.chance(25) { steps.append(self.step(after: 5...60, .screen("Cart"))) }
        }
        if !isMember, self.chance(40) {
            steps.append(self.step(after: 5...40, .screen("SignUp")))
            if self.chance(60) {
                var tap = self.step(after: 15...90, .signUp)
                tap.signsUp = self.chance(85)
                steps.append(tap)
                if tap.signsUp {
                    self.members.insert(visitor)
                    steps.append(Step(pauseMilliseconds: 1000, event: .screen("Welcome")))
                }
            }
        }
        return Visitor(user: "u-\(self.app)-\(visitor)", isMember: isMember, steps: steps)
    }

    private mutating func step(after seconds: ClosedRange<Int>, _ event: Step.Event) -> Step {
        Step(pauseMilliseconds: Int.random(in: seconds, using: &self.generator) * 1000, event: event)
    }

    private mutating func chance(_ percent: Int) -> Bool {
        Int.random(in: 0..<100, using: &self.generator) < percent
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
