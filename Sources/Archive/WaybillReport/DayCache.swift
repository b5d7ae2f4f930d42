internal import WaybillCompression
internal import WaybillData
internal import WaybillSystem

/// Rows of sealed days, kept in a folder so that each day is read once.
///
///     cache/3f2a…  =  "waybill-rows 1 LF" key LF numbers texts columns CRC-32
///
/// The key names everything that decides a day's rows: its files with their digests from the manifest, the rules of the
/// reports, and what the request asks of each line. So a day that gets a late part, or a request with other fields, has
/// another file. An open day is never kept. A file that is damaged counts as missing, and is written again.
///
/// The folder may be deleted at any time. It must not be in the data directory, where every file is the receiver's.
struct DayCache<Files: FileSystem>: Sendable {
    /// The version of the rules by which lines become rows, and of the layout of the files.
    private static var version: Int { 1 }

    private let folder: String
    private let data: DataDirectory<Files>
    private let rules: DayRules

    init(_ folder: String, _ data: DataDirectory<Files>, _ rules: DayRules) {
        self.folder = folder
        self.data = data
        self.rules = rules
    }

    /// The key of a day; `nil` for a day that is not sealed.
    func key(of day: DayFiles) throws(FileSystemError) -> String? {
        guard day.files.allSatisfy(\.isSealed),
            let manifest = try DayManifest.read(
                in: Path.join(self.data.root, day.folder.path), files: self.data.files),
            manifest.files.map(\.stem).sorted() == day.files.map(\.stem).sorted()
        else { return nil }
        let rules = self.rules
        var key = "\(Self.version) \(day.folder.path) \(manifest.revision)"
        for file in manifest.files { key += " \(file.name) \(file.sha256) \(file.sourcesSHA256 ?? "-")" }
        key += " \(rules.zone.name) \(rules.isForeignZone) \(rules.isStrict) \(rules.cutOffSecond)"
        key += " \(rules.options.wantsCatalogue) \(rules.bundle ?? "-")"
        for path in rules.options.properties { key += " \(path)" }
        // A name of an app may have any character.
        return key.split(separator: "\n", omittingEmptySubsequences: false).joined(separator: " ")
    }

    private func path(_ key: String) -> String {
        Path.join(self.folder, SHA256Digest.text(of: Array(key.utf8)))
    }

    /// The rows of a day; `nil` if they are not here.
    func read(_ key: String) throws(FileSystemError) -> DayTable? {
        guard let bytes = try self.data.files.contents(of: self.path(key), byteCountMax: 4 << 30) else { return nil }
        return bytes.withUnsafeBytes { bytes in
            var input = RowInput(bytes)
            guard input.isIntact, input.takesText(Self.head(key)) else { return nil }
            return DayTable(&input, width: self.rules.options.properties.count)
        }
    }

    func write(_ table: DayTable, _ key: String) throws(FileSystemError) {
        if try self.data.files.status(at: self.folder) == nil { try self.data.files.createDirectories(self.folder) }
        var output = RowOutput()
        output.append(Self.head(key))
        table.write(to: &output)
        try self.data.files.replace(self.path(key), with: output.sealed())
    }

    private static func head(_ key: String) -> String { "waybill-rows \(Self.version)\n\(key)\n" }
}

extension DayFile {
    /// The name without `.ndjson`.
    var stem: String { String(Path.name(of: self.path).dropLast(".ndjson".utf8.count)) }
}

/// Writes columns of numbers, one after the other.
struct RowOutput {
    private var bytes: [UInt8] = []

    mutating func append(_ text: String) { self.bytes.append(contentsOf: text.utf8) }

    /// Appends how many numbers follow, and the numbers.
    mutating func append<Number: FixedWidthInteger>(_ numbers: [Number]) {
        withUnsafeBytes(of: UInt64(numbers.count).littleEndian) { self.bytes.append(contentsOf: $0) }
        numbers.withUnsafeBytes { self.bytes.append(contentsOf: $0) }
    }

    /// The bytes with their checksum.
    func sealed() -> [UInt8] {
        let checksum = self.bytes.withUnsafeBytes { FrameChecksum.checksum(continuing: 0, $0) }
        return self.bytes + withUnsafeBytes(of: checksum.littleEndian) { Array($0) }
    }
}

/// Reads what ``RowOutput`` wrote.
struct RowInput {
    private let bytes: UnsafeRawBufferPointer
    private var position = 0
    /// Whether the checksum is right.
    let isIntact: Bool

    init(_ bytes: UnsafeRawBufferPointer) {
        guard bytes.count >= 4 else {
            self.bytes = UnsafeRawBufferPointer(rebasing: bytes[..<0])
            self.isIntact = false
            return
        }
        self.bytes = UnsafeRawBufferPointer(rebasing: bytes.dropLast(4))
        let checksum = bytes.loadUnaligned(fromByteOffset: bytes.count - 4, as: UInt32.self)
        self.isIntact =
            UInt32(littleEndian: checksum)
            == FrameChecksum.checksum(continuing: 0, UnsafeRawBufferPointer(rebasing: bytes.dropLast(4)))
    }

