import Testing

@testable import WaybillReceiver

struct RequestOrderTests {
    @Test func `a request waits for the checks before it, however they end`() {
        var order = RequestOrder<String>()
        order.append("open")
        let first = order.beginCheck()
        let second = order.beginCheck()
        order.append("seal")
        #expect(order.takeReady() == ["open"])
        #expect(order.endCheck(second, with: "batch 2") == true)
        #expect(order.takeReady() == [])
        order.endCheck(first, with: nil)
        #expect(order.takeReady() == ["batch 2", "seal"])
        #expect(order.takeReady() == [])
    }

    @Test func `what was not handed over is returned at the end, and a check that ends later has no place`() {
        var order = RequestOrder<String>()
        let check = order.beginCheck()
        order.append("seal")
        #expect(order.removeAll() == ["seal"])
        #expect(order.endCheck(check, with: "batch") == false)
        #expect(order.takeReady() == [])
    }
}
