internal import WaybillEvent
package import WaybillJSON

/// The record of one event while it is being written, and everything a provider needs to write it.
///
/// All buffers keep their capacity from event to event. One owner.
package struct Draft: ~Copyable {
    /// The part that events in one request have in common; empty for providers with one event per request.
    var head = JSONWriter(capacity: 512)
    /// The record, or the event's part of the request.
    package var json = JSONWriter()
    /// The text that closes the request that this event starts.
    var tail = JSONWriter(capacity: 512)
    /// Whether the event must not be added to an open request.
    var startsGroup = false
    var fixes = FixCounts()
    private var names = NameSet()
    /// Names in the list item that is being written.
    var itemNames = NameSet()
    /// Event names seen so far; kept from event to event.
    var eventNames = NameCensus()
    /// Where each droppable piece begins in a record that is not JSON.
    var pieceOffsets: [Int] = []
    /// Where each droppable field begins in `json`.
    private(set) var fieldMarks: [JSONWriter.Mark] = []
    /// A cell of a table, before it is quoted.
    var cell = ByteBuilder()
    /// Names of the pairs in cells, concatenated.
    private var pairNames = ByteBuilder()
    /// Unescaped text.
    private(set) var text = ByteBuilder()
    /// A mapped name.
    private var mapped = ByteBuilder(capacity: 64)
    /// Compact JSON of a nested value.
    private var nested = JSONWriter()

    init() {
        self.fieldMarks.reserveCapacity(Limits.Mixpanel.propertyCountMax)
    }

    mutating func removeAll() {
        self.head.removeAll()
        self.json.removeAll()
        self.tail.removeAll()
        self.startsGroup = false
        self.fixes = FixCounts()
        self.names.removeAll()
        self.pairNames.removeAll()
        self.fieldMarks.removeAll(keepingCapacity: true)
        self.pieceOffsets.removeAll(keepingCapacity: true)
        self.cell.removeAll()
    }

    /// Empties the record but keeps the fixes, head and tail.
    mutating func restartRecord() {
        self.json.removeAll()
        self.names.removeAll()
        self.fieldMarks.removeAll(keepingCapacity: true)
    }

    mutating func noteEventName(_ name: UnsafeRawBufferPointer, env: DeploymentEnvironment) {
        self.eventNames.insert(name, env: env)
    }

    // MARK: Values

    /// Writes as many whole characters of the text as fit.
    @inline(__always)
    mutating func string(_ slice: TextSlice, limit: Int, unit: LengthUnit) {
        if !slice.isEscaped, slice.body.count <= limit {
            self.json.string(plain: slice.body)
        } else {
            self.unescape(slice)
            self.cutString(limit: limit, unit: unit)
        }
    }

    /// Puts the text of a slice into ``text``.
    mutating func unescape(_ slice: TextSlice) {
        self.text.removeAll()
        if slice.isEscaped {
            JSONText.unescape(slice.body, into: &self.text)
        } else {
            self.text.append(slice.body)
        }
    }

    /// Puts as much of a slice's text as fits into ``text``.
    mutating func unescape(_ slice: TextSlice, limit: Int, unit: LengthUnit) {
        self.unescape(slice)
        let kept = TextLimit.keptByteCount(of: self.text.bytes, limit: limit, unit: unit)
        if kept < self.text.count {
            self.text.truncate(to: kept)
            self.fixes.count(.truncateValue)
        }
    }

    /// Writes ``text`` as a string, cut if needed.
    private mutating func cutString(limit: Int, unit: LengthUnit) {
        let kept = TextLimit.keptByteCount(of: self.text.bytes, limit: limit, unit: unit)
        if kept < self.text.count { self.fixes.count(.truncateValue) }
        self.json.string(UnsafeRawBufferPointer(rebasing: self.text.bytes[..<kept]))
    }

    /// Writes a list or an object as a string of compact JSON.
    mutating func nestedString(_ index: Int, of event: borrowing MappedEvent, limit: Int, unit: LengthUnit) {
        self.compactText(index, of: event)
        self.fixes.count(.coerce)
        self.cutString(limit: limit, unit: unit)
    }

    /// Writes a nested value as compact JSON, with strings cut if needed.
    mutating func compact(_ index: Int, of event: borrowing MappedEvent, limit: Int?, unit: LengthUnit) {
        var compact = CompactJSON(limit: limit, unit: unit)
        compact.write(index, of: event, into: &self.json, text: &self.text)
        for _ in 0..<compact.cutCount { self.fixes.count(.truncateValue) }
        for _ in 0..<compact.repeatCount { self.fixes.count(.collide) }
    }

    /// Puts compact JSON of a nested value into ``text``.
    mutating func compactText(_ index: Int, of event: borrowing MappedEvent) {
        self.nested.removeAll()
        var compact = CompactJSON()
        compact.write(index, of: event, into: &self.nested, text: &self.text)
        self.text.removeAll()
        self.text.append(self.nested.output.bytes)
    }

    /// Writes a scalar for a provider that accepts strings and numbers; false for null, which is not written.
    ///
    /// The caller has written the key.
    @inline(__always)
    mutating func scalarOrNestedString(
        _ index: Int, of event: borrowing MappedEvent, limit: Int, unit: LengthUnit
    ) {
        switch event.tape[index].kind {
        case .string:
            let entry = event.tape[index]
            let slice = TextSlice(
                body: event.tape.bytes(of: index), isEscaped: entry.traits.contains(.hasEscapes))
            self.string(slice, limit: limit, unit: unit)
        case .number:
            self.json.verbatim(event.tape.bytes(of: index))
        case .true:
            self.fixes.count(.coerce)
            self.json.string("true")
        case .false:
            self.fixes.count(.coerce)
            self.json.string("false")
        case .null:
            self.json.null()
        case .array, .object:
            self.nestedString(index, of: event, limit: limit, unit: unit)
        }
    }

    // MARK: Names

    /// The key at a tape index, mapped by a provider's rule; counts the fix.
    @inline(__always)
    mutating func key(_ index: Int, of event: borrowing MappedEvent, rule: NameRule) -> UnsafeRawBufferPointer {
        let isEscaped = event.tape[index].traits.contains(.hasEscapes)
        return self.mappedName(TextSlice(body: event.tape.bytes(of: index), isEscaped: isEscaped), rule: rule)
    }

    /// A name mapped by a provider's rule, valid until the next call; counts the fix.
    @inline(__always)
    mutating func mappedName(_ name: TextSlice, rule: NameRule) -> UnsafeRawBufferPointer {
        if !name.isEscaped, rule.isKept(name.body) { return name.body }
        return self.mapName(name, rule: rule)
    }

    private mutating func mapName(_ name: TextSlice, rule: NameRule) -> UnsafeRawBufferPointer {
        self.unescape(name)
        self.mapped.removeAll()
        let isCut = rule.map(self.text.bytes, into: &self.mapped)
        if isCut {
            self.fixes.count(.truncateName)
        } else if !JSONText.equals(self.mapped.bytes, self.text.bytes) {
            self.fixes.count(.rename)
        }
        return self.mapped.bytes
    }

    /// ``text`` after a prefix, valid until the next name.
    mutating func prefixed(_ prefix: StaticString) -> UnsafeRawBufferPointer {
        self.mapped.removeAll()
        self.mapped.append(prefix)
        self.mapped.append(self.text.bytes)
        return self.mapped.bytes
    }

    /// Writes the key of a field, which needs no escapes; returns false and writes nothing if it was already written.
    @inline(__always)
    mutating func beginField(_ name: UnsafeRawBufferPointer) -> Bool {
        let mark = self.json.mark
        self.json.key(plain: name)
        // The key ends with a quote and a colon.
        let end = self.json.output.count - 2
        guard self.names.insert((end - name.count)..<end, in: self.json.output.bytes) else {
            self.json.rewind(to: mark)
            self.fixes.count(.collide)
            return false
        }
        self.fieldMarks.append(mark)
        return true
    }

    /// Like ``beginField(_:)``, inside a list item: the field is neither counted nor dropped alone.
    mutating func beginItemField(_ name: UnsafeRawBufferPointer) -> Bool {
        let mark = self.json.mark
        self.json.key(plain: name)
        let end = self.json.output.count - 2
        guard self.itemNames.insert((end - name.count)..<end, in: self.json.output.bytes) else {
            self.json.rewind(to: mark)
            self.fixes.count(.collide)
            return false
        }
        return true
    }

    /// Writes the key of a member of the object in the cell; returns false and writes nothing if it has one of that name.
    mutating func beginCellField(_ key: Int, of event: borrowing MappedEvent) -> Bool {
        let start = self.cell.count
        self.cell.append(start > 1 ? ",\"" : "\"")
        let nameStart = self.cell.count
        if event.tape[key].traits.contains(.hasEscapes) {
            self.text.removeAll()
            JSONText.unescape(event.tape.bytes(of: key), into: &self.text)
            JSONText.escape(self.text.bytes, into: &self.cell)
        } else {
            self.cell.append(event.tape.bytes(of: key))
        }
        guard self.itemNames.insert(nameStart..<self.cell.count, in: self.cell.bytes) else {
            self.cell.truncate(to: start)
            self.fixes.count(.collide)
            return false
        }
        self.cell.append("\":")
        return true
    }

    /// Like ``beginField(_:)``, for a field that is never dropped and comes before all others.
    @inline(__always)
    mutating func beginContextField(_ name: StaticString) {
        self.json.key(name)
        let end = self.json.output.count - 2
        _ = self.names.insert((end - name.utf8CodeUnitCount)..<end, in: self.json.output.bytes)
    }

    /// Like ``beginField(_:)``, for a key that may need escapes.
    mutating func beginEscapedField(_ name: UnsafeRawBufferPointer) -> Bool {
        let mark = self.json.mark
        self.json.key(name)
        let start = mark.byteCount + (mark.byteCount > 0 && self.json.output.bytes[mark.byteCount] == 0x2C ? 2 : 1)
        guard self.names.insert(start..<(self.json.output.count - 2), in: self.json.output.bytes) else {
            self.json.rewind(to: mark)
            self.fixes.count(.collide)
            return false
        }
        self.fieldMarks.append(mark)
        return true
    }

    /// Records the name at the end of the cell, from `start` on; false if the cell already has a pair of that name.
    mutating func insertPairName(_ start: Int) -> Bool {
        let noted = self.pairNames.count
        self.pairNames.append(UnsafeRawBufferPointer(rebasing: self.cell.bytes[start...]))
        return self.names.insert(noted..<self.pairNames.count, in: self.pairNames.bytes)
    }

    /// Records a name at a range of the record's bytes; false if an equal one was recorded before.
    mutating func insertName(_ range: Range<Int>) -> Bool {
        self.names.insert(range, in: self.json.output.bytes)
    }

    /// Records the string that was written at a mark; false if an equal name was recorded before.
    mutating func insertString(since mark: JSONWriter.Mark) -> Bool {
        let start = mark.byteCount + (self.json.output.bytes[mark.byteCount] == 0x2C ? 2 : 1)
        return self.insertName(start..<(self.json.output.count - 1))
    }

    /// Drops fields from the end until `json` has at most `byteCountMax` bytes or no field is left.
    package mutating func dropFields(toFit byteCountMax: Int) {
        guard self.json.output.count > byteCountMax, !self.fieldMarks.isEmpty else { return }
        while self.json.output.count > byteCountMax, let mark = self.fieldMarks.popLast() {
            self.json.rewind(to: mark)
            self.fixes.count(.dropField)
        }
        // The set refers to positions, some of which are gone.
        self.names.removeAll()
    }

    /// Protects the fields written so far from being dropped.
    mutating func keepFields() {
        self.fieldMarks.removeAll(keepingCapacity: true)
    }
}

