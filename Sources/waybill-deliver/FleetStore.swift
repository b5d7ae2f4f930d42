import WaybillDelivery
import WaybillS3
import WaybillStore
import WaybillSystem

/// The bucket of a fleet, open.
struct FleetStore {
    let claims: DeliveryClaims
    private let store: S3Store

    /// A delivery that gets no answer tries again by itself, and says why it waits.
    private static let budget = Duration.seconds(10)

    init(_ fleet: DeliverySetup.Fleet) throws(ConfigurationReader.Failure) {
        var options = S3Store.Options()
        options.budget = Self.budget
        do throws(StoreError) {
            self.store = try S3Store(fleet.location, options: options, variables: { ProcessEnvironment[$0] })
        } catch {
            throw .store(error)
        }
        self.claims = DeliveryClaims(StoredClaims(self.store), merger: fleet.merger)
    }

    /// Ends calls that wait.
    func close() {
        self.store.shutDown()
    }
}
