internal import Waybill
internal import WaybillEvent
internal import WaybillSystem
internal import WaybillTestSupport

/// An app that tracks through the client library, dies and is started again.
final class SimulatedApp {
    private unowned let site: SiteLife
    private let agent: SimulatedAgent
    private var files: FaultyFiles?
    private var core: ClientCore<FaultyFiles, SimulatedClock>?

    init(_ site: SiteLife, _ agent: SimulatedAgent) {
        self.site = site
        self.agent = agent
    }

    private func start() {
        let mayDie = !self.site.isCalm && self.site.knows(.appDeaths) && self.site.dice.chance(300)
        let files = self.agent.disk.files(bugs: self.site.bugs, dyingIn: mayDie ? self.site.dice.int(1...60) : nil)
        var configuration = WaybillClient.Configuration(
            spool: SimulatedAgent.spool, environment: .prod, bundle: "com.example.shop", version: "1.4.2",
            build: "118")
        configuration.device = WaybillClient.Device(os: "iOS", osVersion: "17.0.1", model: "iPhone16,2")
        configuration.language = "ko-KR"
        let seed = self.site.dice.bits()
        do throws(WaybillError) {
            self.core = try ClientCore(
                configuration, on: files, clock: self.agent.clock, seed: seed, zone: { _ in 540 },
                segmentByteCountMax: self.site.spoolSegmentByteCount
            ) {
                var generator = SeededGenerator(seed: seed)
                return PrivacySalt(&generator)
            }
            self.core?.setVendorID("7B2F1E0C9D8A4B5C6D7E8F9012345678", for: .ga4)
            self.files = files
        } catch {
            files.die()
        }
    }

    /// Tracks some events.
    func act() {
        guard self.agent.isPowered else { return }
        if self.core == nil { self.start() }
        for _ in 0..<self.site.dice.pick([1, 1, 2, 4]) { self.track() }
        if let files, files.isStopped { self.end() }
    }

    private func track() {
        guard let core, let files, !files.isStopped else { return }
        let token = self.site.nextToken()
        files.record()
        let filler = self.site.filler(for: token)
        let outcome = core.track { draft, rules, salt in
            draft.take(.action, "tap", nil, rules, salt) { fields in
                fields.put("n", token)
                fields.put("filler", filler)
            }
        }
        let writes = files.recorded().filter {
            !$0.path.contains("/install.json") && !$0.path.contains("/session.json")
        }
        let (path, written) = (writes.last?.path ?? "", writes.flatMap(\.bytes))
        self.site.note("app: \(outcome), \(written.count) bytes at \(path)")
        let lines = Self.lines(of: written)
        if lines.isEmpty, case .stored = outcome { self.site.violate("track returned stored, and wrote no line") }
        for line in lines {
            if files.isStopped { self.site.ledger.allow(line) } else { self.site.ledger.promise(line) }
        }
        self.agent.changed(path)
    }

    /// The whole lines of what a call wrote: an event, and before it the result of others while the disk was full.
    ///
    /// A line that tore is followed by the whole line, in another segment.
    private static func lines(of written: [UInt8]) -> [ArraySlice<UInt8>] {
        var rest = written[...]
        var lines: [ArraySlice<UInt8>] = []
        while let end = rest.firstIndex(of: 0x0A) {
            lines.append(Self.lastObject(of: rest[..<end]))
            rest = rest[(end + 1)...]
        }
        return lines
    }

    private static func lastObject(of bytes: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
        let head = Array("{\"v\":".utf8)
        for start in bytes.indices.reversed() where bytes[start...].starts(with: head) { return bytes[start...] }
        return bytes
    }

    /// SIGKILL, or the end; both leave what was tracked.
    func end() {
        self.files?.die()
        self.core = nil
        self.files = nil
    }
}
