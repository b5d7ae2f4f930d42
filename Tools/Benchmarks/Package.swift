// swift-tools-version: 6.2
import PackageDescription

let package = Package(
    name: "benchmarks",
    dependencies: [.package(name: "waybill", path: "../..")],
    targets: [
        .executableTarget(name: "track", dependencies: [.product(name: "Waybill", package: "waybill")])
    ]
)
