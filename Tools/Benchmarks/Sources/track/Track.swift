import Dispatch
import Foundation
import Waybill

#if canImport(Glibc)
    import Glibc
#elseif canImport(Darwin)
    import Darwin
#endif

/// Times `track()` on the callers' threads: track [events] [threads]
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
        guard count > 0, threadCount > 0 else { fatalError("usage: track [events] [threads], both above 0") }
        var template = Array("/tmp/waybill-track-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else { fatalError("no temporary directory") }
        let spool = String(decoding: template.dropLast().map(UInt8.init(bitPattern:)), as: UTF8.self)
        defer { try? FileManager.default.removeItem(atPath: spool) }
        let waybill = try Waybill(
            Waybill.Configuration(
                spool: spool, environment: .prod, bundle: "com.example.shop", version: "1.4.2", build: "118"))
        waybill.setUser("u-8812345")
        for index in 0..<10_000 { waybill.track(Tapped(index: index)) }

        let share = count / threadCount
        let calls = share * threadCount
        let nanoseconds = UnsafeMutablePointer<UInt32>.allocate(capacity: calls)
        nanoseconds.initialize(repeating: 0, count: calls)
        nonisolated(unsafe) let times = nanoseconds
        let processor = Self.now(CLOCK_PROCESS_CPUTIME_ID)
        let started = Self.now(CLOCK_MONOTONIC)
        DispatchQueue.concurrentPerform(iterations: threadCount) { thread in
            var last = Self.now(CLOCK_MONOTONIC)
            for index in 0..<share {
                waybill.track(Tapped(index: index))
                let time = Self.now(CLOCK_MONOTONIC)
                times[thread * share + index] = UInt32(clamping: time - last)
                last = time
            }
        }
        let total = Self.now(CLOCK_MONOTONIC) - started
        let spent = Self.now(CLOCK_PROCESS_CPUTIME_ID) - processor
        var sorted = UnsafeMutableBufferPointer(start: nanoseconds, count: calls)
        sorted.sort()
        let counters = waybill.counters
        let mean = sorted.reduce(UInt64(0)) { $0 + UInt64($1) } / UInt64(calls)
        func percentile(_ share: Double) -> UInt32 { sorted[min(calls - 1, Int(Double(calls) * share))] }
        print(
            "{\"events\":\(calls),\"threads\":\(threadCount),"
                + "\"line_bytes\":\(counters.storedByteCount / counters.stored),"
                + "\"mean_ns\":\(mean),\"p50_ns\":\(percentile(0.5)),\"p99_ns\":\(percentile(0.99)),"
                + "\"max_ns\":\(sorted[calls - 1]),\"cpu_ns_per_event\":\(spent / UInt64(calls)),"
                + "\"events_per_s\":\(UInt64(calls) * 1_000_000_000 / total),\"dropped\":\(counters.droppedCount)}")
    }

    static func now(_ clock: clockid_t) -> UInt64 {
        var time = timespec()
        clock_gettime(clock, &time)
        return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
    }
}
