import ArgumentParser
import WaybillConsole
import WaybillFleet
import WaybillNotices
import WaybillReceiver
import WaybillStore
import WaybillSystem

/// The bucket of a receiver or merger, open, with its fleet.
struct AttachedBucket {
    let open: OpenBucket
    let fleet: String
    /// How often the fleet's days may be sealed; the usual one while the bucket is not reached.
    private(set) var sealInterval = Duration.seconds(FleetFile.sealSecondsUsual)

    /// Opens the bucket and reads its fleet.
    ///
    /// - Parameter known: the fleet that the data directory belongs to; with it, a receiver starts although the bucket is
    ///   not reached.
    /// - Throws: an exit code, after saying why.
    init(_ location: StoreLocation, known: String? = nil) throws {
        let open = try BucketClient.open(location)
        let found: Result<FleetFile?, StoreError>
        do throws(StoreError) {
            found = .success(try FleetFile.read(from: open.store))
        } catch {
            found = .failure(error)
        }
        switch found {
        case .success(let file?):
            self.fleet = file.fleet
            self.sealInterval = .seconds(file.sealSeconds)
        case .success(nil):
            open.close()
            Console.end(
                .configurationWrong,
                "\(location.text) names no fleet; prepare it with: waybill store init --store \(location.text)")
            throw ExitCode.badConfiguration
        case .failure(let error):
            guard let known, error.kind == .unreachable || error.kind == .busy else {
                open.close()
                throw BucketClient.ending(error)
            }
            Console.warn(.uploadFailed, "\(location.text) is not reached: \(error); the journal keeps what it lacks")
            self.fleet = known
        }
        self.open = open
    }
}
