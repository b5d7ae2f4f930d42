package import Logging
internal import NIOCore
internal import NIOPosix
internal import ServiceLifecycle
package import WaybillHost
package import WaybillProtocol
package import WaybillSystem
internal import WaybillTail

/// The agent as a service: one thread that decides (``Pump``), threads that compress, one event loop that carries bytes.
///
/// Graceful shutdown, or cancelling the task, asks the pump to drain; what is not acknowledged by the deadline is still on disk.
package final class Agent: Service {
    package let reloader: Reloader<AgentConfiguration>
    let telemetry: AgentTelemetry
    private let result = Lock<AgentOutcome?>(nil)
    /// What a reload replaces.
    let live = AgentLive()
    /// The threads for calls that may never return, wherever sources are.
    let mounts: RemoteMounts

    package init(configuration: AgentConfiguration, logger: Logger, manager: ServiceManager = .none) {
        precondition(!configuration.receivers.isEmpty, "an agent needs a receiver")
        self.telemetry = AgentTelemetry(logger: logger, manager: manager)
        self.reloader = Reloader(
            configuration,
            ReloadTelemetry(
                logger, restartNeeded: .agentRestartNeeded, refused: .agentReloadRefused,
                unchanged: "configuration reloaded"))
        self.mounts = RemoteMounts(except: configuration.stateDirectory)
    }

    /// What it was started with.
    var configuration: AgentConfiguration { self.reloader.started }

    /// How the run ended; `nil` while it runs.
    package var outcome: AgentOutcome? {
        self.result.withLock { $0 }
    }

    package func run() async throws {
        let group = LinkTransport.makeGroup()
        let attempts = ConnectionAttempts()
        let outcome: AgentOutcome
        do throws(TLSSetupError) {
            let tls = try self.configuration.tls.map { configuration throws(TLSSetupError) in
                try TLSClient(configuration)
            }
            self.live.tls.withLock { $0 = tls }
            self.live.rememberToken(of: self.configuration)
            let doorTLS = try self.configuration.doors.tls.map { configuration throws(TLSSetupError) in
                try TLSClient(configuration)
            }
            outcome = await self.serve(Network(group: group, attempts: attempts, doorTLS: doorTLS))
        } catch {
            outcome = .unsecurable(error)
        }
        self.result.withLock { $0 = outcome }
        switch outcome {
        case .drained(let summary), .stopped(let summary), .unreachable(_, let summary): self.telemetry.stopped(summary)
        case .failed, .unsecurable, .unmeasurable, .misnamed: break
        }
        guard attempts.areOver else {
            // A slow name lookup keeps only the event loop alive: its answer may come after the deadline.
            return attempts.whenOver { group.shutdownGracefully { _ in } }
        }
        try await group.shutdownGracefully()
    }

    /// What is needed to connect.
    private struct Network {
        let group: any EventLoopGroup
        let attempts: ConnectionAttempts
        let doorTLS: TLSClient?
    }

    var quarantine: String { Path.join(self.configuration.stateDirectory, "quarantine") }

    /// Creates the state directory and locks it.
    private func prepareState() throws(FileSystemError) -> FileID {
        let files = POSIXFileSystem(.state)
        // From here on the agent waits for each call on its state, so a mount that does not answer is said first.
        _ = try GuardedFiles(files, RemoteMounts()).status(at: self.configuration.stateDirectory)
        try files.createDirectories(self.configuration.stateDirectory)
        try files.createDirectories(self.quarantine)
        self.close(self.quarantine, on: files)
        let path = Path.join(self.configuration.stateDirectory, "lock")
        let lock = try files.open(path, .append)
        guard try files.lock(lock, .exclusive) else {
            files.close(lock)
            throw FileSystemError("lock", path: path, errno: Errno.inUse)
        }
        return lock
    }

    /// Takes away the permissions of others from an existing folder.
    private func close(_ folder: String, on files: POSIXFileSystem) {
        do throws(FileSystemError) {
            let found = try files.narrowFolder(folder, to: FilePermissions.state.folder)
            if let found { self.telemetry.folderNarrowed(folder, from: found, to: FilePermissions.state.folder) }
        } catch {
            self.telemetry.folderOpenToOthers(folder, error)
        }
    }

    /// Creates the spools that a group shares, so that apps of other users find them.
    func createSharedSpools(_ configuration: AgentConfiguration) throws(FileSystemError) {
        for source in configuration.sources {
            guard let name = source.group, let spool = source.spool else { continue }
            guard let group = UserGroup(named: name) else {
                throw FileSystemError("findGroup", path: name, errno: Errno.noEntry)
            }
            do throws(FileSystemError) {
                try GuardedFiles(POSIXFileSystem(.spool(sharedBy: group)), self.mounts).createDirectories(spool)
            } catch  where error.code == .hanging {
                // Its mount is told when the spool is looked at, and the other sources do not wait.
            }
        }
    }

    private func serve(_ network: Network) async -> AgentOutcome {
        do throws(FileSystemError) {
            let inbox = try PumpInbox()
            let lock = try self.prepareState()
            try self.createSharedSpools(self.configuration)
            defer { POSIXFileSystem().close(lock) }
            return await self.serve(inbox, network)
        } catch {
            return .failed(error)
        }
    }

    /// Ships, and serves metrics meanwhile.
    private func serve(_ inbox: PumpInbox, _ network: Network) async -> AgentOutcome {
        let server: MetricsServer?
        do throws(MetricsServer.Failure) {
            server = try await self.serveMetrics(inbox, network.group.forSockets)
        } catch {
            return .unmeasurable(error)
        }
        self.live.inbox.withLock { $0 = inbox }
        let outcome = await self.pump(inbox, network)
        server?.stop()
        inbox.close()
        return outcome
    }

    private func pump(_ inbox: PumpInbox, _ network: Network) async -> AgentOutcome {
        await withTaskCancellationOrGracefulShutdownHandler {
            await withCheckedContinuation { continuation in
                _ = Worker(name: "waybill-pump") {
                    continuation.resume(returning: self.work(inbox, network))
                }
            }
        } onCancelOrGracefulShutdown: {
            inbox.post(.stop, generation: 0)
        }
    }

    /// With fewer files and streams, trimming costs more than it frees.
    private static let trimmedTurnoverCount = 1000

    /// The pump thread's body.
    private func work(_ inbox: PumpInbox, _ network: Network) -> AgentOutcome {
        let own = POSIXFileSystem(.state)
        let files = GuardedFiles(own, self.mounts)
        var configuration = self.configuration
        do throws(FileSystemError) {
            if configuration.naming.usesDeviceKey {
                let opened = try DeviceKeyFile(in: configuration.stateDirectory, on: files).open()
                configuration.naming.prove(with: opened.key)
                if let path = opened.damagedPath { self.telemetry.deviceKeyDamaged(movedTo: path) }
            }
            let records = self.recordGuard(configuration)
            let registry = try self.openRegistry(configuration, files, records)
            if let change = try self.settleName(of: &configuration, registry, files) { return .misnamed(change) }
            self.telemetry.started(configuration, entryCount: registry.recovery.entryCount)
            self.telemetry.registryDamaged(registry.recovery.notes)
            let hints = DirectoryWatcher(self.mounts)
            // What is open by now stays open.
            configuration.fit(
                descriptorCountMax: ProcessLimits.raiseOpenFileCount(to: .max),
                openCount: ProcessLimits.openFileCount(on: own) ?? TailLimits.descriptorCountMin)
            let tail = Tail(
                fileSystem: files, registry: registry, agent: configuration.name, sources: configuration.tailSources,
                quarantineDirectory: self.quarantine, limits: configuration.tailLimits, records: records)
            if let poison = tail.recovery.poison { try self.keep(poison, files) }
            self.telemetry.registryEntriesUnreadable(tail.recovery.unreadableKeys)
            let live = self.live
            let compression = Compression(configuration, inbox)
            live.compression.withLock { $0 = compression }
            defer { live.compression.withLock { $0 }?.end() }
            var pump = Pump(
                configuration: configuration, files: files, tail: tail, hints: hints,
                buffers: compression.compressor, clock: POSIXClock(), telemetry: self.telemetry,
                seed: SystemRandom.seed()
            ) {
                let present = live.compression.withLock { $0 } ?? compression
                let door = configuration.doors.addresses[$0]
                if let door, let open = configuration.doors.open {
                    return Link(through: door, open, compressor: present.compressor, inbox: inbox, generation: $1)
                }
                let tls = door.map { $0.isEncrypted ? network.doorTLS : nil } ?? live.tls.withLock { $0 }
                return Link(
                    to: $0, through: door, group: network.group, attempts: network.attempts, tls: tls,
                    compressor: present.compressor, inbox: inbox, generation: $1)
            }
            var trimmedTurnoverCount = 0
            self.telemetry.ready(configuration.receivers)
            var heartbeat = Heartbeat(self.telemetry.manager, clock: POSIXClock())
            while true {
                if let outcome = pump.step(inbox.drain()) { return outcome }
                heartbeat.beat()
                let restingTime = pump.restingTime()
                if pump.isGathering {
                    Worker.sleep(for: restingTime)
                    continue
                }
                // Memory that a start or a connection needed for many files is released once they rest.
                if pump.isAtRest,
                    abs(pump.turnoverCount - trimmedTurnoverCount) >= Self.trimmedTurnoverCount
                {
                    trimmedTurnoverCount = pump.turnoverCount
                    ProcessUsage.trimMemory()
                }
                let timeout = heartbeat.rest(atMost: restingTime)
                if inbox.wake.wait(for: pump.hintFile, timeout: timeout) { pump.filesChanged() }
            }
        } catch {
            return .failed(error)
        }
    }
}

