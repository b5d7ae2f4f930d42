// An event that two providers see differently, as apps write it:
//
//     struct LikeActionEvent: TrackingEvent { let momentID: String, userID: String }
//     extension LikeActionEvent: FirebaseEvent {
//         var name: String { "select_content" }
//         var parameters: [String: Any] { ["item_id": "moment-\(self.momentID)", "item_name": "moment-like"] }
//     }
//     extension LikeActionEvent: MixpanelEvent {       // Does not compile:
//         var name: String { "Moment Liked" }          // invalid redeclaration of 'name'
//         var parameters: [String: Any] { ["moment": self.momentID] }
//     }
//     struct ScreenViewEvent: FirebaseEvent { let name = "select_content" }  // Not "screen_view".
//
//     #if DEBUG
//         let tracker = Tracker(providers: [ConsoleProvider()])
//     #else
//         let tracker = Tracker(providers: [FirebaseProvider(), MixpanelProvider()])
//     #endif
//
// One event has one slot for each provider. Where the app runs is in each line, and each environment has its own spool.

import Testing
import Waybill
import WaybillEvent
import WaybillExport
import WaybillServerTestSupport
import WaybillSpool
import WaybillSystem
import WaybillSystemLog
import WaybillTestSupport
import WaybillTesting

private struct MomentsScreen: ScreenEvent, FieldlessEvent {
    var screen: ScreenRef? { ScreenRef("Moments", type: "MomentsView") }
}

private struct MomentLiked: ActionEvent {
    let momentID: String
    let likeCount: Int
    var name: String { "moment_like" }

    func encode(into fields: inout Fields) {
        fields.put("momentID", self.momentID)
        fields.put("likeCount", self.likeCount)
    }

    func customize(_ overrides: inout Overrides) {
        overrides[.ga4].name = "select_content"
        overrides[.ga4].replaceAll { fields in
            fields.put("item_id", "moment-\(self.momentID)")
            fields.put("item_name", "moment-like")
        }
        overrides[.mixpanel].name = "Moment Liked"
        overrides[.mixpanel].rename("momentID", to: "moment")
        overrides[.mixpanel].rename("likeCount", to: "likes so far")
    }
}

/// The button, and what it shows.
private struct LikeButton {
    let waybill: WaybillClient
    let momentID: String
    private(set) var likeCount = 0

    init(_ momentID: String, _ waybill: WaybillClient) {
        self.waybill = waybill
        self.momentID = momentID
    }

    @discardableResult
    mutating func tap() -> TrackOutcome {
        self.likeCount += 1
        return self.waybill.track(MomentLiked(momentID: self.momentID, likeCount: self.likeCount))
    }
}

