package import WaybillProtocol
package import WaybillSystem

/// The file with an install's key, next to the registry.
///
///     bm9ib2R5IGtub3dzIQ== 1f2e3d4c5b6a7988      base64, FNV-1a 64 of it
///
/// A lost key costs at most repetitions of what was not sealed: the install goes on under a new name.
package struct DeviceKeyFile<Files: FileSystem> {
    package static var name: String { "device.key" }

    private let directory: String
    private let files: Files

    package init(in directory: String, on files: Files) {
        self.directory = directory
        self.files = files
    }

    private var path: String { Path.join(self.directory, Self.name) }
    /// Where a damaged file is kept.
    private var damagedPath: String { self.path + ".damaged" }

    /// What was found, or made.
    package struct Opened: Hashable, Sendable {
        package let key: DeviceKey
        /// Where the damaged file is that the key replaces.
        package let damagedPath: String?
    }

    /// Reads the key, or makes one; it is durable when this returns.
    package func open() throws(FileSystemError) -> Opened {
        var damagedPath: String?
        if let bytes = try self.files.contents(of: self.path, byteCountMax: 4096) {
            if let key = Self.key(of: bytes) {
                // The process that made it may have died before the folder was synchronized.
                try self.files.synchronizeDirectory(self.directory)
                return Opened(key: key, damagedPath: nil)
            }
            try self.files.rename(self.path, to: self.damagedPath)
            damagedPath = self.damagedPath
        }
        guard let key = DeviceKey(try SystemRandom.secretBytes(count: DeviceKey.byteCount)) else {
            preconditionFailure("it has as many bytes as were asked for")
        }
        try self.files.replace(self.path, with: Self.bytes(of: key))
        return Opened(key: key, damagedPath: damagedPath)
    }

    static func bytes(of key: DeviceKey) -> [UInt8] {
        CheckedLine.bytes(of: key.text)
    }

    private static func key(of bytes: [UInt8]) -> DeviceKey? {
        CheckedLine.text(of: bytes).flatMap { DeviceKey(text: $0.utf8) }
    }
}
