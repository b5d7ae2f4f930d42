package import WaybillSystem

/// Verifies open lines of the archive, or of the quarantine, against their `.sources`.
///
/// Memory: one line.
package struct OpenLinesCheck<Files: FileSystem> {
    /// The files' paths below the data directory at `root`.
    package let path: String
    package let sourcesPath: String
    private let root: String
    private let files: Files

    package init(stem: String, root: String, files: Files) {
        self.path = stem + ".ndjson"
        self.sourcesPath = stem + ".sources"
        self.root = root
        self.files = files
    }

    /// What a file has.
    package struct Contents: Hashable, Sendable {
        package var lineCount = 0
        /// Lines of runs that were erased, which are counted in ``lineCount``, too.
        package var erasedLineCount = 0
        fileprivate var problems: [Problem] = []
        fileprivate var isMoved = false
    }

    /// Reads as much of both files as a checkpoint says, and the files have.
    ///
    /// - Parameter body: gets each run, and how many lines there are in it.
    /// - Returns: what there is; and what is wrong.
    package func verify(
        byteCount: Int, sourcesByteCount: Int, _ body: (_ run: SourceRun, _ lineCount: Int) -> Void
    ) throws(FileSystemError) -> (contents: Contents, problems: [Problem]) {
        var contents = Contents()
        guard byteCount > 0 || sourcesByteCount > 0 else { return (contents, []) }
        var reader: LineReader<Files>? = try self.reader(0, byteCount)
        if sourcesByteCount > 0 {
            var runs = try SourceRuns(
                path: Path.join(self.root, self.sourcesPath), byteCount: sourcesByteCount, linesByteCount: byteCount,
                files: self.files)
            while let item = try runs.next() {
                switch item {
                case .open: break
                case .damaged(let range, let reason):
                    contents.problems.append(
                        Problem(.damaged, self.sourcesPath, at: range.lowerBound, byteCount: range.count, reason))
                case .run(let run, _): body(run, try self.count(run, &reader, &contents))
                }
            }
        }
        try self.skip(&reader, to: byteCount, &contents)
        return (contents, contents.problems)
    }

    private func reader(_ start: Int, _ end: Int) throws(FileSystemError) -> LineReader<Files> {
        try LineReader(path: Path.join(self.root, self.path), from: start, byteCount: end, files: self.files)
    }

    /// Counts the lines of a run, and of what is before it.
    private func count(
        _ run: SourceRun, _ reader: inout LineReader<Files>?, _ contents: inout Contents
    ) throws(FileSystemError) -> Int {
        try self.skip(&reader, to: run.range.lowerBound, &contents)
        if reader?.position != run.range.lowerBound {
            reader = try self.reader(run.range.lowerBound, run.range.upperBound)
        }
        let count = try Self.lineCount(&reader, upTo: run.range.upperBound) + run.absentLineCount
        if run.erasedByteCount > 0 { contents.erasedLineCount += run.lineCount }
        contents.lineCount += count
        let endsWithLine = reader?.position == run.range.upperBound
        guard count != run.lineCount || !endsWithLine else { return count }
        // The lines after it are moved too; reporting them would add nothing.
        if !contents.isMoved {
            contents.isMoved = true
            contents.problems.append(
                Problem(
                    .different, self.path, at: run.range.lowerBound, byteCount: run.range.count,
                    "the .sources state \(run.lineCount) lines, but there are \(count)"
                        + (endsWithLine ? "" : ", and the run ends within a line")))
        }
        let end = try self.files.status(at: Path.join(self.root, self.path))?.byteCount ?? 0
        reader = try self.reader(run.range.upperBound, end)
        return count
    }

    /// Counts lines that no run has.
    private func skip(
        _ reader: inout LineReader<Files>?, to end: Int, _ contents: inout Contents
    ) throws(FileSystemError) {
        guard let position = reader?.position, position < end else { return }
        contents.problems.append(
            Problem(.unexplained, self.path, at: position, byteCount: end - position, "no run records its origin"))
        contents.lineCount += try Self.lineCount(&reader, upTo: end)
    }

    /// Counts the lines up to `end`; stops after the line that reaches it.
    private static func lineCount(
        _ reader: inout LineReader<Files>?, upTo end: Int
    ) throws(FileSystemError) -> Int {
        var count = 0
        while let position = reader?.position, position < end, try reader?.next() != nil { count += 1 }
        return count
    }
}
