internal import Logging
internal import NIOCore
package import WaybillData
internal import WaybillExport
package import WaybillHost
internal import WaybillProjection
package import WaybillSystem

/// What a receiver and a merger have in common: a data directory of their own, and the archive and exports in it, which
/// follow a journal on threads of their own.
///
///     journal ─▶ JournalFeed ─▶ ProjectionGroup: archive          one thread
///                            └▶ ProjectionGroup: exports           one, and one more for each four cores past four
package final class ProjectionHost: Sendable {
    /// Why a host cannot start.
    package enum Failure: Error, CustomStringConvertible {
        case data(DataDirectoryError)
        case disk(FileSystemError)
        case metrics(MetricsServer.Failure)
        /// Exports that cannot continue with their options.
        case exports([String])

        package var description: String {
            switch self {
            case .data(let error): error.description
            case .disk(let error): "the files of the data directory cannot be used: \(error)"
            case .metrics(let failure): failure.description
            case .exports(let conflicts): conflicts.joined(separator: "\n")
            }
        }
    }

    package let configuration: HostConfiguration
    let telemetry: HostTelemetry
    let settings: LiveSettings
    package let retirement: JournalRetirement
    private let exports: RunningExports
    /// Who must have read a segment of the journal before a bound on the journal deletes it, whatever is configured.
    ///
    /// A bucket: agents are told what is stored by positions of the journal, so what was deleted before it was uploaded
    /// would count as stored.
    private let alwaysRequired: Set<String>

    /// - Parameters:
    ///   - readers: who must have read the journal before it is deleted: projections, and others.
    ///   - required: those of them that no bound on the journal leaves out.
    package init(
        _ configuration: HostConfiguration, _ telemetry: HostTelemetry, readers: Set<String>, required: Set<String> = []
    ) {
        self.configuration = configuration
        self.telemetry = telemetry
        self.settings = LiveSettings(configuration)
        self.alwaysRequired = required
        self.retirement = JournalRetirement(
            names: readers, retention: configuration.journalRetention, unread: configuration.unreadJournal)
        self.exports = RunningExports(names: Set(configuration.exports.map(\.provider.rawValue)))
        self.require()
    }

    /// The names of the archive and the exports.
    package static func projections(_ configuration: HostConfiguration) -> Set<String> {
        Set(["archive"] + configuration.exports.map(\.provider.rawValue))
    }

    private func require() {
        // An export that was added runs only after a restart.
        self.retirement.required = self.settings.required.union(self.alwaysRequired)
            .intersection(self.retirement.names)
    }

    // MARK: Files

    package func dataDirectory(on files: POSIXFileSystem) -> DataDirectory<POSIXFileSystem> {
        DataDirectory(
            root: self.configuration.dataDirectory, files: files,
            openFileCountMax: ProcessLimits.projectionFileCount(
                ofOpenFiles: Self.openFileCount, needed: Self.neededFileCount))
    }

    package func openData(_ data: DataDirectory<POSIXFileSystem>) throws(Failure) -> FileID {
        do throws(FileSystemError) {
            try data.create()
        } catch {
            throw .disk(error)
        }
        do throws(DataDirectoryError) {
            let lock = try data.lock(processID: ProcessID.current)
            for folder in data.closeToOthers() {
                self.telemetry.folderOpenToOthers(folder.path, folder.permissions, folder.failure)
            }
            try self.finishErasure(in: data)
            return lock
        } catch {
            throw .data(error)
        }
    }

    /// Exchanges the files of an erasure that was interrupted.
    private func finishErasure(in data: DataDirectory<POSIXFileSystem>) throws(DataDirectoryError) {
        do throws(FileSystemError) {
            try ErasureLog.finishExchange(in: data)
        } catch {
            throw .unusable(error)
        }
    }

    // MARK: Reloads

    /// Gives exports, retention and journal their new settings; all or nothing.
    package func reload(_ configuration: HostConfiguration) throws(ConfigurationProblems) {
        let conflicts = self.exports.reload(configuration.exports)
        guard conflicts.isEmpty else { throw ConfigurationProblems(conflicts) }
        self.settings.update(configuration)
        self.retirement.retention = configuration.journalRetention
        self.retirement.unread = configuration.unreadJournal
        self.require()
    }

    // MARK: Projections

    private static let openFileCount = 65_536
    /// Connections, and the files of twelve projections.
    private static let neededFileCount = 16_384

    package func startProjections(
        _ data: DataDirectory<POSIXFileSystem>, _ feed: JournalFeed, _ conditions: HostConditions,
        _ budget: AdmissionBudget? = nil
    ) throws(Failure) -> [Worker] {
        let histories = try self.exportHistories(data)
        var workers: [Worker] = []
        do throws(FileSystemError) {
            let archived = DataDirectory(
                root: data.root, files: data.files,
                openFileCountMax: ProcessLimits.archiveFileCount(
                    ofOpenFiles: Self.openFileCount, needed: Self.neededFileCount), stop: feed.abandonment)
            let exported = DataDirectory(
                root: data.root, files: data.files, openFileCountMax: data.openFileCountMax, stop: feed.abandonment)
            let archive = try ArchiveProjection(
                data: archived, zone: self.configuration.archiveZone,
                cutOffSecond: self.configuration.archiveCutOffSecond, quotas: self.configuration.partitionQuotas)
            var archives = self.group(of: ArchiveProjection<POSIXFileSystem>.self, data, conditions, budget)
            archives.add(archive)
            workers.append(Self.follow("waybill-archive", archives, feed))
            let exports = Array(zip(self.configuration.exports, histories))
            // The exports on one thread read and parse each batch once; receiving has priority over them.
            let threadCount = min(exports.count, max(1, System.coreCount / 4))
            for thread in 0..<threadCount {
                var group = self.group(
                    of: ExportProjection<POSIXFileSystem>.self, data, conditions, followsArchive: true)
                for index in stride(from: thread, to: exports.count, by: threadCount) {
                    group.add(try self.export(exports[index].0, exports[index].1, exported))
                }
                workers.append(Self.follow("wb-exports-\(thread)", group, feed, givesWay: true))
            }
        } catch {
            feed.close()
            for worker in workers { worker.join() }
            throw .disk(error)
        }
        return workers
    }

    /// The options each export was written with so far; an export that cannot continue with its options stops the
    /// start.
    private func exportHistories(_ data: DataDirectory<POSIXFileSystem>) throws(Failure) -> [ExportHistory] {
        var histories: [ExportHistory] = []
        var conflicts: [String] = []
        for options in self.configuration.exports {
            do throws(FileSystemError) {
                let history = try ExportHistory(ofExport: options.provider.rawValue, in: data)
                if let conflict = history.conflict(with: options) { conflicts.append(conflict) }
                histories.append(history)
            } catch {
                throw .disk(error)
            }
        }
        guard conflicts.isEmpty else { throw .exports(conflicts) }
        return histories
    }

    private func export(
        _ options: ExportOptions, _ history: ExportHistory, _ data: DataDirectory<POSIXFileSystem>
    ) throws(FileSystemError) -> ExportProjection<POSIXFileSystem> {
        let pending = PendingOptions { [telemetry] options, report in
            telemetry.exportGoesOn(options.provider.rawValue, mappingVersion: options.mappingVersion, report)
        }
        if let conflict = self.exports.add(options, history, pending) { self.telemetry.reloads.refused([conflict]) }
        return try ExportProjection.live(options, data: data, pending: pending)
    }

    private func group<Output: Projection & ~Copyable>(
        of output: Output.Type, _ data: DataDirectory<POSIXFileSystem>, _ conditions: HostConditions,
        _ budget: AdmissionBudget? = nil, followsArchive: Bool = false
    ) -> ProjectionGroup<POSIXFileSystem, Output> {
        ProjectionGroup(
            journalDirectory: data.journal, files: data.files, retirement: self.retirement,
            configuration: self.configuration, settings: self.settings, conditions: conditions, clock: POSIXClock(),
            telemetry: self.telemetry, budget: budget, followsArchive: followsArchive)
    }

    private static func follow<Output: Projection & ~Copyable>(
        _ thread: String, _ group: consuming ProjectionGroup<POSIXFileSystem, Output>, _ feed: JournalFeed,
        givesWay: Bool = false
    ) -> Worker {
        let handover = Handover(group)
        return Worker(name: thread) {
            if givesWay { Worker.giveWay() }
            handover.take { group in
                var group = group
                group.run(on: feed)
            }
        }
    }
}
