import Foundation
import WaybillFoundation

/// An event with Foundation's types, all of them encoded by the compiler.
struct Booked: ActionEvent, Encodable {
    let at: Date
    let page: URL?
    let id: UUID
    let price: Decimal

    var name: String { "booked" }
}

/// A type whose developer forgot what it is for.
struct Forgotten: FieldlessEvent {
    let name: String
    let price: Int
}

/// What an app does with the product that links Foundation.
@main
struct Main {
    static func main() throws {
        let waybill = try WaybillClient(
            .init(
                spoolsIn: CommandLine.arguments[1], environment: .ofBuild, bundle: "com.example.outside",
                version: "1.0", build: "1"))
        let seen = Seen()
        let token = waybill.observe(.all(seen))
        waybill.track(Booked(at: Date(timeIntervalSince1970: 0), page: nil, id: UUID(), price: 3))
        waybill.track(Forgotten(name: "forgotten", price: 1))
        token.drain()
        precondition(waybill.counters.repairs.refused == 0)
        // Only a debug build looks at the properties of such a type, and only there the environment is dev.
        let isDebug = DeploymentEnvironment.ofBuild == .dev
        precondition(waybill.counters.repairs.forgotten == (isDebug ? 1 : 0))
        precondition(waybill.counters.stored == (isDebug ? 3 : 2))
        print("outside: \(waybill.counters.stored) stored with Foundation's types")
    }
}

/// An app's observer, which prints what Waybill itself reports.
final class Seen: EventObserver {
    func eventStored(_ event: EventView) {
        if event.kind == .meta { print("outside: \(event.name) \(event.fields.map(\.json))") }
    }
}
