import Glibc
import Testing

/// Runs `body` with a new folder, and clears it away.
func withFolder(_ body: (String) throws -> Void) throws {
    var template = Array("/tmp/waybill-test-XXXXXX".utf8CString)
    let isMade = template.withUnsafeMutableBufferPointer { mkdtemp($0.baseAddress!) != nil }  // Not empty.
    try #require(isMade)
    let path = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
    defer { removeFolder(path) }
    try body(path)
}

private func removeFolder(_ path: String) {
    if let folder = opendir(path) {
        while let entry = readdir(folder) {
            let name = withUnsafePointer(to: &entry.pointee.d_name) { name in
                name.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
            }
            if name == "." || name == ".." { continue }
            if entry.pointee.d_type == UInt8(DT_DIR) {
                removeFolder("\(path)/\(name)")
            } else {
                unlink("\(path)/\(name)")
            }
        }
        closedir(folder)
    }
    rmdir(path)
}
