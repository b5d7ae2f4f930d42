internal import WaybillSystem

/// The fingerprint of a file's first line with its LF, or of its first 4096 bytes; distinguishes two files in one
/// inode.
struct Fingerprint: Hashable, Sendable {
    /// Longer heads would cost more per batch without distinguishing more files.
    static let byteCountMax = 4096

    let hash: UInt64
    private let count: UInt16

    init(hash: UInt64, byteCount: Int) {
        self.hash = hash
        self.count = UInt16(byteCount)
    }

    var byteCount: Int { Int(self.count) }

    init(of bytes: UnsafeRawBufferPointer) {
        self.init(hash: FNV1a.hash(bytes), byteCount: bytes.count)
    }
}

/// An earlier head of a file, with the incarnation number for the next content that has this head.
struct PastHead: Hashable, Sendable {
    let hash: UInt64
    let nextIncarnation: Int

    /// The number of heads remembered per file; older ones are dropped.
    static let countMax = 32
}

/// Where a foreign file's content was found first: the part of its streams' ids between the agent's name and its head.
///
/// It stays with the content when another file takes that over, and when devices get other numbers.
struct FileStem: Hashable, Sendable {
    let device: UInt64
    let inode: UInt64
    let birth: Int64

    init(device: UInt64, inode: UInt64, birth: Int64) {
        self.device = device
        self.inode = inode
        self.birth = birth
    }

    init(_ identity: FileIdentity, birth: Int64) {
        self.init(device: identity.device, inode: identity.inode, birth: birth)
    }

    /// `<device>-<inode>-<birth>`, hexadecimal.
    var text: String {
        let birth = String(UInt64(bitPattern: self.birth), radix: 16)
        return "\(String(self.device, radix: 16))-\(String(self.inode, radix: 16))-\(birth)"
    }

    /// Parses one; `nil` for any other text.
    init?(_ text: some StringProtocol) {
        let parts = text.split(separator: "-", omittingEmptySubsequences: false).map { Substring($0) }
        guard parts.count == 3, let device = parts[0].asHexadecimal, let inode = parts[1].asHexadecimal,
            let birth = parts[2].asHexadecimal
        else { return nil }
        self.init(device: device, inode: inode, birth: Int64(bitPattern: birth))
    }
}
