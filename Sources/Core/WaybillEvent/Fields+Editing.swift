internal import WaybillJSON

/// Reading and changing fields that were put: for filters, for single providers, and for registered fields.
extension Fields {
    /// The number of fields.
    var count: Int { self.keys.count }

    /// Copies the fields of `other` from index `start` on, except those that already exist.
    mutating func add(_ other: borrowing Fields, from start: Int) {
        guard !other.buffer.isOverflowing else { return }
        self.hasObjects = self.hasObjects || other.hasObjects
        for index in start..<other.keys.count {
            let key = other.keys[index]
            guard !self.contains(key.hash, other.text(key.range)) else { continue }
            self.append(other, index)
        }
    }

    /// Copies the fields of `other` whose names are not in `names`, except those that already exist.
    package mutating func add(_ other: borrowing Fields, without names: borrowing Fields) {
        guard !other.buffer.isOverflowing else { return }
        self.hasObjects = self.hasObjects || other.hasObjects
        for index in 0..<other.keys.count {
            let key = other.keys[index]
            let text = other.text(key.range)
            guard !names.contains(key.hash, text), !self.contains(key.hash, text) else { continue }
            self.append(other, index)
        }
    }

    private mutating func append(_ other: borrowing Fields, _ index: Int) {
        let key = other.keys[index]
        if !self.isScopeEmpty { self.buffer.append(UInt8(ascii: ",")) }
        let start = self.buffer.count
        self.buffer.append(other.text(key.start..<other.value(at: index).upperBound))
        // A key whose bytes do not fit leads nowhere.
        guard !self.buffer.isOverflowing else { return }
        self.keys.append(FieldKey(hash: key.hash, start: start, byteCount: key.byteCount))
        self.isScopeEmpty = false
    }

    /// Appends the members whose keys are not in `winners` to `line`, each after a comma unless `isFirst`.
    package func appendMembers(to line: inout LineBuffer, without winners: borrowing Fields) {
        var needsComma = !winners.isEmpty
        for index in 0..<self.keys.count {
            let key = self.keys[index]
            if winners.contains(key.hash, self.text(key.range)) { continue }
            if needsComma { line.append(UInt8(ascii: ",")) }
            needsComma = true
            line.append(self.buffer, key.start..<self.value(at: index).upperBound)
        }
    }

    // MARK: Filters

    /// The fields' names, in order.
    var names: [String] {
        guard !self.buffer.isOverflowing else { return [] }
        return (0..<self.keys.count).map { index in
            let key = self.keys[index]
            return JSONText.string(UnsafeRawBufferPointer(self.text(key.start + 1..<key.start + key.byteCount - 1)))
        }
    }

    func json(of name: String) -> String? {
        self.index(of: name).map { String(decoding: self.text(self.value(at: $0)), as: UTF8.self) }
    }

    mutating func remove(_ name: String) {
        _ = self.removeMember(name)
        self.editObjects(name) { _ in nil }
    }

    /// Replaces a value with the hash of its text, for a string without quotes and escapes; `null` is kept.
    mutating func hash(_ name: String) {
        self.hashMember(name)
        let salt = self.salt
        self.editObjects(name) { Self.hashed($0, salt) }
    }

    private static func hashed(_ value: UnsafeBufferPointer<UInt8>, _ salt: PrivacySalt?) -> [UInt8] {
        if value.elementsEqual("null".utf8) { return Array(value) }
        let isString = value.first == UInt8(ascii: "\"")
        let inside = isString ? UnsafeBufferPointer(rebasing: value[1..<value.count - 1]) : value
        let plain =
            isString ? JSONText.string(UnsafeRawBufferPointer(inside)) : String(decoding: inside, as: UTF8.self)
        return Array("\"\(salt?.hash(plain.utf8) ?? "private")\"".utf8)
    }

    // MARK: Edits of members, apart from those of nested objects

    /// Removes a field; returns whether there was one.
    mutating func removeMember(_ name: String) -> Bool {
        guard let index = self.index(of: name) else { return false }
        self.removeMember(at: index)
        return true
    }

