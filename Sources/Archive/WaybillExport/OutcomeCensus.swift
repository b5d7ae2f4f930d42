internal import WaybillJSON

/// How many events of each app, or lines of each stream, had which outcome; for people, so it has a bound.
///
/// Apps and streams come from peers: of the first ``subjectCountMax`` each is counted on its own, all others together.
/// It allocates nothing for an event of a known app.
package struct OutcomeCensus: Hashable, Sendable {
    package struct Subject: Hashable, Sendable {
        let key: [UInt8]
        package let name: String
        /// Its events or lines, whatever happened to them.
        package fileprivate(set) var lineCount = 0
        package fileprivate(set) var counts = OutcomeCounts()
        fileprivate var fixes = FixCounts()

        /// Makes the fixes part of the counts.
        fileprivate mutating func settle() {
            self.counts.add(self.fixes)
            self.fixes = FixCounts()
        }
    }

    package static var subjectCountMax: Int { 64 }
    private static var keyByteCountMax: Int { 256 }
    private static var nameCountMax: Int { 128 }

    /// The first is all others.
    private var subjects: [Subject] = []
    private var last = 0

    package init() {}

    package var isEmpty: Bool { self.subjects.isEmpty }

    /// The apps or streams; `isRest` is true for the one that stands for all others.
    package var all: [(subject: Subject, isRest: Bool)] {
        self.subjects.enumerated().map { ($1, $0 == 0) }
    }

    /// The index of an app, which may be that of all others.
    mutating func index(ofApp key: UnsafeRawBufferPointer) -> Int {
        self.index(of: key) { String(decoding: key, as: UTF8.self) }
    }

    mutating func index(ofApp name: String) -> Int {
        name.utf8.withContiguousStorageIfAvailable { self.index(ofApp: UnsafeRawBufferPointer($0)) }
            ?? Array(name.utf8).withUnsafeBytes { self.index(ofApp: $0) }
    }

    /// - Parameter name: what people know it by.
    package mutating func index(of key: UnsafeRawBufferPointer, name: () -> String) -> Int {
        if self.last > 0, Self.equals(self.subjects[self.last].key, key) { return self.last }
        self.last = self.find(key) ?? self.insert(key, name)
        return self.last
    }

    private func find(_ key: UnsafeRawBufferPointer) -> Int? {
        guard self.subjects.count > 1 else { return nil }
        return (1..<self.subjects.count).first { Self.equals(self.subjects[$0].key, key) }
    }

    private mutating func insert(_ key: UnsafeRawBufferPointer, _ name: () -> String) -> Int {
        if self.subjects.isEmpty { self.subjects.append(Subject(key: [], name: "others")) }
        guard self.subjects.count <= Self.subjectCountMax, key.count <= Self.keyByteCountMax else { return 0 }
        self.subjects.append(Subject(key: Array(key), name: Self.printable(name())))
        return self.subjects.count - 1
    }

    private static func equals(_ key: [UInt8], _ other: UnsafeRawBufferPointer) -> Bool {
        key.withUnsafeBytes { JSONText.equals($0, other) }
    }

    /// Short and without control characters: it comes from a peer.
    private static func printable(_ name: String) -> String {
        let scalars = name.unicodeScalars.prefix(Self.nameCountMax).map { scalar -> Unicode.Scalar in
            scalar.properties.generalCategory == .control ? "?" : scalar
        }
        return String(String.UnicodeScalarView(scalars))
    }

    package mutating func addLines(_ count: Int, of index: Int) {
        self.subjects[index].lineCount += count
    }

    package mutating func add(_ count: Int, _ outcome: Outcome, of index: Int) {
        self.subjects[index].counts.add(count, outcome)
    }

    @inline(__always)
    mutating func add(_ fixes: FixCounts, of index: Int) {
        self.subjects[index].fixes.add(fixes)
    }

    package mutating func add(_ other: OutcomeCensus) {
        for (position, subject) in other.subjects.enumerated() {
            var subject = subject
            subject.settle()
            let index =
                position == 0
                ? self.indexOfRest : subject.key.withUnsafeBytes { self.index(of: $0) { subject.name } }
            self.subjects[index].lineCount += subject.lineCount
            self.subjects[index].counts.add(subject.counts)
        }
    }

    private var indexOfRest: Int {
        mutating get {
            if self.subjects.isEmpty { self.subjects.append(Subject(key: [], name: "others")) }
            return 0
        }
    }

    /// Returns what was counted since the last call.
    package mutating func take() -> OutcomeCensus {
        defer { self = OutcomeCensus() }
        return self
    }

    /// What was counted, one for each outcome, about the app or stream that had it most often.
    package var reports: [OutcomeReport] {
        var totals = OutcomeCounts()
        for subject in self.subjects { totals.add(subject.counts) }
        return totals.outcomes.compactMap { outcome, total in
            let known = self.subjects.dropFirst().max { $0.counts[outcome] < $1.counts[outcome] }
            guard let subject = known.flatMap({ $0.counts[outcome] > 0 ? $0 : nil }) ?? self.subjects.first else {
                return nil
            }
            let count = subject.counts[outcome]
            return OutcomeReport(
                outcome: outcome, subject: subject.name, count: count, lineCount: subject.lineCount,
                otherCount: total - count)
        }
    }
}

/// What people are told about one outcome.
package struct OutcomeReport: Hashable, Sendable {
    package let outcome: Outcome
    /// The app or stream that had it most often.
    package let subject: String
    package let count: Int
    /// All events or lines of that app or stream in the same time.
    package let lineCount: Int
    /// How often others had it.
    package let otherCount: Int
}
