// swift-tools-version: 6.2
import PackageDescription

let settings: [SwiftSetting] = [
    .treatAllWarnings(as: .error),
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"),
]

let waybill: Target.Dependency = .product(name: "Waybill", package: "waybill")

let package = Package(
    name: "benchmarks",
    platforms: [.macOS(.v15)],
    dependencies: [
        .package(name: "waybill", path: "../.."),
        // Measured by `track-rivals` in addition to Waybill; GRDB needs Debian's libsqlite3-dev.
        .package(url: "https://github.com/apple/swift-log", from: "1.16.2"),
        .package(url: "https://github.com/groue/GRDB.swift", from: "7.10.0"),
    ],
    targets: [
        .target(name: "Stopwatch", swiftSettings: settings),
        .executableTarget(
            name: "track-rivals",
            dependencies: [
                "Stopwatch", waybill, .product(name: "GRDB", package: "GRDB.swift"),
                .product(name: "Logging", package: "swift-log"),
            ],
            swiftSettings: settings),
    ]
)
