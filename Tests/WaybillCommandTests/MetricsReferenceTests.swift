import Testing
import WaybillAgent
import WaybillDelivery
import WaybillDoor
import WaybillHost
import WaybillMerger
import WaybillReceiver
import WaybillSystem

@testable import WaybillCommands

@Suite struct MetricsReferenceTests {
    private static let all =
        Metric.common + Metric.receiver + Metric.files + Metric.agent + Metric.merger + Metric.door + Metric.tunnels
        + Metric.deliveries

    @Test func `the page is what the metrics say`() throws {
        let page = #filePath.split(separator: "/").dropLast(3).reduce("") { "\($0)/\($1)" } + "/Protocol/metrics.md"
        let bytes = try #require(try POSIXFileSystem().contents(of: page))
        #expect(
            String(decoding: bytes, as: UTF8.self) == MetricsReference.text(door: Metric.door, tunnels: Metric.tunnels),
            "run: waybill explain --metrics > Protocol/metrics.md")
    }

    @Test func `each metric is on the page once`() {
        let names = Self.all.map { "\($0.name)" }
        #expect(Set(names).count == names.count)
    }

    @Test(arguments: all)
    func `a metric has a name after its kind, and a sentence`(metric: Metric) {
        let name = "\(metric.name)"
        #expect(name.wholeMatch(of: /(waybill|process)(_[a-z]+)+/) != nil)
        #expect(name.hasSuffix("_total") == (metric.kind == .counter))
        #expect(metric.kind != .histogram || name.hasSuffix("_seconds"))
        for text in ["\(metric.help)", metric.more] where !text.isEmpty {
            #expect(text.hasSuffix(".") && !text.contains { "\\|\n".contains($0) }, "\(name): \(text)")
        }
        #expect("\(metric.help)" != "")
        for label in metric.labels {
            #expect("\(label.name)".wholeMatch(of: /[a-z]+/) != nil && "\(label.name)" != "le", "\(name)")
            #expect(Set(label.values).count == label.values.count && !label.text.contains("|"), "\(name)")
        }
    }
}
