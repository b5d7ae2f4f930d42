/// Where a program answers for its metrics and its status, and who may ask for the status.
package struct StatusPlaces: Hashable, Sendable {
    /// Serves `/metrics` and the like at this address.
    package var metrics: NetworkAddress?
    /// Serves the same at this UNIX socket.
    package var socket: String?
    /// The file with the token that other machines must show for the status.
    package var tokenFile: String?
    /// What that file has.
    package var token: Secret?

    package init() {}
}

/// A program's configuration, of which another one may be taken while the program runs.
package protocol ReloadableConfiguration: Sendable {
    var status: StatusPlaces { get }
    /// This configuration in force with everything of another one that can change; by default the other one.
    func taking(_ new: Self) -> Self
}

extension ReloadableConfiguration {
    package func taking(_ new: Self) -> Self { new }
}
