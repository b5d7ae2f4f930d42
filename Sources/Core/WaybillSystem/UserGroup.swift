#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#endif

/// A group of this machine's users.
package struct UserGroup: Hashable, Sendable {
    package let name: String
    package let id: UInt32

    /// `nil` if the machine has no group of this name or number.
    package init?(named name: String) {
        var buffer = [CChar](repeating: 0, count: 16 << 10)
        var entry = group()
        var found: UnsafeMutablePointer<group>?
        while true {
            let error = getgrnam_r(name, &entry, &buffer, buffer.count, &found)
            // A group of many members needs more room.
            guard error == ERANGE, buffer.count < 16 << 20 else { break }
            buffer = [CChar](repeating: 0, count: buffer.count * 4)
        }
        if found != nil {
            self.init(name: name, id: UInt32(entry.gr_gid))
        } else if let id = UInt32(name), id != .max {
            self.init(name: name, id: id)
        } else {
            return nil
        }
    }

    package init(name: String, id: UInt32) {
        self.name = name
        self.id = id
    }
}
