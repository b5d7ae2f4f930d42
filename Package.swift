// swift-tools-version: 6.2
import PackageDescription

/// The same for every target: language mode 6, no warning, every import declared and as narrow as it can be.
let settings: [SwiftSetting] = [
    .swiftLanguageMode(.v6),
    .treatAllWarnings(as: .error),
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .enableUpcomingFeature("InternalImportsByDefault"),
]

// Apple's tools put the privacy manifest into apps. It belongs to the C target that every product links: resources of a
// Swift target would bring generated code that imports Foundation.
#if canImport(Darwin)
    let privacyManifest: (exclude: [String], resources: [Resource]) = ([], [.copy("PrivacyInfo.xcprivacy")])
#else
    let privacyManifest: (exclude: [String], resources: [Resource]) = (["PrivacyInfo.xcprivacy"], [])
#endif

func module(_ name: String, _ dependencies: [Target.Dependency] = []) -> Target {
    .target(name: name, dependencies: dependencies, swiftSettings: settings)
}

func tests(_ name: String, path: String? = nil, _ dependencies: [Target.Dependency]) -> Target {
    .testTarget(name: name, dependencies: dependencies, path: path, swiftSettings: settings)
}

let nio: Target.Dependency = .product(name: "NIOCore", package: "swift-nio", condition: .when(traits: ["Networking"]))
let nioEmbedded: Target.Dependency = .product(
    name: "NIOEmbedded", package: "swift-nio", condition: .when(traits: ["Networking"]))
let nioHTTP: Target.Dependency = .product(
    name: "NIOHTTP1", package: "swift-nio", condition: .when(traits: ["Networking"]))
let nioPosix: Target.Dependency = .product(
    name: "NIOPosix", package: "swift-nio", condition: .when(traits: ["Networking"]))
// Network.framework is on Apple's systems alone; elsewhere nothing of this package is built.
let nioTransportServices: Target.Dependency = .product(
    name: "NIOTransportServices", package: "swift-nio-transport-services",
    condition: .when(
        platforms: [.macOS, .macCatalyst, .iOS, .tvOS, .watchOS, .visionOS], traits: ["Networking"]))
let nioTLS: Target.Dependency = .product(name: "NIOTLS", package: "swift-nio", condition: .when(traits: ["Networking"]))
let nioSSL: Target.Dependency = .product(
    name: "NIOSSL", package: "swift-nio-ssl", condition: .when(traits: ["Networking"]))
let logging: Target.Dependency = .product(name: "Logging", package: "swift-log", condition: .when(traits: ["SwiftLog"]))
let lifecycle: Target.Dependency = .product(
    name: "ServiceLifecycle", package: "swift-service-lifecycle", condition: .when(traits: ["Networking"]))
let signals: Target.Dependency = .product(
    name: "UnixSignals", package: "swift-service-lifecycle", condition: .when(traits: ["Networking"]))
let httpClient: Target.Dependency = .product(
    name: "AsyncHTTPClient", package: "async-http-client", condition: .when(traits: ["Programs"]))
// What WaybillDispatch asks doors with; on Apple's systems URLSession does.
let doorClient: Target.Dependency = .product(
    name: "AsyncHTTPClient", package: "async-http-client",
    condition: .when(platforms: [.linux], traits: ["Networking"]))
let hummingbird: Target.Dependency = .product(
    name: "Hummingbird", package: "hummingbird", condition: .when(traits: ["Hummingbird"]))
let httpTypes: Target.Dependency = .product(
    name: "HTTPTypes", package: "swift-http-types", condition: .when(traits: ["Hummingbird"]))
let arguments: Target.Dependency = .product(
    name: "ArgumentParser", package: "swift-argument-parser", condition: .when(traits: ["Programs"]))

