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
    /// The session that continues or begins.
    var session: SessionRecord
    /// Whether the install could not be saved.
    var isUnsaved = true

    /// Reads or creates the install, and saves what changed.
    ///
    /// A full or failing disk does not stop the app: the install is saved with a later session. Before the user's answer
    /// about consent, if the app asks, a new install is not saved at all.
    static func begin(
        _ configuration: WaybillClient.Configuration, on files: some FileSystem, at now: WallTime,
        _ makeSalt: () -> PrivacySalt, _ generator: inout SeededGenerator
    ) throws(FileSystemError) -> InstallStart {
        let anonymous = UniqueID.random(&generator).text
        var start = InstallStart(
            install: Install(anonymous: anonymous, sessionNumber: 0), origin: .created,
            session: SessionRecord(
                anonymous: anonymous, id: .timed(now.milliseconds, &generator), number: 1, last: now))
        let directory = configuration.spool
        do throws(FileSystemError) {
            try Install.withLock(in: directory, on: files) { _ throws(FileSystemError) in
                try start.read(configuration, in: directory, on: files)
                guard start.foreignEnvironment == nil else { return }
                start.written = start.install
                start.complete(configuration, makeSalt)
                start.continueSession(after: SessionRecord.read(in: directory, on: files))
                try start.save(configuration, in: directory, on: files)
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
            if start.foreignEnvironment == nil {
                start.complete(configuration, makeSalt)
                start.continueSession(after: SessionRecord.read(in: directory, on: files))
            }
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

    /// Continues the last session, or begins one after it.
    private mutating func continueSession(after last: SessionRecord?) {
        self.session.anonymous = self.install.anonymous
        if let last, last.continues(for: self.install.anonymous, at: self.session.last) {
            self.session.id = last.id
            self.session.number = last.number
        } else {
            self.session.number = max(self.install.sessionNumber, last?.number ?? 0) + 1
        }
        self.install.sessionNumber = max(self.install.sessionNumber, self.session.number)
    }

    private mutating func complete(_ configuration: WaybillClient.Configuration, _ makeSalt: () -> PrivacySalt) {
        self.install.environment = configuration.environment
        self.install.version = configuration.version
        self.install.build = configuration.build
        self.install.salt = self.install.salt ?? makeSalt()
    }

    /// Writes the install if more than its session changed.
    private mutating func save(
        _ configuration: WaybillClient.Configuration, in directory: String, on files: some FileSystem
    ) throws(FileSystemError) {
        if self.previous == nil, configuration.consent != .given {
            self.written = nil
            self.isUnsaved = false
            return
        }
        if !self.install.isSameIdentity(as: self.previous) { try self.install.write(in: directory, on: files) }
        if self.install.consent?.analytics ?? (configuration.consent == .given) {
            try self.session.write(in: directory, on: files)
        }
        self.written = self.install
        self.isUnsaved = false
    }
}
