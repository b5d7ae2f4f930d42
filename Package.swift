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

/// A module in its room: `Core/WaybillSystem`.
func module(_ place: String, exclude: [String] = [], _ dependencies: [Target.Dependency] = []) -> Target {
    .target(
        name: name(place), dependencies: dependencies, path: "Sources/\(place)", exclude: exclude,
        swiftSettings: settings)
}

func program(_ place: String, _ dependencies: [Target.Dependency]) -> Target {
    .executableTarget(
        name: name(place), dependencies: dependencies, path: "Sources/\(place)", swiftSettings: settings)
}

/// What tests share, or a program that no product holds.
func support(_ name: String, _ dependencies: [Target.Dependency]) -> Target {
    .target(name: name, dependencies: dependencies, path: "Tests/Support/\(name)", swiftSettings: settings)
}

func supportProgram(_ name: String, _ dependencies: [Target.Dependency]) -> Target {
    .executableTarget(
        name: name, dependencies: dependencies, path: "Tests/Support/\(name)", swiftSettings: settings)
}

func name(_ place: String) -> String { String(place.split(separator: "/").last ?? "") }

/// Tests themselves are not optimized, which takes a quarter of the time to compile; what they test is.
///
/// - Parameter isOptimized: for tests of generic noncopyable values that close files. Outside the optimizer, the compiler (6.3)
///   never runs the deinit of those of other modules whose access is `package`.
func tests(
    _ name: String, path: String? = nil, isOptimized: Bool = false, _ dependencies: [Target.Dependency]
) -> Target {
    .testTarget(
        name: name, dependencies: dependencies, path: path,
        swiftSettings: isOptimized ? settings : settings + [.unsafeFlags(["-Onone"])])
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
let nioWebSocket: Target.Dependency = .product(
    name: "NIOWebSocket", package: "swift-nio", condition: .when(traits: ["Networking"]))
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
        .executable(name: "waybill-net", targets: ["waybill-net"]),
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
            name: "CWaybillSystem", path: "Sources/C/CWaybillSystem", exclude: privacyManifest.exclude,
            resources: privacyManifest.resources),
        // Files that are taken into programs: the live page's, the door's script, and the reports as SQL.
        .target(name: "CWaybillTexts", path: "Sources/C/CWaybillTexts"),
        .systemLibrary(
            name: "CLibcrypto", path: "Sources/C/CLibcrypto", pkgConfig: "libcrypto",
            providers: [.apt(["libssl-dev"]), .brew(["openssl@3"])]),
        .systemLibrary(
            name: "CISAL", path: "Sources/C/CISAL", pkgConfig: "libisal",
            providers: [.apt(["libisal-dev"]), .brew(["isa-l"])]),
        .systemLibrary(
            name: "CYAML", path: "Sources/C/CYAML", pkgConfig: "yaml-0.1",
            providers: [.apt(["libyaml-dev"]), .brew(["libyaml"])]),
        .systemLibrary(
            name: "CZlib", path: "Sources/C/CZlib", pkgConfig: "zlib",
            providers: [.apt(["zlib1g-dev"]), .brew(["zlib"])]),

        // No package, no socket, no thread: each row imports only rows above it.
        module("Core/WaybillSystem", ["CWaybillSystem"]),
        module("Core/WaybillJSON"),
        module("Programs/WaybillYAML", ["CYAML"]),
        module("Core/WaybillEvent", ["WaybillJSON", "WaybillSystem"]),
        module("App/WaybillCommerce", ["WaybillEvent"]),
        module("Core/WaybillCompression", ["CZlib", .target(name: "CISAL", condition: .when(traits: ["ISAL"]))]),
        module("Core/WaybillProtocol", ["WaybillJSON", "WaybillSystem"]),
        module("Core/WaybillSpool", ["WaybillSystem"]),
        module("App/Waybill", ["WaybillEvent", "WaybillJSON", "WaybillSpool", "WaybillSystem"]),
        // Foundation's types in events; a product of its own, so that the client links no Foundation.
        module("App/WaybillFoundation", ["Waybill", "WaybillEvent"]),
        module("App/WaybillTesting", ["Waybill", "WaybillEvent", "WaybillSpool", "WaybillSystem"]),
        module("App/WaybillUI", ["Waybill", "WaybillSystem"]),
        module("App/WaybillSystemLog", ["CWaybillSystem", "Waybill", "WaybillEvent", "WaybillSystem"]),
        module("Agent/WaybillTail", ["WaybillProtocol", "WaybillSpool", "WaybillSystem"]),
        module(
            "Core/WaybillData",
            ["CLibcrypto", "WaybillCompression", "WaybillJSON", "WaybillProtocol", "WaybillSystem"]),
        module("Archive/WaybillExport", ["WaybillEvent", "WaybillJSON", "WaybillSystem"]),
        // A bucket, the journals in it, and what a fleet makes of them.
        module(
            "Cloud/WaybillFleet",
            ["WaybillCompression", "WaybillData", "WaybillJSON", "WaybillProtocol", "WaybillSystem"]),
        module(
            "Archive/WaybillProjection",
            [
                "WaybillCompression", "WaybillData", "WaybillEvent", "WaybillExport", "WaybillJSON", "WaybillProtocol",
                "WaybillSystem",
            ]),

        // The app's own logs as events; a product of its own, so that the client pulls in no package.
        module("App/WaybillLogging", ["Waybill", "WaybillSystem", logging]),

        // A server's visitors; its sources are empty without the trait, so that the package's own build needs none of it.
        module("App/WaybillHummingbird", ["Waybill", "WaybillEvent", "WaybillSystem", httpTypes, hummingbird]),

        // What hosts share: TLS, the address that answers for metrics and status, and the notices.
        module(
            "Core/WaybillHost",
            ["WaybillProtocol", "WaybillSystem", logging, nio, nioHTTP, nioPosix, nioSSL, nioTLS]),

        // Drivers: sockets, threads, clocks, signals.
        module(
            "Agent/WaybillAgent",
            [
                "WaybillCompression", "WaybillHost", "WaybillJSON", "WaybillProtocol", "WaybillSystem", "WaybillTail",
                lifecycle, logging, nio, nioHTTP, nioPosix, nioTLS, nioTransportServices, nioWebSocket,
            ]),
        // The agent's core as a product, for apps that no agent can run beside.
        module(
            "App/WaybillDispatch",
            ["WaybillAgent", "WaybillHost", "WaybillSystem", "WaybillTail", logging, nio]),
        module(
            "Archive/WaybillReplay",
            [
                "WaybillCompression", "WaybillData", "WaybillEvent", "WaybillExport", "WaybillFleet", "WaybillJSON",
                "WaybillProjection", "WaybillProtocol", "WaybillSpool", "WaybillSystem",
            ]),
        module(
            "Receiver/WaybillReceiver",
            [
                "CLibcrypto", "WaybillCompression", "WaybillData", "WaybillExport", "WaybillFleet", "WaybillHost",
                "WaybillJSON", "WaybillProjection", "WaybillProtocol", "WaybillSystem", lifecycle, logging, nio,
                nioPosix,
            ]),
        module(
            "Receiver/WaybillMerger",
            [
                "WaybillData", "WaybillExport", "WaybillFleet", "WaybillHost", "WaybillJSON", "WaybillProjection",
                "WaybillProtocol", "WaybillReceiver", "WaybillReplay", "WaybillSystem", lifecycle, logging, nio,
                nioPosix,
            ]),

        // Counts over the archive's days; it writes nothing to the data directory and opens no socket.
        module(
            "Archive/WaybillReport", exclude: ["reports.sql"],
            [
                "CWaybillTexts", "WaybillCompression", "WaybillData", "WaybillEvent", "WaybillExport", "WaybillJSON",
                "WaybillProjection", "WaybillProtocol", "WaybillSystem",
            ]),

        // The live page.
        module(
            "Programs/WaybillLive", exclude: ["Page"],
            [
                "CWaybillTexts", "WaybillData", "WaybillEvent", "WaybillExport", "WaybillHost", "WaybillJSON",
                "WaybillProjection", "WaybillProtocol", "WaybillReport", "WaybillSystem", nio, nioHTTP, nioPosix,
            ]),

        module(
            "Cloud/WaybillDelivery",
            [
                "WaybillCompression", "WaybillData", "WaybillEvent", "WaybillExport", "WaybillFleet", "WaybillHost",
                "WaybillJSON", "WaybillProjection", "WaybillSystem", logging, nio, nioPosix,
            ]),

        // What asks over HTTPS: a bucket, and providers.
        module(
            "Cloud/WaybillHTTPClient",
            ["WaybillDelivery", "WaybillFleet", "WaybillSystem", httpClient, nio, nioHTTP, nioPosix, nioSSL]),

        // What tests share: the disk in memory and its faults; then what needs the server's modules. No product holds
        // them.
        support("WaybillTestSupport", ["WaybillFleet", "WaybillSystem"]),
        support(
            "WaybillServerTestSupport",
            [
                "Waybill", "WaybillCompression", "WaybillData", "WaybillDispatch", "WaybillEvent", "WaybillExport",
                "WaybillJSON", "WaybillProjection", "WaybillProtocol", "WaybillReceiver", "WaybillSystem",
                "WaybillTestSupport", lifecycle, logging,
            ]),

        // Disks, networks and clocks that fail, and lives of the shipped code among them; no product holds it.
        support(
            "WaybillSimulation",
            [
                "Waybill", "WaybillAgent", "WaybillCompression", "WaybillData", "WaybillEvent", "WaybillExport",
                "WaybillFleet", "WaybillHost", "WaybillProjection", "WaybillProtocol", "WaybillReceiver",
                "WaybillReplay", "WaybillSystem", "WaybillTail", "WaybillTestSupport", logging, nio, nioEmbedded,
            ]),
        supportProgram("waybill-simulate", ["WaybillSimulation", arguments]),

        // The hot paths one by one; no product holds it.
        .target(name: "CAllocations", path: "Tests/Support/CAllocations"),
        supportProgram(
            "waybill-benchmark",
            [
                "CAllocations", "Waybill", "WaybillCompression", "WaybillData", "WaybillExport", "WaybillJSON",
                "WaybillProjection", "WaybillProtocol", "WaybillSystem", arguments,
            ]),

        // Other products' requests as lines, and the door that takes them.
        module(
            "Cloud/WaybillIngest",
            ["WaybillCompression", "WaybillEvent", "WaybillExport", "WaybillJSON", "WaybillSystem"]),
        module(
            "Cloud/WaybillDoor", exclude: ["Script"],
            [
                "CWaybillTexts", "WaybillEvent", "WaybillHost", "WaybillIngest", "WaybillJSON", "WaybillProtocol",
                "WaybillSpool", "WaybillSystem", lifecycle, logging, nio, nioHTTP, nioPosix, nioTLS, nioWebSocket,
            ]),

        // The commands of `waybill`, in one library for its three programs: the small one, the one with a bucket's client, and
        // the one with the door.
        module(
            "Programs/WaybillCommands",
            [
                "Waybill", "WaybillAgent", "WaybillData", "WaybillDelivery", "WaybillEvent", "WaybillExport",
                "WaybillFleet", "WaybillHost", "WaybillIngest", "WaybillJSON", "WaybillLive", "WaybillMerger",
                "WaybillProjection", "WaybillProtocol", "WaybillReceiver", "WaybillReplay", "WaybillReport",
                "WaybillSystem", "WaybillTail", "WaybillYAML", arguments, lifecycle, logging, signals,
            ]),
        program("Programs/waybill-cli", ["WaybillCommands"]),
        program(
            "Programs/waybill-net",
            ["WaybillCommands", "WaybillDelivery", "WaybillFleet", "WaybillHTTPClient", "WaybillSystem"]),
        program("Programs/waybill-ingest", ["WaybillCommands", "WaybillDoor", "WaybillHost"]),

        // Reads the sources: what they may import, call, be named and say.
        .testTarget(name: "TidyTests", exclude: ["Allowed.txt"], swiftSettings: settings),
        tests("WaybillSystemTests", isOptimized: true, ["WaybillSystem", "WaybillTesting", "WaybillTestSupport"]),
        tests("WaybillJSONTests", ["WaybillJSON", "WaybillSystem"]),
        tests("WaybillYAMLTests", ["WaybillYAML"]),
        tests("WaybillEventTests", ["WaybillEvent", "WaybillSystem", "WaybillTestSupport"]),
        tests("WaybillCompressionTests", ["WaybillCompression", "WaybillSystem"]),
        tests(
            "WaybillProtocolTests", ["WaybillCompression", "WaybillJSON", "WaybillProtocol", "WaybillSystem"]),
        tests("WaybillSpoolTests", isOptimized: true, ["WaybillSpool", "WaybillSystem", "WaybillTestSupport"]),
        tests(
            "WaybillTests",
            ["Waybill", "WaybillEvent", "WaybillSpool", "WaybillSystem", "WaybillTesting", "WaybillTestSupport"]),
        tests("WaybillFoundationTests", ["WaybillFoundation", "WaybillTesting"]),
        tests("WaybillTestingTests", ["Waybill", "WaybillTesting"]),
        tests(
            "WaybillCommerceTests",
            [
                "Waybill", "WaybillCommerce", "WaybillEvent", "WaybillExport", "WaybillServerTestSupport",
                "WaybillTesting",
            ]),
        tests("WaybillUITests", ["Waybill", "WaybillSystem", "WaybillTestSupport", "WaybillUI"]),
        tests("WaybillSystemLogTests", ["Waybill", "WaybillSystem", "WaybillSystemLog", "WaybillTestSupport"]),
        tests("WaybillLoggingTests", ["Waybill", "WaybillLogging", "WaybillSystem", "WaybillTestSupport", logging]),
        tests(
            "WaybillTailTests", isOptimized: true,
            ["WaybillProtocol", "WaybillSpool", "WaybillSystem", "WaybillTail", "WaybillTestSupport"]),
        tests(
            "WaybillDataTests", isOptimized: true,
            ["WaybillCompression", "WaybillData", "WaybillProtocol", "WaybillSystem", "WaybillTestSupport"]),
        tests(
            "WaybillIngestTests",
            [
                "WaybillDoor", "WaybillEvent", "WaybillHost", "WaybillIngest", "WaybillJSON", "WaybillSystem",
                "WaybillTestSupport",
            ]),
        tests("WaybillHTTPClientTests", ["WaybillFleet", "WaybillHTTPClient", "WaybillSystem", nio, nioPosix]),
        tests(
            "WaybillFleetTests", isOptimized: true,
            [
                "WaybillCompression", "WaybillData", "WaybillFleet", "WaybillProtocol", "WaybillSystem",
                "WaybillTestSupport",
            ]),
        tests(
            "WaybillProjectionTests",
            [
                "WaybillCompression", "WaybillData", "WaybillExport", "WaybillProjection", "WaybillProtocol",
                "WaybillServerTestSupport", "WaybillSystem", "WaybillTestSupport",
            ]),
        tests(
            "WaybillReplayTests", isOptimized: true,
            [
                "WaybillData", "WaybillEvent", "WaybillExport", "WaybillJSON", "WaybillProjection", "WaybillProtocol",
                "WaybillReplay", "WaybillServerTestSupport", "WaybillSystem", "WaybillTestSupport",
            ]),
        tests(
            "WaybillReportTests",
            [
                "WaybillCompression", "WaybillData", "WaybillEvent", "WaybillReport", "WaybillSystem",
                "WaybillTestSupport",
            ]),
        tests(
            "WaybillLiveTests",
            [
                "WaybillData", "WaybillEvent", "WaybillExport", "WaybillJSON", "WaybillLive", "WaybillProjection",
                "WaybillProtocol", "WaybillServerTestSupport", "WaybillSystem", "WaybillTestSupport",
            ]),
        tests(
            "WaybillDeliveryTests",
            [
                "WaybillCompression", "WaybillData", "WaybillDelivery", "WaybillEvent", "WaybillExport",
                "WaybillFleet", "WaybillHost", "WaybillProjection", "WaybillServerTestSupport", "WaybillSystem",
                "WaybillTesting", "WaybillTestSupport", logging,
            ]),
        tests("WaybillHostTests", ["WaybillHost", "WaybillSystem", logging, nio, nioEmbedded, nioHTTP]),
        tests(
            "WaybillDispatchTests", isOptimized: true,
            [
                "Waybill", "WaybillAgent", "WaybillDispatch", "WaybillDoor", "WaybillHost", "WaybillIngest",
                "WaybillProtocol", "WaybillReceiver", "WaybillServerTestSupport", "WaybillSystem", "WaybillTail",
                "WaybillTestSupport", lifecycle, logging, nio,
            ]),
        tests(
            "MigrationTests",
            [
                "Waybill", "WaybillDispatch", "WaybillEvent", "WaybillExport", "WaybillProjection", "WaybillReceiver",
                "WaybillServerTestSupport", "WaybillSpool", "WaybillSystem", "WaybillSystemLog", "WaybillTesting",
                "WaybillTestSupport", "WaybillUI",
            ]),
        tests(
            "WaybillReceiverTests",
            [
                "WaybillCompression", "WaybillData", "WaybillExport", "WaybillFleet", "WaybillHost", "WaybillMerger",
                "WaybillProjection", "WaybillProtocol", "WaybillReceiver", "WaybillReplay", "WaybillServerTestSupport",
                "WaybillSimulation", "WaybillSystem", "WaybillTesting", "WaybillTestSupport", logging, nio,
            ]),
        tests(
            "WaybillCommandTests",
            [
                "WaybillAgent", "WaybillCommands", "WaybillData", "WaybillDelivery", "WaybillDoor", "WaybillEvent",
                "WaybillExport", "WaybillFleet", "WaybillHost", "WaybillIngest", "WaybillJSON", "WaybillLive",
                "WaybillMerger", "WaybillProjection", "WaybillReceiver", "WaybillReplay", "WaybillReport",
                "WaybillServerTestSupport", "WaybillSystem", "WaybillTail", "WaybillTesting", arguments, logging,
            ]),
        tests("WaybillSimulationTests", ["WaybillSimulation"]),
        tests(
            "WaybillExportTests",
            [
                "WaybillEvent", "WaybillExport", "WaybillJSON", "WaybillServerTestSupport", "WaybillSystem",
                "WaybillTestSupport",
            ]),
        tests(
            "WaybillFuzzTests", path: "Tools/Fuzzing/Sources/Targets", isOptimized: true,
            [
                "Waybill", "WaybillCompression", "WaybillData", "WaybillDelivery", "WaybillEvent", "WaybillExport",
                "WaybillFleet", "WaybillIngest", "WaybillJSON", "WaybillProjection", "WaybillProtocol",
                "WaybillReplay", "WaybillSpool", "WaybillSystem", "WaybillTail", "WaybillTestSupport", "WaybillYAML",
            ]),
    ]
)
