import Store
import Waybill

/// The shop on a terminal: `store-cli SPOOL [open | add | remove | search TERM | order ID | signup USER EMAIL]…`.
@main
struct StoreCommand {
    static func main() throws {
        guard CommandLine.arguments.count > 1 else { throw UsageError() }
        let waybill = try WaybillClient(
            .init(
                spool: CommandLine.arguments[1], environment: .dev, bundle: "com.example.store", version: "1.0",
                build: "1", providers: [.all(.ga4), .all(.mixpanel)]))
        let model = StoreModel(waybill)
        var words = CommandLine.arguments.dropFirst(2).makeIterator()
        while let word = words.next() {
            switch (word, words.next()) {
            case ("open", let name?): model.open(Product(rawValue: name))
            case ("add", let name?): Product(rawValue: name).map(model.add)
            case ("search", let term?): print(model.search(term).map(\.rawValue))
            case ("remove", _?): model.removeLast()
            case ("order", let id?): model.order(id)
            case ("signup", let email?): model.signUp("u-1", email: email)
            case ("rate", let name?): Product(rawValue: name).map { model.rate($0, stars: 5) }
            case (_, _): throw UsageError()
            }
        }
        try waybill.synchronize()
        print("store: \(waybill.counters.stored) stored, \(waybill.counters.droppedCount) dropped")
    }
}

struct UsageError: Error {}
