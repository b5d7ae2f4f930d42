/// A run of bytes with a stable address that any thread may read.
///
/// `@unchecked Sendable` without a lock: the bytes are written in the initialiser and never after it.
package final class SharedBytes: @unchecked Sendable {
    private let storage: UnsafeMutableRawBufferPointer

    package let count: Int

    /// Allocates `capacity` bytes and keeps as many of the first ones as `fill` returns.
    package init<Failure: Error>(
        capacity: Int, fill: (UnsafeMutableRawBufferPointer) throws(Failure) -> Int
    ) throws(Failure) {
        let storage = UnsafeMutableRawBufferPointer.allocate(byteCount: max(1, capacity), alignment: 16)
        do throws(Failure) {
            let count = try fill(UnsafeMutableRawBufferPointer(rebasing: storage[..<capacity]))
            precondition((0...capacity).contains(count), "\(count) bytes were written into \(capacity)")
            self.count = count
        } catch {
            storage.deallocate()
            throw error
        }
        self.storage = storage
    }

    /// Copies `bytes`.
    package convenience init(_ bytes: UnsafeRawBufferPointer) {
        self.init(capacity: bytes.count) { storage in
            storage.copyMemory(from: bytes)
            return bytes.count
        }
    }

    fileprivate init(adopting storage: UnsafeMutableRawBufferPointer, count: Int) {
        self.storage = storage
        self.count = count
    }

    deinit {
        self.storage.deallocate()
    }

    /// The bytes, valid as long as this object is.
    package var bytes: UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(rebasing: self.storage[..<self.count])
    }
}

/// Collects bytes that arrive in pieces, up to a length known beforehand.
package final class SharedBytesBuilder {
    private var storage: UnsafeMutableRawBufferPointer?
    private let capacity: Int
    /// Bytes collected so far.
    package private(set) var count = 0

    package init(capacity: Int) {
        self.storage = .allocate(byteCount: max(1, capacity), alignment: 16)
        self.capacity = capacity
    }

    deinit {
        self.storage?.deallocate()
    }

    /// Bytes that are still missing.
    package var missingByteCount: Int {
        self.capacity - self.count
    }

    /// Appends at most ``missingByteCount`` bytes.
    package func append(_ bytes: UnsafeRawBufferPointer) {
        precondition(bytes.count <= self.missingByteCount, "\(bytes.count) bytes for \(self.missingByteCount)")
        guard let storage else { preconditionFailure("the bytes were handed over") }
        UnsafeMutableRawBufferPointer(rebasing: storage[self.count...]).copyMemory(from: bytes)
        self.count += bytes.count
    }

    /// Hands over the bytes without a copy; nothing can be appended afterwards.
    package func finish() -> SharedBytes {
        guard let storage else { preconditionFailure("the bytes were handed over") }
        self.storage = nil
        return SharedBytes(adopting: storage, count: self.count)
    }
}
