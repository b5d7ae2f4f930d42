// swift-tools-version: 6.2
import PackageDescription

/// The compression and its tests once more, through links, with ISA-L in zlib's place and without the packages of the
/// programs: what each change checks of the trait `ISAL` in seconds.
let settings: [SwiftSetting] = [
    .swiftLanguageMode(.v6),
    .treatAllWarnings(as: .error),
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .define("ISAL"),
]

func module(_ place: String, _ dependencies: [Target.Dependency] = []) -> Target {
    .target(
        name: String(place.split(separator: "/").last ?? ""), dependencies: dependencies, path: "Product/\(place)",
        swiftSettings: settings)
}

let package = Package(
    name: "waybill-codec",
    platforms: [.macOS(.v15)],
    targets: [
        .target(name: "CWaybillSystem", path: "Product/C/CWaybillSystem"),
        .systemLibrary(name: "CISAL", path: "Product/C/CISAL", pkgConfig: "libisal"),
        .systemLibrary(name: "CZlib", path: "Product/C/CZlib", pkgConfig: "zlib"),
        module("Core/WaybillSystem", ["CWaybillSystem"]),
        module("Core/WaybillCompression", ["CISAL", "CZlib"]),
        .testTarget(
            name: "WaybillCompressionTests", dependencies: ["WaybillCompression", "WaybillSystem"],
            path: "Tests/WaybillCompressionTests", swiftSettings: settings),
    ]
)
