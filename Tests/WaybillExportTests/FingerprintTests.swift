import Testing
import WaybillEvent
import WaybillSystem

@testable import WaybillExport

/// Checkpoints on disk hold fingerprints, so neither the text nor its checksum may change with the code.
@Suite struct FingerprintTests {
    private static func options(
        _ provider: Destination, _ change: (inout ExportOptions) -> Void = { _ in }
    ) -> ExportOptions {
        var options = ExportOptions(provider: provider)
        change(&options)
        return options
    }

    @Test(arguments: Destination.allCases)
    func `options at their defaults are the provider, its zone and the environments`(provider: Destination) {
        #expect(Self.options(provider).canonicalText == "\(provider.rawValue)\nUTC\n-\n0\ndev\ninternal\nprod")
    }

    @Test func `the checksum of a text is the same in every version`() {
        #expect(Self.options(.ga4).fingerprint == "296875ab3e935f3b")
        #expect(Self.options(.csv) { $0.csv.hasMilliseconds = true }.fingerprint == "a902f53823e5f778")
    }

    @Test(arguments: [
        (Self.options(.ga4) { $0.ga4.tooOld = .clamp }, "too_old=clamp"),
        (Self.options(.ga4) { $0.ga4.userEventName = "user" }, "user_event=user"),
        (Self.options(.ga4) { $0.ga4.includesDevice = true }, "device=true"),
        (Self.options(.mixpanel) { $0.mixpanel.identityMerge = .original }, "id_merge=original"),
        (Self.options(.mixpanelProfiles) { $0.mixpanel.screenEventName = "Seen" }, "screen_event=Seen"),
        (Self.options(.amplitude) { $0.amplitude.mode = .httpAPI }, "mode=httpapi"),
        (Self.options(.posthog) { $0.posthog.isPersonless = true }, "personless=true"),
        (Self.options(.snowplow) { $0.snowplow.vendor = "com.example" }, "vendor=com.example"),
        (Self.options(.csv) { $0.csv.hasByteOrderMark = true }, "bom=true"),
        (Self.options(.csv) { $0.csv.hasMilliseconds = true }, "millis=true"),
        (Self.options(.csv) { $0.csv.zone = .event }, "zone=event"),
        (Self.options(.csv) { $0.csv.others = .columns }, "others=columns"),
        (Self.options(.csv) { $0.csv.includesUsers = true }, "users=true"),
        (Self.options(.csv) { $0.csv.isGuarded = false }, "guard=false"),
        (Self.options(.csv) { $0.csv.hasID = true }, "id=true"),
        (Self.options(.syslog) { $0.syslog.facility = 3 }, "facility=3"),
        (Self.options(.syslog) { $0.syslog.hostName = "web" }, "host=web"),
        (Self.options(.syslog) { $0.syslog.elementName = "wb@1" }, "element=wb@1"),
        (Self.options(.syslog) { $0.syslog.messageByteCountMax = 480 }, "max=480"),
        (Self.options(.syslog) { $0.syslog.includesUser = true }, "user=true"),
        (Self.options(.journald) { $0.journald.facility = 3 }, "facility=3"),
        (Self.options(.journald) { $0.journald.includesUser = true }, "user=true"),
    ])
    func `an option that differs from its default is one line`(options: ExportOptions, line: String) {
        let usual = Self.options(options.provider)
        #expect(options.canonicalText == usual.canonicalText + "\n" + line)
        #expect(options.fingerprint != usual.fingerprint)
    }

    @Test func `environments are part of the text, and the time of a replay is not`() {
        #expect(
            Self.options(.ga4) { $0.environments = EnvironmentSet([.prod]) }.canonicalText == "ga4\nUTC\n-\n0\nprod")
        let replayed = Self.options(.ga4) { $0.replayTime = .init(milliseconds: 1) }
        #expect(replayed.fingerprint == Self.options(.ga4).fingerprint)
    }
}
