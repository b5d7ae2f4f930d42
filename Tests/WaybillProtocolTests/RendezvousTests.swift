import Testing
import WaybillProtocol

@Suite struct RendezvousTests {
    private let receivers = ["a:4390", "b:4390", "c:4390"]

    private func order(_ agent: String, _ receivers: [String]) -> [String] {
        Rendezvous.order(receivers, of: agent) { $0 }
    }

    @Test func `the order depends on names alone`() {
        for agent in ["web-01", "web-02", "web-03"] {
            #expect(order(agent, receivers) == order(agent, receivers.reversed()))
        }
        // SHA-256 of "web-01" LF "a:4390" begins with these bytes (sha256sum).
        #expect(Rendezvous.weight(of: "a:4390", for: "web-01") == 0xc47607f9ab904e5c)
    }

    @Test func `agents are spread, and only those of a receiver that is gone move`() {
        var counts: [String: Int] = [:]
        for number in 0..<3000 {
            let agent = "agent-\(number)"
            let all = order(agent, receivers)
            counts[all[0], default: 0] += 1
            #expect(order(agent, receivers.filter { $0 != all[2] }) == Array(all[..<2]))
        }
        #expect(counts.values.allSatisfy { (900...1100).contains($0) }, "\(counts)")
    }
}
