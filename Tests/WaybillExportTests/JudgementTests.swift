import Testing
import WaybillEvent
import WaybillExport
import WaybillServerTestSupport
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
            let providers: [Destination] = [.csv, .mixpanel, .posthog, .ga4]
            let options = ExportOptions(provider: providers.randomElement(using: &random) ?? .csv)
            var (scanned, parsed) = (RecordingSink(), RecordingSink())
            var scanning = Exporter(options)
            var parsing = Exporter(options)
            let reading = read(line, source: source)
            let isEvent = line.withUnsafeBytes { bytes in
                if case .event(let facts) = reading {
                    scanning.export(
                        bytes, facts, source: source, at: 7, receivedAt: receivedAt, isAgeJudged: true, to: &scanned)
                }
                return parsing.export(bytes, reader, at: 7, receivedAt: receivedAt, isAgeJudged: true, to: &parsed)
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

    @Test(arguments: [ownSource, foreignSource], Destination.allCases)
    func `lines that were parsed for several exports give each what parsing them alone does`(
        source: SourceDescription, provider: Destination
    ) {
        var events = RandomEvents(seed: 21)
        var random = SeededGenerator(seed: 22)
        let reader = EventReader(source: source)
        var options = ExportOptions(provider: provider)
        options.environments = EnvironmentSet([.prod, .dev])
        var rule = OperatorMapping.FieldRule()
        rule.renames = [.init(from: "amount", to: "value")]
        rule.constants = [.init(name: "by", json: "true")]
        var rules = OperatorMapping.Rules(version: 1)
        rules.fields = [rule]
        options.mapping = OperatorMapping(rules)
        var lines = ParsedLines()
        for _ in 0..<20 {
            var batch: [UInt8] = []
            var ranges: [Range<Int>] = []
            for _ in 0..<100 {
                var line = Array(events.next().utf8)
                if Int.random(in: 0..<4, using: &random) == 0 { Self.spoil(&line, using: &random) }
                line.removeAll { $0 == 0x0A }
                ranges.append(batch.count..<(batch.count + line.count))
                batch += line + [0x0A]
            }
            var (alone, shared) = (RecordingSink(), RecordingSink())
            var aloneExporter = Exporter(options)
            var sharedExporter = Exporter(options)
            batch.withUnsafeBytes { raw in
                lines.removeAll(at: 1000)
                var quarantinedCount = 0
                for range in ranges {
                    let hasRoom = lines.add(range, of: raw, reader)
                    #expect(hasRoom)
                    let isEvent = aloneExporter.export(
                        UnsafeRawBufferPointer(rebasing: raw[range]), reader, at: 1000 + UInt64(range.lowerBound),
                        receivedAt: receivedAt, isAgeJudged: true, to: &alone)
                    if !isEvent { quarantinedCount += 1 }
                }
                let end = lines.end
                #expect(end == raw.count)
                var count = 0
                lines.forEach(in: raw) { line in
                    let isEvent = sharedExporter.export(
                        line, source: source, receivedAt: receivedAt, isAgeJudged: true, to: &shared)
                    if !isEvent { count += 1 }
                }
                #expect(count == quarantinedCount)
            }
            aloneExporter.finishGroup(to: &alone)
            sharedExporter.finishGroup(to: &shared)
            #expect(alone.records == shared.records)
            #expect(alone.refusals == shared.refusals)
            #expect(alone.held == shared.held)
            #expect(alone.skipped == shared.skipped)
        }
    }

    @Test func `parsed lines are bounded, by their count and by what is in them`() {
        let reader = EventReader(source: foreignSource)
        let wide = Array(
            (#"{"ts":"2025-02-20T10:00:00.000Z","a":["# + String(repeating: "1,", count: 20_000) + "1]}").utf8)
        let short = Array("{}".utf8)
        for (line, expected) in [(wide, 3), (short, 8192)] {
            var lines = ParsedLines()
            let batch = Array(repeatElement(line + [0x0A], count: 9000).prefix(line.count > 100 ? 5 : 9000).joined())
            batch.withUnsafeBytes { raw in
                var count = 0
                while lines.end < raw.count {
                    let start = lines.end
                    guard lines.add(start..<(start + line.count), of: raw, reader) else {
                        break
                    }
                    count += 1
                }
                #expect(count == expected)
                let end = lines.end
                #expect(end == count * (line.count + 1))
            }
        }
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
