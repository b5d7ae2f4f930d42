internal import WaybillSystem
internal import WaybillJSON

/// The people whose events were erased, known by keyed digests of their ids.
///
///     digest = HMAC-SHA-256(key, kind NUL id)        kind: user, anon; key: 32 random bytes of the data directory
///     mark   = SipHash-2-4(the first 16 bytes of the digest of an empty id of that kind, id)
///
/// No id is kept in clear, neither on the disk nor in memory. Life of one line: an ``EventReader`` finds its user and its
/// anonymous id → an id whose mark is not an erased person's is not theirs → only one whose mark is, is digested. Lines of
/// erased people read as ``QuarantineReason/erased``, so that nothing that reads events takes one.
///
/// Constraints: no cost while no one was erased, because a reader then has none; one short hash of each id of a line, of the
/// kinds that were erased; no allocation for lines of others.
///
/// - SeeAlso: `Protocol/formats/erasures.md`.
package final class ErasedPeople: Sendable {
    /// Which member of a line holds a person's id.
    package enum Kind: String, Hashable, Sendable, CaseIterable {
        case user, anon
    }

    /// A person, as a record has them.
    package struct Person: Hashable, Sendable {
        package let digest: String
        /// `nil` if it is unknown: then every id of this kind is digested.
        package let mark: UInt64?

        package init(digest: String, mark: UInt64?) {
            self.digest = digest
            self.mark = mark
        }

        /// Derives both from the person's id.
        package init(id: some Collection<UInt8>, _ kind: Kind, key: [UInt8]) {
            self.digest = ErasedPeople.digest(of: id, kind, key: key)
            self.mark = Array(id).withUnsafeBytes { ErasedPeople.hash(kind, key: key).hash(of: $0) }
        }
    }

    /// The people of one kind.
    private struct People {
        let hash: SipHash
        let digests: Set<String>
        /// `nil` if someone's is unknown.
        let marks: Set<UInt64>?
        /// A bit for the low bits of each mark, most of which are 0.
        private var bits: [UInt64] = []
        private let mask: UInt64

        init(_ people: Set<Person>, _ kind: Kind, key: [UInt8]) {
            self.hash = ErasedPeople.hash(kind, key: key)
            self.digests = Set(people.map(\.digest))
            let marks = people.compactMap(\.mark)
            self.marks = marks.count == people.count ? Set(marks) : nil
            var bitCount = ErasedPeople.bitCountMin
            while bitCount < 16 * people.count { bitCount *= 2 }
            self.mask = UInt64(bitCount - 1)
            self.bits = [UInt64](repeating: 0, count: bitCount / 64)
            for mark in marks { self.bits[Int((mark & self.mask) >> 6)] |= 1 << (mark & 63) }
        }

        /// Whether an id may be one of these people's.
        @inline(__always)
        func mayContain(_ id: UnsafeRawBufferPointer) -> Bool {
            guard let marks else { return true }
            let mark = self.hash.hash(of: id)
            guard self.bits[Int((mark & self.mask) >> 6)] & 1 << (mark & 63) != 0 else { return false }
            return marks.contains(mark)
        }
    }

    private static var bitCountMin: Int { 1024 }
    /// How many ids of a line that is not JSON are looked at.
    private static var brokenIDCountMax: Int { 64 }
    private static var blockByteCount: Int { 64 }

    private let key: [UInt8]
    private let users: People?
    private let anonymous: People?

    /// Prepares the answers.
    ///
    /// - Parameter key: the data directory's key.
    package init(key: [UInt8], people: [Kind: Set<Person>]) {
        func prepared(_ kind: Kind) -> People? {
            people[kind].flatMap { $0.isEmpty ? nil : People($0, kind, key: key) }
        }
        self.key = key
        self.users = prepared(.user)
        self.anonymous = prepared(.anon)
    }

    /// The digest of an id, 64 hexadecimal digits.
    package static func digest(of id: some Collection<UInt8>, _ kind: Kind, key: [UInt8]) -> String {
        Self.authenticate(Array(kind.rawValue.utf8) + [0] + Array(id), key: key)
            .map { Hexadecimal.text($0, digitCount: 2) }.joined()
    }

    /// HMAC-SHA-256 (RFC 2104).
    private static func authenticate(_ message: [UInt8], key: [UInt8]) -> [UInt8] {
        let padded = key + [UInt8](repeating: 0, count: max(0, Self.blockByteCount - key.count))
        let inner = SHA256.digest(padded.map { $0 ^ 0x36 } + message)
        return Array(SHA256.digest(padded.map { $0 ^ 0x5C } + inner))
    }

    /// The hash that makes the marks of a kind.
    fileprivate static func hash(_ kind: Kind, key: [UInt8]) -> SipHash {
        SipHash(key: Array(Self.authenticate(Array(kind.rawValue.utf8) + [0], key: key).prefix(16)))
    }

    /// Whether an id, without escapes, is an erased person's.
    @inline(__always)
    package func contains(_ id: UnsafeRawBufferPointer, _ kind: Kind) -> Bool {
        let found: People? =
            switch kind {
            case .user: self.users
            case .anon: self.anonymous
            }
        guard let people = found, !id.isEmpty, people.mayContain(id) else { return false }
        return people.digests.contains(Self.digest(of: id, kind, key: self.key))
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
        guard kind == .user ? self.users != nil : self.anonymous != nil else { return false }
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
