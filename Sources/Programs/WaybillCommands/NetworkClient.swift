import ArgumentParser
package import WaybillDelivery
package import WaybillFleet
import WaybillHost
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

/// What only the program `waybill-net` can do: ask a bucket and providers over HTTPS.
package struct NetworkClient: Sendable {
    package struct StoreOptions: Sendable {
        /// How many requests may be under way at once.
        package var connectionCount = 4
        /// How long a call may try; `nil` for the client's own time.
        package var budget: Duration?

        /// A store that does not answer, or whose certificate is not trusted, is an error after 10 s: a user waits for it, or
        /// a delivery says why it waits and tries again by itself.
        static func brief(connectionCount: Int = 4) -> StoreOptions {
            StoreOptions(connectionCount: connectionCount, budget: .seconds(10))
        }
    }

    /// What this process has of it.
    package static let own = ProgramPart<NetworkClient>(of: "waybill-net")

    let openStore: @Sendable (StoreLocation, StoreOptions) throws(StoreError) -> OpenBucket
    let connect: ProviderConnection.Opening

    package init(
        openStore: @escaping @Sendable (StoreLocation, StoreOptions) throws(StoreError) -> OpenBucket,
        connect: @escaping ProviderConnection.Opening
    ) {
        (self.openStore, self.connect) = (openStore, connect)
    }

    /// Opens a store; errors have been said, and are the exit code.
    static func open(_ location: StoreLocation, _ options: StoreOptions = StoreOptions()) throws -> OpenBucket {
        let client = try self.own.require()
        do throws(StoreError) {
            return try client.openStore(location, options)
        } catch {
            throw self.ending(error)
        }
    }

    /// Says why a command ends.
    ///
    /// - Returns: the exit code to throw.
    static func ending(_ error: StoreError) -> ExitCode {
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
