internal import WaybillEvent
internal import WaybillSpool
internal import WaybillSystem

/// The state of the install at the start of a process.
struct InstallStart {
    var install: Install
    var origin: InstallOrigin
    /// The content of the file; `nil` if unknown.
    var written: Install?
    /// The install as the previous process left it.
    var previous: Install?
    /// The environment of the spool's events, if it differs from this app's.
    var foreignEnvironment: DeploymentEnvironment?

    /// Reads or creates the install, and saves it with the session that begins now.
    ///
    /// A full or failing disk does not stop the app: the install is saved with a later session.
    static func begin(
        _ configuration: WaybillClient.Configuration, on files: some FileSystem, _ makeSalt: () -> PrivacySalt,
        _ generator: inout SeededGenerator
    ) throws(FileSystemError) -> InstallStart {
        var start = InstallStart(
            install: Install(anonymous: UniqueID.random(&generator).text, sessionNumber: 0), origin: .created)
        let directory = configuration.spool
        do throws(FileSystemError) {
            try Install.withLock(in: directory, on: files) { _ throws(FileSystemError) in
                try start.read(configuration, in: directory, on: files)
                guard start.foreignEnvironment == nil else { return }
                start.written = start.install
                start.complete(configuration, makeSalt)
                try start.install.write(in: directory, on: files)
                start.written = start.install
            }
        } catch {
            guard error.isTransient || error.errno == Errno.noEntry else { throw error }
            guard start.written == nil else { return start }
            // A file that could not be locked or written may still be readable.
            do throws(FileSystemError) {
                try start.read(configuration, in: directory, on: files)
                start.written = start.previous
            } catch {
                start.origin = .created
            }
            if start.foreignEnvironment == nil { start.complete(configuration, makeSalt) }
        }
        return start
    }

    private mutating func read(
        _ configuration: WaybillClient.Configuration, in directory: String, on files: some FileSystem
    ) throws(FileSystemError) {
        let found = try Install.read(in: directory, on: files)
        self.origin = found.origin
        self.previous = found.install
        if let install = found.install { self.install = install }
        self.foreignEnvironment = self.install.environment(otherThan: configuration.environment)
    }

    private mutating func complete(_ configuration: WaybillClient.Configuration, _ makeSalt: () -> PrivacySalt) {
        self.install.sessionNumber += 1
        self.install.environment = configuration.environment
        self.install.version = configuration.version
        self.install.build = configuration.build
        self.install.salt = self.install.salt ?? makeSalt()
    }
}
