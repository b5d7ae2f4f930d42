public import WaybillEvent

extension Waybill {
    /// What an app says about itself once.
    public struct Configuration: Sendable {
        /// The app's own folder; one per app and environment.
        public var spool: String
        /// Where the app runs.
        public var environment: DeploymentEnvironment
        /// The app, as in "com.example.shop".
        public var bundle: String
        /// The version that users see, as in "1.4.2".
        public var version: String
        /// The build of that version, as in "118".
        public var build: String
        /// The machine; what the operating system says by default.
        public var device = Device.current
        /// The user's language, as in "ko-KR"; from `LANG` by default.
        public var language = Device.currentLanguage
        /// Which provider gets which events; none given: every provider of the receiver gets all.
        public var providers: [Subscription]
        /// Who in the app sees which events once they are stored.
        public var observers: [ObserverSubscription]
        /// What stored events survive.
        public var durability = Durability.process

        /// An app's description of itself.
        public init(
            spool: String, environment: DeploymentEnvironment, bundle: String, version: String, build: String,
            providers: [Subscription] = [], observers: [ObserverSubscription] = []
        ) {
            self.spool = spool
            self.environment = environment
            self.bundle = bundle
            self.version = version
            self.build = build
            self.providers = providers
            self.observers = observers
        }
    }

    /// What stored events survive without a ``Waybill/flush()``.
    public struct Durability: Hashable, Sendable {
        private enum Kind { case process }
        private let kind: Kind

        /// The death of the process; a power cut may take the last seconds.
        public static let process = Durability(kind: .process)
    }

    /// A machine, as events name it.
    public struct Device: Hashable, Sendable {
        /// As in "iOS" or "Linux".
        public var os: String
        /// As in "17.0.1".
        public var osVersion: String?
        /// As in "iPhone16,2" or "x86_64".
        public var model: String?

        /// A machine.
        public init(os: String, osVersion: String? = nil, model: String? = nil) {
            self.os = os
            self.osVersion = osVersion
            self.model = model
        }
    }
}
