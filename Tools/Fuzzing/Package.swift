// swift-tools-version: 6.2
import PackageDescription

/// The product's modules once more, through links, so that coverage is built into them here and nowhere else; being
/// in one package, they see each other's `package` names.
let settings: [SwiftSetting] = [
    .swiftLanguageMode(.v6),
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    // Coverage for libFuzzer, and internal names for the targets.
    .unsafeFlags(["-sanitize=fuzzer", "-enable-testing"]),
]

func module(_ name: String, _ dependencies: [Target.Dependency] = []) -> Target {
    .target(name: name, dependencies: dependencies, path: "Product/\(name)", swiftSettings: settings)
}

let package = Package(
    name: "waybill-fuzz",
    platforms: [.macOS(.v15)],
    targets: [
        .target(name: "CWaybillSystem", path: "Product/CWaybillSystem"),
        .systemLibrary(name: "CLibcrypto", path: "Product/CLibcrypto", pkgConfig: "libcrypto"),
        .systemLibrary(name: "CZlib", path: "Product/CZlib", pkgConfig: "zlib"),
        module("WaybillSystem", ["CWaybillSystem"]),
        module("WaybillDigest"),
        module("WaybillJSON"),
        module("WaybillEvent", ["WaybillDigest", "WaybillJSON"]),
        module("WaybillCompression", ["CZlib"]),
        module("WaybillProtocol", ["WaybillDigest", "WaybillJSON"]),
        module("WaybillSpool", ["WaybillSystem"]),
        module("Waybill", ["WaybillEvent", "WaybillJSON", "WaybillSpool", "WaybillSystem"]),
        module("WaybillTail", ["WaybillDigest", "WaybillProtocol", "WaybillSpool", "WaybillSystem"]),
        module("WaybillJournal", ["WaybillCompression", "WaybillDigest", "WaybillProtocol", "WaybillSystem"]),
        module(
            "WaybillArchive",
            [
                "CLibcrypto", "WaybillCompression", "WaybillJournal", "WaybillProtocol", "WaybillJSON",
                "WaybillSystem",
            ]),
        module("WaybillStore", ["WaybillArchive", "WaybillDigest", "WaybillJSON", "WaybillSystem"]),
        module("WaybillTestSupport", ["WaybillStore", "WaybillSystem"]),
        module(
            "WaybillFleet",
            [
                "WaybillArchive", "WaybillCompression", "WaybillDigest", "WaybillJSON", "WaybillJournal",
                "WaybillProtocol", "WaybillStore", "WaybillSystem",
            ]),
        module("WaybillExport", ["WaybillDigest", "WaybillEvent", "WaybillJSON", "WaybillSystem"]),
        module(
            "WaybillProjection",
            [
                "WaybillArchive", "WaybillCompression", "WaybillEvent", "WaybillExport", "WaybillJSON",
                "WaybillJournal", "WaybillProtocol", "WaybillSystem",
            ]),
        module(
            "WaybillInspect",
            [
                "WaybillArchive", "WaybillCompression", "WaybillEvent", "WaybillExport", "WaybillFleet",
                "WaybillJSON", "WaybillJournal", "WaybillProjection", "WaybillProtocol", "WaybillSpool",
                "WaybillSystem",
            ]),
        module(
            "WaybillIngest",
            [
                "WaybillCompression", "WaybillDigest", "WaybillEvent", "WaybillExport", "WaybillJSON", "WaybillSystem",
            ]),
        .executableTarget(
            name: "fuzz",
            dependencies: [
                "Waybill", "WaybillArchive", "WaybillCompression", "WaybillEvent", "WaybillExport", "WaybillIngest",
                "WaybillInspect", "WaybillJSON", "WaybillJournal", "WaybillProjection", "WaybillProtocol",
                "WaybillSpool",
                "WaybillSystem", "WaybillTail", "WaybillTestSupport",
            ],
            path: "Sources", exclude: ["Targets/CorpusTests.swift"], swiftSettings: settings,
            // GNU gold stops at an error of its own in this program.
            linkerSettings: [.unsafeFlags(["-sanitize=fuzzer", "-use-ld=lld"])]),
    ]
)
