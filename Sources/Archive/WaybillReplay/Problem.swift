internal import WaybillData
internal import WaybillSystem

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
    /// What it means for the data, and the command or the step that repairs it.
    package fileprivate(set) var repair = Repair()

    package init(_ code: Code, _ path: String, at offset: Int? = nil, byteCount: Int? = nil, _ text: String) {
        self.code = code
        self.path = path
        self.offset = offset
        self.byteCount = byteCount
        self.text = text
    }

    /// `path:offset: code: text (bytes)`, and below it what it means and how to repair it.
    package var line: String {
        let place = self.offset.map { ":\($0)" } ?? ""
        let length = self.byteCount.map { " (\($0) bytes)" } ?? ""
        return "\(self.path)\(place): \(self.code.rawValue): \(self.text)\(length)\n"
            + "    \(self.repair.meaning); repair: \(self.repair.step)"
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
    private let adviser: RepairAdviser
    /// Folders of the archive with a file whose lines are not certain.
    private(set) var archiveFolders: Set<String> = []
    private var countsByPath: [String: Int] = [:]

    /// One file with many problems does not hide the others.
    private static var problemCountMaxPerFile: Int { 5 }

    init(problemCountMax: Int, adviser: RepairAdviser) {
        self.problemCountMax = problemCountMax
        self.adviser = adviser
    }

    package var isWhole: Bool { self.problemCount == 0 }
    /// Whether something could not be read, so that the report is incomplete.
    package private(set) var isIncomplete = false

    mutating func add(_ problem: Problem) {
        self.problemCount += 1
        if problem.code == .unreadable { self.isIncomplete = true }
        if problem.path.hasPrefix("archive/"), !problem.path.hasSuffix("/\(DayFolder.successName)"),
            problem.code != .disagreement || !problem.path.hasSuffix("/\(DayFolder.manifestName)")
        {
            self.archiveFolders.insert(Path.parent(of: problem.path))
        }
        self.countsByPath[problem.path, default: 0] += 1
        guard self.problems.count < self.problemCountMax,
            self.countsByPath[problem.path, default: 0] <= Self.problemCountMaxPerFile
        else { return }
        var problem = problem
        problem.repair = self.adviser.repair(of: problem)
        self.problems.append(problem)
    }

    mutating func total(_ name: String, _ count: Int) {
        self.totals.append(Total(name: name, count: count))
    }

    mutating func note(_ text: String) {
        self.notes.append(text)
    }
}
