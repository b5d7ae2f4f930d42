// swift-tools-version: 6.2
import PackageDescription

/// The product's modules once more, through links, so that coverage and sanitizers are built into them here and nowhere
/// else; being in one package, they see each other's `package` names.
let settings: [SwiftSetting] = [
    .swiftLanguageMode(.v6),
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    // Coverage for libFuzzer, the address sanitizer, and internal names for the targets.
    .unsafeFlags(["-sanitize=fuzzer,address", "-enable-testing"]),
]
let cSettings: [CSetting] = [
    .unsafeFlags(["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined", "-fno-omit-frame-pointer"])
]

/// Calls that lead to `Costs/costs.c`.
let counted = ["cmp1", "cmp2", "cmp4", "cmp8", "const_cmp1", "const_cmp2", "const_cmp4", "const_cmp8", "switch"]
    .flatMap { ["-Xlinker", "--wrap=__sanitizer_cov_trace_\($0)"] }

/// `Tools/fuzz --planted` puts a copy of WaybillJSON there whose tape writes behind its memory.
let isPlanted = Context.environment["WAYBILL_FUZZ_PLANTED"] != nil
let planted: [Target] = isPlanted ? [.target(name: "PlantedJSON", path: "Planted", swiftSettings: settings)] : []

func module(_ name: String, _ dependencies: [Target.Dependency] = []) -> Target {
    .target(name: name, dependencies: dependencies, path: "Product/\(name)", swiftSettings: settings)
}

let package = Package(
    name: "waybill-fuzz",
    platforms: [.macOS(.v15)],
    targets: [
        .target(name: "FuzzCosts", path: "Costs"),
        .target(
            name: "CWaybillSystem", path: "Product/CWaybillSystem", exclude: ["PrivacyInfo.xcprivacy"],
            cSettings: cSettings),
        .systemLibrary(name: "CLibcrypto", path: "Product/CLibcrypto", pkgConfig: "libcrypto"),
        .systemLibrary(name: "CYAML", path: "Product/CYAML", pkgConfig: "yaml-0.1"),
        .systemLibrary(name: "CZlib", path: "Product/CZlib", pkgConfig: "zlib"),
        module("WaybillSystem", ["CWaybillSystem"]),
        module("WaybillDigest"),
        module("WaybillJSON"),
        module("WaybillYAML", ["CYAML"]),
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
        // What judges answers and claims; the rest of it needs an HTTP client.
        .target(
            name: "WaybillDelivery", dependencies: ["WaybillExport", "WaybillJSON", "WaybillSystem"],
            path: "Product/WaybillDelivery",
            sources: [
                "AnswerText.swift", "ClaimObject.swift", "Delivery.swift", "DeliveryRules.swift", "ProfileRecord.swift",
                "Verdict.swift",
            ], swiftSettings: settings),
        .executableTarget(
            name: "fuzz",
            dependencies: [
                "FuzzCosts", "Waybill", "WaybillArchive", "WaybillCompression", "WaybillDelivery", "WaybillEvent",
                "WaybillExport", "WaybillFleet", "WaybillIngest", "WaybillInspect", "WaybillJSON", "WaybillJournal",
                "WaybillProjection", "WaybillProtocol", "WaybillSpool", "WaybillStore", "WaybillSystem", "WaybillTail",
                "WaybillTestSupport", "WaybillYAML",
            ] + planted.map { .target(name: $0.name) },
            path: "Sources", exclude: ["Targets/CorpusTests.swift"],
            swiftSettings: settings + (isPlanted ? [.define("PLANTED")] : []),
            // GNU gold stops at an error of its own in this program.
            linkerSettings: [.unsafeFlags(["-sanitize=fuzzer,address", "-use-ld=lld"] + counted)]),
    ] + planted
)
