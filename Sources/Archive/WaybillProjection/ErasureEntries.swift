internal import WaybillData
internal import WaybillSystem

/// What the two copies of the record of erasures say together.
///
///     state/erasures      archive/_erasures     taken
///     whole               any                   the first, and the people that only the second names
///     not whole, missing  whole                 the second, and the people in whole commits of the first
///     missing             missing               nothing: no one was erased
///     otherwise                                 nothing is read: erased people would come back
///
/// A copy is whole if it ends with a commit and every checksum is right. Copies differ after a crash, and where `state`
/// and the archive come from different backups: a person that one of them names stays erased.
struct ErasureEntries {
    /// `nil`: no one was erased.
    let entries: [String: String]?
    /// Whether both copies are whole and have the same entries.
    let areEqual: Bool

    private enum Copy {
        case missing
        case whole([String: String])
        /// Readable up to an offset.
        case damaged([String: String], byteCount: Int)

        var entries: [String: String] {
            switch self {
            case .missing: [:]
            case .whole(let entries), .damaged(let entries, _): entries
            }
        }
    }

    /// Reads both copies and changes nothing.
    init<Files: FileSystem>(in data: DataDirectory<Files>) throws(FileSystemError) {
        let paths = [ErasureLog<Files>.path(in: data), ErasureLog<Files>.secondPath(in: data)]
        let copies = try paths.map { (path) throws(FileSystemError) in try Self.read(path, data.files) }
        let kept: [String: String]
        let other: [String: String]
        switch (copies[0], copies[1]) {
        case (.missing, .missing):
            try Self.requireNone(in: data)
            (self.entries, self.areEqual) = (nil, true)
            return
        case (.whole(let first), .whole(let second)):
            (kept, other, self.areEqual) = (first, second, first == second)
        case (.whole(let first), _): (kept, other, self.areEqual) = (first, copies[1].entries, false)
        case (_, .whole(let second)): (kept, other, self.areEqual) = (second, copies[0].entries, false)
        case (.damaged, _), (_, .damaged): throw Self.failure(copies, paths)
        }
        let keyKey = ErasureLog<Files>.keyKey
        guard (kept[keyKey] ?? other[keyKey]) == (other[keyKey] ?? kept[keyKey]) else {
            throw Self.error(
                paths[0], "it and \(paths[1]) are of different data directories, and both name erased people")
        }
        let people = other.filter { $0.key == keyKey || $0.key.hasPrefix(ErasureLog<Files>.personPrefix) }
        self.entries = kept.merging(people) { kept, _ in kept }
    }

    private static func read(_ path: String, _ files: some FileSystem) throws(FileSystemError) -> Copy {
        var damaged: Copy?
        for candidate in StateImage.paths(path) {
            guard let bytes = try files.contents(of: candidate, byteCountMax: 1 << 30), !bytes.isEmpty else { continue }
            let image = StateImage(bytes: bytes)
            if let image, image.validByteCount == bytes.count, damaged == nil { return .whole(image.entries) }
            // A process that dies in its first commit leaves only this file, whose commit did not happen.
            if candidate.hasSuffix(StateImage.suffixes[1]), image == nil, damaged == nil,
                try files.status(at: path + StateImage.suffixes[2]) == nil
            {
                continue
            }
            // An older file knows fewer people, but those that it names were erased.
            let entries = image?.entries ?? [:]
            if case .damaged(let newer, let byteCount) = damaged {
                damaged = .damaged(entries.merging(newer) { _, newer in newer }, byteCount: byteCount)
            } else {
                damaged = .damaged(entries, byteCount: image?.validByteCount ?? 0)
            }
        }
        return damaged ?? .missing
    }

    /// Requires that nothing else says that someone was erased.
    private static func requireNone<Files: FileSystem>(in data: DataDirectory<Files>) throws(FileSystemError) {
        guard try data.files.status(at: data.state)?.kind == .directory else { return }
        let name = ErasureLog<Files>.name
        for trace in try data.files.list(data.state)
        where trace.hasPrefix(name + "-") || trace.hasPrefix(name + ".damaged") {
            throw Self.error(
                ErasureLog<Files>.path(in: data),
                "it and its second copy are missing, but \(Path.join(data.state, trace)) is there")
        }
    }

    private static func failure(_ copies: [Copy], _ paths: [String]) -> FileSystemError {
        let states = zip(copies, paths).map { copy, path in
            switch copy {
            case .missing: "\(path) is missing"
            case .whole: "\(path) is whole"
            case .damaged(_, let byteCount): "\(path) is damaged from byte \(byteCount) on"
            }
        }
        return Self.error(paths[0], "no copy is whole: \(states.joined(separator: ", "))")
    }

    private static func error(_ path: String, _ detail: String) -> FileSystemError {
        FileSystemError(
            "readErasures", path: path, errno: Errno.damaged,
            detail: detail + "; without the record, erased people would come back")
    }
}
