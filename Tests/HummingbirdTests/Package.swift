// swift-tools-version: 6.2
import Foundation
import PackageDescription

// A server's package, as Tools/outside --hummingbird copies it out of the repository; WAYBILL is where that is.
let repository = ProcessInfo.processInfo.environment["WAYBILL"] ?? "../.."

let settings: [SwiftSetting] = [
    .swiftLanguageMode(.v6),
    .treatAllWarnings(as: .error),
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .enableUpcomingFeature("InternalImportsByDefault"),
]
let dependencies: [Target.Dependency] = [
    .product(name: "Hummingbird", package: "hummingbird"), .product(name: "Waybill", package: "waybill"),
    .product(name: "WaybillHummingbird", package: "waybill"),
]

let package = Package(
    name: "server", platforms: [.macOS(.v15)],
    dependencies: [
        .package(name: "waybill", path: repository, traits: ["Hummingbird"]),
        .package(url: "https://github.com/hummingbird-project/hummingbird", from: "2.28.1"),
        .package(url: "https://github.com/apple/swift-log", from: "1.16.2"),
    ],
    targets: [
        // A copy of Tests/OutsideTests/Sources/Store.
        .target(
            name: "Store",
            dependencies: [
                .product(name: "Waybill", package: "waybill"), .product(name: "WaybillCommerce", package: "waybill"),
            ],
            swiftSettings: settings),
        .target(
            name: "StoreServer",
            dependencies: dependencies + ["Store", .product(name: "WaybillCommerce", package: "waybill")],
            swiftSettings: settings),
        // The program of the product's guide.
        .executableTarget(name: "guide", dependencies: dependencies, swiftSettings: settings),
        .testTarget(
            name: "HummingbirdTests",
            dependencies: dependencies + [
                "StoreServer", .product(name: "Logging", package: "swift-log"),
                .product(name: "WaybillTesting", package: "waybill"),
            ],
            swiftSettings: settings),
    ]
)
