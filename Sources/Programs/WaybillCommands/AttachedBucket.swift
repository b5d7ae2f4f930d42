import ArgumentParser
import WaybillFleet
import WaybillHost
import WaybillReceiver
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
    ///   not reached or refuses, and acknowledges what it keeps, as while it runs.
    /// - Throws: an exit code, after saying why.
    init(_ location: StoreLocation, known: String? = nil) throws {
        let open = try NetworkClient.open(location)
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
            guard let known, Self.mayPass(error) else {
                open.close()
                throw NetworkClient.ending(error)
            }
            Console.warn(.uploadFailed, "\(location.text) cannot be used: \(error); the journal keeps what it lacks")
            self.fleet = known
        }
        self.open = open
    }

    /// Whether it is the bucket's or its credentials' trouble, which others can fix, and not this host's configuration.
    private static func mayPass(_ error: StoreError) -> Bool {
        switch error.kind {
        case .unreachable, .busy, .forbidden, .credentials, .noBucket, .clock, .refused, .damaged: true
        case .region, .disk, .unsafe, .notAllowedHere, .tooLarge, .configuration, .stopped: false
        }
    }
}
