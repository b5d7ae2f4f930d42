import WaybillCommands
import WaybillS3
import WaybillStore
import WaybillSystem

/// The program `waybill-fleet`: `waybill` with the client of a bucket.
///
/// A separate program, so that agents and receivers without a bucket do not carry the dependencies of an HTTP client.
@main
enum Main {
    static func main() async {
        BucketClient.register { (location, connectionCount) throws(StoreError) in
            var options = S3Store.Options()
            options.connectionCountMax = connectionCount
            let store = try S3Store(location, options: options, variables: { ProcessEnvironment[$0] })
            return OpenBucket(store, credentialText: { store.credentialText }, close: { store.shutDown() })
        }
        await WaybillProgram.main()
    }
}
