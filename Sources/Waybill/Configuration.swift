public import WaybillEvent
internal import WaybillSpool

extension WaybillClient {
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
        public var providers: [ProviderSubscription]
        /// Who in the app sees which events once they are stored.
        public var observers: [ObserverSubscription]
        /// What every event passes before it reaches the disk, in this order.
        public var filters: [EventFilter] = []
        /// Which share of events is kept; the first rule that knows an event's type decides.
        public var sampling: [Sampling] = []
        /// What stored events survive.
        public var durability = Durability.process
        /// How much of the disk the spool may take.
        public var quota = Quota()
        /// Whether installs, updates, starts and changes between foreground and background are events.
        public var lifecycle = Lifecycle.unrecorded

        /// An app's description of itself, with a spool for each environment: `<folder>/prod` and its siblings.
        public init(
            spoolsIn folder: String, environment: DeploymentEnvironment, bundle: String, version: String,
            build: String, providers: [ProviderSubscription] = [], observers: [ObserverSubscription] = []
        ) {
            self.init(
                spool: folder + "/" + environment.rawValue, environment: environment, bundle: bundle,
                version: version, build: build, providers: providers, observers: observers)
        }

        /// An app's description of itself.
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

    /// What stored events survive without a ``WaybillClient/flush()``.
    public struct Durability: Hashable, Sendable {
        private enum Kind: Hashable {
            case process
            case power(Duration)
            case memory
        }

        private let kind: Kind

        /// The death of the process; a power cut may take the last seconds.
        public static let process = Durability(kind: .process)

        /// The death of the process at once, and a power cut `interval` later.
        ///
        /// A thread of its own synchronizes; `track` does not wait for it.
        public static func power(every interval: Duration) -> Durability {
            precondition(interval > .zero, "an interval of \(interval) is not above 0")
            return Durability(kind: .power(interval))
        }

        /// Nothing before they are written, 64 KiB or a second together; outcomes are ``TrackOutcome/held``.
        ///
        /// For events by the million of which some may be lost. What waits is written by the next event, by
        /// ``WaybillClient/flush()``, in the background phase, and when the client ends.
        public static let memory = Durability(kind: .memory)

        /// How long lines gather in memory; `nil`: not at all.
        var gathering: Duration? {
            self.kind == .memory ? .seconds(1) : nil
        }

        /// How often stored events are made to survive a power cut; `nil`: not at all.
        var interval: Duration? {
            if case .power(let interval) = self.kind { interval } else { nil }
        }
    }

    /// How much of a disk the spool may take.
    ///
    /// What is beyond is taken away, the oldest segments first, and a `wb.evicted` event tells how much that was;
    /// events about users, and Waybill's own, stay. An agent deletes what is delivered, so a quota is felt only
    /// where nothing could be delivered for long.
    public struct Quota: Hashable, Sendable {
        /// Bytes of all segments.
        public var byteCountMax: Int
        /// How old a segment may become.
        public var ageMax: Duration
        /// Room on the file system that is left to others: below it, new events wait in memory as on a full disk.
        public var freeByteCountMin: Int

        /// 64 MiB, 30 days, and 50 MiB left to others, unless said otherwise.
        public init(
            byteCountMax: Int = 64 << 20, ageMax: Duration = .seconds(30 * 86_400), freeByteCountMin: Int = 50 << 20
        ) {
            self.byteCountMax = byteCountMax
            self.ageMax = ageMax
            self.freeByteCountMin = freeByteCountMin
        }

        /// A hundred years: longer than any clock is asked about.
        private static var ageLimit: Duration { .seconds(100 * 366 * 86_400) }

        var spool: SpoolQuota {
            SpoolQuota(
                byteCountMax: self.byteCountMax, ageMax: min(self.ageMax, Self.ageLimit),
                freeByteCountMin: self.freeByteCountMin)
        }
    }

    /// Whether the app's own life is recorded.
    public enum Lifecycle: Hashable, Sendable {
        /// It is not.
        case unrecorded
        /// As `app_installed`, `app_updated`, `app_opened`, `app_backgrounded` and `app_foregrounded`.
        case recorded
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
