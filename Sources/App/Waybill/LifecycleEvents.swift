public import WaybillEvent

/// The types of the app's lifecycle events, for subscriptions.
///
///     configuration.lifecycle = .recorded
///     configuration.providers = [.only(.ga4, WaybillClient.AppInstalled.self), .all(.mixpanel)]
extension WaybillClient {
    /// The first start of the install, `app_installed`.
    public struct AppInstalled: Event {
        /// The name, "app_installed".
        public var name: String { "app_installed" }
        /// Adds no fields.
        public func encode(into fields: inout Fields) {}
    }

    /// The first start of another version or build, `app_updated`.
    public struct AppUpdated: Event {
        private let version: String?
        private let build: String?

        init(from version: String?, build: String?) {
            self.version = version
            self.build = build
        }

        /// The name, "app_updated".
        public var name: String { "app_updated" }
        /// Adds `previous_app` and `previous_build`.
        public func encode(into fields: inout Fields) {
            fields.put("previous_app", self.version)
            fields.put("previous_build", self.build)
        }
    }

    /// A start, `app_opened`.
    public struct AppOpened: Event {
        /// The name, "app_opened".
        public var name: String { "app_opened" }
        /// Adds no fields.
        public func encode(into fields: inout Fields) {}
    }

    /// The change to the background, `app_backgrounded`.
    public struct AppBackgrounded: Event {
        private let foregroundMilliseconds: UInt64

        init(after milliseconds: UInt64) {
            self.foregroundMilliseconds = milliseconds
        }

        /// The name, "app_backgrounded".
        public var name: String { "app_backgrounded" }
        /// Adds `foreground_ms`, how long the app was in the foreground.
        public func encode(into fields: inout Fields) {
            fields.put("foreground_ms", self.foregroundMilliseconds)
        }
    }

    /// The change to the foreground, `app_foregrounded`.
    public struct AppForegrounded: Event {
        private let backgroundMilliseconds: UInt64

        init(after milliseconds: UInt64) {
            self.backgroundMilliseconds = milliseconds
        }

        /// The name, "app_foregrounded".
        public var name: String { "app_foregrounded" }
        /// Adds `background_ms`, how long the app was in the background.
        public func encode(into fields: inout Fields) {
            fields.put("background_ms", self.backgroundMilliseconds)
        }
    }
}
