internal import CLibcrypto
package import WaybillSystem

/// SHA-256 by OpenSSL, which uses the processor's SHA instructions.
package struct SHA256Digest: ~Copyable {
    private let context: OpaquePointer

    package init() {
        guard let context = EVP_MD_CTX_new(), EVP_DigestInit_ex(context, EVP_sha256(), nil) == 1 else {
            preconditionFailure("libcrypto has no SHA-256 (out of memory, or a build without it)")
        }
        self.context = context
    }

    deinit {
        EVP_MD_CTX_free(self.context)
    }

    package mutating func update(_ bytes: UnsafeRawBufferPointer) {
        EVP_DigestUpdate(self.context, bytes.baseAddress, bytes.count)
    }

    /// The digest of bytes in memory.
    package static func text(of bytes: [UInt8]) -> String {
        var digest = SHA256Digest()
        bytes.withUnsafeBytes { digest.update($0) }
        return digest.finish()
    }

    /// The digest of a file.
    ///
    /// - Parameter byteCount: how many of its bytes, all by default.
    package static func ofFile(
        _ path: String, upTo byteCount: Int = .max, _ files: some FileSystem
    ) throws(FileSystemError) -> String {
        let file = try files.open(path, .read)
        defer { files.close(file) }
        var digest = SHA256Digest()
        try files.visit(file, 0..<byteCount) { (piece) throws(FileSystemError) in digest.update(piece) }
        return digest.finish()
    }

    /// Whether text has the format that ``finish()`` returns.
    package static func isText(_ text: String) -> Bool {
        Hexadecimal.isText(text, digitCount: 64)
    }

    /// Returns 64 hexadecimal digits; nothing can be added after it.
    package mutating func finish() -> String {
        var digest = [UInt8](repeating: 0, count: 32)
        EVP_DigestFinal_ex(self.context, &digest, nil)
        return Hexadecimal.text(digest)
    }
}