    /// Skips a text, if it comes next.
    mutating func takesText(_ text: String) -> Bool {
        guard self.bytes[self.position...].starts(with: text.utf8) else { return false }
        self.position += text.utf8.count
        return true
    }

    /// The next numbers; `nil` if there are not as many.
    mutating func numbers<Number: FixedWidthInteger>(_ type: Number.Type) -> [Number]? {
        guard self.bytes.count - self.position >= 8 else { return nil }
        let count = UInt64(littleEndian: self.bytes.loadUnaligned(fromByteOffset: self.position, as: UInt64.self))
        self.position += 8
        let size = MemoryLayout<Number>.size
        guard count <= UInt64((self.bytes.count - self.position) / size) else { return nil }
        let part = UnsafeRawBufferPointer(rebasing: self.bytes[self.position..<(self.position + Int(count) * size)])
        self.position += part.count
        return [Number](unsafeUninitializedCapacity: Int(count)) { buffer, filled in
            UnsafeMutableRawBufferPointer(buffer).copyMemory(from: part)
            filled = Int(count)
        }
    }
}

extension DayTable {
    /// The columns of 32 bits; all but the day are texts.
    private static var texts: [WritableKeyPath<EventRow, UInt32>] {
        [
            \.dwellScreen, \.writer, \.name, \.screen, \.session, \.user, \.install, \.version, \.systemVersion,
            \.agent,
        ]
    }
    private static var times: [WritableKeyPath<EventRow, Int64>] {
        [
            \.time, \.sequence, \.received, \.dwell,
        ]
    }

    func write(to output: inout RowOutput) {
        output.append([self.repeatCount, self.strayLineCount, self.unexplainedByteCount])
        self.strings.write(to: &output)
        for column in Self.times { output.append(self.rows.map { $0[keyPath: column] }) }
        for column in Self.texts { output.append(self.rows.map { $0[keyPath: column] }) }
        output.append(self.rows.map(\.day))
        output.append(self.rows.map { $0.kind.rawValue << 2 | ($0.isLate ? 2 : 0) | ($0.isForeign ? 1 : 0) })
        output.append(self.values)
        let entries = Array(self.catalogue)
        output.append(entries.flatMap { [$0.key.name, $0.key.property, $0.key.version] })
        output.append(entries.flatMap { [$0.key.kind.rawValue, $0.key.type.rawValue] })
        output.append(entries.flatMap { [Int64($0.value.count), $0.value.first, $0.value.last] })
    }

    /// Reads a table; `nil` if the bytes are not one.
    init?(_ input: inout RowInput, width: Int) {
        guard let counts = input.numbers(Int.self), counts.count == 3, let strings = StringTable(&input) else {
            return nil
        }
        self.init(strings: strings)
        (self.repeatCount, self.strayLineCount, self.unexplainedByteCount) = (counts[0], counts[1], counts[2])
        guard self.readRows(&input), let values = input.numbers(UInt32.self),
            values.count == self.rows.count * width, values.allSatisfy({ $0 < strings.count })
        else { return nil }
        self.values = values
        guard self.readCatalogue(&input) else { return nil }
    }

    private mutating func readRows(_ input: inout RowInput) -> Bool {
        for (index, column) in Self.times.enumerated() {
            guard let numbers = input.numbers(Int64.self) else { return false }
            if index == 0 { self.rows = numbers.map { EventRow(time: $0) } }
            guard numbers.count == self.rows.count else { return false }
            for (row, number) in numbers.enumerated() { self.rows[row][keyPath: column] = number }
        }
        for column in Self.texts {
            guard let numbers = input.numbers(UInt32.self), numbers.count == self.rows.count,
                numbers.allSatisfy({ $0 < self.strings.count })
            else { return false }
            for (row, number) in numbers.enumerated() { self.rows[row][keyPath: column] = number }
        }
        guard let days = input.numbers(Int32.self), let flags = input.numbers(UInt8.self),
            days.count == self.rows.count, flags.count == self.rows.count
        else { return false }
        for row in self.rows.indices {
            guard let kind = RowKind(rawValue: flags[row] >> 2) else { return false }
            self.rows[row].day = days[row]
            self.rows[row].kind = kind
            self.rows[row].isLate = flags[row] & 2 != 0
            self.rows[row].isForeign = flags[row] & 1 != 0
        }
        return true
    }

    private mutating func readCatalogue(_ input: inout RowInput) -> Bool {
        guard let texts = input.numbers(UInt32.self), let kinds = input.numbers(UInt8.self),
            let counts = input.numbers(Int64.self), texts.count == counts.count, kinds.count * 3 == texts.count * 2,
            texts.allSatisfy({ $0 < self.strings.count })
        else { return false }
        for entry in 0..<(texts.count / 3) {
            guard let kind = RowKind(rawValue: kinds[entry * 2]), let type = ValueType(rawValue: kinds[entry * 2 + 1])
            else { return false }
            let key = CatalogueKey(
                name: texts[entry * 3], kind: kind, property: texts[entry * 3 + 1], type: type,
                version: texts[entry * 3 + 2])
            self.catalogue[key] = CatalogueEntry(
                count: Int(counts[entry * 3]), first: counts[entry * 3 + 1], last: counts[entry * 3 + 2])
        }
        return true
    }
}
