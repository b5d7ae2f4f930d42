package import WaybillSystem

/// The root of the repository.
package let repositoryPath = (0..<4).reduce(#filePath) { path, _ in Path.parent(of: path) }

/// The text of a file in `Protocol/vectors`.
package func vectorText(_ name: String) throws(FileSystemError) -> String {
    let path = "\(repositoryPath)/Protocol/vectors/\(name)"
    guard let bytes = try POSIXFileSystem().contents(of: path) else {
        throw FileSystemError("open", path: path, errno: Errno.noEntry)
    }
    return String(decoding: bytes, as: UTF8.self)
}

/// The lines of a file in `Protocol/vectors/events`, each with its LF.
package func vectorLines(_ name: String) throws(FileSystemError) -> [String] {
    try vectorText("events/\(name)").split(separator: "\n").map { $0 + "\n" }
}
