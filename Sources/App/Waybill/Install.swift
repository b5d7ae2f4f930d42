internal import WaybillEvent
internal import WaybillJSON
internal import WaybillSystem

/// The state of an install that outlives a process, stored in `install.json` in its spool.
///
///     {"v":1,"anon":"b5372db0-…","env":"prod","app":"1.4.2","build":"118","salt":"9f…","session_n":7}
struct Install: Hashable, Sendable {
    /// The resettable id of the install.
    var anonymous: String
    /// The number of the last session when the file was written; ``SessionRecord`` may have a later one.
    var sessionNumber: UInt64
    /// The environment of the spool's events; `nil` in files of older versions.
    var environment: DeploymentEnvironment?
    /// The app's version and build that last ran; `nil` in files of older versions.
    var version: String?
    var build: String?
    /// The salt for hashing private values; `nil` in files of older versions.
    var salt: PrivacySalt?
    /// The user's consent; `nil` if it was never set.
    var consent: Consent?

    static let fileName = "install.json"
    /// The lock file, held exclusively while the file is read and rewritten.
    static let lockName = "install.lock"
    /// Longer files are not install files.
    private static let byteCountMax = 16_384

    var bytes: [UInt8] {
        var line = LineBuffer(capacity: 512)
        line.append("{\"v\":1,\"anon\":")
        line.appendString(self.anonymous)
        for (key, value) in [
            ("env", self.environment?.rawValue), ("app", self.version), ("build", self.build),
            ("salt", self.salt?.hexadecimal),
        ] {
            guard let value else { continue }
            line.append(UInt8(ascii: ","))
            line.appendString(key)
            line.append(UInt8(ascii: ":"))
            line.appendString(value)
        }
        if let consent = self.consent { line.append(consent) }
        line.append(",\"session_n\":")
        line.appendDecimal(self.sessionNumber)
        line.append("}\n")
        return Array(line.bytes)
    }

    init(anonymous: String, sessionNumber: UInt64) {
        self.anonymous = anonymous
        self.sessionNumber = sessionNumber
    }

    /// `nil` if the bytes are not an install file.
    init?(parsing bytes: [UInt8]) {
        var consent: Consent?
        let members: [String: String]? = bytes.withUnsafeBytes { buffer in
            var tape = JSONTape()
            guard tape.accepts(buffer) else { return nil }
            var members: [String: String] = [:]
            consent = tape.firstValue(of: "consent", in: 0).flatMap { Self.consent(at: $0, tape) }
            var rest = tape.members(of: 0)
            while let (key, value) = rest.next(in: tape) {
                members[JSONText.string(tape.bytes(of: key))] = StoredValue.text(of: value, tape)
            }
            return members
        }
        guard let members, members["v"] == "1", let anonymous = members["anon"], anonymous.utf8.count == 36,
            anonymous.allSatisfy({ $0.isASCII && ($0.isHexDigit || $0 == "-") }),
            let sessionNumber = members["session_n"].flatMap(UInt64.init),
            sessionNumber <= EventLimits.integerMagnitudeMax
        else { return nil }
        self.init(anonymous: anonymous, sessionNumber: sessionNumber)
        self.environment = members["env"].flatMap(DeploymentEnvironment.init)
        self.version = members["app"]
        self.build = members["build"]
        self.salt = members["salt"].flatMap { PrivacySalt(hexadecimal: $0) }
        self.consent = consent
    }

    /// `nil` if one of the two required answers is missing.
    private static func consent(at object: Int, _ tape: borrowing JSONTape) -> Consent? {
        var answers: [String: Bool] = [:]
        var members = tape.members(of: object)
        while let (key, value) = members.next(in: tape) {
            answers[JSONText.string(tape.bytes(of: key))] = tape[value].kind == .true
        }
        guard let analytics = answers.removeValue(forKey: "analytics"), let ads = answers.removeValue(forKey: "ads")
        else { return nil }
        return Consent(analytics: analytics, ads: ads, categories: answers)
    }

    /// Whether only the number of the session may differ: that changes without being saved here.
    func isSameIdentity(as other: Install?) -> Bool {
        guard var other else { return false }
        other.sessionNumber = self.sessionNumber
        return self == other
    }

    /// Reads the install of a spool; `nil` if there is none.
    ///
    /// A damaged file is renamed to `install.json.bad`, so that a start never fails because of it.
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

    /// The environment of the spool's events, if it differs from the app's.
    func environment(otherThan own: DeploymentEnvironment) -> DeploymentEnvironment? {
        self.environment == own ? nil : self.environment
    }

    /// Saves the install durably.
    func write(in directory: String, on files: some FileSystem) throws(FileSystemError) {
        try files.replace(Path.join(directory, Self.fileName), with: self.bytes)
    }

    /// Runs `body` while no other process reads or writes the install; creates the folder if it does not exist.
    ///
    /// - Parameter body: receives whether the lock was obtained: the wait for another process is short.
    static func withLock<Result>(
        in directory: String, on files: some FileSystem, _ body: (_ isLocked: Bool) throws(FileSystemError) -> Result
    ) throws(FileSystemError) -> Result {
        // The file is written after the folder's name is durable; then nothing needs to be synced again.
        if try files.status(at: Path.join(directory, Self.fileName)) == nil { try files.createDirectories(directory) }
        let lock = try files.open(Path.join(directory, Self.lockName), .append)
        defer { files.close(lock) }
        let patience = POSIXClock().monotonicTime() + .seconds(2)
        var isLocked = try files.lock(lock, .exclusive)
        while !isLocked, POSIXClock().monotonicTime() < patience {
            // The lock's holder only writes one small file.
            Worker.sleep(for: .milliseconds(2))
            isLocked = try files.lock(lock, .exclusive)
        }
        return try body(isLocked)
    }

}
