package import WaybillSystem

/// Closed files that wait to be compressed, by their path without extension, first come first.
///
/// A file that cannot be compressed is postponed: those after it continue, and it is tried again later.
struct ClosingQueue {
    private var stems: [String] = []
    private var start = 0
    private var postponed: Set<String> = []
    /// The number of files in each partition's folder, including postponed ones.
    private var counts: [String: Int] = [:]

    /// How many files can be compressed now.
    var count: Int { self.stems.count - self.start }
    var first: String? { self.start < self.stems.count ? self.stems[self.start] : nil }
    var hasPostponed: Bool { !self.postponed.isEmpty }

    /// The folder of the partition that a file belongs to.
    static func folder(of stem: String) -> String {
        DeadLetterFile.isDead(stem) ? Path.parent(of: Path.parent(of: stem)) : Path.parent(of: stem)
    }

    func contains(folder: String) -> Bool {
        self.counts[folder] != nil
    }

    mutating func append(_ stem: String) {
        self.stems.append(stem)
        self.counts[Self.folder(of: stem), default: 0] += 1
    }

    /// Removes the first file, which is done.
    mutating func removeFirst() {
        guard let stem = self.takeFirst() else { return }
        let folder = Self.folder(of: stem)
        let count = self.counts[folder, default: 0] - 1
        self.counts[folder] = count > 0 ? count : nil
    }

    mutating func postponeFirst() {
        if let stem = self.takeFirst() { self.postponed.insert(stem) }
    }

    /// Makes postponed files wait at the end again.
    mutating func retry() {
        self.stems += self.postponed.sorted()
        self.postponed = []
    }

    private mutating func takeFirst() -> String? {
        guard let stem = self.first else { return nil }
        self.start += 1
        if self.start == self.stems.count {
            self.stems.removeAll(keepingCapacity: true)
            self.start = 0
        }
        return stem
    }
}

/// A closed file that cannot be compressed.
package struct ClosingFailure: Error, Hashable, Sendable, CustomStringConvertible {
    /// The folder of its day.
    package let folder: String
    package let cause: FileSystemError
    /// With what the operator can do.
    package let description: String
}
