import ArgumentParser
import Logging
import UnixSignals
import WaybillDelivery
import WaybillHost
import WaybillSystem

/// `waybill deliver --config FILE`: all deliveries of a file, until SIGTERM.
///
///     SIGHUP ─▶ the file is read again ─▶ the service applies what changed; a file with problems changes nothing
///     SIGTERM, SIGINT ─▶ requests in flight are waited for, then it ends
extension DeliverCommand {
    func serve(_ path: String, _ client: NetworkClient) async throws {
        let logger = Console.logger("deliver", level: self.log.logLevel)
        let signals = await UnixSignalsSequence(trapping: .sigterm, .sigint, .sighup)
        let file = try DeliverFile.load(path)
        let fleet = try FleetClaims(file)
        let service = DeliveryService(
            file.setup, software: OptionReader.software, logger: logger, claims: fleet?.claims, connect: client.connect)
        let token = StatusToken(file.token)
        let metrics: MetricsServer?
        do {
            var places = file.deliver.status
            places.metrics = self.places.metrics ?? places.metrics
            places.socket = self.places.statusSocket ?? places.socket
            metrics = try await service.serveMetrics(on: places, token: token)
        } catch {
            Console.end(.addressUnusable, "\(error)")
            throw ExitCode.files
        }
        for place in metrics?.places ?? [] { logger.notice("serving metrics", metadata: ["address": "\(place)"]) }
        let manager = ServiceManager.ofThisProcess
        let count = file.deliver.deliveries.count
        manager.tell(.ready, .status("\(count) deliveries"))
        logger.notice("delivering", metadata: ["deliveries": .number(count), "config": "\(path)"])
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await service.run() }
            group.addTask {
                var taken = file
                for await signal in signals {
                    guard signal == .sighup else { return }
                    manager.tell(.reloading(at: POSIXClock().monotonicTime()))
                    await Self.reload(path, service, token, started: file, &taken, logger)
                    manager.tell(.ready)
                }
            }
            await group.next()
            manager.tell(.stopping)
            // What waits for the bucket would hold up the end; it is asked again at the next start.
            fleet?.bucket.close()
            group.cancelAll()
        }
        metrics?.stop()
        logger.notice("stopped")
    }

    private static func reload(
        _ path: String, _ service: DeliveryService, _ token: StatusToken, started: DeliverFile,
        _ taken: inout DeliverFile, _ logger: Logger
    ) async {
        do throws(ConfigurationProblems) {
            let new = try DeliverFile(.read(path), path)
            token.current = new.token
            await service.reload(new.setup, ConfigurationTable.changes(from: started, taken, to: new))
            taken = new
        } catch {
            logger.error(
                .deliveryReloadRefused, "the configuration is not reloaded; the old one applies",
                metadata: ["detail": "\(error)"])
        }
    }
}