    private mutating func removeMember(at index: Int) {
        let start = self.keys[index].start
        let end = index + 1 < self.keys.count ? self.keys[index + 1].start : self.buffer.count
        // The comma before the last member is removed with it.
        let isLast = index + 1 == self.keys.count
        self.replace((isLast && index > 0 ? start - 1 : start)..<end, with: [])
        self.keys.remove(at: index)
        self.isScopeEmpty = self.keys.count == 0
    }

    mutating func hashMember(_ name: String) {
        guard let index = self.index(of: name) else { return }
        let range = self.value(at: index)
        self.replace(range, with: Self.hashed(self.text(range), self.salt))
    }

    /// Renames a field, in its place; it replaces another field of the new name.
    ///
    /// - Returns: whether there was such a field.
    mutating func renameMember(_ name: String, to newName: String) -> Bool {
        guard name != newName, self.index(of: name) != nil else { return false }
        if let other = self.index(of: newName) { self.removeMember(at: other) }
        guard let index = self.index(of: name) else { return false }
        var text = LineBuffer(capacity: 64)
        text.appendString(newName)
        let start = self.keys[index].start
        self.replace(self.keys[index].range, with: Array(text.bytes))
        guard !self.buffer.isOverflowing else { return false }
        self.keys[index] = FieldKey(hash: Self.hash(text.bytes), start: start, byteCount: text.count)
        return true
    }

    /// Sets the fields of `other`: those that exist in their place, others at the end.
    mutating func setMembers(_ other: borrowing Fields) {
        guard !other.buffer.isOverflowing, !self.buffer.isOverflowing else { return }
        self.hasObjects = self.hasObjects || other.hasObjects
        for index in 0..<other.keys.count {
            let key = other.keys[index]
            if let own = self.index(key.hash, other.text(key.range)) {
                self.replace(self.value(at: own), with: Array(other.text(other.value(at: index))))
            } else {
                self.append(other, index)
            }
            guard !self.buffer.isOverflowing else { return }
        }
    }

    // MARK: Places

    /// Changes the members with that name in nested objects; `nil` removes a member.
    private mutating func editObjects(_ name: String, _ edit: (UnsafeBufferPointer<UInt8>) -> [UInt8]?) {
        guard self.hasObjects, !self.buffer.isOverflowing else { return }
        for index in 0..<self.keys.count {
            let range = self.value(at: index)
            let value = self.text(range)
            guard value.first == UInt8(ascii: "{") || value.first == UInt8(ascii: "[") else { continue }
            self.replace(range, with: ObjectEditor.edit(Array(value), name, edit))
            guard !self.buffer.isOverflowing else { return }
        }
    }

    private func index(of name: String) -> Int? {
        var key = LineBuffer(capacity: 64)
        key.appendString(name)
        return self.index(Self.hash(key.bytes), key.bytes)
    }

    private func index(_ hash: UInt32, _ text: UnsafeBufferPointer<UInt8>) -> Int? {
        guard !self.buffer.isOverflowing else { return nil }
        return (0..<self.keys.count).first { self.isEqual(self.keys[$0], hash, text) }
    }

    private func value(at index: Int) -> Range<Int> {
        let key = self.keys[index]
        let end = index + 1 < self.keys.count ? self.keys[index + 1].start - 1 : self.buffer.count
        return key.range.upperBound + 1..<end
    }

    private func text(_ range: Range<Int>) -> UnsafeBufferPointer<UInt8> {
        self.buffer[range]
    }

    private mutating func replace(_ range: Range<Int>, with bytes: [UInt8]) {
        let rest = Array(self.buffer[range.upperBound..<self.buffer.count])
        self.buffer.truncate(to: range.lowerBound)
        bytes.withUnsafeBufferPointer { self.buffer.append($0) }
        rest.withUnsafeBufferPointer { self.buffer.append($0) }
        // What did not fit has no place.
        guard !self.buffer.isOverflowing else { return self.keys.truncate(to: 0) }
        for index in 0..<self.keys.count where self.keys[index].start >= range.upperBound {
            self.keys[index].start += bytes.count - range.count
        }
    }

    private func contains(_ hash: UInt32, _ text: UnsafeBufferPointer<UInt8>) -> Bool {
        self.hasKey(hash, text, from: 0)
    }
}
