internal import WaybillSystem

/// A path split after its last slash, so that files in the same folder share its name.
struct FilePlace: Hashable, Sendable {
    /// The folder including its slash; empty for a bare name.
    private(set) var folder: PathKey
    private let name: FileName

    init(_ path: String) {
        let start = Self.nameStart(of: path)
        self.folder = PathKey(String(path[..<start]))
        self.name = FileName(path.utf8[start...])
    }

    var path: String { self.folder.text + self.name.text }

    /// Whether this is the place of `path`; does not create a string.
    func leads(to path: String) -> Bool {
        let start = Self.nameStart(of: path)
        return self.name == FileName(path.utf8[start...]) && self.folder.text.utf8.elementsEqual(path.utf8[..<start])
    }

    /// Uses another copy of the folder's name.
    mutating func shareFolder(_ folder: PathKey) {
        self.folder = folder
    }

    var hash: UInt32 { Self.hash(self.folder.text.utf8[...], self.name) }

    static func hash(of path: String) -> UInt32 {
        let start = self.nameStart(of: path)
        return self.hash(path.utf8[..<start], FileName(path.utf8[start...]))
    }

    private static func hash(_ folder: Substring.UTF8View, _ name: FileName) -> UInt32 {
        SlotIndex.hash { hasher in
            hasher.combine(name)
            _ = folder.withContiguousStorageIfAvailable { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
        }
    }

    private static func nameStart(of path: String) -> String.Index {
        path.utf8.lastIndex(of: UInt8(ascii: "/")).map { path.utf8.index(after: $0) } ?? path.startIndex
    }
}

/// The name of a file, stored in 32 bytes if it has at most 31: for most names a string needs 64 bytes more.
private enum FileName: Hashable, Sendable {
    case short(ShortName)
    case long(PathKey)

    init(_ bytes: Substring.UTF8View) {
        if let name = ShortName(bytes) { self = .short(name) } else { self = .long(PathKey(String(Substring(bytes)))) }
    }

    var text: String {
        switch self {
        case .short(let name): name.text
        case .long(let name): name.text
        }
    }
}

/// Up to 31 bytes, padded with NUL, which file names never contain.
private struct ShortName: Hashable, Sendable {
    private var first: UInt64 = 0
    private var second: UInt64 = 0
    private var third: UInt64 = 0
    private var fourth: UInt32 = 0
    private var fifth: UInt16 = 0
    private var last: UInt8 = 0

    init?(_ bytes: Substring.UTF8View) {
        guard bytes.count <= MemoryLayout<Self>.size, !bytes.contains(0) else { return nil }
        withUnsafeMutableBytes(of: &self) { $0.copyBytes(from: bytes) }
    }

    var text: String {
        withUnsafeBytes(of: self) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
    }
}
