import Foundation
import Stopwatch
import Waybill

/// Times `track()` on the callers' threads.
///
///     track [events] [threads]
@main
struct Track {
    struct Tapped: ActionEvent {
        let index: Int

        var name: String { "Product Tapped" }

        func encode(into fields: inout Fields) {
            fields.put("productName", "toaster, 2 slices")
            fields.put("productPrice", 39_900)
            fields.put("productPosition", "left")
            fields.put("productIndex", self.index)
        }
    }

    static func main() throws {
        let arguments = CommandLine.arguments.dropFirst().map { Int($0) ?? 0 }
        let count = arguments.first ?? 1_000_000
        let threadCount = arguments.dropFirst().first ?? 1
        guard threadCount > 0, count >= threadCount else {
            fatalError("usage: track [events] [threads], both above 0, and an event for each thread")
        }
        let spool = FileManager.default.temporaryDirectory.appending(path: "waybill-track-\(UUID().uuidString)").path
        defer { try? FileManager.default.removeItem(atPath: spool) }
        var configuration = Waybill.Configuration(
            spool: spool, environment: .prod, bundle: "com.example.shop", version: "1.4.2", build: "118")
        // Nobody ships this spool: what is beyond a quota would be taken out of it meanwhile.
        configuration.quota.byteCountMax = .max
        let waybill = try Waybill(configuration)
        waybill.setUser("u-8812345")
        for index in 0..<10_000 { waybill.track(Tapped(index: index)) }
        let timing = Stopwatch(callCount: count, threadCount: threadCount).time { waybill.track(Tapped(index: $0)) }
        let counters = waybill.counters
        print(
            "{\(timing.members),\"line_bytes\":\(counters.storedByteCount / counters.stored),"
                + "\"dropped\":\(counters.droppedCount)}")
    }
}
