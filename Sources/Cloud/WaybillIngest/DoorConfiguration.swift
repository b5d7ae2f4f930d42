package import WaybillSystem

/// How `waybill ingest` runs.
package struct DoorConfiguration: Sendable {
    package var listen: NetworkAddress
    /// The folder of the spools; there is one for each app and environment.
    package var spool: String
    /// The folder for events that cannot be lines.
    package var quarantine: String
    /// How many days a day of the quarantine is kept once it is over.
    package var quarantineDayCountMax = 30
    /// The group that shares the spools with the agent; `nil`: both are one user.
    package var group: String?
    package var keys: [DoorKey] = []
    /// The certificate and its intermediate ones, in a file, with its key; `nil`: without TLS.
    package var certificate: String?
    package var privateKey: String?
    package var status = StatusPlaces()
    /// The way of agents to a receiver.
    package var line = IngestLine()
    /// Proxies whose `X-Forwarded-For` is believed.
    package var trustedProxies: [AddressRange] = []
    /// The same as they are written.
    package var proxies: [String] = []
    package var limits = DoorLimits()
    /// How long ids are known, so that a repeated request stores nothing.
    package var repeatDuration = Duration.seconds(600)
    package var repeatByteCountMax = 64 << 20
    /// Free space on the spool's file system that is left to others.
    package var freeByteCountMin = 50 << 20
    /// What started this process, and watches it.
    package var manager = ServiceManager.none
    /// This program and its version.
    package var software: String?
    /// The date of the program: a clock that shows an earlier time is wrong.
    package var programDate = WallTime.unknown
    /// What the file has in place of values from the environment, by key.
    package var writtenTexts: [String: String] = [:]

    package init(listen: NetworkAddress, spool: String, quarantine: String) {
        self.listen = listen
        self.spool = spool
        self.quarantine = quarantine
    }
}

extension DoorConfiguration: ReloadableConfiguration {
    /// This configuration of an open door with everything of another one that can change while it is open.
    ///
    /// The rest needs a restart: where it listens and answers, whether it has TLS, where it writes, what it remembers, and where
    /// tunnels lead.
    package func taking(_ new: DoorConfiguration) -> DoorConfiguration {
        var taken = new
        taken.listen = self.listen
        taken.spool = self.spool
        taken.group = self.group
        taken.quarantine = self.quarantine
        taken.status.metrics = self.status.metrics
        taken.status.socket = self.status.socket
        taken.repeatDuration = self.repeatDuration
        taken.repeatByteCountMax = self.repeatByteCountMax
        taken.freeByteCountMin = self.freeByteCountMin
        taken.line = self.line
        taken.manager = self.manager
        taken.software = self.software
        taken.programDate = self.programDate
        if (self.certificate == nil) != (new.certificate == nil) {
            (taken.certificate, taken.privateKey) = (self.certificate, self.privateKey)
        }
        return taken
    }

    /// Whether an address is a proxy's that is trusted.
    package func isProxy(_ address: String) -> Bool { self.trustedProxies.contains { $0.contains(address) } }
}

/// What senders may take of a door: memory, connections and time.
package struct DoorLimits: Hashable, Sendable {
    /// A body, as it arrives and once it is inflated.
    package var bodyByteCountMax = IngestLimits.bodyByteCountMax
    /// Bodies that arrive or wait, of all connections.
    package var memoryByteCountMax = 64 << 20
    /// Of these bytes, those of one address.
    package var shareByteCountMax = 16 << 20
    package var connectionCountMax = 20_000
    /// Of these connections, those of one address.
    package var shareConnectionCountMax = 5_000
    /// A body of 64 KiB or more must arrive so fast, in bytes a second; 0: as slowly as it likes.
    package var bodyByteRateMin = 8 << 10
    /// A connection without a request.
    package var idleDuration = Duration.seconds(75)
    /// From a request's first byte to its last.
    package var requestDuration = Duration.seconds(30)

    /// A smaller body may come as slowly as a network without reception makes it.
    private static let pacedByteCountMin = 64 << 10

    package init() {}

    /// Whether the share of an address has room for one body.
    package var hasRoomForBody: Bool { self.shareByteCountMax >= self.bodyByteCountMax }

    /// How many connections may be open where there are files for `fileCountMax` of them.
    ///
    /// An address keeps its part of fewer ones, rounded up.
    package func connections(fileCountMax: Int) -> (countMax: Int, shareCountMax: Int) {
        let countMax = min(self.connectionCountMax, fileCountMax)
        let share = self.shareConnectionCountMax * countMax + self.connectionCountMax - 1
        return (countMax, share / self.connectionCountMax)
    }

    /// Whether a body arrives too slowly.
    ///
    /// - Parameters:
    ///   - byteCount: all that has arrived.
    ///   - before: what had arrived `interval` ago; 0: the body had not begun.
    package func isSlow(_ byteCount: Int, before: Int, _ interval: Duration) -> Bool {
        guard byteCount >= Self.pacedByteCountMin, before > 0 else { return false }
        return byteCount - before < self.bodyByteRateMin * Int(interval / .seconds(1))
    }
}

/// Why a door cannot open: no one can listen there, or the machine lacks something.
package struct DoorFailure: Error, CustomStringConvertible {
    package let description: String

    package init(description: String) {
        self.description = description
    }
}

/// The section `line` of `ingest`: the way of agents to a receiver, through tunnels.
///
///     line:
///       receiver: collector.example.com:4391
///       tls: on
package struct IngestLine: Sendable {
    /// The receiver's proxied listener; `nil`: there is no way.
    package var receiver: ListeningPlace?
    package var usesTLS = false
    package var authorities: String?
    package var connectionCountMax = 8192
    package var isInsecure = false

    package init() {}
}

/// A public write key, and what it allows.
package struct DoorKey: Hashable, Sendable {
    package var source: IngestSource
    /// Origins of pages that may use it, as `https://shop.example.com` or `https://*.example.com`; empty: all.
    package var origins: [String]
    /// Events a second; above that, senders are asked to wait.
    package var eventRateMax: Int
    /// Of these, those of one address; `nil`: a fifth.
    package var addressEventRateMax: Int?

    package init(
        source: IngestSource, origins: [String] = [], eventRateMax: Int = DoorKey.usualEventRateMax,
        addressEventRateMax: Int? = nil
    ) {
        self.source = source
        self.origins = origins
        self.eventRateMax = eventRateMax
        self.addressEventRateMax = addressEventRateMax
    }

    package static let usualEventRateMax = 5_000

    /// Whether only some pages may use the key.
    package var hasOrigins: Bool { !self.origins.isEmpty }

    /// Whether a page of this origin may use the key.
    package func allows(_ origin: String) -> Bool {
        self.origins.isEmpty || self.origins.contains { Self.matches(origin, $0) }
    }

    private static func matches(_ origin: String, _ pattern: String) -> Bool {
        guard let star = pattern.firstIndex(of: "*") else { return origin == pattern }
        let (start, end) = (pattern[..<star], pattern[pattern.index(after: star)...])
        guard origin.utf8.count > start.utf8.count + end.utf8.count, origin.hasPrefix(start), origin.hasSuffix(end)
        else {
            return false
        }
        // One star is one or more labels of a name, never another port or path.
        return origin.dropFirst(start.count).dropLast(end.count).utf8.allSatisfy {
            $0 != UInt8(ascii: "/") && $0 != UInt8(ascii: ":")
        }
    }
}
