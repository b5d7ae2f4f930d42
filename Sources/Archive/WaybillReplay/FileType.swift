internal import WaybillData
internal import WaybillExport
internal import WaybillProtocol
internal import WaybillSpool
internal import WaybillSystem

/// The type of a file, recognized by its content.
enum FileType: Hashable {
    case empty
    case journalSegment(base: JournalPosition)
    case state
    case sources
    case manifest
    /// The manifest of a sealed day, of the archive or of an export.
    case dayManifest
    case deadLetters
    case ids
    case heldIDs
    /// Lines of events: an archive part, a quarantine file, or a spool's segment.
    case lines(isSegment: Bool)
    /// An export's records.
    case records
    case install
    case lock
    case generation
    case gzip
    case unknown

    var name: String {
        switch self {
        case .empty: "empty"
        case .journalSegment: "journal-segment"
        case .state: "state-store"
        case .sources: "sources"
        case .manifest: "export-manifest"
        case .dayManifest: "day-manifest"
        case .deadLetters: "dead-letters"
        case .ids: "ids"
        case .heldIDs: "held-ids"
        case .lines(let isSegment): isSegment ? "spool-segment" : "lines"
        case .records: "export-records"
        case .install: "install"
        case .lock: "lock"
        case .generation: "generation"
        case .gzip: "gzip"
        case .unknown: "unknown"
        }
    }
}

extension Inspector {
    /// The number of bytes read to recognize a file.
    private static var headByteCount: Int { 16 << 10 }
    /// The file extensions of all providers' parts.
    static var recordSuffixes: [String] {
        Set(Destination.allCases.map { "." + Exporter.description(of: $0).fileExtension }).sorted()
    }

    func type(of path: String, _ status: FileStatus) throws(FileSystemError) -> FileType {
        if status.byteCount == 0 { return .empty }
        let head = try self.files.contents(of: path, byteCountMax: Self.headByteCount) ?? []
        let name = Path.name(of: path)
        if head.starts(with: [0x1F, 0x8B]) { return .gzip }
        if head.starts(with: "waybill-state ".utf8) { return .state }
        let lines = head.split(separator: 0x0A, maxSplits: 400, omittingEmptySubsequences: false)
        let first = lines.first ?? []
        if let base = Self.segmentBase(head) { return .journalSegment(base: base) }
        if let base = JournalPath.position(ofSegment: name) { return .journalSegment(base: base) }
        if first.starts(with: "OPEN ".utf8) || first.starts(with: "FROM ".utf8) || name.hasSuffix(".sources") {
            return .sources
        }
        if first.starts(with: "{\"revision\":".utf8), name == DayFolder.manifestName { return .dayManifest }
        if first.starts(with: "{\"provider\":".utf8) {
            return head.firstRange(of: Array("\"sha256\":".utf8)) != nil && lines.count <= 2 ? .manifest : .deadLetters
        }
        if first.starts(with: "{\"v\":1,\"anon\":".utf8), first.count < 200 { return .install }
        if name == "lock", first.allSatisfy({ (0x30...0x39).contains($0) }) { return .lock }
        if name == ".generation" { return .generation }
        if path.contains("/exports/") || path.hasPrefix("exports/"), PartitionPath.partNumber(of: name) != nil,
            Self.recordSuffixes.contains(where: name.hasSuffix), !path.hasSuffix("/dead/\(name)"),
            !name.hasSuffix(".manifest.json")
        {
            return .records
        }
        if first.first == UInt8(ascii: "{") || SegmentName(parsing: name) != nil || name.hasSuffix(".ndjson") {
            return .lines(isSegment: SegmentName(parsing: name) != nil)
        }
        if name.hasSuffix(".csv"), first.last == 0x0D { return .records }
        if Self.isIDs(first) { return first.contains(0x20) ? .heldIDs : .ids }
        if name.hasSuffix(".state") { return .state }
        return .unknown
    }

    /// Whether a line contains only letters, digits and separators of ids; at most one space, followed by a number.
    private static func isIDs(_ line: ArraySlice<UInt8>) -> Bool {
        guard !line.isEmpty, line.count(where: { $0 == 0x20 }) <= 1 else { return false }
        return line.allSatisfy { byte in
            switch byte {
            case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "z"),
                UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "-"), UInt8(ascii: ","), 0x20:
                true
            default: false
            }
        } && line.contains(UInt8(ascii: "-"))
    }

    /// The position of a journal segment's first byte, from the first mark among its first bytes.
    private static func segmentBase(_ head: [UInt8]) -> JournalPosition? {
        let isHead = ["START ", "MARK ", "OPEN ", "AT ", "TAIL ", "SEALED "].contains { head.starts(with: $0.utf8) }
        guard isHead else { return nil }
        var offset = 0
        for line in head.split(separator: 0x0A, omittingEmptySubsequences: false) {
            if line.starts(with: "FROM ".utf8) { return nil }
            if line.starts(with: "MARK ".utf8) {
                let fields = String(decoding: line, as: UTF8.self).split(separator: " ")
                if fields.count == 4, let position = Int(fields[1]), position >= offset {
                    return JournalPosition(position - offset)
                }
            }
            offset += line.count + 1
        }
        return nil
    }
}
