import Foundation
import Testing
import WaybillFoundation

/// A bundle with these keys, in a folder of its own.
private func withBundle(_ keys: [String: String], _ body: (Bundle) throws -> Void) throws {
    let folder = FileManager.default.temporaryDirectory.appending(path: "waybill-app-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: folder) }
    let list = try PropertyListSerialization.data(fromPropertyList: keys, format: .xml, options: 0)
    try list.write(to: folder.appending(path: "Info.plist"))
    try body(try #require(Bundle(path: folder.path)))
}

private let keys = [
    "CFBundleIdentifier": "com.example.shop", "CFBundleShortVersionString": "1.4.2", "CFBundleVersion": "118",
]

@Test func `a configuration takes identifier, version and build from the app's bundle`() throws {
    try withBundle(keys) { bundle in
        let configuration = try WaybillClient.Configuration(app: bundle, environment: .internal)
        #expect(configuration.bundle == "com.example.shop")
        #expect(configuration.version == "1.4.2")
        #expect(configuration.build == "118")
        #expect(configuration.environment == .internal)
        #expect(configuration.spool.hasPrefix("/"))
        #expect(configuration.spool.hasSuffix("/waybill/com.example.shop/internal"))
        let other = try WaybillClient.Configuration(
            app: bundle, environment: .prod, spoolsIn: URL(filePath: "/var/spool/shop"), providers: [.all(.ga4)])
        #expect(other.spool == "/var/spool/shop/prod")
        #expect(other.providers.count == 1)
    }
}

@Test(arguments: keys.keys.sorted())
func `a bundle without one of the keys is refused with its name`(key: String) throws {
    try withBundle(keys.filter { $0.key != key }) { bundle in
        let error = #expect(throws: WaybillError.self) { try WaybillClient.Configuration(app: bundle) }
        #expect(error?.code == .configuration)
        #expect(error?.message.contains("\(key) in an Info.plist") == true)
    }
}

@Test func `a client starts with an app's bundle alone`() throws {
    try withBundle(keys) { bundle in
        let configuration = try WaybillClient.Configuration(app: bundle, spoolsIn: bundle.bundleURL)
        let waybill = try WaybillClient(configuration)
        #expect(waybill.track("opened") == .stored(seq: 1))
    }
}
