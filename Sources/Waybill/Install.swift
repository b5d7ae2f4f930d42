internal import WaybillEvent
internal import WaybillSystem

/// What an install remembers from one process to the next, in `install.json` of its spool.
///
///     {"v":1,"anon":"b5372db0-c21e-41e4-8dfc-aa07a5b093db","session_n":7}
struct Install: Hashable, Sendable {
    /// The resettable id of the install.
    var anonymous: String
    /// The number of the last session.
    var sessionNumber: UInt64

    static let fileName = "install.json"
    /// Longer ones are not ours.
    private static let byteCountMax = 4096

    var bytes: [UInt8] {
        Array("{\"v\":1,\"anon\":\"\(self.anonymous)\",\"session_n\":\(self.sessionNumber)}\n".utf8)
    }

    init(anonymous: String, sessionNumber: UInt64) {
        self.anonymous = anonymous
        self.sessionNumber = sessionNumber
    }

    /// `nil` for bytes that ``bytes`` did not write.
    init?(parsing bytes: [UInt8]) {
        guard let text = String(validating: bytes, as: UTF8.self) else { return nil }
        let head = "{\"v\":1,\"anon\":\""
        let middle = "\",\"session_n\":"
        guard text.hasPrefix(head), text.hasSuffix("}\n") else { return nil }
        let rest = text.dropFirst(head.count).dropLast(2)
        let anonymous = rest.prefix(36)
        guard anonymous.utf8.count == 36, anonymous.allSatisfy({ $0.isASCII && ($0.isHexDigit || $0 == "-") })
        else { return nil }
        let tail = rest.dropFirst(36)
        guard tail.hasPrefix(middle), let number = UInt64(tail.dropFirst(middle.count)) else { return nil }
        guard number <= EventLimits.integerMagnitudeMax else { return nil }
        self.init(anonymous: String(anonymous), sessionNumber: number)
    }

    /// Reads the install of a spool; `nil` when there is none.
    ///
    /// A file that is damaged is renamed to `install.json.bad`, so that a start never fails on it.
    static func read(
        in directory: String, on files: some FileSystem
    ) throws(FileSystemError) -> (install: Install?, origin: InstallOrigin) {
        let path = Path.join(directory, Self.fileName)
        guard let bytes = try files.contents(of: path, byteCountMax: Self.byteCountMax) else {
            return (nil, .created)
        }
        if let install = Install(parsing: bytes) { return (install, .continued) }
        let aside = path + ".bad"
        try files.rename(path, to: aside)
        return (nil, .setAside(path: aside))
    }

    /// Saves the install durably; makes the folder when it is missing.
    func write(in directory: String, on files: some FileSystem) throws(FileSystemError) {
        try files.createDirectories(directory)
        try files.replace(Path.join(directory, Self.fileName), with: self.bytes)
    }
}