/// What a reload replaces while the agent runs, outside of its pump.
final class AgentLive: Sendable {
    /// The token that the agent had when it took a configuration last.
    let token = Lock<Secret?>(nil)
    let tls = Lock<TLSClient?>(nil)
    let compression = Lock<Compression?>(nil)
    /// The pump's; `nil` before it starts.
    let inbox = Lock<PumpInbox?>(nil)

    /// Remembers the token, for a reload to compare; each connection reads it again, and says why it cannot.
    func rememberToken(of configuration: AgentConfiguration) {
        let token: Secret?
        do throws(TokenFile.Failure) {
            token = try configuration.presentToken(on: POSIXFileSystem())
        } catch {
            token = nil
        }
        self.token.withLock { $0 = token }
    }
}

/// A registry that ends the agent which reads it.
///
///     state/readers                            where the agent is in it (``ReadingPlaces``)
///     state/registry.state.poison              a registry that ended it twice as a whole
///     quarantine/registry-<digits>.entry       an entry that ended it twice: its key, a space, its text
///
/// Nothing is lost: a receiver knows every position, and is asked.
extension Agent {
    func recordGuard(_ configuration: AgentConfiguration) -> RecordGuard {
        let path = Path.join(configuration.stateDirectory, "readers")
        // Without the file, an entry may end the agent at each start; that does not prevent a start.
        let places = ReadingPlaces(path: path, permissions: .state) ?? ReadingPlaces()
        return RecordGuard(places, reader: "registry")
    }

