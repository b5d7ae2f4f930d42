// A dispatcher that sends a table of rows, as apps write it:
//
//     final class Dispatcher {
//         var interval: TimeInterval = 120 { didSet { self.restartTimer() } }  // 0: by hand
//         private var timer: Timer?
//         func restartTimer() {
//             self.timer?.invalidate()
//             guard self.interval > 0 else { return }
//             self.timer = .scheduledTimer(withTimeInterval: self.interval, repeats: true) { _ in
//                 self.dispatch { _ in }
//             }
//         }
//         func dispatch(_ done: @escaping (DispatchResult) -> Void) {
//             let rows = self.database.fetch(limit: 40)
//             guard !rows.isEmpty else { return done(.noData) }
//             self.post(rows) { ok in
//                 if ok { self.database.delete(rows) }  // Also what was sent and never stored there.
//                 done(ok ? .good : .error)
//             }
//         }
//         func sendAllInBackground() { … }  // One dispatch after another, until .noData, .error, or the time is over.
//     }
//     // And the server: a report of each day at four in the morning, of a day in the server's zone.
//
// The events are in files before anything is sent, and go from them when the receiver says that they are durable there.

import Testing
import Waybill
import WaybillDispatch
import WaybillExport
import WaybillProjection
import WaybillReceiver
import WaybillServerTestSupport
import WaybillSystem
import WaybillTesting

private struct SongPlayed: ActionEvent {
    let title: String
    var name: String { "song_played" }

    func encode(into fields: inout Fields) {
        fields.put("title", self.title)
    }
}

extension Place {
    /// The report: a table of each day of Seoul.
    fileprivate static func report() throws -> ExportOptions {
        ExportOptions(provider: .csv, zone: try TimeZoneRules(named: "Asia/Seoul", from: POSIXFileSystem()))
    }

    /// Runs a receiver that writes the report while `body` runs.
    fileprivate func reporting<Result>(_ body: () async throws -> Result) async throws -> Result {
        let report = try Self.report()
        return try await self.receiving(adjusting: { $0.exports = [report] }, body)
    }

    /// Each day's rows, the header not among them.
    fileprivate func rows() throws -> [String: [String]] {
        var rows: [String: [String]] = [:]
        for path in try self.files(under: "data/exports/csv/env=prod") where path.hasSuffix(".csv") {
            let bytes = try POSIXFileSystem().contents(of: path) ?? []
            let lines = String(decoding: bytes, as: UTF8.self).split(separator: "\r\n").map(String.init)
            #expect(lines.first == "Time,AppVersion,OS,LogVersion,Event,View,Others")
            rows[String(Path.name(of: Path.parent(of: path)).dropFirst("date=".count)), default: []] +=
                lines.dropFirst()
        }
        return rows
    }

    /// The songs in the rows of the day on which a test's clock starts.
    fileprivate func titles() throws -> [Substring] {
        try self.rows()["2025-03-01", default: []].map { $0[($0.lastIndex(of: "=") ?? $0.startIndex)...].dropFirst() }
    }

    /// An app on a telephone in Los Angeles, whose clock the test moves.
    fileprivate func waybill(_ clock: ManualClock) throws -> WaybillClient {
        var configuration = self.configuration
        configuration.device = WaybillClient.Device(os: "iOS", osVersion: "17.0.1")
        return WaybillClient(
            core: try ClientCore(configuration, on: POSIXFileSystem(), clock: clock, seed: 1, zone: { _ in -480 }))
    }
}

@Test func `an interval delivers by itself, and says each time what came of it`() async throws {
    let place = try Place()
    let waybill = try place.waybill(ManualClock())
    for title in ["a", "b", "c"] { waybill.track(SongPlayed(title: title)) }
    let (results, continuation) = AsyncStream.makeStream(of: DispatchResult.self)
    let seen = try await place.reporting {
        let dispatcher = try place.dispatcher(mode: .every(.milliseconds(5))) { continuation.yield($0) }
        var seen: [DispatchResult] = []
        for await result in results where result != seen.last {
            seen.append(result)
            if seen.count == 2 { waybill.track(SongPlayed(title: "d")) }
            if seen.count == 3 { break }
        }
        await dispatcher.stop()
        return seen
    }
    #expect(seen == [.delivered(3, remaining: 0), .nothingToSend, .delivered(1, remaining: 0)])
    #expect(
        try place.rows() == [
            "2025-03-01": ["a", "b", "c", "d"].map { "2025-03-01 18:14:15,118,17.0.1,1.0,song_played,,title=\($0)" }
        ])
}

