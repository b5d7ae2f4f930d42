package import ArgumentParser
import WaybillConsole
import WaybillNotices
package import WaybillStore
import WaybillSystem

/// A store that is open, and how to close it.
package struct OpenBucket: Sendable {
    package let store: any ObjectStore
    /// For people: where its credentials come from.
    package let credentialText: @Sendable () -> String
    package let close: @Sendable () -> Void

    package init(
        _ store: any ObjectStore, credentialText: @escaping @Sendable () -> String,
        close: @escaping @Sendable () -> Void
    ) {
        (self.store, self.credentialText, self.close) = (store, credentialText, close)
    }
}

/// How the commands of this program open a bucket.
///
/// Only `waybill-fleet` has a client for it; commands that need one replace the process of `waybill` by that program.
package enum BucketClient {
    /// - Parameter connectionCount: how many requests may be under way at once.
    package typealias Opening =
        @Sendable (_ location: StoreLocation, _ connectionCount: Int) throws(StoreError) -> OpenBucket

    private static let opening = Lock<Opening?>(nil)

    /// What `waybill-fleet` says before any command runs.
    package static func register(_ opening: @escaping Opening) {
        self.opening.withLock { $0 = opening }
    }

    /// Replaces this process with `waybill-fleet` and the same arguments, unless it is that program.
    package static func requireFleetProgram() throws {
        guard self.opening.withLock({ $0 == nil }) else { return }
        throw ChildProcess.replaceThis(with: "waybill-fleet")
    }

    /// Opens a store; errors have been said, and are the exit code.
    package static func open(_ location: StoreLocation, connectionCount: Int = 4) throws -> OpenBucket {
        guard let opening = self.opening.withLock({ $0 }) else {
            preconditionFailure("requireFleetProgram comes first")
        }
        do throws(StoreError) {
            return try opening(location, connectionCount)
        } catch {
            throw self.ending(error)
        }
    }

    /// Says why a command ends.
    ///
    /// - Returns: the exit code to throw.
    package static func ending(_ error: StoreError) -> ExitCode {
        let (notice, code) = self.end(of: error.kind)
        Console.end(notice, "\(error)")
        return code
    }

    private static func end(of kind: StoreError.Kind) -> (Notice, ExitCode) {
        switch kind {
        case .forbidden, .credentials: (.credentialsRefused, .noPermission)
        case .noBucket, .region, .notAllowedHere, .configuration: (.configurationWrong, .badConfiguration)
        case .unsafe: (.storeUnsafe, .badConfiguration)
        case .unreachable, .busy, .clock, .refused: (.unreachable, .unreachable)
        case .damaged, .tooLarge: (.inputWrong, .badInput)
        case .disk: (.filesUnusable, .files)
        case .stopped: (.inUse, .interrupted)
        }
    }
}
