package import WaybillData
internal import WaybillJSON
package import WaybillSystem

/// A backup of a merger's data directory at a place where days may be sealed: what begins a merger without its disk.
///
///     merge/s00/checkpoint/00000000000000081920.wbc             the commit, created last
///     merge/s00/checkpoint/00000000000000081920/9f3c…-00001     what the bucket did not have
///     merge/s00/journal/00000000000000000000.journal            a full segment of the merged journal, once for all
///
/// The number is the position of the barrier, which all mergers share: of two that make a checkpoint there, the first to
/// create the commit has made it.
///
/// - SeeAlso: `Protocol/formats/fleet.md`.
package struct CheckpointCommit: Hashable, Sendable {
    /// A part of the list of files.
    package struct List: Hashable, Sendable {
        package let key: String
        package let byteCount: Int
        package let sha256: String
    }

    package let fleet: String
    /// Where every projection stands.
    package let position: JournalPosition
    /// The last round that is in it.
    package let round: Int
    /// Who made it; for people.
    package let merger: String
    /// The clock of who made it.
    package let time: WallTime
    /// Where the next piece of each chain begins.
    package let chains: [ChainName: JournalPosition]
    package let lists: [List]
    package let fileCount: Int
    package let byteCount: Int

    static var folder: String { "merge/s00/checkpoint/" }
    static var journalFolder: String { "merge/s00/journal/" }
    static var suffix: String { ".wbc" }

    package var key: String { Self.key(at: self.position) }

    static func key(at position: JournalPosition) -> String {
        Self.folder + CheckpointName.digits(position.rawValue) + Self.suffix
    }

    /// Where the objects of a checkpoint are, with the slash.
    static func folder(at position: JournalPosition) -> String {
        Self.folder + CheckpointName.digits(position.rawValue) + "/"
    }

    package static func segmentKey(_ position: JournalPosition) -> String {
        Self.journalFolder + CheckpointName.digits(position.rawValue) + ".journal"
    }

    package var encoded: [UInt8] {
        ManifestLine.sealed(
            JSONWriter.object { json in
                json.member("fleet", self.fleet)
                json.member("position", self.position.rawValue)
                json.member("round", self.round)
                json.member("merger", self.merger)
                json.member("time", self.time.milliseconds)
                json.member("chains", objects: self.chains.sorted { $0.key < $1.key }) { json, chain in
                    json.member("chain", chain.key.description)
                    json.member("position", chain.value.rawValue)
                }
                json.member("lists", objects: self.lists) { json, list in
                    json.member("object", list.key)
                    json.member("bytes", list.byteCount)
                    json.member("sha256", list.sha256)
                }
                json.member("files", self.fileCount)
                json.member("bytes", self.byteCount)
            })
    }
}

extension CheckpointCommit {
    /// Reads a commit; `nil` for bytes that are none, or not the one of that position.
    package init?(_ bytes: [UInt8], position: JournalPosition) {
        guard ManifestLine.isIntact(bytes) == true, let json = JSONValue(bytes),
            json["position"]?.count == position.rawValue, let fleet = json["fleet"]?.string,
            let round = json["round"]?.count, let merger = json["merger"]?.string, let time = json["time"]?.count,
            let chainElements = json["chains"]?.elements, let listElements = json["lists"]?.elements,
            let lists = listElements.all(List.init), let fileCount = json["files"]?.count,
            let byteCount = json["bytes"]?.count
        else { return nil }
        var chains: [ChainName: JournalPosition] = [:]
        for element in chainElements {
            guard let chain = element["chain"]?.string.flatMap(ChainName.init),
                let position = element["position"]?.count
            else { return nil }
            chains[chain] = JournalPosition(position)
        }
        self.init(
            fleet: fleet, position: position, round: round, merger: merger, time: WallTime(milliseconds: Int64(time)),
            chains: chains, lists: lists, fileCount: fileCount, byteCount: byteCount)
    }

    /// The positions of the checkpoints in the bucket, newest first, and of the folders of their objects.
    package static func positions(
        in store: any ObjectStore
    ) throws(StoreError) -> (commits: [JournalPosition], folders: [JournalPosition]) {
        var commits: [JournalPosition] = []
        var folders: [JournalPosition] = []
        var pages = ListingPages(store, Self.folder, isFolded: true)
        while let page = try pages.next() {
            for object in page.objects where object.key.hasSuffix(Self.suffix) {
                let name = object.key.dropFirst(Self.folder.utf8.count).dropLast(Self.suffix.utf8.count)
                if let position = CheckpointName.position(name) { commits.append(position) }
            }
            for folder in page.folders {
                let name = folder.dropFirst(Self.folder.utf8.count).dropLast()
                if let position = CheckpointName.position(name) { folders.append(position) }
            }
        }
        return (commits.sorted(by: >), folders.sorted())
    }

