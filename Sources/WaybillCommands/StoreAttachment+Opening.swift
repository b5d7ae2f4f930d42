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

    /// Opens the bucket and reads its fleet.
    ///
    /// - Parameter known: the fleet that the data directory belongs to; with it, a receiver starts although the bucket is
    ///   not reached.
    /// - Throws: an exit code, after saying why.
    init(_ location: StoreLocation, known: String? = nil) throws {
        let open = try BucketClient.open(location)
        do throws(StoreError) {
            guard let file = try FleetFile.read(from: open.store) else {
                Console.end(
                    .configurationWrong,
                    "\(location.text) names no fleet; prepare it with: waybill store init --store \(location.text)")
                open.close()
                throw ExitCode.badConfiguration
            }
            self.fleet = file.fleet
        } catch let error as StoreError {
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
