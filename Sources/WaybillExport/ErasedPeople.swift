internal import WaybillDigest
internal import WaybillJSON
internal import WaybillSystem

/// The people whose events were erased, known by keyed digests of their ids.
///
///     digest = HMAC-SHA-256(key, kind NUL id)        kind: user, anon; key: 32 random bytes of the data directory
///
/// No id is kept in clear: neither on the disk nor, beyond those of the last lines, in memory. Life of one line: an
/// ``EventReader`` finds its user and its anonymous id → the ids of the last lines are remembered, byte for byte, with
/// their answer → only an id that is not among them is hashed. Lines of erased people read as
/// ``QuarantineReason/erased``, so that nothing that reads events takes one.
///
/// Constraints: no cost while no one was erased, because a reader then has none; one comparison of bytes for a line of
/// the same person as before, two digests of one block for another person's. Memory: at most 16 KiB of ids.
///
/// - SeeAlso: `Protocol/formats/erasures.md`.
package final class ErasedPeople: Sendable {
    /// Which member of a line holds a person's id.
    package enum Kind: String, Hashable, Sendable, CaseIterable {
        case user, anon
    }

    private struct Answer {
        var kind = Kind.user
        var id: [UInt8] = []
        var isErased = false
    }

    private struct Memory {
        var answers = [Answer](repeating: Answer(), count: ErasedPeople.answerCount)
    }

    private static var answerCount: Int { 64 }
    /// Longer ids are hashed each time.
    private static var rememberedByteCountMax: Int { 256 }
    /// How many ids of a line that is not JSON are looked at.
    private static var brokenIDCountMax: Int { 64 }
    private static var blockByteCount: Int { 64 }

    private let key: [UInt8]
    private let digests: Set<String>
    private let kinds: Set<Kind>
    private let memory = Lock(Memory())

    /// Prepares the answers.
    ///
    /// - Parameters:
    ///   - key: the data directory's key.
    ///   - people: digests, as ``digest(of:_:key:)`` returns them, by kind.
    package init(key: [UInt8], people: [Kind: Set<String>]) {
        self.key = key
        self.digests = people.values.reduce(into: []) { $0.formUnion($1) }
        self.kinds = Set(people.filter { !$0.value.isEmpty }.keys)
    }

    /// The digest of an id, 64 hexadecimal digits.
    package static func digest(of id: some Collection<UInt8>, _ kind: Kind, key: [UInt8]) -> String {
        let padded = key + [UInt8](repeating: 0, count: max(0, Self.blockByteCount - key.count))
        let inner = SHA256.digest(padded.map { $0 ^ 0x36 } + Array(kind.rawValue.utf8) + [0] + Array(id))
        let outer = SHA256.digest(padded.map { $0 ^ 0x5C } + inner)
        return outer.map { Hexadecimal.text($0, digitCount: 2) }.joined()
    }

    /// Whether an id, without escapes, is an erased person's.
    package func contains(_ id: UnsafeRawBufferPointer, _ kind: Kind) -> Bool {
        guard self.kinds.contains(kind), !id.isEmpty else { return false }
        guard id.count <= Self.rememberedByteCountMax else { return self.judge(id, kind) }
        // Ids differ most in their last bytes.
        let place = (Int(id[id.count - 1]) &* 7 &+ Int(id[id.count / 2]) &* 3 &+ Int(id[0])) % Self.answerCount
        return self.memory.withLock { memory in
            let known = memory.answers[place]
            if known.kind == kind, known.id.count == id.count, known.id.withUnsafeBytes({ JSONText.equals($0, id) }) {
                return known.isErased
            }
            let isErased = self.judge(id, kind)
            memory.answers[place] = Answer(kind: kind, id: Array(id), isErased: isErased)
            return isErased
        }
    }

    private func judge(_ id: UnsafeRawBufferPointer, _ kind: Kind) -> Bool {
        self.digests.contains(Self.digest(of: id, kind, key: self.key))
    }

    /// Whether a member's value is an erased person's id.
    @inline(__always)
    func contains(_ member: Member, _ kind: Kind, in line: UnsafeRawBufferPointer) -> Bool {
        guard member.isPresent else { return false }
        switch member.kind {
        case .string:
            let body = UnsafeRawBufferPointer(rebasing: line[member.body])
            guard JSONText.hasEscapes(body) else { return self.contains(body, kind) }
            return Array(JSONText.string(body).utf8).withUnsafeBytes { self.contains($0, kind) }
        case .number:
            return self.contains(UnsafeRawBufferPointer(rebasing: line[member.start..<member.end]), kind)
        case .null, .false, .true, .array, .object:
            return false
        }
    }

    /// Whether a line that cannot be parsed names an erased person: by a member's name and the text after it.
    func areIn(broken line: UnsafeRawBufferPointer, userMember: String, anonymousMember: String) -> Bool {
        self.isIn(broken: line, userMember, .user) || self.isIn(broken: line, anonymousMember, .anon)
    }

    private func isIn(broken line: UnsafeRawBufferPointer, _ member: String, _ kind: Kind) -> Bool {
        guard self.kinds.contains(kind) else { return false }
        let name = Array("\"\(member)\"".utf8)
        var position = 0
        var count = 0
        while position + name.count < line.count, count < Self.brokenIDCountMax {
            guard let quote = line[position...].firstIndex(of: UInt8(ascii: "\"")) else { return false }
            position = quote + 1
            guard line[quote...].starts(with: name) else { continue }
            count += 1
            var start = quote + name.count
            while start < line.count, line[start] == 0x20 || line[start] == UInt8(ascii: ":") { start += 1 }
            guard start < line.count, line[start] == UInt8(ascii: "\"") else { continue }
            var end = start + 1
            while end < line.count, line[end] != UInt8(ascii: "\"") {
                end += line[end] == UInt8(ascii: "\\") ? 2 : 1
            }
            guard end <= line.count else { return false }
            let body = UnsafeRawBufferPointer(rebasing: line[(start + 1)..<end])
            let id = JSONText.hasEscapes(body) ? Array(JSONText.string(body).utf8) : Array(body)
            if id.withUnsafeBytes({ self.contains($0, kind) }) { return true }
            position = start
        }
        return false
    }
}
