package import WaybillReceiver
package import WaybillSystem

/// A merger's configuration.
@dynamicMemberLookup
package struct MergerConfiguration: ReloadableConfiguration {
    /// What it has in common with a receiver.
    package var host: HostConfiguration
    /// A checkpoint goes into the bucket when the last one is so old.
    package var checkpointAge = Duration.seconds(24 * 3600)
    /// How long pieces and rounds stay in the bucket at least.
    package var pieceRetention = Duration.seconds(7 * 86_400)

    package init(dataDirectory: String) {
        self.host = HostConfiguration(dataDirectory: dataDirectory)
    }

    package subscript<Value>(dynamicMember path: WritableKeyPath<HostConfiguration, Value>) -> Value {
        get { self.host[keyPath: path] }
        set { self.host[keyPath: path] = newValue }
    }

    package var status: StatusPlaces {
        get { self.host.status }
        set { self.host.status = newValue }
    }
}