@Test func `without an interval everything waits for the app's word, also over a restart`() async throws {
    let place = try Place()
    do {
        let waybill = try place.waybill(ManualClock())
        for number in 0..<100 { waybill.track(SongPlayed(title: "\(number)")) }
        let dispatcher = try place.dispatcher(mode: .every(.zero), patience: .milliseconds(50))
        guard case .failed(let failure) = await dispatcher.flush() else {
            Issue.record("delivered to no one")
            return
        }
        #expect(failure.code == .unreachable)
        #expect([failure.deliveredCount, failure.remainingCount] == [0, 100])
    }
    let waybill = try place.waybill(ManualClock(after: 1000))
    waybill.track(SongPlayed(title: "100"))
    let dispatcher = try place.dispatcher(mode: .manual)
    let results = try await place.reporting { [await dispatcher.flush(), await dispatcher.flush()] }
    #expect(results == [.delivered(101, remaining: 0), .nothingToSend])
    #expect(try place.titles().compactMap { Int($0) }.sorted() == Array(0...100))
}

@Test func `in the background a drain sends what there is, says so, and leaves the rest to the next`() async throws {
    let place = try Place()
    let waybill = try place.waybill(ManualClock())
    let dispatcher = try place.dispatcher()
    for number in 0..<500 { waybill.track(SongPlayed(title: "\(number)")) }
    waybill.enter(.background)
    // The system's seconds are over before any receiver answered.
    guard case .failed(let failure) = await dispatcher.drain(until: .now + .milliseconds(50)) else {
        Issue.record("delivered to no one")
        return
    }
    #expect([failure.deliveredCount, failure.remainingCount] == [0, 500])
    let results = try await place.reporting {
        let first = await dispatcher.drain(until: .now + .seconds(60))
        let second = await dispatcher.drain(until: .now + .seconds(60))
        waybill.enter(.foreground)
        waybill.track(SongPlayed(title: "500"))
        waybill.enter(.background)
        return [first, second, await dispatcher.drain(until: .now + .seconds(60))]
    }
    #expect(results == [.delivered(500, remaining: 0), .nothingToSend, .delivered(1, remaining: 0)])
    #expect(try place.titles() == (0...500).map { "\($0)" })
}

@Test func `a row is of the report's day, wherever the device was and whenever it was delivered`() async throws {
    let place = try Place()
    let clock = ManualClock()
    // 2025-03-01 in Los Angeles, which is the device's zone; by Seoul's clocks it becomes 2025-03-02.
    let waybill = try place.waybill(clock)
    for (hour, minute) in [(23, 59), (0, 0), (3, 59), (4, 0)] {
        let sinceMidnight = Int64(hour * 60 + minute) * 60_000
        let midnight = try #require(WallTime(text: "2025-03-01T15:00:00.000Z")).milliseconds
        let time = hour == 23 ? midnight - 60_000 : midnight + sinceMidnight
        clock.advance(milliseconds: time - clock.wallTime().milliseconds)
        waybill.track(SongPlayed(title: "\(hour):\(minute)"))
    }
    let dispatcher = try place.dispatcher()
    #expect(try await place.reporting { await dispatcher.flush() } == .delivered(4, remaining: 0))
    let rest = "118,17.0.1,1.0,song_played,,title="
    #expect(
        try place.rows() == [
            "2025-03-01": ["2025-03-01 23:59:00,\(rest)23:59"],
            "2025-03-02": [
                "2025-03-02 00:00:00,\(rest)0:0", "2025-03-02 03:59:00,\(rest)3:59", "2025-03-02 04:00:00,\(rest)4:0",
            ],
        ])
}

@Test func `a day's report takes what is delivered until four in the morning of the report's zone`() throws {
    let report = try Place.report()
    let cutOff = CutOff(zone: report.zone, secondOfDay: report.cutOffSecond)
    let day = try #require(CalendarDay("2025-03-01"))
    func due(_ delivered: String) throws -> String {
        cutOff.dueTime(of: day, openedAt: try #require(WallTime(text: delivered))).text
    }
    // 04:00 in Seoul is 19:00 UTC.
    #expect(try due("2025-03-01T05:00:00.000Z") == "2025-03-01T19:00:00.000Z")
    #expect(try due("2025-03-01T18:59:59.999Z") == "2025-03-01T19:00:00.000Z")
    #expect(try due("2025-03-01T19:00:00.000Z") == "2025-03-02T19:00:00.000Z")
}