let package = Package(
    name: "waybill",
    platforms: [.macOS(.v13), .iOS(.v16), .tvOS(.v16), .watchOS(.v9), .visionOS(.v1)],
    products: [
        .library(name: "Waybill", targets: ["Waybill"]),
        .library(name: "WaybillDispatch", targets: ["WaybillDispatch"]),
        .library(name: "WaybillFoundation", targets: ["WaybillFoundation"]),
        .library(name: "WaybillTesting", targets: ["WaybillTesting"]),
        .library(name: "WaybillUI", targets: ["WaybillUI"]),
        .library(name: "WaybillCommerce", targets: ["WaybillCommerce"]),
        .library(name: "WaybillSystemLog", targets: ["WaybillSystemLog"]),
        .library(name: "WaybillLogging", targets: ["WaybillLogging"]),
        .library(name: "WaybillHummingbird", targets: ["WaybillHummingbird"]),
        .executable(name: "waybill", targets: ["waybill-cli"]),
        .executable(name: "waybill-deliver", targets: ["waybill-deliver"]),
        .executable(name: "waybill-fleet", targets: ["waybill-fleet"]),
        .executable(name: "waybill-ingest", targets: ["waybill-ingest"]),
    ],
    traits: [
        // An app that uses the client alone resolves no other package: each of them is used under one of these traits.
        .trait(name: "SwiftLog", description: "What WaybillLogging needs: swift-log."),
        .trait(
            name: "Networking", description: "What WaybillDispatch needs: swift-nio, swift-nio-ssl and their like.",
            enabledTraits: ["SwiftLog"]),
        .trait(name: "Hummingbird", description: "What WaybillHummingbird needs: hummingbird and its packages."),
        .trait(
            name: "Programs", description: "What waybill and its other programs need; Tools/build turns it on.",
            enabledTraits: ["Networking"]),
        .trait(name: "ISAL", description: "Compress with Intel's ISA-L (libisal) in zlib's place; the same format."),
    ],
    dependencies: [
        .package(url: "https://github.com/apple/swift-nio", from: "2.101.2"),
        .package(url: "https://github.com/apple/swift-nio-ssl", from: "2.37.6"),
        .package(url: "https://github.com/apple/swift-nio-transport-services", from: "1.28.0"),
        .package(url: "https://github.com/apple/swift-log", from: "1.16.2"),
        .package(url: "https://github.com/swift-server/async-http-client", from: "1.37.0"),
        .package(url: "https://github.com/swift-server/swift-service-lifecycle", from: "2.13.0"),
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.2"),
        .package(url: "https://github.com/hummingbird-project/hummingbird", from: "2.28.1"),
        .package(url: "https://github.com/apple/swift-http-types", from: "1.8.0", traits: []),
    ],
    targets: [
        // C: headers of the platform that Swift's own modules leave out, zlib, ISA-L, libyaml, and
        // OpenSSL's digests and X.509 signatures.
        .target(
            name: "CWaybillSystem", exclude: privacyManifest.exclude, resources: privacyManifest.resources),
        .systemLibrary(
            name: "CLibcrypto", pkgConfig: "libcrypto", providers: [.apt(["libssl-dev"]), .brew(["openssl@3"])]),
        .systemLibrary(name: "CISAL", pkgConfig: "libisal", providers: [.apt(["libisal-dev"]), .brew(["isa-l"])]),
        .systemLibrary(name: "CYAML", pkgConfig: "yaml-0.1", providers: [.apt(["libyaml-dev"]), .brew(["libyaml"])]),
        .systemLibrary(name: "CZlib", pkgConfig: "zlib", providers: [.apt(["zlib1g-dev"]), .brew(["zlib"])]),

        // No package, no socket, no thread: each row imports only rows above it.
        module("WaybillSystem", ["CWaybillSystem"]),
        module("WaybillDigest"),
        module("WaybillJSON"),
        module("WaybillYAML", ["CYAML"]),
        module("WaybillEvent", ["WaybillDigest", "WaybillJSON"]),
        module("WaybillCommerce", ["WaybillEvent"]),
        module("WaybillCompression", ["CZlib", .target(name: "CISAL", condition: .when(traits: ["ISAL"]))]),
        module("WaybillProtocol", ["WaybillDigest", "WaybillJSON"]),
        module("WaybillSpool", ["WaybillSystem"]),
        module("Waybill", ["WaybillEvent", "WaybillJSON", "WaybillSpool", "WaybillSystem"]),
        // Foundation's types in events; a product of its own, so that the client links no Foundation.
        module("WaybillFoundation", ["Waybill", "WaybillEvent"]),
        module("WaybillTesting", ["Waybill", "WaybillEvent", "WaybillSpool", "WaybillSystem"]),
        module("WaybillPresentation", ["Waybill", "WaybillSystem"]),
        module("WaybillUI", ["Waybill", "WaybillPresentation"]),
        module("WaybillSystemLog", ["CWaybillSystem", "Waybill", "WaybillEvent", "WaybillSystem"]),
        module("WaybillTail", ["WaybillDigest", "WaybillProtocol", "WaybillSpool", "WaybillSystem"]),
        module("WaybillJournal", ["WaybillCompression", "WaybillDigest", "WaybillProtocol", "WaybillSystem"]),
        module(
            "WaybillArchive",
            ["CLibcrypto", "WaybillCompression", "WaybillJournal", "WaybillProtocol", "WaybillJSON", "WaybillSystem"]),
        // A bucket, and the journals in it.
        module("WaybillStore", ["WaybillArchive", "WaybillDigest", "WaybillJSON", "WaybillSystem"]),
        module("WaybillExport", ["WaybillDigest", "WaybillEvent", "WaybillJSON", "WaybillSystem"]),
        module(
            "WaybillFleet",
            [
                "WaybillArchive", "WaybillCompression", "WaybillDigest", "WaybillJSON", "WaybillJournal",
                "WaybillProtocol", "WaybillStore", "WaybillSystem",
            ]),
        module(
            "WaybillProjection",
            [
                "WaybillEvent", "WaybillArchive", "WaybillCompression", "WaybillExport", "WaybillJSON",
                "WaybillJournal",
                "WaybillProtocol", "WaybillSystem",
            ]),

        module(
            "WaybillInspect",
            [
                "WaybillEvent", "WaybillArchive", "WaybillCompression", "WaybillExport", "WaybillFleet", "WaybillJSON",
                "WaybillJournal", "WaybillProjection", "WaybillProtocol", "WaybillSpool", "WaybillSystem",
            ]),

        // The app's own logs as events; a product of its own, so that the client pulls in no package.
        module("WaybillLogging", ["Waybill", "WaybillSystem", logging]),

        // A server's visitors; its sources are empty without the trait, so that the package's own build needs none of it.
        module("WaybillHummingbird", ["Waybill", "WaybillEvent", "WaybillSystem", hummingbird, httpTypes]),

        // What programs warn of, by identifier.
        module("WaybillNotices", ["WaybillSystem", logging]),

        // Drivers: sockets, threads, clocks, signals.
        module("WaybillTLS", ["WaybillDigest", "WaybillProtocol", "WaybillSystem", nio, nioSSL, nioTLS]),
        module("WaybillMetrics", ["WaybillSystem", nio, nioHTTP, nioPosix]),
        module(
            "WaybillAgent",
            [
                "WaybillTail", "WaybillProtocol", "WaybillCompression", "WaybillJSON", "WaybillMetrics",
                "WaybillNotices", "WaybillSystem",
                "WaybillTLS",
                nio, nioPosix, nioSSL, nioTLS, nioTransportServices, logging, lifecycle,
            ]),
        // The agent's core as a product, for apps that no agent can run beside.
        module(
            "WaybillDispatch",
            [
                "WaybillAgent", "WaybillSystem", "WaybillTail", "WaybillTLS", doorClient, logging, nio, nioHTTP, nioSSL,
            ]),
        module(
            "WaybillReplay",
            [
                "WaybillEvent", "WaybillArchive", "WaybillExport", "WaybillJSON", "WaybillJournal", "WaybillProjection",
                "WaybillProtocol", "WaybillSystem",
            ]),
        module(
            "WaybillReceiver",
            [
                "CLibcrypto", "WaybillArchive", "WaybillCompression", "WaybillDigest", "WaybillExport", "WaybillFleet",
                "WaybillJSON", "WaybillJournal",
                "WaybillMetrics", "WaybillNotices", "WaybillProjection", "WaybillProtocol", "WaybillReplay",
                "WaybillStore", "WaybillSystem",
                "WaybillTLS", nio, nioPosix, logging, lifecycle,
            ]),

        // Counts over the archive's days; it writes nothing to the data directory and opens no socket.
        module(
            "WaybillReport",
            [
                "WaybillArchive", "WaybillCompression", "WaybillDigest", "WaybillEvent", "WaybillExport", "WaybillJSON",
                "WaybillProjection", "WaybillProtocol", "WaybillSystem",
            ]),

        // The live page: its three files are taken into the program by the C target.
        .target(name: "CWaybillPage"),
        .target(
            name: "WaybillLive",
            dependencies: [
                "CWaybillPage", "WaybillArchive", "WaybillDigest", "WaybillEvent", "WaybillExport", "WaybillJSON",
                "WaybillJournal", "WaybillMetrics", "WaybillProjection", "WaybillProtocol", "WaybillReport",
                "WaybillSystem", "WaybillTLS", nio, nioHTTP, nioPosix,
            ],
            exclude: ["Page"], swiftSettings: settings),

        module(
            "WaybillDelivery",
            [
                "WaybillEvent", "WaybillArchive", "WaybillCompression", "WaybillExport", "WaybillJSON",
                "WaybillMetrics", "WaybillNotices", "WaybillProjection", "WaybillStore",
                "WaybillSystem", httpClient, logging, nio, nioHTTP, nioPosix,
            ]),

        // A bucket over HTTP.
        module(
            "WaybillS3",
            ["WaybillDelivery", "WaybillStore", "WaybillSystem", httpClient, nio, nioHTTP, nioPosix, nioSSL]),

        // What the programs share.
        module(
            "WaybillConsole",
            ["WaybillEvent", "WaybillJSON", "WaybillNotices", "WaybillSystem", arguments, logging]),

        // What tests share: the disk in memory and its faults; then what needs the server's modules. No product holds
        // them.
        module("WaybillTestSupport", ["WaybillStore", "WaybillSystem"]),
        module(
            "WaybillServerTestSupport",
            [
                "Waybill", "WaybillArchive", "WaybillCompression", "WaybillDispatch", "WaybillEvent", "WaybillExport",
                "WaybillJournal", "WaybillProjection", "WaybillProtocol", "WaybillReceiver", "WaybillSystem",
                "WaybillTestSupport",
                lifecycle, logging,
            ]),

        // Disks, networks and clocks that fail, and lives of the shipped code among them; no product holds it.
        module(
            "WaybillSimulation",
            [
                "Waybill", "WaybillAgent", "WaybillArchive", "WaybillCompression", "WaybillEvent", "WaybillExport",
                "WaybillFleet",
                "WaybillInspect", "WaybillJournal", "WaybillProjection", "WaybillProtocol", "WaybillReceiver",
                "WaybillReplay", "WaybillStore", "WaybillSystem", "WaybillTLS", "WaybillTail", "WaybillTestSupport",
                nio, nioEmbedded, logging,
            ]),
        .executableTarget(
            name: "waybill-simulate", dependencies: ["WaybillSimulation", arguments], swiftSettings: settings),

        // The hot paths one by one; no product holds it.
        .target(name: "CAllocations"),
        .executableTarget(
            name: "waybill-benchmark",
            dependencies: [
                "CAllocations", "Waybill", "WaybillCompression", "WaybillExport", "WaybillJSON", "WaybillJournal",
                "WaybillProjection", "WaybillProtocol", "WaybillSystem", arguments,
            ],
            swiftSettings: settings),

        // Other products' requests as lines, and the door that takes them.
        module(
            "WaybillIngest",
            ["WaybillCompression", "WaybillDigest", "WaybillEvent", "WaybillExport", "WaybillJSON", "WaybillSystem"]),
        .target(name: "CWaybillScript"),
        .target(
            name: "WaybillDoor",
            dependencies: [
                "CWaybillScript", "WaybillAgent", "WaybillEvent", "WaybillIngest", "WaybillJSON", "WaybillMetrics",
                "WaybillNotices", "WaybillProtocol", "WaybillReceiver", "WaybillSpool",
                "WaybillSystem", "WaybillTLS",
                lifecycle, logging, nio, nioHTTP, nioPosix, nioSSL, nioTLS,
            ],
            exclude: ["Script"], swiftSettings: settings),

        // The commands of `waybill`, in one library for its three programs: the small one, the one with a bucket's client, and
        // the one with the door.
        module(
            "WaybillCommands",
            [
                "Waybill", "WaybillAgent", "WaybillArchive", "WaybillConsole", "WaybillEvent",
                "WaybillExport", "WaybillFleet", "WaybillIngest",
                "WaybillInspect", "WaybillJSON", "WaybillJournal", "WaybillLive", "WaybillMetrics", "WaybillNotices",
                "WaybillProjection", "WaybillProtocol", "WaybillReceiver", "WaybillReplay", "WaybillReport",
                "WaybillStore",
                "WaybillSystem", "WaybillTail",
                "WaybillTLS",
                arguments,
                lifecycle, logging, signals, "WaybillYAML",
            ]),
        .executableTarget(name: "waybill-cli", dependencies: ["WaybillCommands"], swiftSettings: settings),
        .executableTarget(
            name: "waybill-fleet", dependencies: ["WaybillCommands", "WaybillS3", "WaybillStore", "WaybillSystem"],
            swiftSettings: settings),
        .executableTarget(
            name: "waybill-ingest", dependencies: ["WaybillCommands", "WaybillDoor"], swiftSettings: settings),
        .executableTarget(
            name: "waybill-deliver",
            dependencies: [
                "WaybillConsole", "WaybillDelivery", "WaybillEvent", "WaybillExport", "WaybillMetrics",
                "WaybillNotices", "WaybillS3", "WaybillStore",
                "WaybillSystem", arguments, logging,
                signals,
            ],
            swiftSettings: settings),

        // Reads the sources: what they may import, call, be named and say.
        .testTarget(name: "TidyTests", exclude: ["Allowed.txt"], swiftSettings: settings),
        tests("WaybillSystemTests", ["WaybillSystem", "WaybillTestSupport", "WaybillTesting"]),
        tests("WaybillDigestTests", ["WaybillDigest"]),
        tests("WaybillJSONTests", ["WaybillJSON", "WaybillSystem"]),
        tests("WaybillYAMLTests", ["WaybillYAML"]),
        tests("WaybillEventTests", ["WaybillEvent", "WaybillSystem", "WaybillTestSupport"]),
        tests("WaybillCompressionTests", ["WaybillCompression", "WaybillSystem"]),
        tests(
            "WaybillProtocolTests", ["WaybillProtocol", "WaybillCompression", "WaybillJSON", "WaybillSystem"]),
        tests("WaybillSpoolTests", ["WaybillSpool", "WaybillSystem", "WaybillTestSupport"]),
        tests(
            "WaybillTests",
            ["Waybill", "WaybillEvent", "WaybillSpool", "WaybillSystem", "WaybillTestSupport", "WaybillTesting"]),
        tests("WaybillFoundationTests", ["WaybillFoundation", "WaybillTesting"]),
        tests("WaybillTestingTests", ["Waybill", "WaybillTesting"]),
        tests(
            "WaybillCommerceTests",
            [
                "WaybillCommerce", "Waybill", "WaybillEvent", "WaybillExport", "WaybillServerTestSupport",
                "WaybillTesting",
            ]),
        tests("WaybillPresentationTests", ["WaybillPresentation", "Waybill", "WaybillSystem", "WaybillTestSupport"]),
        tests("WaybillSystemLogTests", ["WaybillSystemLog", "Waybill", "WaybillSystem", "WaybillTestSupport"]),
        tests("WaybillLoggingTests", ["WaybillLogging", "Waybill", "WaybillSystem", "WaybillTestSupport", logging]),
        tests(
            "WaybillTailTests",
            ["WaybillTail", "WaybillProtocol", "WaybillSpool", "WaybillSystem", "WaybillTestSupport"]),
        tests(
            "WaybillJournalTests",
            ["WaybillJournal", "WaybillCompression", "WaybillProtocol", "WaybillSystem", "WaybillTestSupport"]),
        tests(
            "WaybillIngestTests",
            [
                "WaybillDoor", "WaybillIngest", "WaybillEvent", "WaybillJSON", "WaybillProtocol", "WaybillReceiver",
                "WaybillSystem", "WaybillTestSupport",
            ]),
        tests("WaybillS3Tests", ["WaybillS3", "WaybillStore", "WaybillSystem", nio, nioPosix]),
        tests("WaybillStoreTests", ["WaybillStore", "WaybillSystem", "WaybillTestSupport"]),
        tests(
            "WaybillFleetTests",
            [
                "WaybillFleet", "WaybillArchive", "WaybillCompression", "WaybillJournal", "WaybillProtocol",
                "WaybillStore",
                "WaybillSystem",
                "WaybillTestSupport",
            ]),
        tests(
            "WaybillArchiveTests",
            [
                "WaybillArchive", "WaybillCompression", "WaybillJournal", "WaybillProtocol", "WaybillSystem",
                "WaybillTestSupport",
            ]),
        tests(
            "WaybillProjectionTests",
            [
                "WaybillProjection", "WaybillArchive", "WaybillCompression", "WaybillExport", "WaybillJournal",
                "WaybillProtocol", "WaybillServerTestSupport", "WaybillSystem", "WaybillTestSupport",
            ]),
        tests(
            "WaybillReplayTests",
            [
                "WaybillReplay", "WaybillArchive", "WaybillEvent", "WaybillExport", "WaybillInspect", "WaybillJournal",
                "WaybillProjection",
                "WaybillProtocol", "WaybillServerTestSupport", "WaybillSystem", "WaybillTestSupport",
            ]),
        tests(
            "WaybillReportTests",
            [
                "WaybillReport", "WaybillArchive", "WaybillCompression", "WaybillSystem", "WaybillTestSupport",
            ]),
        tests(
            "WaybillLiveTests",
            [
                "WaybillLive", "WaybillArchive", "WaybillEvent", "WaybillExport", "WaybillJSON", "WaybillJournal",
                "WaybillProjection", "WaybillProtocol", "WaybillServerTestSupport", "WaybillSystem",
                "WaybillTestSupport",
            ]),
        tests(
            "WaybillDeliveryTests",
            [
                "WaybillDelivery", "WaybillArchive", "WaybillCompression", "WaybillExport",
                "WaybillMetrics", "WaybillProjection", "WaybillStore", "WaybillSystem", "WaybillEvent",
                "WaybillTestSupport", "WaybillTesting", logging,
            ]),
        tests(
            "WaybillConsoleTests",
            ["WaybillConsole", "WaybillJSON", "WaybillNotices", "WaybillSystem", "WaybillTesting", arguments, logging]),
        tests("WaybillMetricsTests", ["WaybillMetrics", "WaybillSystem", nio]),
        tests(
            "WaybillDispatchTests",
            [
                "WaybillDispatch", "Waybill", "WaybillAgent", "WaybillDoor", "WaybillIngest", "WaybillMetrics",
                "WaybillProtocol", "WaybillReceiver", "WaybillServerTestSupport", "WaybillSystem", "WaybillTestSupport",
                "WaybillTLS", "WaybillTail", lifecycle,
                logging,
            ]),
        tests(
            "MigrationTests",
            [
                "Waybill", "WaybillDispatch", "WaybillEvent", "WaybillExport", "WaybillPresentation",
                "WaybillProjection", "WaybillReceiver", "WaybillServerTestSupport", "WaybillSpool", "WaybillSystem",
                "WaybillSystemLog", "WaybillTestSupport", "WaybillTesting",
            ]),
        tests(
            "WaybillReceiverTests",
            [
                "WaybillReceiver", "WaybillArchive", "WaybillCompression", "WaybillExport", "WaybillFleet",
                "WaybillJournal", "WaybillProjection",
                "WaybillProtocol", "WaybillReplay", "WaybillServerTestSupport", "WaybillSimulation", "WaybillStore",
                "WaybillSystem", "WaybillTestSupport",
                "WaybillTesting",
                "WaybillTLS", logging, nio,
            ]),
        tests(
            "WaybillInspectTests",
            [
                "WaybillInspect", "WaybillArchive", "WaybillExport", "WaybillJSON", "WaybillJournal",
                "WaybillProjection",
                "WaybillProtocol", "WaybillServerTestSupport", "WaybillSystem", "WaybillTestSupport",
            ]),
        tests(
            "WaybillCommandTests",
            [
                "WaybillCommands", "WaybillAgent", "WaybillDigest", "WaybillEvent", "WaybillExport", "WaybillFleet",
                "WaybillIngest", "WaybillJournal",
                "WaybillLive", "WaybillMetrics", "WaybillProjection",
                "WaybillReceiver", "WaybillStore", "WaybillSystem", "WaybillTLS", "WaybillTail", "WaybillTestSupport",
            ]),
        tests("WaybillSimulationTests", ["WaybillSimulation"]),
        tests(
            "WaybillExportTests",
            [
                "WaybillExport", "WaybillEvent", "WaybillJSON", "WaybillServerTestSupport", "WaybillSystem",
                "WaybillTestSupport",
            ]),
        tests(
            "WaybillFuzzTests", path: "Tools/Fuzzing/Sources/Targets",
            [
                "Waybill", "WaybillArchive", "WaybillCompression", "WaybillDelivery", "WaybillEvent", "WaybillExport",
                "WaybillFleet", "WaybillIngest", "WaybillInspect", "WaybillJSON", "WaybillJournal", "WaybillProjection",
                "WaybillProtocol", "WaybillSpool", "WaybillStore", "WaybillSystem", "WaybillTail", "WaybillTestSupport",
                "WaybillYAML",
            ]),
    ]
)
