import Testing
import WaybillExport
import WaybillSystem

/// A live export judges and parses a line at once, a replay judges it first: both must come to the same.
@Suite struct JudgementTests {
    @Test(arguments: [ownSource, foreignSource])
    func `judging while parsing is judging`(source: SourceDescription) {
        var events = RandomEvents(seed: 11)
        var random = SeededGenerator(seed: 12)
        let reader = EventReader(source: source)
        var accepted = 0
        for _ in 0..<4000 {
            var line = Array(events.next().utf8)
            if Bool.random(using: &random) { Self.spoil(&line, using: &random) }
            let providers: [ProviderID] = [.csv, .mixpanel, .posthog, .ga4]
            let options = ExportOptions(provider: providers.randomElement(using: &random) ?? .csv)
            var (scanned, parsed) = (RecordingSink(), RecordingSink())
            var scanning = Exporter(options)
            var parsing = Exporter(options)
            let reading = read(line, source: source)
            let isEvent = line.withUnsafeBytes { bytes in
                if case .event(let facts) = reading {
                    scanning.export(
                        bytes, facts, source: source, receivedAt: receivedAt, isAgeJudged: true, to: &scanned)
                }
                return parsing.export(bytes, reader, receivedAt: receivedAt, isAgeJudged: true, to: &parsed)
            }
            scanning.finishGroup(to: &scanned)
            parsing.finishGroup(to: &parsed)
            accepted += isEvent ? 1 : 0
            let text = String(decoding: line, as: UTF8.self)
            if case .event = reading {
                #expect(isEvent, "\(text)")
            } else {
                #expect(!isEvent, "\(text)")
            }
            #expect(scanned.records == parsed.records, "\(text)")
            #expect(scanned.refusals == parsed.refusals, "\(text)")
            #expect(scanned.held == parsed.held, "\(text)")
            #expect(scanned.skipped == parsed.skipped, "\(text)")
        }
        #expect((1000..<3900).contains(accepted))
    }

    /// Changes, inserts, removes or repeats a few bytes.
    private static func spoil(_ line: inout [UInt8], using random: inout SeededGenerator) {
        for _ in 0..<Int.random(in: 1...3, using: &random) where !line.isEmpty {
            let at = Int.random(in: 0..<line.count, using: &random)
            let end = min(line.count, at + Int.random(in: 1...30, using: &random))
            switch Int.random(in: 0..<5, using: &random) {
            case 0: line[at] = UInt8.random(in: 0...255, using: &random)
            case 1: line.insert(Array("{}[]\",:\\0u ".utf8).randomElement(using: &random) ?? 0, at: at)
            case 2: line.removeSubrange(at..<end)
            case 3: line.insert(contentsOf: line[at..<end], at: at)
            default: line.insert(contentsOf: [0xEF, 0xBB, 0xBF], at: 0)
            }
        }
    }
}
