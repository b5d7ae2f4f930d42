internal import WaybillData
package import WaybillSystem

/// One bucket's objects under one prefix, each written once.
///
/// Keys are relative to the prefix. Calls block; make them on threads of your own, never on an event loop. Retries are
/// inside: an error that comes out needs time or someone's hand.
package protocol ObjectStore: Sendable {
    /// `PUT` with `If-None-Match: *`.
    ///
    /// - Returns: `.present` if someone wrote the key before, maybe this call's own lost attempt: compare.
    func create(_ key: String, _ body: ObjectBody) throws(StoreError) -> Creation
    /// Unconditional `PUT`, for what is derived and may be replaced.
    func replace(_ key: String, _ body: ObjectBody) throws(StoreError)
    /// The bytes of `range`, cut to what the object has; all of it, up to 64 MiB, if `nil`.
    ///
    /// - Returns: `nil` if there is no such object.
    func read(_ key: String, _ range: Range<Int>?) throws(StoreError) -> [UInt8]?
    func status(of key: String) throws(StoreError) -> ObjectStatus?
    /// One page in the order of keys; `isFolded` cuts keys at the first `/` after the prefix.
    func list(_ prefix: String, after: String?, isFolded: Bool) throws(StoreError) -> ObjectListing
    /// Deletes an object; an absent one is success.
    func delete(_ key: String) throws(StoreError)
    /// By how much the store's clock is ahead of this host's, at most, as its last answer said; `nil`: none has said it.
    var clockOffset: Duration? { get }
}

extension ObjectStore {
    package var clockOffset: Duration? { nil }

    /// The earlier of a time of this host and the store's: what lies before it is over by both clocks.
    package func earlierTime(_ own: WallTime) -> WallTime {
        guard let offset = self.clockOffset, offset < .zero else { return own }
        return WallTime(milliseconds: own.milliseconds + offset.nanoseconds / 1_000_000)
    }
}

/// What a conditional write found.
package enum Creation: Hashable, Sendable {
    case created
    case present
}

/// What a `PUT` sends: bytes in memory, or of a file that is read while they are sent.
package struct ObjectBody: Sendable {
    package let byteCount: Int
    /// Reads `count` bytes from `offset` on; fewer mean that the file has become shorter, which fails the call.
    package let read: @Sendable (_ offset: Int, _ count: Int) throws(FileSystemError) -> [UInt8]

    package init(_ bytes: [UInt8]) {
        self.byteCount = bytes.count
        self.read = { offset, count in Array(bytes[offset..<(offset + count)]) }
    }

    /// The first bytes of a file, read when they are sent.
    init(file path: String, byteCount: Int, _ files: some FileSystem) {
        self.init(byteCount: byteCount) { (offset, count) throws(FileSystemError) in
            try files.bytes(at: path, offset: offset, count: count)
        }
    }

    package init(
        byteCount: Int, read: @escaping @Sendable (_ offset: Int, _ count: Int) throws(FileSystemError) -> [UInt8]
    ) {
        self.byteCount = byteCount
        self.read = read
    }
}

package struct ObjectStatus: Hashable, Sendable {
    package let byteCount: Int
    package let modified: WallTime
    package let entityTag: String

    package init(byteCount: Int, modified: WallTime, entityTag: String) {
        self.byteCount = byteCount
        self.modified = modified
        self.entityTag = entityTag
    }
}

package struct ObjectListing: Hashable, Sendable {
    package struct Object: Hashable, Sendable {
        package let key: String
        package let byteCount: Int
        package let modified: WallTime

        package init(key: String, byteCount: Int, modified: WallTime) {
            self.key = key
            self.byteCount = byteCount
            self.modified = modified
        }
    }

    package var objects: [Object]
    /// With their slash.
    package var folders: [String]
    /// What `after` must be for the next page; `nil`: there is none.
    package var next: String?

    package init(objects: [Object] = [], folders: [String] = [], next: String? = nil) {
        self.objects = objects
        self.folders = folders
        self.next = next
    }
}

/// What a store lists, page after page.
package struct ListingPages {
    private let store: any ObjectStore
    private let prefix: String
    private let isFolded: Bool
    private var after: String?
    private var isAtEnd = false

    package init(_ store: any ObjectStore, _ prefix: String, isFolded: Bool) {
        (self.store, self.prefix, self.isFolded) = (store, prefix, isFolded)
    }

    package mutating func next() throws(StoreError) -> ObjectListing? {
        guard !self.isAtEnd else { return nil }
        let page = try self.store.list(self.prefix, after: self.after, isFolded: self.isFolded)
        (self.after, self.isAtEnd) = (page.next, page.next == nil)
        return page
    }
}

package enum ObjectLimits {
    /// The most that one call reads; more is an error, never a shorter answer.
    package static let readByteCountMax = 64 << 20
    /// The longest body of one `PUT`: parts have at most 1 GiB, S3 takes 5.
    package static let bodyByteCountMax = 5 << 30
}