    func openRegistry(
        _ configuration: AgentConfiguration, _ files: GuardedFiles<POSIXFileSystem>, _ records: RecordGuard
    ) throws(FileSystemError) -> StateLog<GuardedFiles<POSIXFileSystem>> {
        let path = Path.join(configuration.stateDirectory, "registry.state")
        let reading = records.begin(path)
        defer { records.end() }
        if let ends = reading.endsToTell { self.telemetry.registryEnded(path, starts: ends.count) }
        if reading.isPoison {
            for path in StateImage.paths(path) where try files.status(at: path) != nil {
                try files.rename(path, to: path + ".poison")
            }
            try files.synchronizeDirectory(configuration.stateDirectory)
            self.telemetry.registrySetAside(path + ".poison", signal: reading.signal)
        }
        return try StateLog(path: path, files: files)
    }

    /// Keeps an entry before the registry forgets it.
    func keep(_ poison: TailRecovery.Poison, _ files: GuardedFiles<POSIXFileSystem>) throws(FileSystemError) {
        let digits = Hexadecimal.text(FNV1a.hash(poison.key.utf8), digitCount: 16)
        let path = Path.join(self.quarantine, "registry-\(digits).entry")
        try files.replace(path, with: Array("\(poison.key) \(poison.text)\n".utf8))
        self.telemetry.registrySetAside(path, signal: poison.signal)
    }
}

/// The file with an install's key, next to the registry.
///
///     bm9ib2R5IGtub3dzIQ== 1f2e3d4c5b6a7988      base64, FNV-1a 64 of it
///
/// A lost key costs at most repetitions of what was not sealed: the install continues under a new name.
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
