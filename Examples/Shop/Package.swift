// swift-tools-version: 6.2
import PackageDescription

let package = Package(
    name: "shop",
    platforms: [.macOS(.v15)],
    dependencies: [
        .package(name: "waybill", path: "../..", traits: ["Hummingbird"]),
        .package(url: "https://github.com/hummingbird-project/hummingbird", from: "2.28.1"),
        .package(url: "https://github.com/apple/swift-log", from: "1.16.2"),
    ],
    targets: [
        .executableTarget(
            name: "shop",
            dependencies: [
                .product(name: "Hummingbird", package: "hummingbird"),
                .product(name: "Logging", package: "swift-log"), .product(name: "Waybill", package: "waybill"),
                .product(name: "WaybillCommerce", package: "waybill"),
                .product(name: "WaybillHummingbird", package: "waybill"),
            ],
            swiftSettings: [
                .treatAllWarnings(as: .error),
                .enableUpcomingFeature("ExistentialAny"),
                .enableUpcomingFeature("MemberImportVisibility"),
                .enableUpcomingFeature("InternalImportsByDefault"),
            ])
    ]
)
