#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#endif
package import WaybillSystem

/// Makes a folder that no other test has.
package func makeFolder() throws(FileSystemError) -> String {
    var template = Array("/tmp/waybill-test-XXXXXX".utf8CString)
    let isMade = template.withUnsafeMutableBufferPointer { mkdtemp($0.baseAddress!) != nil }  // Not empty.
    guard isMade else { throw FileSystemError("createDirectory", path: "/tmp/waybill-test-XXXXXX", errno: errno) }
    return String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
}

/// Makes a symbolic link.
package func makeLink(_ path: String, to target: String) throws(FileSystemError) {
    guard symlink(target, path) == 0 else { throw FileSystemError("link", path: path, errno: errno) }
}

/// Runs `body` with a new folder, and clears it away.
package func withFolder(_ body: (String) throws -> Void) throws {
    let path = try makeFolder()
    defer { removeFolder(path) }
    try body(path)
}

/// Clears a folder away, as far as that is possible.
package func removeFolder(_ path: String) {
    do throws(FileSystemError) { try POSIXFileSystem().removeTree(path) } catch {}
}
