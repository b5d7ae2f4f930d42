internal import WaybillSystem

/// The end of what was seen of a file and is not shipped: shows whether the file has that still.
///
/// NULs before it are left out. They may be a hole, or bytes that a file system does not show yet: then other bytes are
/// in their place soon, and nothing of the file is lost.
struct SeenEnd: Hashable, Sendable {
    let offset: Int
    /// The last bytes below the offset, at most as many as ``BatchEnds`` compares.
    let tail: Fingerprint

    init(offset: Int, tail: Fingerprint) {
        self.offset = offset
        self.tail = tail
    }

    /// - Parameter bytes: the bytes that ``BatchEnds`` compares at this offset.
    init(offset: Int, bytes: [UInt8]) {
        // Where there is nothing but NULs, they are what can be compared.
        let start = bytes.firstIndex { $0 != 0 } ?? 0
        self.init(
            offset: offset,
            tail: Fingerprint(
                hash: FNV1a.hash(bytes[start...]), byteCount: BatchEnds.tailByteCount(at: offset) - start))
    }
}
