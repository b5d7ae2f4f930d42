/// A problem in the data: where it is, how many bytes it affects, and what it means.
package struct Problem: Hashable, Sendable {
    /// A closed set of words that are stable for scripts.
    package enum Code: String, Hashable, Sendable, CaseIterable {
        /// A file or folder cannot be read.
        case unreadable
        /// A file that another file refers to is gone.
        case missing
        /// A file is shorter than another file states.
        case short
        /// Bytes that cannot be decoded, or whose checksum does not match.
        case damaged
        /// Acknowledged lines are missing where they belong.
        case lost
        /// Lines or records are stored more than once.
        case repeated
        /// Bytes differ from their source.
        case different
        /// Lines or records that nothing explains.
        case unexplained
        /// Two files that must agree do not.
        case disagreement
        /// A file that does not belong to the directory.
        case stray
    }

    package let code: Code
    package let path: String
    /// The byte in the file; `nil` for the file as a whole.
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

/// The result of a verification.
package struct VerifyReport: Sendable {
    /// A count by name.
    package struct Total: Hashable, Sendable {
        package let name: String
        package let count: Int
    }

    /// The first problems, in the order in which they were found.
    package private(set) var problems: [Problem] = []
    package private(set) var problemCount = 0
    package private(set) var totals: [Total] = []
    /// Facts worth knowing that are not problems.
    package private(set) var notes: [String] = []
    private let problemCountMax: Int
    private var countsByPath: [String: Int] = [:]

    /// One file with many problems does not hide the others.
    private static var problemCountMaxPerFile: Int { 5 }

    init(problemCountMax: Int) {
        self.problemCountMax = problemCountMax
    }

    package var isWhole: Bool { self.problemCount == 0 }
    /// Whether something could not be read, so that the report is incomplete.
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
