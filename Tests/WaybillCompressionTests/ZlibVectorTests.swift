import Testing
import WaybillCompression
import WaybillSystem

/// What Python's zlib wrote, in `Protocol/vectors/zlib`.
@Suite struct ZlibVectorTests {
    private static let folder = Path.join(
        Path.parent(of: Path.parent(of: Path.parent(of: #filePath))), "Protocol/vectors/zlib")

    private static func names(_ suffix: String) throws -> [String] {
        try POSIXFileSystem().list(self.folder).filter { $0.hasSuffix(suffix) }
    }

    private static func bytes(_ name: String) throws -> [UInt8] {
        try #require(try POSIXFileSystem().contents(of: Path.join(self.folder, name)))
    }

    private static func inflate(_ payload: [UInt8], byteCount: Int) -> Result<[UInt8], InflateError> {
        var output = [UInt8](repeating: 0, count: byteCount)
        var result: Result<[UInt8], InflateError> = .success([])
        payload.withUnsafeBytes { payload in
            output.withUnsafeMutableBytes { output in
                var inflater = Inflater()
                do throws(InflateError) {
                    try inflater.inflate(payload, into: output)
                } catch {
                    result = .failure(error)
                }
            }
        }
        return result.map { _ in output }
    }

    @Test func `every stream that Python made inflates to its raw bytes`() throws {
        let names = try Self.names(".zlib")
        #expect(names.count == 30)
        for name in names {
            let raw = try Self.bytes(name.prefix { $0 != "." } + ".raw")
            #expect(Self.inflate(try Self.bytes(name), byteCount: raw.count) == .success(raw), "\(name)")
        }
    }

    @Test func `streams of other formats and with wrong checksums are corrupt`() throws {
        let raw = try Self.bytes("lines.raw")
        let names = try Self.names(".bad")
        #expect(names == ["checksum.bad", "dictionary.bad", "gzip.bad", "no-header.bad"])
        for name in names {
            #expect(Self.inflate(try Self.bytes(name), byteCount: raw.count) == .failure(.corrupt), "\(name)")
        }
    }
}
