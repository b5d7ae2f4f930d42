package import WaybillData
package import WaybillProtocol
package import WaybillSystem

/// What a piece of a journal has, every frame of it checked.
package struct PieceContent: Hashable, Sendable {
    /// The position of the piece's first byte; the journal's own bytes begin ``headByteCount`` later.
    package let base: JournalPosition
    package let headByteCount: Int
    package private(set) var lineCount = 0
    /// Ranges of the journal's own bytes that are no frames.
    package private(set) var damages: [Range<JournalPosition>] = []
    /// The first and the last known time of receipt.
    package private(set) var firstTime: WallTime?
    package private(set) var lastTime: WallTime?

    /// The starts of the receiver that the head of its segment names, oldest first; none where no segment begins.
    package private(set) var starts: [ReceiverStart] = []

    /// The streams that its own head opens.
    package private(set) var opened: [StreamNumber: StreamDescription] = [:]

    /// Whether a segment of the journal begins with it.
    package var beginsSegment: Bool { self.headByteCount == 0 }

    /// - Parameters:
    ///   - start: the position in the piece's name.
    ///   - end: where the next piece begins, for one whose own head is damaged; `nil` if there is none.
    /// - Returns: `nil` for bytes of which it is not known which are the journal's.
    package init?<Files: FileSystem>(
        _ bytes: [UInt8], startingAt start: JournalPosition, endingAt end: JournalPosition?, files: Files
    ) throws(FileSystemError) {
        let found = bytes.withUnsafeBytes { JournalPiece.base(of: $0, startingAt: start) }
        let base: JournalPosition
        if let found {
            base = found
        } else if let end, case let headByteCount = bytes.count - (end.rawValue - start.rawValue), headByteCount >= 0 {
            base = JournalPosition(start.rawValue - headByteCount)
        } else {
            return nil
        }
        self.base = base
        self.headByteCount = start.rawValue - base.rawValue
        guard self.headByteCount < bytes.count else { return nil }
        try self.scan(SegmentScanner(bytes: bytes, base: base, files: files), from: start)
    }

    private mutating func scan<Files: FileSystem>(
        _ scanner: consuming SegmentScanner<Files>, from start: JournalPosition
    ) throws(FileSystemError) {
        var scanner = scanner
        var confirmed = self.base
        while true {
            switch try scanner.next() {
            case .message(.mark):
                confirmed = scanner.position
                guard scanner.receivedAt != .unknown else { continue }
                self.firstTime = self.firstTime ?? scanner.receivedAt
                self.lastTime = scanner.receivedAt
            case .message(.start(let start, _)): self.starts.append(start)
            case .message(.open(let number, let description, _)) where scanner.position < start:
                self.opened[number] = description
            case .message: continue
            case .batch(let header, _, _):
                confirmed = scanner.position
                self.lineCount += header.lineCount
            case .end: return self.note(confirmed, scanner.position, from: start)
            case .damaged:
                let isFound = try scanner.stepOverDamage()
                self.note(confirmed, isFound ? scanner.position : scanner.limit, from: start)
                guard isFound else { return }
                confirmed = scanner.position
            }
        }
    }

    /// Lines that no mark covers are damaged, too: a piece ends behind a group.
    private mutating func note(_ from: JournalPosition, _ to: JournalPosition, from start: JournalPosition) {
        guard max(from, start) < to else { return }
        self.damages.append(max(from, start)..<to)
    }
}
