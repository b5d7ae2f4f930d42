import Testing
import WaybillSystem

/// The lines of a file in `Protocol/vectors/events`, each with its LF.
func vectorLines(_ name: String, from file: String = #filePath) throws -> [String] {
    let root = Path.parent(of: Path.parent(of: Path.parent(of: file)))
    let bytes = try #require(try POSIXFileSystem().contents(of: "\(root)/Protocol/vectors/events/\(name)"))
    return String(decoding: bytes, as: UTF8.self).split(separator: "\n").map { $0 + "\n" }
}
