import ArgumentParser
import Logging
import UnixSignals
import WaybillConsole
import WaybillDelivery
import WaybillMetrics
import WaybillNotices
import WaybillSystem

/// `waybill deliver --config FILE`: all deliveries of a file, until SIGTERM.
///
///     SIGHUP ─▶ the file is read again ─▶ the service applies what changed; a file with problems changes nothing
///     SIGTERM, SIGINT ─▶ requests in flight are waited for, then it ends
enum ServiceRun {
    static func run(_ path: String, statusSocket: String?, log: LogOptions) async throws {
        let logger = Console.logger("deliver", level: log.logLevel)
        let signals = await UnixSignalsSequence(trapping: .sigterm, .sigint, .sighup)
        let service: DeliveryService
        let store: FleetStore?
        let count: Int
        let tokenFile: String?
        do throws(ConfigurationReader.Failure) {
            let setup = try ConfigurationReader.read(path)
            store = try setup.fleet.map { (fleet) throws(ConfigurationReader.Failure) in try FleetStore(fleet) }
            service = DeliveryService(
                setup, software: "waybill/\(packageVersion)", logger: logger, claims: store?.claims)
            count = setup.entries.count
            tokenFile = setup.statusTokenFile
        } catch {
            Console.end(.configurationWrong, "\(error)")
            throw ExitCode.badConfiguration
        }
        let metrics: MetricsServer?
        do {
            metrics = try await service.serveMetrics(socket: statusSocket, token: try Self.token(tokenFile))
        } catch let error as TokenFile.Failure {
            Console.printError("\(error)")
            throw ExitCode.badConfiguration
        } catch {
            Console.end(.addressUnusable, "\(error)")
            throw ExitCode.files
        }
        for place in metrics?.places ?? [] { logger.notice("serving metrics", metadata: ["address": "\(place)"]) }
        let manager = ServiceManager.ofThisProcess
        manager.tell(.ready, .status("\(count) deliveries"))
        logger.notice("delivering", metadata: ["deliveries": .number(count), "config": "\(path)"])
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await service.run() }
            group.addTask {
                for await signal in signals {
                    guard signal == .sighup else { return }
                    manager.tell(.reloading(at: POSIXClock().monotonicTime()))
                    await Self.reload(path, service, logger)
                    manager.tell(.ready)
                }
            }
            await group.next()
            manager.tell(.stopping)
            // What waits for the bucket would hold up the end; it is asked again at the next start.
            store?.close()
            group.cancelAll()
        }
        metrics?.stop()
        logger.notice("stopped")
    }

    /// The token in a file; `nil` without a file.
    private static func token(_ path: String?) throws(TokenFile.Failure) -> Secret? {
        guard let path else { return nil }
        return try TokenFile(path: path).read(on: POSIXFileSystem())
    }

    private static func reload(_ path: String, _ service: DeliveryService, _ logger: Logger) async {
        do throws(ConfigurationReader.Failure) {
            await service.reload(try ConfigurationReader.read(path))
        } catch {
            logger.error(
                .deliveryReloadRefused, "the configuration is not reloaded; the old one applies",
                metadata: ["detail": "\(error)"])
        }
    }
}
