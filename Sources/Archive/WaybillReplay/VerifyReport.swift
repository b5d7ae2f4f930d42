package import WaybillData
internal import WaybillSystem

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

    mutating func add(_ problems: [Problem]) {
        for problem in problems { self.add(problem) }
    }

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
