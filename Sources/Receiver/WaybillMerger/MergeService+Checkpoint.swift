internal import Logging
internal import ServiceLifecycle
internal import WaybillData
internal import WaybillFleet
internal import WaybillHost
internal import WaybillProtocol
internal import WaybillReceiver
internal import WaybillSystem

/// A merger without its disk begins from a checkpoint.
extension MergeService {
    func checkpoints(_ data: DataDirectory<POSIXFileSystem>) -> MergeCheckpoints {
        let (isOnce, stopping) = (self.setup.isOnce, self.stopping)
        return MergeCheckpoints(
            MergeCheckpoints.Setup(
                name: self.host.configuration.name, fleet: self.setup.fleet.text,
                interval: self.setup.configuration.checkpointAge, pieceAge: self.setup.configuration.pieceRetention,
                root: data.root, projections: self.host.retirement.names, store: self.setup.store,
                isStopped: { !isOnce && stopping.withLock { $0 } }),
            files: data.files, logger: self.logger)
    }

    /// Puts the data directory back from the bucket if it has no state of a merger, or one that is too old.
    func restore(_ data: DataDirectory<POSIXFileSystem>) async throws {
        let result = Lock<Result<CheckpointRestore<POSIXFileSystem>.Outcome, MergeFailure>>(.success(.none))
        let restoring = Worker(name: "waybill-restore") {
            let outcome = self.restored(data)
            result.withLock { $0 = outcome }
        }
        await withGracefulShutdownHandler {
            await Self.join(restoring)
        } onGracefulShutdown: {
            self.stopping.update { $0 = true }
        }
        guard case .restored(let report) = try result.withLock({ $0 }).get() else { return }
        self.restored(report)
    }

    private func restored(
        _ data: DataDirectory<POSIXFileSystem>
    ) -> Result<CheckpointRestore<POSIXFileSystem>.Outcome, MergeFailure> {
        var backoff = Backoff(from: .milliseconds(200), to: .seconds(30), SeededGenerator(seed: SystemRandom.seed()))
        var failureCount = 0
        while true {
            do throws(MergeFailure) {
                // What an upload that was interrupted had copied.
                try MergeFailure.onDisk(CheckpointCapture.discard(root: data.root, files: data.files))
                var restore = CheckpointRestore(
                    root: data.root, fleet: self.setup.fleet.text, files: data.files, store: self.setup.store)
                let outcome = try restore.run()
                try MergeFailure.onDisk(data.create())
                return .success(outcome)
            } catch {
                failureCount += 1
                guard error.isPassing, !self.isStopping else { return .failure(error) }
                let pause = backoff.fail()
                self.failed(error, attempt: failureCount, retryingIn: pause)
                self.wait(pause)
            }
        }
    }

    private func restored(_ report: CheckpointRestore<POSIXFileSystem>.Report) {
        var metadata: Logger.Metadata = [
            "round": .number(report.round), "files": .number(report.fileCount), "bytes": .number(report.byteCount),
        ]
        if let aside = report.aside { metadata["aside"] = "\(aside)" }
        if !report.damaged.isEmpty { metadata["damaged"] = "\(report.damaged.joined(separator: "; "))" }
        self.logger.warning(
            .mergerRestored, "the data directory was put back from a checkpoint in the bucket", metadata: metadata)
    }

    /// Lets the next start begin from a checkpoint.
    func requestRestore(_ data: DataDirectory<POSIXFileSystem>) {
        do throws(FileSystemError) {
            try CheckpointRestore.request(root: data.root, files: data.files)
        } catch {
            self.failed(.disk(error), attempt: 1, retryingIn: .zero)
        }
    }
}
