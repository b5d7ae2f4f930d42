internal import WaybillProtocol
internal import WaybillSystem

/// Stream descriptions from neighbouring segments, used when those of a segment are damaged.
///
/// The head of every segment that began while a stream was known has its description. The newest head has what an agent
/// confirmed last; if the stream was removed since, the next and the previous segment still have it.
struct OtherSegments: Equatable {
    private let directory: String
    private let newest: JournalPosition?
    private let next: JournalPosition?
    private let base: JournalPosition
    private let previous: JournalPosition?

    init(besides base: JournalPosition, directory: String, files: some FileSystem) throws(FileSystemError) {
        let segments = try JournalPath.segments(in: directory, files)
        let later = segments.filter { $0 > base }
        self.directory = directory
        self.newest = later.max()
        self.next = later.min()
        self.base = base
        self.previous = segments.filter { $0 < base }.max()
    }

    /// All descriptions covered by a valid mark.
    func descriptions(files: some FileSystem) throws(FileSystemError) -> [StreamName: StreamDescription] {
        var found: [StreamName: StreamDescription] = [:]
        if let newest { found = try self.read(newest, upTo: nil, isHeadOnly: true, files) }
        if let next, next != self.newest {
            found.merge(try self.read(next, upTo: self.newest, isHeadOnly: true, files)) { first, _ in first }
        }
        if let previous {
            found.merge(try self.read(previous, upTo: self.base, isHeadOnly: false, files)) { first, _ in first }
        }
        return found
    }

    private func read(
        _ segment: JournalPosition, upTo end: JournalPosition?, isHeadOnly: Bool, _ files: some FileSystem
    ) throws(FileSystemError) -> [StreamName: StreamDescription] {
        let path = JournalPath.segment(segment, in: self.directory)
        // Deleted by retention since it was listed.
        guard let byteCount = try files.status(at: path)?.byteCount else { return [:] }
        let fileEnd = JournalPosition(segment.rawValue + byteCount)
        var scanner = try SegmentScanner(
            segment: segment, in: self.directory, limit: min(fileEnd, end ?? fileEnd), files: files)
        scanner.isReadingPayloads = false
        var found: [StreamName: StreamDescription] = [:]
        var unmarked: [StreamDescription] = []
        while true {
            switch try scanner.next() {
            case .message(.open(_, let description, _)): unmarked.append(description)
            case .message(.mark):
                for description in unmarked { found[description.name] = description }
                unmarked = []
                if isHeadOnly { return found }
            case .message, .batch: break
            case .damaged:
                unmarked = []
                if try scanner.resynchronize() { continue }
                return found
            case .end: return found
            }
        }
    }
}
