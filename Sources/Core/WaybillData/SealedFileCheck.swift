internal import WaybillCompression
internal import WaybillProtocol
package import WaybillSystem

/// Verifies a sealed file of the archive, and the `.sources` of its lines, against what its day's manifest states.
///
///     verifyStored()     the compressed bytes
///     verifySources()    the `.sources`
///     verifyLines()      the lines, decompressed once, and the run of each
///
/// Memory: the file's runs, and 256 KiB.
package struct SealedFileCheck<Files: FileSystem> {
    private let file: DayManifest.File
    /// The paths of the file and of its `.sources` below the data directory.
    package let path: String
    package let sourcesPath: String
    private let root: String
    private let files: Files

    /// - Parameters:
    ///   - folder: the day's, below the data directory.
    ///   - root: the data directory.
    package init(_ file: DayManifest.File, in folder: String, root: String, files: Files) {
        self.file = file
        self.path = Path.join(folder, file.stem) + ".ndjson.gz"
        self.sourcesPath = Path.join(folder, file.stem) + ".sources"
        self.root = root
        self.files = files
    }

    package func verifyStored() throws(FileSystemError) -> Problem? {
        let path = Path.join(self.root, self.path)
        guard let status = try self.files.status(at: path) else {
            return Problem(
                .missing, self.path, at: 0, byteCount: self.file.gzipByteCount, "the day's manifest lists it")
        }
        let sha256 = try SHA256Digest.ofFile(path, self.files)
        if status.byteCount == self.file.gzipByteCount, sha256 == self.file.sha256 { return nil }
        return Problem(
            .different, self.path,
            "it has \(status.byteCount) bytes and SHA-256 \(sha256), but the day's manifest states "
                + "\(self.file.gzipByteCount) and \(self.file.sha256)")
    }

    package func verifySources() throws(FileSystemError) -> Problem? {
        let path = Path.join(self.root, self.sourcesPath)
        guard let stated = self.file.sourcesSHA256, let status = try self.files.status(at: path),
            status.byteCount >= self.file.sourcesByteCount, self.file.sourcesByteCount > 0
        else { return nil }
        let own = try SHA256Digest.ofFile(path, upTo: self.file.sourcesByteCount, self.files)
        guard own != stated else { return nil }
        return Problem(.different, self.sourcesPath, "its SHA-256 is \(own), but the day's manifest states \(stated)")
    }

    /// What a file has, decompressed.
    package struct Contents: Hashable, Sendable {
        package var lineCount = 0
        package var byteCount = 0
        var sha256 = ""
    }

    /// Reads the lines.
    ///
    /// - Parameter body: gets each run, how many lines there are in it, and the checksum of its bytes.
    /// - Returns: what the file has, nothing if it cannot be decompressed; and what is wrong.
    package func verifyLines(
        _ body: (_ run: SourceRun, _ lineCount: Int, _ checksum: UInt32) -> Void
    ) throws(FileSystemError) -> (contents: Contents, problems: [Problem]) {
        var problems: [Problem] = []
        let runs = try self.runs(&problems)
        do throws(PartReadError) {
            let contents = try self.readLines(runs, &problems, body)
            if contents.lineCount != self.file.lineCount || contents.byteCount != self.file.byteCount
                || contents.sha256 != self.file.rawSHA256
            {
                problems.append(
                    Problem(
                        .disagreement, self.path,
                        "it has \(contents.lineCount) lines and \(contents.byteCount) bytes, but the day's manifest "
                            + "states \(self.file.lineCount) and \(self.file.byteCount)"))
            }
            return (contents, problems)
        } catch {
            switch error {
            case .disk(let cause): throw cause
            case .damaged(_, let offset, let cause):
                problems.append(
                    Problem(
                        .damaged, self.path, at: offset, byteCount: nil, "it cannot be decompressed (\(cause.code))"))
                return (Contents(), problems)
            }
        }
    }

    private func runs(_ problems: inout [Problem]) throws(FileSystemError) -> [SourceRun] {
        let path = Path.join(self.root, self.sourcesPath)
        guard let status = try self.files.status(at: path) else { return [] }
        var reader = try SourceRuns(
            path: path, byteCount: min(status.byteCount, self.file.sourcesByteCount),
            linesByteCount: self.file.byteCount, files: self.files)
        var runs: [SourceRun] = []
        while let item = try reader.next() {
            switch item {
            case .open: break
            case .run(let run, _): runs.append(run)
            case .damaged(let range, let reason):
                problems.append(
                    Problem(.damaged, self.sourcesPath, at: range.lowerBound, byteCount: range.count, reason))
            }
        }
        return runs
    }

    private func readLines(
        _ runs: [SourceRun], _ problems: inout [Problem], _ body: (SourceRun, Int, UInt32) -> Void
    ) throws(PartReadError) -> Contents {
        var reader: PartBytes<Files>
        do throws(FileSystemError) {
            reader = try PartBytes(
                path: Path.join(self.root, String(self.path.dropLast(".gz".utf8.count))), isSealed: true,
                files: self.files)
        } catch {
            throw .disk(error)
        }
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 256 << 10, alignment: 16)
        defer { buffer.deallocate() }
        var digest = SHA256Digest()
        var contents = Contents()
        var isMoved = false
        var next = 0
        while true {
            let start = reader.position
            // Up to where a run starts or ends, so that each has its own checksum.
            let isInside = next < runs.count && runs[next].range.lowerBound <= start
            let end =
                next < runs.count ? (isInside ? runs[next].range.upperBound : runs[next].range.lowerBound) : Int.max
            var position = start
            var lineCount = 0
            var checksum: UInt32 = 0
            while position < end {
                let wanted = min(buffer.count, end - position)
                let count = try reader.read(into: UnsafeMutableRawBufferPointer(rebasing: buffer[..<wanted]))
                let piece = UnsafeRawBufferPointer(rebasing: UnsafeRawBufferPointer(buffer)[..<count])
                digest.update(piece)
                lineCount += piece.count { $0 == 0x0A }
                checksum = FrameChecksum.checksum(continuing: checksum, piece)
                position += count
                if count < wanted { break }
            }
            contents.lineCount += lineCount
            if isInside {
                if lineCount != runs[next].lineCount, !isMoved {
                    // The lines after it are moved too; reporting them would add nothing.
                    isMoved = true
                    problems.append(self.moved(runs[next], lineCount))
                }
                body(runs[next], lineCount, checksum)
                next += 1
            } else if position > start {
                problems.append(
                    Problem(
                        .unexplained, self.path, at: start, byteCount: position - start, "no run records its origin"))
            }
            if position < end { break }
        }
        contents.byteCount = reader.position
        contents.sha256 = digest.finish()
        return contents
    }

    private func moved(_ run: SourceRun, _ lineCount: Int) -> Problem {
        Problem(
            .different, self.path, at: run.range.lowerBound, byteCount: run.range.count,
            "the .sources state \(run.lineCount) lines, but there are \(lineCount)")
    }
}
