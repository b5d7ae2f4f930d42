import Waybill
import WaybillSystem

/// A release of the demo's shop.
struct DemoRelease {
    /// How a release writes the code of an error.
    enum Code {
        case number(Int)
        case text(String)
    }

    let version: String
    let build: String
    /// The number of the day from which on the next release runs.
    let endDay: Int
    /// The code of a declined payment: its type changed between the releases, which the catalogue of names shows.
    let declined: Code

    static let first = DemoRelease(version: "1.4.2", build: "118", endDay: .max, declined: .number(402))

    /// The releases that an app's visitors use, one after the other: all but the first app's update after a day.
    static func releases(of app: Int) -> [DemoRelease] {
        guard app > 0 else { return [Self.first] }
        return [
            DemoRelease(version: "1.4.2", build: "118", endDay: 1, declined: .number(402)),
            DemoRelease(version: "1.5.0", build: "121", endDay: .max, declined: .text("card_declined")),
        ]
    }
}

/// A shop's visitors and their actions; the same in every run of an app.
///
/// Some are members, who come back and sign in in different ways; some share a device with the visitor before them; some
/// sign up; some order, and a few payments fail.
struct DemoVisitors {
    enum Event {
        case screen(String)
        case product(price: Int)
        case signUp
        case login(method: String)
        case order(amount: Int)
        /// The payment of an order failed.
        case declined
    }

    /// One event of a visit and its consequences.
    struct Step {
        /// The pause before the event.
        let pauseMilliseconds: Int
        let event: Event
        /// Whether the visitor is signed in from then on.
        var signsIn = false
    }

    struct Visitor {
        let user: String
        let tier: String
        /// Whether the device knows the visitor from earlier.
        let isSignedIn: Bool
        /// `false` on the device of the visitor before.
        let isOnOtherDevice: Bool
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

    /// The device of an app's visitors.
    static func device(of app: Int) -> WaybillClient.Device {
        switch app % 3 {
        case 0: WaybillClient.Device(os: "iOS", osVersion: "18.5", model: "iPhone16,2")
        case 1: WaybillClient.Device(os: "iOS", osVersion: "17.7.2", model: "iPhone13,1")
        default: WaybillClient.Device(os: "iOS", osVersion: "26.1", model: "iPhone18,1")
        }
    }

    mutating func next() -> Visitor {
        let number = Int.random(in: 0..<Self.visitorCount, using: &self.generator)
        let isMember = self.members.contains(number)
        let isOnOtherDevice = self.chance(90)
        let isSignedIn = isMember && isOnOtherDevice && self.chance(60)
        let method = number % 10 < 5 ? "kakao" : number % 10 < 8 ? "apple" : "email"
        var steps = [Step(pauseMilliseconds: 0, event: .screen("Home"))]
        if isMember, !isSignedIn {
            steps.append(self.step(after: 2...9, .screen("Login")))
            steps.append(self.step(after: 5...20, .login(method: method), signsIn: true))
        }
        for _ in 0..<Int.random(in: 1...4, using: &self.generator) { self.shop(&steps) }
        if !isMember, self.chance(40), self.signUp(&steps, method) { self.members.insert(number) }
        return Visitor(
            user: "u-\(self.app)-\(number)", tier: number % 4 == 0 ? "PREMIUM" : "FREE", isSignedIn: isSignedIn,
            isOnOtherDevice: isOnOtherDevice, steps: steps)
    }

    private mutating func shop(_ steps: inout [Step]) {
        steps.append(self.step(after: 2...9, .screen("ShoppingList")))
        guard self.chance(70) else { return }
        let price = Int.random(in: 5...60, using: &self.generator) * 1000 - 100
        steps.append(self.step(after: 3...20, .product(price: price)))
        steps.append(Step(pauseMilliseconds: 40, event: .screen("Product")))
        guard self.chance(25) else { return }
        steps.append(self.step(after: 5...40, .screen("Cart")))
        guard self.chance(60) else { return }
        steps.append(self.step(after: 3...10, .screen("Checkout")))
        if self.chance(15) {
            steps.append(self.step(after: 5...20, .declined))
            guard self.chance(50) else { return }
        }
        steps.append(self.step(after: 5...20, .order(amount: price)))
    }

    /// - Returns: whether the visitor has an account at the end.
    private mutating func signUp(_ steps: inout [Step], _ method: String) -> Bool {
        steps.append(self.step(after: 5...40, .screen("SignUp")))
        guard self.chance(60) else { return false }
        let signsIn = self.chance(85)
        steps.append(self.step(after: 15...60, .signUp, signsIn: signsIn))
        guard signsIn else { return false }
        steps.append(Step(pauseMilliseconds: 500, event: .login(method: method)))
        steps.append(Step(pauseMilliseconds: 500, event: .screen("Welcome")))
        return true
    }

    private mutating func step(after seconds: ClosedRange<Int>, _ event: Event, signsIn: Bool = false) -> Step {
        Step(
            pauseMilliseconds: Int.random(in: seconds, using: &self.generator) * 1000, event: event, signsIn: signsIn)
    }

    private mutating func chance(_ percent: Int) -> Bool {
        Int.random(in: 0..<100, using: &self.generator) < percent
    }
}
