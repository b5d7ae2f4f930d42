/// The mounts on which a file call may never return, because another host or a program answers it.
///
/// `/proc/self/mountinfo` tells them without touching one (`proc_pid_mountinfo(5)`). The root's own mount is none of
/// them: where it hangs, this program hangs too.
package struct MountTable: Hashable, Sendable {
    package struct Mount: Hashable, Sendable {
        /// The kernel's number: another mount at the same path has another one.
        package let number: Int
        package let path: String

        package init(number: Int, path: String) {
            self.number = number
            self.path = path
        }
    }

    /// `autofs` mounts another one when it is touched, and waits for that.
    private static let remote: Set<String> = [
        "nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "virtiofs", "fuse", "fuseblk", "afs", "ceph", "coda", "lustre",
        "gfs2", "ocfs2", "orangefs", "beegfs", "vboxsf", "autofs",
    ]
    /// What the kernel itself shows there never hangs; systemd mounts an `autofs` below the first.
    private static let ofKernel = ["/proc", "/sys", "/dev"]

    private var mounts: [PathKey: Mount] = [:]

    /// No mount.
    package init() {}

    package init(_ text: [UInt8]) {
        for line in text.split(separator: UInt8(ascii: "\n")) {
            guard let (mount, type) = Self.mount(in: line) else { continue }
            // Of several at one path, the last one hides the others.
            self.mounts[PathKey(mount.path)] = Self.mayHang(type, at: mount.path) ? mount : nil
        }
    }

    package var isEmpty: Bool { self.mounts.isEmpty }

    /// The mount at exactly this path.
    package subscript(path: String) -> Mount? { self.mounts[PathKey(path)] }

    package func contains(_ mount: Mount) -> Bool { self[mount.path] == mount }

    private static func mayHang(_ type: String, at path: String) -> Bool {
        guard self.remote.contains(type) || type.hasPrefix("fuse.") else { return false }
        return path != "/" && !self.ofKernel.contains { path.utf8.starts(with: ($0 + "/").utf8) }
    }

    /// The mount that a line tells, such as `36 35 0:42 / /mnt/logs rw,noatime shared:1 - nfs4 server:/logs rw`.
    private static func mount(in line: ArraySlice<UInt8>) -> (Mount, type: String)? {
        let fields = line.split(separator: UInt8(ascii: " "))
        guard fields.count > 4, let number = Int(String(decoding: fields[0], as: UTF8.self)),
            let end = fields.dropFirst(5).firstIndex(where: { $0.elementsEqual("-".utf8) }), end + 1 < fields.count
        else { return nil }
        let path = Self.unescaped(fields[4])
        return (Mount(number: number, path: path), String(decoding: fields[end + 1], as: UTF8.self))
    }

    /// Spaces, tabs, line feeds and backslashes are `\` and three octal digits.
    private static func unescaped(_ field: ArraySlice<UInt8>) -> String {
        var bytes: [UInt8] = []
        var rest = field
        while let byte = rest.popFirst() {
            let digits = rest.prefix(3)
            guard byte == UInt8(ascii: "\\"), digits.count == 3,
                let code = UInt8(String(decoding: digits, as: UTF8.self), radix: 8)
            else {
                bytes.append(byte)
                continue
            }
            bytes.append(code)
            rest = rest.dropFirst(3)
        }
        return String(decoding: bytes, as: UTF8.self)
    }
}
