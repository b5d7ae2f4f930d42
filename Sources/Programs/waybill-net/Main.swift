import WaybillCommands
import WaybillDelivery
import WaybillFleet
import WaybillHTTPClient
import WaybillSystem

/// The program `waybill-net`: `waybill` with an HTTP client, for a bucket and for providers.
///
/// A separate program, so that agents and receivers without a bucket do not carry the dependencies of an HTTP client.
@main
enum Main {
    static func main() async {
        NetworkClient.own.register(
            NetworkClient(
                openStore: { (location, options) throws(StoreError) in
                    var connections = S3Store.Options()
                    connections.connectionCountMax = options.connectionCount
                    connections.budget = options.budget ?? connections.budget
                    let store = try S3Store(location, options: connections, variables: { ProcessEnvironment[$0] })
                    return OpenBucket(store, credentialText: { store.credentialText }, close: { store.shutDown() })
                },
                connect: { ProviderConnection(timeout: $0, proxy: $1) }))
        await WaybillProgram.main()
    }
}
