internal import WaybillJSON
package import WaybillSystem

/// Writes JSON of any shape.
extension Draft {
    /// Writes a value as JSON: cuts strings and writes anything nested deeper than `depthMax` as a string of JSON.
    package mutating func value(
        _ index: Int, of event: borrowing MappedEvent, limit: Int? = nil, unit: LengthUnit = .utf16,
        depthMax: Int = .max
    ) {
        switch event.tape[index].kind {
        case .string:
            let isEscaped = event.tape[index].traits.contains(.hasEscapes)
            self.text(TextSlice(body: event.tape.bytes(of: index), isEscaped: isEscaped), limit: limit, unit: unit)
        case .null, .false, .true, .number:
            self.json.verbatim(event.tape.bytes(of: index))
        case .array, .object:
            if depthMax < .max, event.depth(of: index) > depthMax {
                self.nestedString(index, of: event, limit: limit ?? .max, unit: unit)
            } else {
                self.compact(index, of: event, limit: limit, unit: unit)
            }
        }
    }

    /// Writes text as a string, cut if there is a limit.
    @inline(__always)
    mutating func text(_ slice: TextSlice, limit: Int? = nil, unit: LengthUnit = .utf16) {
        if let limit {
            self.string(slice, limit: limit, unit: unit)
        } else {
            self.json.string(plain: slice.body)
        }
    }

    /// Writes a member for text if it is present.
    @inline(__always)
    package mutating func member(_ key: StaticString, _ slice: TextSlice?, limit: Int? = nil, unit: LengthUnit = .utf16)
    {
        guard let slice else { return }
        self.json.key(key)
        self.text(slice, limit: limit, unit: unit)
    }

    /// Writes a member for text if it is present, with the letters A to Z in lower case.
    mutating func lowercaseMember(
        _ key: StaticString, _ slice: TextSlice?, limit: Int = .max, unit: LengthUnit = .utf16
    ) {
        guard let slice else { return }
        // The fixes were counted when the original was written.
        let fixes = self.fixes
        self.unescape(slice, limit: limit, unit: unit)
        self.fixes = fixes
        self.cell.removeAll()
        for byte in self.text.bytes { self.cell.append(0x41...0x5A ~= byte ? byte | 0x20 : byte) }
        self.json.key(key)
        self.json.string(self.cell.bytes)
    }

    /// Writes an event's name as a string, prefixed with `x_` if the provider reserves it.
    @inline(__always)
    package mutating func eventName(
        _ name: TextSlice, limit: Int, unit: LengthUnit, fix: FixCode = .rename,
        isReserved: (UnsafeRawBufferPointer) -> Bool
    ) {
        if !name.isEscaped, name.body.count <= limit, !isReserved(name.body) {
            self.json.string(plain: name.body)
        } else {
            self.json.string(self.changedName(name, limit: limit, unit: unit, fix: fix, isReserved: isReserved))
        }
    }

    /// Writes a field's name, prefixed with `x_` if it is empty or the provider reserves it; returns false and writes
    /// nothing if the name was already written.
    @inline(__always)
    package mutating func beginField(
        _ key: Int, of event: borrowing MappedEvent, limit: Int, unit: LengthUnit,
        isReserved: (UnsafeRawBufferPointer) -> Bool
    ) -> Bool {
        let body = event.tape.bytes(of: key)
        let isEscaped = event.tape[key].traits.contains(.hasEscapes)
        if !isEscaped, body.count > 0, body.count <= limit, !isReserved(body) { return self.beginField(body) }
        return self.beginEscapedField(
            self.changedName(
                TextSlice(body: body, isEscaped: isEscaped), limit: limit, unit: unit, isReserved: isReserved))
    }

    /// A name in the form that the provider accepts, valid until the next call.
    private mutating func changedName(
        _ name: TextSlice, limit: Int, unit: LengthUnit, fix: FixCode = .rename,
        isReserved: (UnsafeRawBufferPointer) -> Bool
    ) -> UnsafeRawBufferPointer {
        self.unescape(name)
        let isRenamed = self.text.isEmpty || isReserved(self.text.bytes)
        if isRenamed { self.fixes.count(fix) }
        let changed = self.prefixed(isRenamed ? "x_" : "")
        let kept = TextLimit.keptByteCount(of: changed, limit: limit, unit: unit)
        if kept < changed.count { self.fixes.count(.truncateName) }
        return UnsafeRawBufferPointer(rebasing: changed[..<kept])
    }

    /// Writes a time as a string, in RFC 3339 with milliseconds.
    package mutating func time(_ time: WallTime) {
        // It needs no escapes.
        self.json.verbatim("\"")
        TimeText.append(time, to: &self.json.output)
        self.json.output.append(UInt8(ascii: "\""))
    }

    /// Sets the members written so far aside for the end of the record, where ``appendTail()`` writes them.
    mutating func moveToTail() {
        self.tail.removeAll()
        self.tail.output.append(self.json.output.bytes)
        self.restartRecord()
    }

    /// Moves the record written so far to the head, as one text for a member of the next record.
    mutating func moveToHead() {
        self.head.removeAll()
        self.head.output.append(self.json.output.bytes)
        self.restartRecord()
    }

    /// Writes the members that were set aside.
    mutating func appendTail() {
        if !self.tail.output.isEmpty { self.json.verbatim(self.tail.output.bytes) }
    }
}

extension TextSlice {
    /// Whether the text is within the limit; unescapes it only if its escaped form is longer.
    func fits(_ limit: Int, in draft: inout Draft) -> Bool {
        if !self.isEscaped, self.body.count <= limit { return true }
        draft.unescape(self)
        return TextLimit.utf16Count(draft.text.bytes) <= limit
    }
}
