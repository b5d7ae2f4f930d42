internal import WaybillData
internal import WaybillExport
internal import WaybillProjection
internal import WaybillProtocol
internal import WaybillSystem

/// Takes an export's refused events again, day by day.
struct Retaker<Files: FileSystem>: ~Copyable {
    private let data: DataDirectory<Files>
    private let time: WallTime
    private let readsPoison: Bool
    private let lone: LoneReader<Files>
    /// What the lone reader leaves out when it begins.
    private let poisonCount: Int
    private let lengths: [String: Int]
    private var live: ExportProjection<Files>
    private var letters = RefusedLetters()
    private var report = Replay.Retaken()

    /// So many letters are taken in one commit.
    private static var letterCountMax: Int { 1 << 18 }
    private static var batchByteCount: Int { 1 << 20 }

    /// - Parameters:
    ///   - live: the export, recovered.
    ///   - lengths: the certain lengths of its files.
    ///   - time: when the events come, as far as parts and seals are concerned.
    ///   - readsPoison: whether lines are read that ended a version of the program.
    init(
        _ live: consuming ExportProjection<Files>, lengths: [String: Int], data: DataDirectory<Files>,
        at time: WallTime, readsPoison: Bool, _ lone: LoneReader<Files>
    ) {
        self.data = data
        self.time = time
        self.readsPoison = readsPoison
        self.lone = lone
        self.poisonCount = lone.leftOut(since: nil).count
        self.lengths = lengths
        self.live = live
    }

    mutating func run(
        _ range: ExportRange, told: (String) -> Void
    ) throws(FileSystemError) -> Replay.Retaken {
        for day in try self.live.daysOnDisk() where range.admits(day.day, day.env) {
            let folder = day.path(below: self.live.directory)
            let taken = try RetakenLetters(
                of: folder, root: self.data.root, lengths: self.lengths, files: self.data.files)
            for file in try DeadLetterFile.all(of: folder, root: self.data.root, files: self.data.files) {
                do throws(FileSystemError) {
                    try self.read(file, of: day, taken)
                } catch {
                    guard error.isDamage else { throw error }
                    self.report.damagedPaths.append(error.path)
                }
                if self.isToEnd { return self.report }
            }
        }
        try self.take()
        for failure in self.live.takeFailures() { told(failure.description) }
        return self.report
    }

    /// Whether a line is left out that was read at the beginning: the caller decides what to do.
    private var isToEnd: Bool { self.lone.leftOut(since: nil).count > self.poisonCount }

    private mutating func read(
        _ file: DeadLetterFile, of day: ExportDay, _ taken: RetakenLetters
    ) throws(FileSystemError) {
        var lines = try file.lines(root: self.data.root, lengths: self.lengths, files: self.data.files)
        while let line = try lines?.next() {
            let digest = line.bytes.withUnsafeBytes { RetakenLetters.digest(of: $0) }
            if taken.contains(digest) {
                self.report.takenBefore += 1
                continue
            }
            self.report.letters += 1
            guard self.letters.add(line.bytes, of: day, digest) else {
                self.report.gone += 1
                continue
            }
            guard self.letters.count >= Self.letterCountMax else { continue }
            try self.take()
            if self.isToEnd { return }
        }
    }

    /// Takes the letters that were read, in one commit.
    private mutating func take() throws(FileSystemError) {
        guard self.letters.count > 0 else { return }
        self.live.beginRetaking(at: self.time, readsPoison: self.readsPoison)
        var letters = RefusedLetters()
        swap(&letters, &self.letters)
        var found = 0
        var byteCount = 0
        try letters.visit(in: self.data) { line, letter, run throws(FileSystemError) in
            found += 1
            try self.take(line, letter, run)
            byteCount += line.count
            guard byteCount >= Self.batchByteCount else { return }
            byteCount = 0
            try self.live.finishBatch()
        }
        self.report.gone += letters.count - found
        if self.isToEnd { return }
        self.report.parts += try self.live.finishRetaking()
    }

    private mutating func take(
        _ line: UnsafeRawBufferPointer, _ letter: RefusedLetters.Letter, _ run: SourceRun
    ) throws(FileSystemError) {
        try self.lone.read(
            line, of: run.description.name, from: letter.offset, at: Int(truncatingIfNeeded: letter.offset),
            use: { self.live.use($0) }
        ) { line, offset throws(FileSystemError) in
            let retaking = try self.live.retake(
                line, of: run.description, at: offset, receivedAt: run.receivedAt, isShifted: run.shiftedAt != nil,
                letter: letter.digest, in: letter.day)
            switch retaking {
            case .exported: self.report.exported += 1
            case .held: self.report.held += 1
            case .refused: self.report.refused += 1
            case .leftOut: self.report.leftOut += 1
            }
        }
    }
}
