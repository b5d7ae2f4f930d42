// swift-tools-version: 6.2
import PackageDescription

// An app's views on WaybillUI, and tests that show them in a simulator:
//     xcodebuild test -scheme Screens -destination 'platform=iOS Simulator,name=iPhone 17'
// Where there is no simulator, Tools/typecheck-apple type-checks them against stubs.
let settings: [SwiftSetting] = [.swiftLanguageMode(.v6), .treatAllWarnings(as: .error)]

func product(_ name: String) -> Target.Dependency { .product(name: name, package: "waybill") }

let package = Package(
    name: "Screens", platforms: [.iOS(.v18)],
    products: [.library(name: "Screens", targets: ["Screens"])],
    dependencies: [.package(name: "waybill", path: "../..")],
    targets: [
        .target(name: "Screens", dependencies: [product("WaybillUI")], swiftSettings: settings),
        .testTarget(
            name: "ScreensTests", dependencies: ["Screens", product("WaybillTesting"), product("WaybillUI")],
            swiftSettings: settings),
    ])
