import Waybill
import WaybillExport
import WaybillServerTestSupport
import WaybillSystem
import WaybillTesting

extension Recorder {
    /// A recorder of the same app in all these tests: a release on a telephone.
    static func shop(
        providers: [ProviderSubscription] = [], adjusting adjust: (inout WaybillClient.Configuration) -> Void = { _ in }
    ) throws -> Recorder {
        try Recorder { configuration in
            configuration.environment = .prod
            configuration.bundle = "com.example.shop"
            configuration.version = "1.4.2"
            configuration.build = "118"
            configuration.device = WaybillClient.Device(os: "iOS", osVersion: "17.0.1", model: "iPhone16,2")
            configuration.language = "ko-KR"
            configuration.providers = providers
            adjust(&configuration)
        }
    }

    /// What an export makes of everything that was tracked, received three quarters of an hour later.
    func exported(_ options: ExportOptions) -> RecordingSink {
        export(self.events.map(\.text), options)
    }
}

extension EventView {
    /// The event's line without its line feed.
    var text: String {
        String(decoding: self.line.dropLast(), as: UTF8.self)
    }

    /// A member's text; "-" when there is none.
    func member(_ name: String) -> String {
        self[member: name] ?? "-"
    }

    /// What the line says of the event's fields and of its providers, from `"data"` on.
    var contents: String {
        guard let start = self.text.firstRange(of: "\"data\":")?.lowerBound else { return "" }
        return String(self.text[start...].dropLast())
    }

    /// Mixpanel's record of the event: `name` and, as its last properties, `fields`; all else is as in the line.
    func mixpanelRecord(_ name: String, _ fields: String) -> String {
        let subject = self[member: "user"] ?? "$device:\(self.member("anon"))"
        let user = self[member: "user"].map { "\"$user_id\":\"\($0)\"," } ?? ""
        let milliseconds = WallTime(text: self.member("ts"))?.milliseconds ?? -1
        return """
            {"event":"\(name)","properties":{"time":\(milliseconds),"distinct_id":"\(subject)",\
            "$insert_id":"\(self.member("id"))","$device_id":"\(self.member("anon"))",\(user)"$os":"iOS",\
            "$os_version":"17.0.1","$app_version_string":"1.4.2","$app_build_number":"118","$model":"iPhone16,2",\
            "wb_session":"\(self.member("session"))","wb_seq":\(self.sequence),"wb_log":"\(self.member("log"))",\
            "ip":"0",\(fields)}}

            """
    }
}

/// What the Firebase SDK of a device says it is.
let appInstanceID = "0a1b2c3d4e5f60718293a4b5c6d7e8f9"

/// One request to GA4 with one event, of the recorder's session, at `milliseconds` after the recorder's start.
func ga4Request(
    _ name: String, _ fields: String, after milliseconds: Int64 = 0, engagement: Int = 1, user: String? = nil,
    properties: String = ""
) -> String {
    let user = user.map { "\"user_id\":\"\($0)\"," } ?? ""
    return "{\"app_instance_id\":\"\(appInstanceID)\",\(user)\"events\":["
        + ga4Event(name, fields, after: milliseconds, engagement: engagement) + "]\(properties)}\n"
}

/// One event of such a request.
func ga4Event(_ name: String, _ fields: String, after milliseconds: Int64 = 0, engagement: Int = 1) -> String {
    let fields = fields.isEmpty ? "" : "," + fields
    return "{\"name\":\"\(name)\",\"params\":{\"session_id\":\"1740820455\",\"engagement_time_msec\":\(engagement)"
        + "\(fields)},\"timestamp_micros\":\((1_740_820_455_926 + milliseconds) * 1000)}"
}
