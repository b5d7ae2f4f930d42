public import WaybillEvent
internal import WaybillSpool

extension WaybillClient {
    /// The configuration of a client: what the app is, where its spool is, and how events are handled.
    public struct Configuration: Sendable {
        /// The path of the spool folder; use a separate folder for each app and environment.
        public var spool: String
        /// The name of a group of users that shares the spool, if the agent runs as another user than the app.
        ///
        /// The spool's folder then gets this group and the mode 2770, and its files the mode 0640. The app's user must be
        /// a member of the group, or own the folder and find it so. Without a group only the app's own user, and root, can
        /// ship the spool: folders have the mode 0750 and files 0640, and the process's mask may take more away.
        public var group: String?
        /// The environment the app runs in.
        public var environment: DeploymentEnvironment
        /// The app's identifier, such as "com.example.shop".
        public var bundle: String
        /// The app's version as users see it, such as "1.4.2".
        public var version: String
        /// The build of that version, such as "118".
        public var build: String
        /// The device; by default as reported by the operating system.
        public var device = Device.current
        /// The user's language, such as "ko-KR".
        ///
        /// The default is the first of the user's preferred languages; on Linux the language of the process's messages
        /// (`LC_ALL`, `LC_MESSAGES`, `LANG`, and `LANGUAGE`).
        public var language = Device.currentLanguage
        /// The events for each provider; if empty, every provider of the receiver gets all events.
        public var providers: [ProviderSubscription]
        /// The observers in the app that receive stored events.
        public var observers: [ObserverSubscription]
        /// Filters applied, in this order, to every event before it is written.
        public var filters: [EventFilter] = []
        /// Fields of every screen, action and event from the first one on, such as those of
        /// ``WaybillClient/Configuration/lifecycle``; `WaybillClient.register` adds more.
        ///
        /// ``WaybillClient/reset()`` keeps them. A field that is `nil` is left out.
        public var registered: KeyValuePairs<String, (any FieldValue & Sendable)?> = [:]
        /// The share of events to keep; the first rule with an event's type decides.
        public var sampling: [Sampling] = []
        /// What stored events survive; the default is the death of the process.
        public var durability = Durability.process
        /// What happens to events as long as the user was not asked for consent; by default they are stored.
        public var consent = ConsentDefault.given
        /// How much disk space the spool may use.
        public var quota = Quota()
        /// Whether installs, updates, starts and foreground changes are recorded as events; off by default.
        public var lifecycle = Lifecycle.unrecorded

        /// Creates a configuration with a spool per environment: `<folder>/prod`, `<folder>/dev` and so on.
        public init(
            spoolsIn folder: String, environment: DeploymentEnvironment, bundle: String, version: String,
            build: String, providers: [ProviderSubscription] = [], observers: [ObserverSubscription] = []
        ) {
            self.init(
                spool: folder + "/" + environment.rawValue, environment: environment, bundle: bundle,
                version: version, build: build, providers: providers, observers: observers)
        }

        /// Creates a configuration with the spool in this folder.
        public init(
            spool: String, environment: DeploymentEnvironment, bundle: String, version: String, build: String,
            providers: [ProviderSubscription] = [], observers: [ObserverSubscription] = []
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

    /// The failures that stored events survive without a ``WaybillClient/synchronize()``.
    public struct Durability: Hashable, Sendable {
        private enum Kind: Hashable {
            case process
            case power(Duration)
            case memory
        }

        private let kind: Kind

        /// Events survive the death of the process; a power failure may lose the last seconds.
        public static let process = Durability(kind: .process)

        /// Events survive the death of the process at once, and a power failure after `interval`.
        ///
        /// A separate thread synchronizes the files; `track` does not wait for it.
        ///
        /// - Parameter interval: must be greater than 0.
        public static func power(every interval: Duration) -> Durability {
            precondition(interval > .zero, "an interval of \(interval) is not above 0")
            return Durability(kind: .power(interval))
        }

        /// Events survive nothing until they are written, in batches of 64 KiB or one second; outcomes are
        /// ``TrackOutcome/held``.
        ///
        /// For millions of events of which some may be lost. Waiting events are written with the next event, by
        /// ``WaybillClient/synchronize()``, when the app enters the background, and when the client is deallocated.
        public static let memory = Durability(kind: .memory)

        /// How long lines are gathered in memory; `nil` if they are not.
        var gathering: Duration? {
            self.kind == .memory ? .seconds(1) : nil
        }

        /// The interval between synchronizations of stored events; `nil` for none.
        var interval: Duration? {
            if case .power(let interval) = self.kind { interval } else { nil }
        }
    }

    /// How much disk space a spool may use.
    ///
    /// When it is exceeded, the oldest segments are evicted and a `wb.evicted` event reports the number of events;
    /// events about users and Waybill's own are kept. An agent deletes delivered segments, so the quota matters only if
    /// nothing can be delivered for a long time.
    public struct Quota: Hashable, Sendable {
        /// The maximum size of all segments, in bytes.
        public var byteCountMax: Int
        /// The maximum age of a segment.
        public var ageMax: Duration
        /// The free space to leave on the file system, in bytes; with less, new events wait in memory as on a full
        /// disk.
        public var freeByteCountMin: Int

        /// Creates a quota; the default is 64 MiB, 30 days, and 50 MiB of free space.
        public init(
            byteCountMax: Int = 64 << 20, ageMax: Duration = .seconds(30 * 86_400), freeByteCountMin: Int = 50 << 20
        ) {
            self.byteCountMax = byteCountMax
            self.ageMax = ageMax
            self.freeByteCountMin = freeByteCountMin
        }

        /// A hundred years, which avoids overflow in clock arithmetic.
        private static var ageLimit: Duration { .seconds(100 * 366 * 86_400) }

        var spool: SpoolQuota {
            SpoolQuota(
                byteCountMax: self.byteCountMax, ageMax: min(self.ageMax, Self.ageLimit),
                freeByteCountMin: self.freeByteCountMin)
        }
    }

    /// What happens to events before the first ``WaybillClient/setConsent(analytics:ads:categories:)`` of an install.
    public enum ConsentDefault: Hashable, Sendable {
        /// Events are stored: the app needs no consent, or has it.
        case given
        /// Events are held in memory until the answer; then they are stored with their own times, or dropped.
        ///
        /// Until then nothing about the user is on the disk: no event, no id, no session. At most the newest 256 KiB of
        /// events are held; all are lost if the process ends without an answer. An install that exists already keeps its
        /// id.
        case ask
        /// Events are dropped until consent is given.
        case denied
    }

    /// Whether the app's lifecycle is recorded.
    public enum Lifecycle: Hashable, Sendable {
        /// The lifecycle is not recorded.
        case unrecorded
        /// The lifecycle is recorded as `app_installed`, `app_updated`, `app_opened`, `app_backgrounded` and
        /// `app_foregrounded`.
        ///
        /// Their types are ``WaybillClient/AppInstalled``, ``WaybillClient/AppUpdated``, ``WaybillClient/AppOpened``,
        /// ``WaybillClient/AppBackgrounded`` and ``WaybillClient/AppForegrounded``.
        case recorded
    }

    /// The device as described in events.
    public struct Device: Hashable, Sendable {
        /// The operating system, such as "iOS" or "Linux".
        public var os: String
        /// The version of the operating system, such as "17.0.1".
        public var osVersion: String?
        /// The model, such as "iPhone16,2" or "x86_64".
        public var model: String?

        /// Creates a description of a device.
        public init(os: String, osVersion: String? = nil, model: String? = nil) {
            self.os = os
            self.osVersion = osVersion
            self.model = model
        }
    }
}
