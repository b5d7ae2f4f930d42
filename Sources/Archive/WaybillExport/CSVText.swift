internal import WaybillJSON

/// Escapes and quotes the text of cells.
enum CSVText {
    /// The UTF-16 length of a growing cell, counted only when its byte count no longer proves that it fits.
    struct Length {
        private var counted = 0
        private var units = 0

        mutating func exceeds(_ limit: Int, _ text: UnsafeRawBufferPointer) -> Bool {
            if text.count <= limit { return false }
            self.units += TextLimit.utf16Count(UnsafeRawBufferPointer(rebasing: text[self.counted...]))
            self.counted = text.count
            return self.units > limit
        }
    }

    /// Whether a cell is written unchanged: no guard, no quotes, no NUL.
    @inline(__always)
    static func isPlain(_ text: UnsafeRawBufferPointer) -> Bool {
        guard text.count > 0 else { return true }
        if text[text.count - 1] == 0x20 { return false }
        switch text[0] {
        case 0x20, 0x27, 0x2B, 0x2D, 0x3D, 0x40, 0xEF: return false
        default: break
        }
        var at = 0
        var found: UInt8 = 0
        while at < text.count {
            let byte = text[at]
            // Control characters, `"` and `,`; TAB and others need no quotes but take the slow path too.
            found |= (byte < 0x20 ? 1 : 0) | (byte == 0x22 ? 1 : 0) | (byte == 0x2C ? 1 : 0)
            at &+= 1
        }
        return found == 0
    }

    /// Whether a spreadsheet would evaluate text, or a reader would remove its quote: it begins with `=` `+` `-` `@`
    /// TAB CR, a full-width `＝` `＋` `－` `＠`, or `'`.
    static func isTrigger(_ text: UnsafeRawBufferPointer) -> Bool {
        guard let first = text.first else { return false }
        switch first {
        case UInt8(ascii: "="), UInt8(ascii: "+"), UInt8(ascii: "-"), UInt8(ascii: "@"), 0x09, 0x0D,
            UInt8(ascii: "'"):
            return true
        case 0xEF:
            guard text.count >= 3, text[1] == 0xBC else { return false }
            // U+FF1D, U+FF0B, U+FF0D, U+FF20.
            return text[2] == 0x9D || text[2] == 0x8B || text[2] == 0x8D || text[2] == 0xA0
        default: return false
        }
    }

    /// Appends a cell, in quotes if RFC 4180 requires them or a space would be lost.
    static func append(_ text: UnsafeRawBufferPointer, isGuarded: Bool, to output: inout ByteBuilder) {
        let needsQuotes =
            text.contains { $0 == 0x22 || $0 == 0x2C || $0 == 0x0D || $0 == 0x0A }
            || (!isGuarded && text.first == 0x20) || text.last == 0x20
        if needsQuotes { output.append(0x22) }
        if isGuarded { output.append(UInt8(ascii: "'")) }
        for byte in text {
            if byte == 0x22 { output.append(0x22) }
            output.append(byte)
        }
        if needsQuotes { output.append(0x22) }
    }

    /// Appends text of a pair; escapes `\`, `;`, `=`, CR and LF.
    static func appendPart(_ text: UnsafeRawBufferPointer, to output: inout ByteBuilder) {
        guard let base = text.baseAddress else { return }
        var copied = 0
        for at in 0..<text.count {
            let escape: StaticString
            switch text[at] {
            case UInt8(ascii: "\\"): escape = "\\\\"
            case UInt8(ascii: ";"): escape = "\\;"
            case UInt8(ascii: "="): escape = "\\="
            case 0x0D: escape = "\\r"
            case 0x0A: escape = "\\n"
            default: continue
            }
            output.append(base + copied, byteCount: at - copied)
            output.append(escape)
            copied = at + 1
        }
        output.append(base + copied, byteCount: text.count - copied)
    }
}

extension Draft {
    /// Writes a comma and a cell, which is empty if the text is absent.
    @inline(__always)
    mutating func appendCell(
        _ slice: TextSlice?, isGuarded: Bool, characterCountMax: Int = Limits.CSV.cellCharacterCountMax
    ) {
        guard let slice else {
            self.json.output.append(UInt8(ascii: ","))
            return
        }
        if !slice.isEscaped, slice.body.count < characterCountMax, CSVText.isPlain(slice.body) {
            self.json.output.append(UInt8(ascii: ","))
            self.json.output.append(slice.body)
            return
        }
        self.cell.removeAll()
        if slice.isEscaped {
            JSONText.unescape(slice.body, into: &self.cell)
        } else {
            self.cell.append(slice.body)
        }
        self.finishCell(isGuarded: isGuarded, characterCountMax: characterCountMax)
    }

    /// Writes a comma and ``cell``, guarded, cut and quoted as needed.
    mutating func finishCell(isGuarded: Bool, characterCountMax: Int = Limits.CSV.cellCharacterCountMax) {
        if self.cell.bytes.contains(0) {
            let kept = self.cell.bytes.filter { $0 != 0 }
            self.cell.removeAll()
            self.cell.append(kept)
            self.fixes.count(.coerce)
        }
        let isTrigger = isGuarded && CSVText.isTrigger(self.cell.bytes)
        let kept = TextLimit.keptByteCount(
            of: self.cell.bytes, limit: characterCountMax - (isTrigger ? 1 : 0), unit: .utf16)
        if kept < self.cell.count {
            self.cell.truncate(to: kept)
            self.fixes.count(.truncateValue)
        }
        if isTrigger { self.fixes.count(.guard) }
        self.json.output.append(UInt8(ascii: ","))
        CSVText.append(self.cell.bytes, isGuarded: isTrigger, to: &self.json.output)
    }

    /// Appends `key=value` to the cell; if the pair is left out, truncates the cell to `start` and returns false.
    ///
    /// - Parameter prefix: comes before the key.
    mutating func appendPair(
        _ key: Int, _ value: Int, of event: borrowing MappedEvent, start: Int, prefix: StaticString
    ) -> Bool {
        guard event.tape[value].kind != .null else {
            self.cell.truncate(to: start)
            self.fixes.count(.dropNull)
            return false
        }
        let keyStart = self.cell.count
        self.cell.append(prefix)
        self.appendPart(key, of: event)
        guard self.insertPairName(keyStart) else {
            self.cell.truncate(to: start)
            self.fixes.count(.collide)
            return false
        }
        self.cell.append(UInt8(ascii: "="))
        self.appendPart(value, of: event)
        return true
    }

    @inline(__always)
    private mutating func appendPart(_ index: Int, of event: borrowing MappedEvent) {
        let entry = event.tape[index]
        switch entry.kind {
        case .string where !entry.traits.contains(.hasEscapes):
            CSVText.appendPart(event.tape.bytes(of: index), to: &self.cell)
        case .string:
            self.unescape(TextSlice(body: event.tape.bytes(of: index), isEscaped: true))
            CSVText.appendPart(self.text.bytes, to: &self.cell)
        case .null, .false, .true, .number:
            self.cell.append(event.tape.bytes(of: index))
        case .array, .object:
            self.compactText(index, of: event)
            CSVText.appendPart(self.text.bytes, to: &self.cell)
        }
    }
}
