// swift-tools-version: 6.2
import Foundation
import PackageDescription

// An app's package, as Tools/outside copies it out of the repository: the products and swift-log, every warning an error.
// WAYBILL is where the repository is, WAYBILL_ALL asks for the products that pull in packages, by their trait.
let repository = ProcessInfo.processInfo.environment["WAYBILL"] ?? "../.."
let isAll = ProcessInfo.processInfo.environment["WAYBILL_ALL"] != nil

let settings: [SwiftSetting] = [
    .swiftLanguageMode(.v6),
    .treatAllWarnings(as: .error),
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .enableUpcomingFeature("InternalImportsByDefault"),
]

func product(_ name: String) -> Target.Dependency { .product(name: name, package: "waybill") }

var targets: [Target] = [
    .executableTarget(
        name: "outside", dependencies: [product("Waybill"), product("WaybillSystemLog"), product("WaybillUI")],
        swiftSettings: settings),
    .executableTarget(
        name: "outside-foundation", dependencies: [product("WaybillFoundation")], swiftSettings: settings),
    // A shop: ten events, an observable model, a program, and its team's tests.
    .target(
        name: "Store", dependencies: [product("Waybill"), product("WaybillCommerce")], swiftSettings: settings),
    .executableTarget(name: "store-cli", dependencies: ["Store", product("Waybill")], swiftSettings: settings),
    .testTarget(
        name: "StoreTests", dependencies: ["Store", product("Waybill"), product("WaybillTesting")],
        swiftSettings: settings),
    .testTarget(
        name: "OutsideTests", dependencies: ["outside", product("Waybill"), product("WaybillTesting")],
        swiftSettings: settings),
    .testTarget(
        name: "CollisionTests",
        dependencies: [
            product("Waybill"), product("WaybillTesting"), .product(name: "Logging", package: "swift-log"),
        ],
        swiftSettings: settings),
]
let dependencies: [Package.Dependency] = [
    .package(name: "waybill", path: repository, traits: isAll ? ["Networking"] : []),
    .package(url: "https://github.com/apple/swift-log", from: "1.16.2"),
]
if isAll {
    targets.append(
        .executableTarget(
            name: "outside-all",
            dependencies: [
                product("Waybill"), product("WaybillDispatch"), product("WaybillLogging"),
                .product(name: "Logging", package: "swift-log"),
            ],
            swiftSettings: settings))
}

let package = Package(
    name: "outside", platforms: [.macOS(.v15)], dependencies: dependencies, targets: targets)
