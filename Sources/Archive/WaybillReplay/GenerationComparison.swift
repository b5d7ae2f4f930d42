internal import WaybillData
internal import WaybillEvent
package import WaybillExport
internal import WaybillJSON
internal import WaybillProjection
internal import WaybillSystem

/// How a partition that a replay would write differs from the current one.
package struct PartitionDifference: Hashable, Sendable {
    package let provider: Destination
    /// Below the data directory.
    package let path: String
    /// Events with a record only in the new generation, only in the current one, in both with different bytes, and the
    /// same.
    package var added = 0
    package var removed = 0
    package var changed = 0
    package var same = 0
    /// Counts of changes of fate, such as `ga4.too_old → exported`; `absent` means that there was no event.
    package var fates: [String: Int] = [:]
    /// How often values are fixed for the provider, by kind: currently, and after the replay.
    package var fixes: [String: [Int]] = [:]
    /// The versions of the mapping that wrote the current parts, and the version that a replay would use.
    package var presentMappings: Set<Int> = []
    package var mapping = 0

    /// Whether a replay would change nothing.
    package var isEmpty: Bool { self.added == 0 && self.removed == 0 && self.changed == 0 && self.fates.isEmpty }
}

/// Compares the current partition's events with those of a new generation, by id.
///
/// Memory: about 150 bytes for each event of the current partition, up to ``eventCountMax``. The n-th event of an id is
/// compared with the n-th event of the same id in the other generation.
final class GenerationComparison {
    static let eventCountMax = 4 << 20

    private struct Place: Hashable {
        let id: Digest128
        let turn: Int
    }

    private struct Present {
        /// Index in ``fates``.
        let fate: Int
        let content: UInt64
    }

    private var present: [Place: Present] = [:]
    private var turns: [Digest128: Int] = [:]
    private var fates: [String] = ["exported"]
    private var fateIndexes: [String: Int] = ["exported": 0]
    private var newFixes = FixCounts()
    private var tape = JSONTape()
    private(set) var difference: PartitionDifference
    private(set) var isFull = false

    init(_ options: ExportOptions, path: String) {
        self.difference = PartitionDifference(provider: options.provider, path: path)
        self.difference.mapping = options.mappingVersion
    }

    // MARK: The current generation

    func takePresent(id: UnsafeRawBufferPointer, record: UnsafeRawBufferPointer) {
        self.addPresent(Self.digest(id, else: record), fate: 0, content: EventContent(record, id: id).record)
    }

    func takePresent(deadLetter: [UInt8]) {
        guard let letter = deadLetter.withUnsafeBytes({ self.letter($0) }) else { return }
        self.addPresent(letter.id, fate: self.fate(letter.reason), content: 0)
    }

    func takePresent(heldID: ArraySlice<UInt8>) {
        let id = heldID.withUnsafeBytes { Self.digest($0, else: UnsafeRawBufferPointer(start: nil, count: 0)) }
        self.addPresent(id, fate: self.fate("held"), content: 0)
    }

    func takePresent(mapping: Int, fixes: [String: Int]) {
        self.difference.presentMappings.insert(mapping)
        for (name, count) in fixes { self.difference.fixes[name, default: [0, 0]][0] += count }
    }

    private func addPresent(_ id: Digest128, fate: Int, content: UInt64) {
        guard self.present.count < Self.eventCountMax else {
            self.isFull = true
            return
        }
        let turn = self.turns[id] ?? 0
        self.turns[id] = turn + 1
        self.present[Place(id: id, turn: turn)] = Present(fate: fate, content: content)
    }

    /// Must be called after the current generation was taken and before the new one.
    func beginNew() {
        self.turns = [:]
    }

    // MARK: The new generation

    func take(_ record: ExportRecord) {
        self.newFixes.add(record.fixes)
        self.compare(
            Self.digest(record.ids, else: record.bytes), fate: "exported",
            content: EventContent(record.bytes, id: record.ids).record)
    }

    func take(_ refusal: Refusal) {
        guard let letter = self.letter(refusal.deadLetter) else { return }
        self.compare(letter.id, fate: letter.reason, content: 0)
    }

    func take(_ event: HeldEvent) {
        self.compare(
            Self.digest(event.id, else: UnsafeRawBufferPointer(start: nil, count: 0)), fate: "held", content: 0)
    }

    /// Takes an event that deliberately gets no record.
    ///
    /// - Parameter madeID: the id that was made for a line without one.
    func takeSkipped(_ line: UnsafeRawBufferPointer, _ madeID: UniqueID?, because reason: String) {
        let made = madeID.map { Digest128(high: $0.high, low: $0.low) }
        guard let id = made ?? self.id(of: line), self.present[Place(id: id, turn: self.turns[id] ?? 0)] != nil
        else { return }
        self.compare(id, fate: reason, content: 0)
    }

    private func compare(_ id: Digest128, fate: String, content: UInt64) {
        let turn = self.turns[id] ?? 0
        self.turns[id] = turn + 1
        let present = self.present.removeValue(forKey: Place(id: id, turn: turn))
        let old = present.map { self.fates[$0.fate] } ?? "absent"
        if old == "exported", fate == "exported" {
            if present?.content == content { self.difference.same += 1 } else { self.difference.changed += 1 }
            return
        }
        if fate == "exported" { self.difference.added += 1 }
        if old == "exported" { self.difference.removed += 1 }
        if old != fate { self.difference.fates["\(old) → \(fate)", default: 0] += 1 }
    }

    /// Counts the remaining events of the current generation, which have no counterpart.
    func finish() {
        for entry in self.present.values {
            if entry.fate == 0 { self.difference.removed += 1 }
            self.difference.fates["\(self.fates[entry.fate]) → absent", default: 0] += 1
        }
        self.present = [:]
        for code in FixCode.allCases where self.newFixes[code] > 0 {
            self.difference.fixes[code.rawValue, default: [0, 0]][1] = self.newFixes[code]
        }
        self.difference.fixes = self.difference.fixes.filter { $0.value[0] != $0.value[1] }
    }

    // MARK: Identity

    private func fate(_ name: String) -> Int {
        if let known = self.fateIndexes[name] { return known }
        self.fates.append(name)
        self.fateIndexes[name] = self.fates.count - 1
        return self.fates.count - 1
    }

    /// An event without a usable id is identified by its content.
    private static func digest(_ id: UnsafeRawBufferPointer, else record: UnsafeRawBufferPointer) -> Digest128 {
        id.elementsEqual([UInt8(ascii: "-")]) ? Digest128([ContentHash.content(record)]) : Digest128(id: id)
    }

    private func letter(_ bytes: UnsafeRawBufferPointer) -> (id: Digest128, reason: String)? {
        let line = bytes.last == 0x0A ? UnsafeRawBufferPointer(rebasing: bytes.dropLast()) : bytes
        guard self.tape.accepts(line), let reason = self.tape.firstValue(of: "reason", in: 0) else { return nil }
        let name = String(decoding: self.tape.bytes(of: reason), as: UTF8.self)
        if let id = self.tape.firstValue(of: "id", in: 0), self.tape[id].kind == .string {
            return (Digest128(id: self.tape.bytes(of: id)), name)
        }
        return (Digest128([line]), name)
    }

    private func id(of line: UnsafeRawBufferPointer) -> Digest128? {
        guard self.tape.accepts(line, from: JSONText.byteOrderMarkByteCount(line)),
            let id = self.tape.firstValue(of: "id", in: 0), self.tape[id].kind == .string
        else { return nil }
        return Digest128(id: self.tape.bytes(of: id))
    }
}
