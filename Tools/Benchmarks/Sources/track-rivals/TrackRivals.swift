import Foundation
import Stopwatch
import Waybill

/// Stores the same events in one of several ways, and prints one line of JSON.
///
///     track-rivals ROW EVENTS THREADS DIRECTORY
///
/// The directory must be there; its files are left in it. A process measures one row once, so that its memory is the
/// row's own. Each event is checked afterwards: without `lost`, `twice` and `alien` all 0 there is no figure.
@main
struct TrackRivals {
    static func main() throws {
        let arguments = CommandLine.arguments.dropFirst().map { String($0) }
        guard arguments.count == 4, let row = Row(rawValue: arguments[0]), let eventCount = Int(arguments[1]),
            let threadCount = Int(arguments[2]), threadCount > 0, eventCount >= threadCount
        else {
            let rows = Row.allCases.map(\.rawValue).joined(separator: "|")
            FileHandle.standardError.write(Data("usage: track-rivals \(rows) EVENTS THREADS DIRECTORY\n".utf8))
            exit(64)
        }
        let stopwatch = Stopwatch(callCount: eventCount, threadCount: threadCount)
        let allocations = Allocations()
        // What comes before the first reading is not the row's: Foundation's clock and zone, the threads' stacks.
        let envelope = Envelope()
        Stopwatch.onThreads(threadCount) { _ in }

        let before = Resident.now()
        let recorder = try row.recorder(in: arguments[3], envelope)
        let warmUpCount = max(threadCount, stopwatch.callCount / 10)
        Stopwatch.onThreads(threadCount) { thread in
            for index in stride(from: thread, to: warmUpCount, by: threadCount) {
                recorder.record(stopwatch.callCount + index)
            }
        }
        let allocationsBefore = allocations?.soFar
        let timing = stopwatch.time { recorder.record($0) }
        let allocationsAfter = allocations?.soFar
        let after = Resident.now()
        try recorder.close()

        var ledger = Ledger(eventCount: stopwatch.callCount + warmUpCount)
        try recorder.count(into: &ledger)
        var line = "{\(timing.members),\"line_bytes\":\(ledger.byteCount / ledger.eventCount)"
        if let before, let after {
            line += ",\"resident_growth_kb\":\((after.byteCount - before.byteCount) >> 10)"
            line += ",\"own_growth_kb\":\((after.anonymousByteCount - before.anonymousByteCount) >> 10)"
        }
        if let allocationsBefore, let allocationsAfter {
            let perCall = Double(allocationsAfter - allocationsBefore) / Double(timing.callCount)
            line += ",\"allocations_per_call\":\((perCall * 100).rounded() / 100)"
        }
        line += ",\"lost\":\(ledger.lostCount),\"twice\":\(ledger.twiceCount),\"alien\":\(ledger.alienCount)}"
        print(line)
    }
}

/// The ways to store an event.
private enum Row: String, CaseIterable {
    case waybill
    case waybillFlushed = "waybill-flushed"
    case write
    case swiftLog = "swift-log"
    case swiftLogBuffered = "swift-log-buffered"
    case json
    case sqliteNormal = "sqlite-normal"
    case sqliteFull = "sqlite-full"

    func recorder(in directory: String, _ envelope: Envelope) throws -> any Recorder {
        switch self {
        case .waybill: try WaybillRecorder(directory, envelope, isFlushed: false)
        case .waybillFlushed: try WaybillRecorder(directory, envelope, isFlushed: true)
        case .write: try WriteRecorder(directory)
        case .swiftLog: try LogRecorder(directory, envelope, .eachLine)
        case .swiftLogBuffered: try LogRecorder(directory, envelope, .eachBuffer)
        case .json: try JSONRecorder(directory, envelope)
        case .sqliteNormal: try SQLiteRecorder(directory, envelope, .normal)
        case .sqliteFull: try SQLiteRecorder(directory, envelope, .full)
        }
    }
}
