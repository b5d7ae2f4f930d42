import StoreServer
import Testing
import Waybill
import WaybillTesting

@Test func `an order over HTTP is a purchase of its visitor`() async throws {
    let recorder = try Recorder()
    try await serving(storeRouter(recorder.waybill)) { browser in
        var browser = browser
        browser.cookies = ["consent": "yes"]
        let requests = [("GET", "/products/toaster"), ("POST", "/orders/toaster"), ("GET", "/products/none")]
        var statuses: [Int] = []
        for request in requests { statuses.append(try await browser.ask(request.0, request.1).status) }
        #expect(statuses == [200, 201, 404])
    }
    #expect(recorder.names == ["view_item", "http_request", "purchase", "http_request", "http_request"])
    #expect(Set(recorder.events.prefix(4).map { $0["anon"] ?? "" }).count == 1)
    let routes = recorder.events.compactMap { event in event.fields.first { $0.name == "route" }?.text }
    #expect(routes == ["/products/{name}", "/orders/{name}", "/products/{name}"])
}
