import ArgumentParser
import WaybillFleet
import WaybillHost

/// The section `store` of a configuration file: where a fleet's bucket is.
///
///     store: {url: s3://example-events/waybill, region: eu-central-1}
///
/// Credentials never stand in it (`Documentation/fleet.md`).
struct StoreConfiguration: ConfigurationRoot {
    var url = ""
    var endpoint: String?
    var region: String?
    var addressing = StoreLocation.Addressing.auto
    var checksum = StoreLocation.Checksum.auto
    var clock = StoreLocation.Clock.earlier
    var authorities: String?

    static var defaults: StoreConfiguration { StoreConfiguration() }

    /// - Throws: `StoreError`.
    func location() throws(StoreError) -> StoreLocation {
        var location = try StoreLocation(self.url)
        (location.endpoint, location.region) = (self.endpoint, self.region)
        (location.addressing, location.checksum) = (self.addressing, self.checksum)
        (location.clock, location.authorities) = (self.clock, self.authorities)
        // Finds an endpoint that is none before the first request.
        _ = try StoreEndpoint(location, region: self.region ?? "us-east-1")
        return location
    }
}

extension ConfigurationTable {
    @KeyList<StoreConfiguration> static var store: [ConfigurationKey<StoreConfiguration>] {
        ConfigurationKey(
            "url", .text, \.url, option: "--store", required: "s3://BUCKET/PREFIX",
            example: "s3://example-events/waybill",
            "The bucket of a fleet, and the prefix of its objects: s3://BUCKET/PREFIX.")
        ConfigurationKey(
            "endpoint", .text, optional: \.endpoint, option: "--endpoint", default: "AWS, in the region",
            example: "https://storage.example.com:9000", "The address of a store that is not AWS's.")
        ConfigurationKey(
            "region", .text, optional: \.region, option: "--region",
            default: "AWS_REGION, the profile's, or us-east-1", example: "eu-central-1",
            "The region that requests are signed for.")
        ConfigurationKey(
            "addressing", .choice, \.addressing, option: "--addressing",
            "Where requests name the bucket: `virtual` in the host's name, `path` in the path; `auto`: in the host's name at AWS."
        )
        ConfigurationKey(
            "checksum", .choice, \.checksum, option: "--checksum",
            "`auto` signs the SHA-256 of bodies up to 64 MiB, which the store checks; `none` trusts TLS.")
        ConfigurationKey(
            "clock", .choice, \.clock,
            "Mergers seal and delete by the `earlier` of this host's time and the store's; `host`: by this host's alone, for a store whose time is wrong."
        )
        ConfigurationKey(
            "ca", .file, optional: \.authorities, option: "--ca", default: "the system's", example: "store-ca.pem",
            "The authorities that the store's certificate must be from (PEM).")
    }
}

extension ConfigurationFile {
    static func store(_ section: inout ConfigurationSection) -> StoreConfiguration {
        var configuration = StoreConfiguration.defaults
        section.read(ConfigurationTable.store, into: &configuration)
        guard !configuration.url.isEmpty else { return configuration }
        do throws(StoreError) {
            _ = try configuration.location()
        } catch {
            section.complain(error.code == "endpoint" ? "endpoint" : "url", "\(error.detail); \(error.remedy)")
        }
        return configuration
    }
}

/// Where the store is, on a command line that must name one.
struct BucketOptions: ParsableArguments {
    @OptionGroup private var options: OptionalBucketOptions

    var config: String? { self.options.config }

    func validate() throws {
        guard self.options.isGiven else {
            throw ValidationError("--store s3://BUCKET/PREFIX is missing (or --config FILE with a section store:)")
        }
    }

    /// - Throws: exit code 78 for a file or a location that is wrong.
    func location() throws -> StoreLocation { try self.options.location() }
}

/// Where the store is, on a command line: in a configuration file, with options that take precedence.
struct OptionalBucketOptions: ParsableArguments {
    @Option(help: "A configuration file with a section store:.")
    var config: String?

    @Option(help: .key("store.url"))
    var store: String?

    @Option(help: .key("store.endpoint"))
    var endpoint: String?

    @Option(help: .key("store.region"))
    var region: String?

    @Option(help: .key("store.addressing"))
    var addressing: StoreLocation.Addressing?

    @Option(help: .key("store.checksum"))
    var checksum: StoreLocation.Checksum?

    @Option(help: .key("store.ca"))
    var ca: String?

    var isGiven: Bool { self.config != nil || self.store != nil }

    /// - Throws: exit code 78 for a file or a location that is wrong.
    func location() throws -> StoreLocation {
        var configuration = StoreConfiguration.defaults
        if let config {
            guard let section = try ConfigurationFile.load(config).store ?? (self.store == nil ? nil : .defaults) else {
                Console.end(.configurationWrong, "\(config) has no section store:; add it, or give --store")
                throw ExitCode.badConfiguration
            }
            configuration = section
        }
        configuration.url = self.store ?? configuration.url
        configuration.endpoint = self.endpoint ?? configuration.endpoint
        configuration.region = self.region ?? configuration.region
        configuration.addressing = self.addressing ?? configuration.addressing
        configuration.checksum = self.checksum ?? configuration.checksum
        configuration.authorities = self.ca ?? configuration.authorities
        do {
            return try configuration.location()
        } catch {
            throw NetworkClient.ending(error)
        }
    }
}

extension StoreLocation.Addressing: ExpressibleByArgument {}
extension StoreLocation.Checksum: ExpressibleByArgument {}