extension EventFields {
    /// The next field that has a value, if the count limit allows; the others are counted as dropped.
    @inline(__always)
    mutating func next(
        in event: borrowing MappedEvent, room: Int = .max, droppedTo fixes: inout FixCounts
    ) -> (key: Int, value: Int)? {
        while let field = self.next(in: event) {
            if event.tape[field.value].kind == .null {
                fixes.count(.dropNull)
            } else if room > 0 {
                return field
            } else {
                fixes.count(.dropField)
            }
        }
        return nil
    }
}

/// Counts the different event names exported for each environment, up to a bound.
///
/// GA4 keeps 500 names for each app user and drops the others, so the driver warns before that. Names are stored as
/// 64-bit hashes: two of 1000 names collide with a probability of 3 in 10^14.
struct NameCensus {
    /// The number of names after which new ones are no longer counted.
    static let countMax = 1000
    private static let capacity = 2048

    /// Open addressing, one range of slots per environment; 0 is free.
    private var hashes = [UInt64](repeating: 0, count: Self.capacity * DeploymentEnvironment.allCases.count)
    private var counts = [0, 0, 0]

    func count(in env: DeploymentEnvironment) -> Int {
        self.counts[Self.index(env)]
    }

    mutating func insert(_ name: UnsafeRawBufferPointer, env: DeploymentEnvironment) {
        // FNV-1a, written out because the generic one takes a sequence of bytes.
        var hash: UInt64 = 0xCBF2_9CE4_8422_2325
        for byte in name { hash = (hash ^ UInt64(byte)) &* 0x0000_0100_0000_01B3 }
        hash |= 1
        let start = Self.index(env) * Self.capacity
        var at = Int(truncatingIfNeeded: hash >> 32) & (Self.capacity - 1)
        while self.hashes[start + at] != 0 {
            if self.hashes[start + at] == hash { return }
            at = (at + 1) & (Self.capacity - 1)
        }
        guard self.counts[Self.index(env)] < Self.countMax else { return }
        self.hashes[start + at] = hash
        self.counts[Self.index(env)] += 1
    }

    private static func index(_ env: DeploymentEnvironment) -> Int {
        switch env {
        case .dev: 0
        case .internal: 1
        case .prod: 2
        }
    }
}
