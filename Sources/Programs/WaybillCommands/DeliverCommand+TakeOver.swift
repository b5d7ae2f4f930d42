import ArgumentParser
import WaybillDelivery
import WaybillFleet
import WaybillHost
import WaybillJSON
import WaybillSystem

/// `waybill deliver --config FILE --take-over NAME`: the parts of a merger that does not run any more.
extension DeliverCommand {
    static func takeOver(_ path: String, from former: String) async throws {
        let file = try DeliverFile.load(path)
        guard let fleet = try FleetClaims(file) else {
            Console.end(.configurationWrong, "\(path) has no section store:, so there is no other merger")
            throw ExitCode.badConfiguration
        }
        defer { fleet.bucket.close() }
        var counts = TakeOver<POSIXFileSystem, POSIXClock>.Counts()
        for entry in file.setup.entries {
            let takeOver = TakeOver(
                entry.delivery, claims: fleet.claims, from: former,
                files: POSIXFileSystem(.data, dataDirectory: entry.delivery.dataDirectory), clock: POSIXClock())
            do throws(TakeOver<POSIXFileSystem, POSIXClock>.Failure) {
                counts.add(try await takeOver.run { print($0) })
            } catch {
                throw Self.ending(error)
            }
        }
        print(
            JSONWriter.text { json in
                json.member("taken", counts.taken)
                json.member("elsewhere", counts.elsewhere)
                json.member("damaged", counts.damaged)
                json.member("others", counts.others)
            })
    }

    private static func ending(_ failure: TakeOver<POSIXFileSystem, POSIXClock>.Failure) -> ExitCode {
        switch failure {
        case .store(let error):
            let isRefused = error.kind == .credentials || error.kind == .forbidden
            Console.end(isRefused ? .credentialsRefused : .unreachable, "\(error)")
            return isRefused ? .noPermission : .unreachable
        case .disk(let error):
            Console.end(.filesUnusable, "\(error)")
            return .files
        case .notBegun(let path):
            Console.end(
                .inputUnreadable,
                "\(path) does not exist or names no life: this delivery has not begun here; start waybill deliver --config "
                    + "first, then take over")
            return .noInput
        }
    }
}
