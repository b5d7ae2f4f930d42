import Testing

@testable import WaybillExport

struct OutcomeCensusTests {
    private static func count(
        _ count: Int, _ outcome: Outcome, of app: String, lines: Int, in census: inout OutcomeCensus
    ) {
        let index = census.index(ofApp: app)
        census.addLines(lines, of: index)
        census.add(count, outcome, of: index)
    }

    @Test func `each outcome has a count and a reason of its own`() {
        var counts = OutcomeCounts()
        for (index, outcome) in Outcome.allCases.enumerated() { counts.add(index + 1, outcome) }
        #expect(counts.outcomes.map(\.outcome) == Outcome.allCases)
        #expect(counts.outcomes.map(\.count) == Array(1...Outcome.allCases.count))
        let names = Outcome.allCases.map { "\($0.verb) \($0.reason)" }
        #expect(Set(names).count == Outcome.allCases.count)
        #expect(Outcome.allCases.allSatisfy { !$0.remedy.isEmpty })
    }

    @Test func `a report names the app that had it most often, and its share`() {
        var census = OutcomeCensus()
        Self.count(3, .refused(.ga4TooOld), of: "a", lines: 10, in: &census)
        Self.count(8, .refused(.ga4TooOld), of: "b", lines: 9, in: &census)
        Self.count(1, .refused(.consent), of: "a", lines: 1, in: &census)
        #expect(
            Set(census.reports) == [
                OutcomeReport(outcome: .refused(.ga4TooOld), subject: "b", count: 8, lineCount: 9, otherCount: 3),
                OutcomeReport(outcome: .refused(.consent), subject: "a", count: 1, lineCount: 11, otherCount: 0),
            ])
    }

    @Test func `of many apps the first are counted one by one and the others together`() {
        var census = OutcomeCensus()
        for number in 0..<1000 { Self.count(1, .held, of: "app\(number)", lines: 1, in: &census) }
        Self.count(5, .held, of: String(repeating: "x", count: 300), lines: 5, in: &census)
        #expect(census.all.count == OutcomeCensus.subjectCountMax + 1)
        #expect(census.all.filter(\.isRest).map(\.subject.lineCount) == [1005 - OutcomeCensus.subjectCountMax])
        #expect(census.reports.map { $0.count + $0.otherCount } == [1005])
    }

    @Test func `apps that were too many are reported when no other had it`() {
        var census = OutcomeCensus()
        for number in 0...OutcomeCensus.subjectCountMax { _ = census.index(ofApp: "app\(number)") }
        Self.count(2, .held, of: "last", lines: 3, in: &census)
        #expect(
            census.reports == [
                OutcomeReport(outcome: .held, subject: "others", count: 2, lineCount: 3, otherCount: 0)
            ])
    }

    @Test func `names from peers are short and have no control characters`() {
        var census = OutcomeCensus()
        Self.count(1, .held, of: "a\u{1B}[2J\n" + String(repeating: "x", count: 200), lines: 1, in: &census)
        let name = census.reports[0].subject
        #expect(name.hasPrefix("a?[2J?x") && name.count == 128)
    }

    @Test func `censuses are added, with their fixes`() {
        var census = OutcomeCensus()
        var sum = OutcomeCensus()
        for _ in 0..<3 {
            var fixes = FixCounts()
            fixes.count(.rename)
            let index = census.index(ofApp: "a")
            census.addLines(2, of: index)
            census.add(fixes, of: index)
            sum.add(census.take())
            #expect(census.isEmpty)
        }
        #expect(
            sum.reports == [
                OutcomeReport(outcome: .fixed(.rename), subject: "a", count: 3, lineCount: 6, otherCount: 0)
            ])
    }

    @Test(arguments: Destination.allCases)
    func `each provider has its own reasons to refuse`(provider: Destination) {
        let reasons = provider.refusals
        #expect(reasons.contains(.consent) && reasons.contains(.unreadable))
        #expect(reasons.contains(.ga4TooOld) == (provider == .ga4))
        #expect(reasons.contains(.mixpanelBadID) == (provider == .mixpanel || provider == .mixpanelProfiles))
        #expect(!reasons.contains(.customMissing))
    }
}
