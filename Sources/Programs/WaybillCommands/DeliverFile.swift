import ArgumentParser
import WaybillDelivery
import WaybillFleet
import WaybillHost
import WaybillMerger
import WaybillReceiver
import WaybillSystem

/// A configuration file with a section `deliver`, and with the bucket of a fleet whose mergers share the deliveries.
struct DeliverFile {
    let deliver: DeliverConfiguration
    let store: StoreConfiguration?
    /// The name of this merger, by which others take parts over from it.
    let merger: String
    /// The key that has it.
    let mergerKey: String
    /// What other machines must show for the status.
    let token: Secret?

    /// - Parameter path: the file's name, for problems.
    init(_ file: ConfigurationFile, _ path: String) throws(ConfigurationProblems) {
        guard file.problems.isEmpty else { throw ConfigurationProblems(file.problems.map { $0.finding(in: path) }) }
        guard let deliver = file.deliver else {
            throw ConfigurationProblems(["\(path) has no section deliver:; add it, or name another file with --config"])
        }
        self.deliver = deliver
        do {
            self.token = try OptionReader.statusToken(deliver.status.tokenFile)
        } catch {
            throw ConfigurationProblems(["\(path): deliver.status_token_file: \(error)"])
        }
        self.store = file.store
        self.merger = file.merger?.name ?? file.receiver?.name ?? ""
        self.mergerKey = file.merger == nil ? "receiver.name" : "merger.name"
        guard self.store == nil || ChainName.isReceiver(self.merger) else {
            throw ConfigurationProblems([
                "\(path) has a section store:, so that the mergers of a fleet share the deliveries; it needs the name of "
                    + "this one: merger: {data: DIR, name: NAME}, 1 to 64 letters, digits, '.', '_' and '-'"
            ])
        }
    }

    /// Reads a file; prints its problems and throws exit code 78 if there are any.
    static func load(_ path: String) throws -> DeliverFile {
        do throws(ConfigurationProblems) {
            return try DeliverFile(.read(path), path)
        } catch {
            for problem in error.problems { Console.end(.configurationWrong, problem) }
            throw ExitCode.badConfiguration
        }
    }

    var setup: DeliverySetup {
        DeliverySetup(
            data: self.deliver.dataDirectory,
            entries: self.deliver.deliveries.compactMap { $0.setup(data: self.deliver.dataDirectory) })
    }
}

extension DeliveryEntry {
    /// `nil` without a provider, which is a problem of its file.
    fileprivate func setup(data: String) -> DeliverySetup.Entry? {
        guard let provider = self.provider else { return nil }
        var delivery = DeliveryConfiguration(dataDirectory: data, provider: provider)
        delivery.env = self.environment
        delivery.region = self.region
        delivery.endpoint = self.endpoint
        delivery.ambiguity = self.ambiguity
        delivery.eventsPerSecond = self.eventsPerSecond.map(Double.init)
        delivery.isForced = self.isForced
        delivery.isFollowing = true
        delivery.backoffLongest = self.backoffLongest
        return DeliverySetup.Entry(
            name: self.name, delivery: delivery, credentialsFile: self.credentialsFile, timeout: self.timeout,
            retryLongest: self.retryLongest)
    }
}

/// Where the mergers of a fleet agree who sends what: its bucket, open.
struct FleetClaims {
    let bucket: OpenBucket
    let claims: DeliveryClaims

    /// - Returns: `nil` outside a fleet.
    /// - Throws: an exit code, after saying why.
    init?(_ file: DeliverFile) throws {
        guard let store = file.store else { return nil }
        let location: StoreLocation
        do throws(StoreError) {
            location = try store.location()
        } catch {
            throw NetworkClient.ending(error)
        }
        self.bucket = try NetworkClient.open(location, .brief())
        self.claims = DeliveryClaims(StoredClaims(self.bucket.store), merger: file.merger)
    }
}