    /// - Returns: `nil` if it is gone, or not whole.
    package static func read(
        _ position: JournalPosition, from store: any ObjectStore
    ) throws(StoreError) -> CheckpointCommit? {
        try store.read(Self.key(at: position), nil).flatMap { CheckpointCommit($0, position: position) }
    }

    /// The newest one that can be read.
    package static func newest(in store: any ObjectStore) throws(StoreError) -> CheckpointCommit? {
        for position in try Self.positions(in: store).commits {
            if let commit = try Self.read(position, from: store) { return commit }
        }
        return nil
    }

    /// Calls `body` for each file, in order of their paths.
    ///
    /// - Throws: ``CheckpointFailure/damaged(_:)`` if a part of the list is gone or has other bytes.
    package func forEachFile(
        in store: any ObjectStore, _ body: (CheckpointFile) throws(CheckpointFailure) -> Void
    ) throws(CheckpointFailure) {
        var count = 0
        for list in self.lists {
            let bytes = try CheckpointFailure.inStore(store.read(list.key, nil))
            guard let bytes, bytes.count == list.byteCount, SHA256Digest.text(of: bytes) == list.sha256,
                ManifestLine.isIntact(bytes) == true,
                let files = JSONValue(bytes)?["files"]?.elements?.all(CheckpointFile.init)
            else { throw .damaged(list.key) }
            for file in files { try body(file) }
            count += files.count
        }
        guard count == self.fileCount else { throw .damaged(self.key) }
    }
}

extension CheckpointCommit.List {
    fileprivate init?(_ json: JSONValue) {
        guard let key = json["object"]?.string, let byteCount = json["bytes"]?.count,
            let sha256 = json["sha256"]?.string, SHA256Digest.isText(sha256)
        else { return nil }
        self.init(key: key, byteCount: byteCount, sha256: sha256)
    }
}

/// One file of a checkpoint, and the object that has it.
package struct CheckpointFile: Hashable, Sendable {
    /// Below the data directory.
    package let path: String
    package let byteCount: Int
    package let sha256: String
    /// The object's key.
    package let key: String
    /// Where it begins in the object: small files share one.
    package let offset: Int

    package static var listCountMax: Int { 4096 }
}

extension CheckpointFile {
    fileprivate init?(_ json: JSONValue) {
        guard let path = json["path"]?.string, let byteCount = json["bytes"]?.count,
            let sha256 = json["sha256"]?.string, SHA256Digest.isText(sha256), let key = json["object"]?.string,
            let offset = json["offset"]?.count, Self.isBelow(path)
        else { return nil }
        self.init(path: path, byteCount: byteCount, sha256: sha256, key: key, offset: offset)
    }

    /// Whether a path leads nowhere but below the folders of a merger.
    private static func isBelow(_ path: String) -> Bool {
        let parts = path.utf8.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false).map {
            String(Substring($0))
        }
        return parts.count > 1 && CheckpointCapture.folders.contains(parts[0])
            && parts.allSatisfy { !$0.isEmpty && $0 != "." && $0 != ".." }
    }

    /// A part of a list.
    static func encoded(_ files: some Sequence<CheckpointFile>) -> [UInt8] {
        ManifestLine.sealed(
            JSONWriter.object { json in
                json.member("files", objects: files) { json, file in
                    json.member("path", file.path)
                    json.member("bytes", file.byteCount)
                    json.member("sha256", file.sha256)
                    json.member("object", file.key)
                    json.member("offset", file.offset)
                }
            })
    }
}

/// The numbers in names of checkpoints: positions with 20 digits.
enum CheckpointName {
    static func digits(_ number: Int) -> String {
        ZeroPadded.text(number, digitCount: 20)
    }

    static func position(_ text: some StringProtocol) -> JournalPosition? {
        guard text.utf8.count == 20, let number = Int(text), number >= 0, Self.digits(number) == text else {
            return nil
        }
        return JournalPosition(number)
    }
}

/// Why a checkpoint cannot be made or used.
package enum CheckpointFailure: DiskFailure, StoreFailure, CustomStringConvertible {
    case store(StoreError)
    case disk(FileSystemError)
    /// An object of the checkpoint is gone, or has other bytes.
    case damaged(String)
    /// A file is not any more what was to be copied; the next place is as good.
    case changed(String)
    /// Another merger has made one meanwhile.
    case late
    case stopped

    package var description: String {
        switch self {
        case .store(let error): error.description
        case .disk(let error): error.description
        case .damaged(let key): "\(key) is gone or has other bytes than it had"
        case .changed(let path): "\(path) changed while it was copied; it is tried again at the next place"
        case .late: "another merger has made a checkpoint meanwhile"
        case .stopped: "the merger was stopped"
        }
    }
}
