import Testing
import Waybill
import WaybillEvent
import WaybillSpool
import WaybillSystem
import WaybillTestSupport
import WaybillTesting

/// A client over a disk in memory.
struct Client {
    let disk: FaultyFiles
    let clock: ManualClock
    let core: ClientCore<FaultyFiles, ManualClock>

    init(
        on disk: FaultyFiles = FaultyFiles(), providers: [ProviderSubscription] = [], seed: UInt64 = 1,
        segmentByteCountMax: Int = 1 << 20, clock: ManualClock = ManualClock(),
        zone: @escaping @Sendable (WallTime) -> Int = { _ in 540 },
        adjusting adjust: (inout WaybillClient.Configuration) -> Void = { _ in }
    ) throws {
        self.disk = disk
        self.clock = clock
        var configuration = Self.configuration(providers)
        adjust(&configuration)
        self.core = try ClientCore(
            configuration, on: disk, clock: self.clock, seed: seed, zone: zone,
            segmentByteCountMax: segmentByteCountMax)
    }

    /// The client as apps hold it.
    var waybill: WaybillClient { WaybillClient(core: self.core) }

    static func configuration(_ providers: [ProviderSubscription] = []) -> WaybillClient.Configuration {
        var configuration = WaybillClient.Configuration(
            spool: "/spool", environment: .prod, bundle: "com.example.shop", version: "1.4.2", build: "118",
            providers: providers)
        configuration.device = .init(os: "iOS", osVersion: "17.0.1", model: "iPhone16,2")
        configuration.language = "ko-KR"
        return configuration
    }

    @discardableResult
    func track(
        _ name: String, _ kind: EventKind = .event, on screen: ScreenRef? = nil,
        adding body: (inout Fields) -> Void = { _ in }
    ) -> TrackOutcome {
        self.core.track { $0.take(kind, name, screen, $1, $2, adding: body) }
    }

    @discardableResult
    func track(_ event: some Event) -> TrackOutcome {
        self.core.track { $0.take(event, $1, $2) { _ in } }
    }

    @discardableResult
    func screen(_ name: String) -> TrackOutcome {
        self.track("screen_view", .screen, on: ScreenRef(name))
    }

    /// Every whole line of the spool.
    var lines: [String] {
        var lines: [String] = []
        for name in self.disk.names(in: "/spool") where SegmentName(parsing: name) != nil {
            let bytes = self.disk.bytes(of: "/spool/\(name)") ?? []
            let draft = bytes.split(separator: 10, omittingEmptySubsequences: false).dropLast()
            lines += draft.map { String(decoding: $0, as: UTF8.self) + "\n" }
        }
        return lines
    }

    /// The text of a member, in each line that has it; "-" in the others.
    func members(_ key: String) -> [String] {
        self.lines.map { member(key, of: $0) }
    }
}

/// The text of a line's scalar member as it stands there; "-" when there is none.
func member(_ key: String, of line: String) -> String {
    guard let start = line.firstRange(of: "\"\(key)\":")?.upperBound else { return "-" }
    return String(line[start...].prefix { $0 != "," && $0 != "}" })
}
