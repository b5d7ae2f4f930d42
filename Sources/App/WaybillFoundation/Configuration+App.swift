public import Foundation
public import Waybill
public import WaybillEvent

extension WaybillClient.Configuration {
    /// Creates a configuration for an app, with what its bundle says: identifier, version and build.
    ///
    ///     let waybill = try WaybillClient(.init(app: .main))
    ///
    /// The spool is `waybill/<identifier>/<environment>` in the user's Application Support folder, which is
    /// `~/Library/Application Support` on Apple's platforms, within the app's container, and `$XDG_DATA_HOME` or
    /// `~/.local/share` on Linux. An app with extensions names a folder of its app group instead.
    ///
    /// A program without an `Info.plist`, such as a server or a command-line tool on Linux, has nothing to read: use
    /// ``WaybillClient/Configuration/init(spoolsIn:environment:bundle:version:build:providers:observers:)`` there.
    ///
    /// - Parameters:
    ///   - bundle: the app's bundle, usually `.main`.
    ///   - environment: by default `dev` in debug builds and `prod` in release builds.
    ///   - folder: the folder for the spools instead of the one in Application Support.
    ///   - providers: the events for each provider; if empty, every provider of the receiver gets all events.
    ///   - observers: the observers in the app that receive stored events.
    /// - Throws: ``WaybillError`` with the code `configuration`, if the bundle lacks a key or there is no such folder.
    public init(
        app bundle: Bundle, environment: DeploymentEnvironment = .ofBuild, spoolsIn folder: URL? = nil,
        providers: [ProviderSubscription] = [], observers: [ObserverSubscription] = []
    ) throws(WaybillError) {
        let identifier = try bundle.text("CFBundleIdentifier")
        let spools = if let folder { folder } else { try Self.spools(of: identifier) }
        self.init(
            spoolsIn: spools.path, environment: environment, bundle: identifier,
            version: try bundle.text("CFBundleShortVersionString"), build: try bundle.text("CFBundleVersion"),
            providers: providers, observers: observers)
    }

    private static func spools(of identifier: String) throws(WaybillError) -> URL {
        let folders = FileManager.default.urls(for: .applicationSupportDirectory, in: .userDomainMask)
        guard let support = folders.first else {
            throw WaybillError(
                .configuration, "the system names no Application Support folder for this user; pass `spoolsIn:`")
        }
        return support.appendingPathComponent("waybill", isDirectory: true)
            .appendingPathComponent(identifier, isDirectory: true)
    }
}

extension DeploymentEnvironment {
    /// `dev` in debug builds, `prod` in release builds.
    public static var ofBuild: DeploymentEnvironment {
        #if DEBUG
            .dev
        #else
            .prod
        #endif
    }
}

extension Bundle {
    fileprivate func text(_ key: String) throws(WaybillError) -> String {
        if let text = self.object(forInfoDictionaryKey: key) as? String, !text.isEmpty { return text }
        throw WaybillError(
            .configuration,
            "\(self.bundlePath) has no \(key) in an Info.plist; add it, or name bundle, version and build in "
                + "Configuration(spoolsIn:environment:bundle:version:build:)")
    }
}
