import Foundation
import WaybillFoundation

struct ConcertBooked: ActionEvent, Encodable {
    let at: Date
    let ticket: UUID
    let price: Decimal
    let page: URL?

    var name: String { "concert_booked" }
}

struct Concerts {
    let waybill: WaybillClient

    init() throws {
        self.waybill = try WaybillClient(.init(app: .main))
    }

    func book(at date: Date, for price: Decimal) {
        self.waybill.track(ConcertBooked(at: date, ticket: UUID(), price: price, page: nil))
    }
}
