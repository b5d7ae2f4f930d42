internal import Synchronization
package import WaybillEvent
internal import WaybillSpool
package import WaybillSystem

/// The client over any disk and clock: locks, the pool of parts, and the install file.
package final class ClientCore<Files: FileSystem, Clock: SystemClock>: Sendable {
    private let files: Files
    private let clock: Clock
    private let directory: String
    private let subscriptions: [Subscription]
    package let installOrigin: InstallOrigin
    private let state: Mutex<ClientState<Files>>
    /// Parts that no call uses now; never locked together with `state`.
    private let pool = Mutex<[EventPartsBox]>([])
    /// The install as written last; `nil` when it could not be read, and is overwritten by a reset alone.
    ///
    /// Locked before `state`.
    private let written: Mutex<Install?>

    /// As many threads as track at the same time without allocating.
    private static var pooledCountMax: Int { 16 }

    package init(
        _ configuration: Waybill.Configuration, on files: Files, clock: Clock, seed: UInt64,
        zone: @escaping @Sendable (WallTime) -> Int, segmentByteCountMax: Int = SpoolLimits.segmentByteCountMax
    ) throws(WaybillError) {
        try configuration.check()
        self.files = files
        self.clock = clock
        self.directory = configuration.spool
        self.subscriptions = configuration.providers
        let now = Moment(wall: clock.wallTime(), monotonic: clock.monotonicTime())
        var generator = SeededGenerator(seed: seed)
        let writer = UniqueID.timed(now.wall.milliseconds, &generator)
        do throws(FileSystemError) {
            let spool = try SpoolWriter(
                directory: configuration.spool, writer: writer.text, on: files,
                segmentByteCountMax: segmentByteCountMax)
            let start = try Self.startInstall(in: configuration.spool, on: files, &generator)
            self.installOrigin = start.origin
            self.written = Mutex(start.written)
            var state = ClientState(
                spool: spool, writer: writer, origin: configuration.origin, install: start.install,
                generator: generator, at: now, zone: zone)
            if start.written != start.install { state.installFailed() }
            for subscription in configuration.observers { state.observe(Observation(subscription)) }
            self.state = Mutex(state)
        } catch {
            throw WaybillError(error)
        }
    }

    deinit {
        self.state.withLock { $0.cancelObservations() }
    }

    private struct InstallStart {
        var install: Install
        var origin: InstallOrigin
        /// What the file holds; `nil` when that is unknown.
        var written: Install?
    }

    /// Reads the install, or makes one, and saves it with the session that begins now.
    ///
    /// A disk that is full or failing now does not stop the app: the install is saved with a later session.
    private static func startInstall(
        in directory: String, on files: Files, _ generator: inout SeededGenerator
    ) throws(FileSystemError) -> InstallStart {
        var start = InstallStart(
            install: Install(anonymous: UniqueID.random(&generator).text, sessionNumber: 0), origin: .created)
        var isRead = false
        do throws(FileSystemError) {
            let found = try Install.read(in: directory, on: files)
            start.origin = found.origin
            if let install = found.install { start.install = install }
            isRead = true
            let before = start.install
            start.install.sessionNumber += 1
            start.written = before
            try start.install.write(in: directory, on: files)
            start.written = start.install
        } catch {
            guard error.isTransient || error.errno == SystemErrorText.noEntry else { throw error }
            if !isRead { start.install.sessionNumber += 1 }
        }
        return start
    }

    private func now() -> Moment {
        Moment(wall: self.clock.wallTime(), monotonic: self.clock.monotonicTime())
    }

    /// Encodes without the lock, stores under it.
    package func track(_ take: (inout EventParts, [Subscription]) -> Void) -> TrackOutcome {
        let box = self.pool.withLock { $0.popLast() } ?? EventPartsBox()
        take(&box.parts, self.subscriptions)
        let (outcome, isWorthSaving) = self.state.withLock { state in
            let mark = state.saveMark
            let outcome = state.store(box.parts, at: self.now())
            return (outcome, state.saveMark != mark)
        }
        self.giveBack(box)
        if isWorthSaving { self.saveInstall() }
        return outcome
    }

    private func giveBack(_ box: EventPartsBox) {
        self.pool.withLock { pool in
            if pool.count < Self.pooledCountMax { pool.append(box) }
        }
    }

    package func setUser(_ id: String?, traits: KeyValuePairs<String, Scalar?>) -> TrackOutcome {
        let box = EventPartsBox()
        box.parts.take(.user, "set_user", nil, self.subscriptions) { fields in
            for (key, value) in traits {
                if let value {
                    fields.put(key, value)
                } else {
                    fields.putNull(key)
                }
            }
        }
        let outcome = self.state.withLock { $0.setUser(id, box.parts, at: self.now()) }
        self.saveInstall()
        return outcome
    }

    package func observe(_ subscription: ObserverSubscription) -> Observation {
        let observation = Observation(subscription)
        self.state.withLock { $0.observe(observation) }
        return observation
    }

    package func setVendorID(_ id: String?, for provider: ProviderID) {
        self.state.withLock { $0.setVendorID(id, for: provider) }
    }

    package func register(_ body: (inout Fields) -> Void) -> Bool {
        let common = EventPartsBox()
        common.parts.take(.event, "common", nil, [], adding: body)
        guard !common.parts.isOverflowing else { return false }
        self.state.withLock { $0.register(common) }
        return true
    }

    package func setConsent(analytics: Bool, ads: Bool) -> TrackOutcome {
        let box = EventPartsBox()
        box.parts.take(.meta, "wb.consent", nil, []) { fields in
            fields.put("analytics", analytics)
            fields.put("ads", ads)
        }
        let outcome = self.state.withLock {
            $0.setConsent(analytics: analytics, ads: ads, box.parts, at: self.now())
        }
        self.saveInstall()
        return outcome
    }

    package func reset() throws(WaybillError) {
        self.state.withLock { $0.reset(at: self.now()) }
        do throws(FileSystemError) {
            try self.written.withLock { written throws(FileSystemError) in try self.save(&written) }
        } catch {
            throw WaybillError(error)
        }
    }

    /// Saves the install when the file says something else; a failure is counted, and the next session tries again.
    private func saveInstall() {
        do throws(FileSystemError) {
            try self.written.withLock { written throws(FileSystemError) in
                guard written != nil else { return }
                try self.save(&written)
            }
        } catch {
            self.state.withLock { $0.installFailed() }
        }
    }

    private func save(_ written: inout Install?) throws(FileSystemError) {
        let install = self.state.withLock { $0.install }
        guard install != written else { return }
        try install.write(in: self.directory, on: self.files)
        written = install
    }

    package func flush() throws(WaybillError) {
        let flush = self.state.withLock { $0.flush }
        var failure: FileSystemError?
        do throws(FileSystemError) {
            try flush.perform(on: self.files)
        } catch {
            failure = error
        }
        self.state.withLock { [failure] in $0.flushEnded(flush, failure) }
        if let failure { throw WaybillError(failure) }
    }

    package var counters: Counters {
        self.state.withLock { $0.counters }
    }
}