@Test func `two providers see one tap each in its own way, and the line keeps the app's`() throws {
    let recorder = try Recorder.shop(providers: [.all(.ga4), .all(.mixpanel)])
    recorder.waybill.setVendorID(appInstanceID, for: .ga4)
    var button = LikeButton("m-17", recorder.waybill)
    button.tap()
    recorder.advance(by: .milliseconds(2500))
    button.tap()
    let events = recorder.events
    #expect(events.map(\.name) == ["moment_like", "moment_like"])
    #expect(
        events.last?.contents == #"""
            "data":{"momentID":"m-17","likeCount":2},"providers":["ga4","mixpanel"],\#
            "overrides":{"ga4":{"name":"select_content","data":{"item_id":"moment-m-17","item_name":"moment-like"}},\#
            "mixpanel":{"name":"Moment Liked","data":{"moment":"m-17","likes so far":2}}}
            """#)
    let item = #""item_id":"moment-m-17","item_name":"moment-like""#
    #expect(
        recorder.exported(ExportOptions(provider: .ga4)).output
            == "{\"app_instance_id\":\"\(appInstanceID)\",\"events\":[" + ga4Event("select_content", item) + ","
            + ga4Event("select_content", item, after: 2500, engagement: 2500) + "]}\n")
    #expect(
        recorder.exported(ExportOptions(provider: .mixpanel)).records.map(\.text)
            == events.enumerated().map { index, event in
                event.mixpanelRecord("Moment Liked", #""moment":"m-17","likes so far":\#(index + 1)"#)
            })
}

@Test func `a screen that is seen is a screen view for each provider, and the tap happens on it`() throws {
    let recorder = try Recorder.shop()
    recorder.waybill.setVendorID(appInstanceID, for: .ga4)
    recorder.waybill.setUser("u-1")
    recorder.waybill.track(MomentsScreen())
    var button = LikeButton("m-17", recorder.waybill)
    button.tap()
    let events = recorder.events
    #expect(
        recorder.exported(ExportOptions(provider: .ga4)).records.map(\.text) == [
            "{\"app_instance_id\":\"\(appInstanceID)\",\"user_id\":\"u-1\",\"events\":["
                + [
                    ga4Event("user_updated", ""),
                    ga4Event("screen_view", #""screen_name":"Moments","screen_class":"MomentsView""#),
                    ga4Event("select_content", #""item_id":"moment-m-17","item_name":"moment-like""#),
                ].joined(separator: ",") + "]}\n"
        ])
    #expect(
        recorder.exported(ExportOptions(provider: .mixpanel)).records.map(\.text) == [
            events[1].mixpanelRecord("Screen View", #""screen":"Moments","screen_class":"MomentsView""#),
            events[2].mixpanelRecord(
                "Moment Liked", #""screen":"Moments","screen_class":"MomentsView","moment":"m-17","likes so far":1"#),
        ])
}

/// The app in one of its environments, its spools in `folder`.
private func configuration(_ environment: DeploymentEnvironment, in folder: String)
    -> WaybillClient.Configuration
{
    WaybillClient.Configuration(
        spoolsIn: folder, environment: environment, bundle: "com.example.moments", version: "1.4.2", build: "118")
}

/// The lines of a spool.
private func spoolLines(_ spool: String) throws -> [String] {
    let files = POSIXFileSystem()
    return try files.list(spool).compactMap { SegmentName(parsing: $0) }.sorted().flatMap { name in
        let bytes = try files.contents(of: Path.join(spool, "\(name)")) ?? []
        return lines(String(decoding: bytes, as: UTF8.self))
    }
}

@Test func `developers, testers and users have spools of their own, and no export mixes them`() throws {
    try withFolder { folder in
        var all: [String] = []
        for (environment, count) in [(DeploymentEnvironment.dev, 1), (.internal, 2), (.prod, 3)] {
            var button = LikeButton("m-17", try WaybillClient(configuration(environment, in: folder)))
            for _ in 0..<count { button.tap() }
            let own = try spoolLines("\(folder)/\(environment.rawValue)")
            #expect(own.count == count)
            #expect(own.allSatisfy { $0.contains("\"env\":\"\(environment.rawValue)\"") })
            all += own
        }
        let now = POSIXClock().wallTime()
        let sink = export(all, ExportOptions(provider: .mixpanel), at: now)
        #expect(sink.records.map(\.env) == [.dev, .internal, .internal, .prod, .prod, .prod])
        var options = ExportOptions(provider: .mixpanel)
        options.environments = EnvironmentSet([.prod])
        let released = export(all, options, at: now)
        #expect(released.eventCount == 3)
        #expect(released.skipped == [.environment, .environment, .environment])
    }
}

@Test func `a build for developers does not write into the users' spool`() throws {
    try withFolder { folder in
        _ = try WaybillClient(configuration(.prod, in: folder))
        var wrong = configuration(.dev, in: folder)
        wrong.spool = "\(folder)/prod"
        let error = #expect(throws: WaybillError.self) { try WaybillClient(wrong) }
        #expect(
            error?.description
                == "configuration: the spool \(folder)/prod holds events of prod; give dev its own folder")
        #expect(try spoolLines("\(folder)/prod") == [])
    }
}

#if !canImport(os)
    @Test func `the system's log says what was tapped when the app wants it, and the lines are the same`() throws {
        try withFolder { folder in
            var sockets = SystemLogSockets()
            sockets.journal = "\(folder)/journal"
            sockets.syslog = "\(folder)/log"
            let journal = try LocalSocket(sockets.journal, .datagram)
            let log = SystemLogObserver(privacy: .fields, sockets: sockets)
            let logged = try Recorder.shop()
            let token = logged.waybill.observe(.all(log))
            let silent = try Recorder.shop()
            for recorder in [logged, silent] {
                var button = LikeButton("m-17", recorder.waybill)
                button.tap()
            }
            token.drain()
            let entries = try journal.receiveAll().map { String(decoding: $0.bytes, as: UTF8.self) }
            #expect(entries.count == 1)
            #expect(entries.first?.hasPrefix("MESSAGE=moment_like\nPRIORITY=6\n") == true)
            #expect(entries.first?.contains("\nWB_ENV=prod\n") == true)
            #expect(entries.first?.hasSuffix("\nWB_D_MOMENTID=m-17\nWB_D_LIKECOUNT=1\n") == true)
            #expect(logged.events.map(\.text) == silent.events.map(\.text))
        }
    }
#endif
