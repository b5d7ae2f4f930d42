public import CWaybillSystem

/// A value that threads read and change without a lock.
///
/// It stands for `Synchronization.Atomic`, which needs iOS 18 and macOS 15.
///
/// Types and functions are `@usableFromInline`: to another module `@inlinable` alone gives no body of what is `package`, and
/// each access was then a call through a table.
///
/// `@unchecked Sendable`: the memory is accessed by atomic instructions only.
@usableFromInline
package struct Atomic<Value: AtomicValue>: ~Copyable, @unchecked Sendable {
    @usableFromInline let cell: UnsafeMutablePointer<Int64>

    @inlinable
    package init(_ value: Value) {
        self.cell = .allocate(capacity: 1)
        self.cell.initialize(to: value.atomicBits)
    }

    @inlinable
    deinit {
        self.cell.deallocate()
    }

    @inlinable @inline(__always)
    package func load(ordering: AtomicOrdering.Load) -> Value {
        Value(atomicBits: waybill_atomic_load(self.cell, ordering.rawValue))
    }

    @inlinable @inline(__always)
    package func store(_ value: Value, ordering: AtomicOrdering.Store) {
        waybill_atomic_store(self.cell, value.atomicBits, ordering.rawValue)
    }
}

extension Atomic where Value: FixedWidthInteger {
    /// Adds, and wraps at the limits of 64 bits.
    ///
    /// - Returns: the sum.
    @inlinable @inline(__always) @discardableResult
    package func add(_ value: Value, ordering: AtomicOrdering.Store) -> Value {
        Value(atomicBits: waybill_atomic_add(self.cell, value.atomicBits, ordering.rawValue))
    }

    /// Sets the bits that `bits` has.
    @inlinable @inline(__always)
    package func set(_ bits: Value, ordering: AtomicOrdering.Store) {
        _ = waybill_atomic_or(self.cell, bits.atomicBits, ordering.rawValue)
    }

    /// Replaces an expected value, and acquires; may fail without a reason.
    ///
    /// - Returns: the value that was there instead; `nil` if the expected one was replaced.
    @inlinable @inline(__always)
    package func replace(_ expected: Value, with desired: Value) -> Value? {
        var found = expected.atomicBits
        return waybill_atomic_exchange_weak(self.cell, &found, desired.atomicBits) != 0 ? nil : Value(atomicBits: found)
    }
}

/// The order of an atomic access and the accesses around it; the numbers are the compiler's.
@usableFromInline
package enum AtomicOrdering {
    @usableFromInline
    package enum Load: Int32 {
        case relaxed = 0
        case acquiring = 2
        case sequentiallyConsistent = 5
    }

    @usableFromInline
    package enum Store: Int32 {
        case relaxed = 0
        case releasing = 3
        case sequentiallyConsistent = 5
    }
}

/// A value that 64 bits can hold.
@usableFromInline
package protocol AtomicValue: BitwiseCopyable, Sendable {
    init(atomicBits: Int64)
    var atomicBits: Int64 { get }
}

extension AtomicValue where Self: FixedWidthInteger {
    @inlinable @inline(__always)
    package init(atomicBits: Int64) {
        self.init(truncatingIfNeeded: atomicBits)
    }

    @inlinable @inline(__always)
    package var atomicBits: Int64 { Int64(truncatingIfNeeded: self) }
}

extension Int: AtomicValue {}
extension Int32: AtomicValue {}
extension Int64: AtomicValue {}
extension UInt32: AtomicValue {}
extension UInt64: AtomicValue {}

extension Bool: AtomicValue {
    @inlinable @inline(__always)
    package init(atomicBits: Int64) {
        self = atomicBits != 0
    }

    @inlinable @inline(__always)
    package var atomicBits: Int64 { self ? 1 : 0 }
}