extension Waybill.Configuration {
    var origin: EventOrigin {
        EventOrigin(
            app: self.version, build: self.build, bundle: self.bundle, os: self.device.os,
            osVersion: self.device.osVersion, model: self.device.model, language: self.language,
            environment: self.environment)
    }

    func check() throws(WaybillError) {
        if self.spool.isEmpty { throw WaybillError(missing: "spool", "name the app's own folder") }
        if self.bundle.isEmpty { throw WaybillError(missing: "bundle", "name the app, as in com.example.shop") }
        if self.version.isEmpty { throw WaybillError(missing: "version", "name the app's version, as in 1.4.2") }
        if self.build.isEmpty { throw WaybillError(missing: "build", "name the build, as in 118") }
        let texts = [
            self.version, self.build, self.bundle, self.device.os, self.device.osVersion ?? "",
            self.device.model ?? "", self.language ?? "",
        ]
        let byteCount = texts.reduce(0) { $0 + $1.utf8.count }
        if byteCount > Self.byteCountMax {
            throw WaybillError(
                code: "configuration",
                message: "the app and device are described in \(byteCount) bytes; use at most \(Self.byteCountMax)",
                errno: 0)
        }
    }

    /// Half of a line even where every byte needs six: the fields want room.
    private static var byteCountMax: Int { 2048 }
}

extension WaybillError {
    init(_ error: FileSystemError) {
        self.init(code: error.code, message: error.description, errno: error.errno)
    }

    fileprivate init(missing field: String, _ remedy: String) {
        self.init(code: "configuration", message: "`\(field)` is empty; \(remedy)", errno: 0)
    }
}
