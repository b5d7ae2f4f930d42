/// Something that is not as it should be: where, how much, and what it means.
package struct Problem: Hashable, Sendable {
    /// A closed set; the word is stable, for scripts.
    package enum Code: String, Hashable, Sendable, CaseIterable {
        /// A file or folder cannot be read.
        case unreadable
        /// A file that something else counts on is gone.
        case missing
        /// A file holds less than something else says.
        case short
        /// Bytes that do not decode, or whose checksum does not hold.
        case damaged
        /// Acknowledged lines are not where they belong.
        case lost
        /// Lines or records are there more often than once.
        case repeated
        /// Bytes differ from what they were made of.
        case different
        /// Lines or records that nothing explains.
        case unexplained
        /// Two files that say the same disagree.
        case disagreement
        /// A file that nothing knows.
        case stray
    }

    package let code: Code
    package let path: String
    /// Byte in the file; `nil` where the file as a whole is meant.
    package let offset: Int?
    package let byteCount: Int?
    package let text: String

    package init(_ code: Code, _ path: String, at offset: Int? = nil, byteCount: Int? = nil, _ text: String) {
        self.code = code
        self.path = path
        self.offset = offset
        self.byteCount = byteCount
        self.text = text
    }

    /// `path:offset: text`.
    package var line: String {
        let place = self.offset.map { ":\($0)" } ?? ""
        let length = self.byteCount.map { " (\($0) bytes)" } ?? ""
        return "\(self.path)\(place): \(self.code.rawValue): \(self.text)\(length)"
    }
}

/// What a verification found.
package struct VerifyReport: Sendable {
    /// A count by name.
    package struct Total: Hashable, Sendable {
        package let name: String
        package let count: Int
    }

    /// The first of them, in the order in which they were found.
    package private(set) var problems: [Problem] = []
    package private(set) var problemCount = 0
    package private(set) var totals: [Total] = []
    /// What is worth knowing and no problem.
    package private(set) var notes: [String] = []
    private let problemCountMax: Int
    private var countsByPath: [String: Int] = [:]

    /// One file with many problems does not hide the others.
    private static var problemCountMaxPerFile: Int { 5 }

    init(problemCountMax: Int) {
        self.problemCountMax = problemCountMax
    }

    package var isWhole: Bool { self.problemCount == 0 }
    /// Whether something could not be read, so that the answer is not complete.
    package private(set) var isIncomplete = false

    mutating func add(_ problem: Problem) {
        self.problemCount += 1
        if problem.code == .unreadable { self.isIncomplete = true }
        self.countsByPath[problem.path, default: 0] += 1
        guard self.problems.count < self.problemCountMax,
            self.countsByPath[problem.path, default: 0] <= Self.problemCountMaxPerFile
        else { return }
        self.problems.append(problem)
    }

    mutating func total(_ name: String, _ count: Int) {
        self.totals.append(Total(name: name, count: count))
    }

    mutating func note(_ text: String) {
        self.notes.append(text)
    }
}
