#if canImport(Glibc)
import Glibc
#elseif canImport(Darwin)
import Darwin
#endif
import Waybill

/// Times `track()` on the caller's thread: swift run -c release --package-path Tools/Benchmarks track [events]
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
        let count = CommandLine.arguments.dropFirst().first.flatMap { Int($0) } ?? 1_000_000
        var template = Array("/tmp/waybill-track-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else { fatalError("no temporary directory") }
        let spool = String(decoding: template.dropLast().map(UInt8.init(bitPattern:)), as: UTF8.self)
        let waybill = try Waybill(
            Waybill.Configuration(spool: spool, environment: .prod, bundle: "com.example.shop", version: "1.4.2", build: "118"))
        waybill.setUser("u-8812345")
        for index in 0..<10_000 { waybill.track(Tapped(index: index)) }
        var nanoseconds = [UInt32](repeating: 0, count: count)
        let started = now()
        var last = started
        for index in 0..<count {
            waybill.track(Tapped(index: index))
            let time = now()
            nanoseconds[index] = UInt32(clamping: time - last)
            last = time
        }
        let total = last - started
        nanoseconds.sort()
        let counters = waybill.counters
        func percentile(_ share: Double) -> UInt32 { nanoseconds[min(count - 1, Int(Double(count) * share))] }
        print(
            "{\"events\":\(count),\"line_bytes\":\(counters.storedByteCount / counters.stored),"
                + "\"mean_ns\":\(total / UInt64(count)),\"p50_ns\":\(percentile(0.5)),\"p99_ns\":\(percentile(0.99)),"
                + "\"max_ns\":\(nanoseconds[count - 1]),\"dropped\":\(counters.droppedCount)}")
    }

    static func now() -> UInt64 {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
    }
}
