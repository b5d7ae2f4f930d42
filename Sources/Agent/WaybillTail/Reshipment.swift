package import WaybillSystem
internal import WaybillProtocol
internal import WaybillSpool

/// Ships a segment under another id, because a receiver holds other bytes under its own.
///
/// The new name has the first digits of the content's SHA-256: a crash, or a second call, leads to the same name, so
/// that the lines are stored under it once. What the receiver already held under the old id may arrive twice.
package enum Reshipment: Hashable, Sendable {
    case renamed(to: String)
    /// It has such a name already.
    case renamedBefore
    /// It was kept after it was shipped, and is shipped again under its own id.
    case returned(to: String)

    /// How long a segment waits before it is shipped under another id without an operator.
    package static let patience = Duration.seconds(7 * 86_400)

    /// Why a file cannot be shipped under another id.
    package enum Failure: Error, Hashable, Sendable, CustomStringConvertible {
        case notSegment(path: String)
        case missing(path: String)
        /// The app still writes it.
        case beingWritten(path: String)
        /// Another file has the new name.
        case taken(path: String)
        case system(FileSystemError)

        package var description: String {
            switch self {
            case .notSegment(let path):
                "\(path) is not a segment of a spool; name a file <writer>-<number>.ndjson"
            case .missing(let path): "there is no file \(path); it may have been delivered meanwhile"
            case .beingWritten(let path): "\(path) is still being written; try again when its app has ended"
            case .taken(let path): "\(path) exists already and is another file; compare the two"
            case .system(let error): "\(error)"
            }
        }
    }

    /// Renames a complete segment within its folder; the new name is durable when this returns.
    package static func reship(_ path: String, on files: some FileSystem) throws(Failure) -> Reshipment {
        if let kept = KeptSegmentName(parsing: Path.name(of: path)) {
            return try self.returnKept(path, kept, on: files)
        }
        guard let name = SegmentName(parsing: KeptSegmentName.plain(Path.name(of: path))) else {
            throw .notSegment(path: path)
        }
        let result: Result<Reshipment, Failure>
        do throws(FileSystemError) {
            result = try self.reship(path, name, on: files)
        } catch {
            throw .system(error)
        }
        return try result.get()
    }

    /// The segments that an agent keeps in a spool, sorted.
    package static func keptSegments(in folder: String, on files: some FileSystem) throws(Failure) -> [String] {
        do throws(FileSystemError) {
            return try files.list(folder).filter { KeptSegmentName(parsing: $0) != nil }.sorted()
                .map { Path.join(folder, $0) }
        } catch {
            throw .system(error)
        }
    }

    private static func returnKept(
        _ path: String, _ name: KeptSegmentName, on files: some FileSystem
    ) throws(Failure) -> Reshipment {
        let newPath = String(path.dropLast(Path.name(of: path).utf8.count)) + name.again
        let status: (file: FileStatus?, isTaken: Bool)
        do throws(FileSystemError) {
            status = (try files.status(ofEntry: path), try files.status(at: newPath) != nil)
        } catch {
            throw .system(error)
        }
        guard let file = status.file else { throw .missing(path: path) }
        guard file.kind == .regular else { throw .notSegment(path: path) }
        guard !status.isTaken else { throw .taken(path: newPath) }
        do throws(FileSystemError) {
            try files.rename(path, to: newPath)
            try files.synchronizeDirectory(Path.parent(of: path))
        } catch {
            throw .system(error)
        }
        return .returned(to: newPath)
    }

    private static func reship(
        _ path: String, _ name: SegmentName, on files: some FileSystem
    ) throws(FileSystemError) -> Result<Reshipment, Failure> {
        guard let status = try files.status(at: path) else { return .failure(.missing(path: path)) }
        guard status.kind == .regular else { return .failure(.notSegment(path: path)) }
        let directory = Path.parent(of: path)
        let file = try files.open(path, .read)
        defer { files.close(file) }
        guard try files.lock(file, .exclusive) else { return .failure(.beingWritten(path: path)) }
        guard name.contentDigest.isEmpty else {
            // The process that renamed it may have died before the folder was synchronized.
            try files.synchronizeDirectory(directory)
            return .success(.renamedBefore)
        }
        let digest = try self.contentDigest(of: file, on: files)
        let newName = SegmentName(reshipping: name, contentDigest: digest)
        let newPath = String(path.dropLast(Path.name(of: path).utf8.count)) + newName.description
        guard try files.status(at: newPath) == nil else { return .failure(.taken(path: newPath)) }
        try files.rename(path, to: newPath)
        try files.synchronizeDirectory(directory)
        return .success(.renamed(to: newPath))
    }

    private static func contentDigest(of file: FileID, on files: some FileSystem) throws(FileSystemError) -> String {
        var hash = SHA256()
        var buffer = [UInt8](repeating: 0, count: 256 << 10)
        var offset = 0
        while true {
            let count = try files.readFully(file, at: offset, into: &buffer)
            hash.update(buffer[..<count])
            offset += count
            guard count == buffer.count else { break }
        }
        return String(ProofDigest(hash.finish()).text.prefix(SegmentName.contentDigestDigitCount))
    }
}
