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

func module(_ place: String, _ dependencies: [Target.Dependency] = []) -> Target {
    .target(
        name: String(place.split(separator: "/").last ?? ""), dependencies: dependencies,
        path: "Product/Sources/\(place)",
        swiftSettings: settings)
}

let package = Package(
    name: "waybill-fuzz",
    platforms: [.macOS(.v15)],
    targets: [
        .target(name: "FuzzCosts", path: "Costs"),
        .target(
            name: "CWaybillSystem", path: "Product/Sources/C/CWaybillSystem", exclude: ["PrivacyInfo.xcprivacy"],
            cSettings: cSettings),
        .systemLibrary(name: "CLibcrypto", path: "Product/Sources/C/CLibcrypto", pkgConfig: "libcrypto"),
        .systemLibrary(name: "CYAML", path: "Product/Sources/C/CYAML", pkgConfig: "yaml-0.1"),
        .systemLibrary(name: "CZlib", path: "Product/Sources/C/CZlib", pkgConfig: "zlib"),
        module("Core/WaybillSystem", ["CWaybillSystem"]),
        module("Core/WaybillJSON"),
        module("Programs/WaybillYAML", ["CYAML"]),
        module("Core/WaybillEvent", ["WaybillJSON", "WaybillSystem"]),
        module("Core/WaybillCompression", ["CZlib"]),
        module("Core/WaybillProtocol", ["WaybillJSON", "WaybillSystem"]),
        module("Core/WaybillSpool", ["WaybillSystem"]),
        module("App/Waybill", ["WaybillEvent", "WaybillJSON", "WaybillSpool", "WaybillSystem"]),
        module("Agent/WaybillTail", ["WaybillProtocol", "WaybillSpool", "WaybillSystem"]),
        module(
            "Core/WaybillData",
            ["CLibcrypto", "WaybillCompression", "WaybillJSON", "WaybillProtocol", "WaybillSystem"]),
        .target(
            name: "WaybillTestSupport", dependencies: ["WaybillFleet", "WaybillSystem"],
            path: "Product/Tests/Support/WaybillTestSupport",
            swiftSettings: settings),
        module(
            "Cloud/WaybillFleet",
            ["WaybillCompression", "WaybillData", "WaybillJSON", "WaybillProtocol", "WaybillSystem"]),
        module("Archive/WaybillExport", ["WaybillEvent", "WaybillJSON", "WaybillSystem"]),
        module(
            "Archive/WaybillProjection",
            [
                "WaybillCompression", "WaybillData", "WaybillEvent", "WaybillExport", "WaybillJSON", "WaybillProtocol",
                "WaybillSystem",
            ]),
        module(
            "Archive/WaybillReplay",
            [
                "WaybillCompression", "WaybillData", "WaybillEvent", "WaybillExport", "WaybillFleet", "WaybillJSON",
                "WaybillProjection", "WaybillProtocol", "WaybillSpool", "WaybillSystem",
            ]),
        module(
            "Cloud/WaybillIngest",
            ["WaybillCompression", "WaybillEvent", "WaybillExport", "WaybillJSON", "WaybillSystem"]),
        // What judges answers and claims; the rest of it needs an HTTP client.
        .target(
            name: "WaybillDelivery", dependencies: ["WaybillExport", "WaybillJSON", "WaybillSystem"],
            path: "Product/Sources/Cloud/WaybillDelivery",
            sources: [
                "AnswerText.swift", "ClaimObject.swift", "Delivery.swift", "DeliveryRules.swift", "ProfileRecord.swift",
                "Verdict.swift",
            ], swiftSettings: settings),
        .executableTarget(
            name: "fuzz",
            dependencies: [
                "FuzzCosts", "Waybill", "WaybillCompression", "WaybillData", "WaybillDelivery", "WaybillEvent",
                "WaybillExport", "WaybillFleet", "WaybillIngest", "WaybillJSON", "WaybillProjection",
                "WaybillProtocol", "WaybillReplay", "WaybillSpool", "WaybillSystem", "WaybillTail",
                "WaybillTestSupport", "WaybillYAML",
            ] + planted.map { .target(name: $0.name) },
            path: "Sources", exclude: ["Targets/CorpusTests.swift"],
            swiftSettings: settings + (isPlanted ? [.define("PLANTED")] : []),
            // GNU gold stops at an error of its own in this program.
            linkerSettings: [.unsafeFlags(["-sanitize=fuzzer,address", "-use-ld=lld"] + counted)]),
    ] + planted
)
