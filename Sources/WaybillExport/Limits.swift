/// What the providers accept, last checked 2026-11-21.
///
/// One place, because these numbers drift. Where a provider's own bound is exclusive or a round number away, the value
/// here is the largest that is safe.
package enum Limits {
    /// A line that the agent takes from a foreign writer.
    package static let lineByteCountMax = 1 << 20

    /// developers.google.com/analytics/devguides/collection/protocol/ga4 and support.google.com/analytics/answer/9267744.
    package enum GA4 {
        package static let eventsPerRequestMax = 25
        /// The documented body is below 130 kB; ours leaves room for what an uploader adds.
        package static let requestByteCountMax = 120_000
        package static let parameterCountMax = 25
        package static let nameCharacterCountMax = 40
        /// 40 less `_` and eight hexadecimal digits.
        package static let cutNameCharacterCount = 31
        package static let valueCharacterCountMax = 100
        package static let pageTitleCharacterCountMax = 300
        package static let pageReferrerCharacterCountMax = 420
        package static let pageLocationCharacterCountMax = 1000
        package static let userPropertyCountMax = 25
        package static let userPropertyNameCharacterCountMax = 24
        /// 24 less `_` and eight hexadecimal digits.
        package static let cutUserPropertyNameCharacterCount = 15
        package static let userPropertyValueCharacterCountMax = 36
        package static let customParametersPerItemMax = 10
        package static let userIDCharacterCountMax = 256
        package static let appInstanceIDCharacterCount = 32
        package static let ageMillisecondsMax: Int64 = 72 * 3_600_000
        /// Later, an event no longer joins what the SDK sent.
        package static let joinMillisecondsMax: Int64 = 48 * 3_600_000
        /// Later than this after the session's start, an event is attributed to none.
        package static let attributionMillisecondsMax: Int64 = 24 * 3_600_000
        /// Not documented; keeps a part within what tools open.
        package static let recordsPerPartMax = 1_000_000
        package static let partByteCountMax = 256 << 20
    }

    /// Repository mixpanel/docs: import-events.mdx, data-type.mdx, reserved-properties.mdx.
    package enum Mixpanel {
        package static let eventsPerRequestMax = 2000
        /// 10 MB uncompressed, less what an uploader adds.
        package static let requestByteCountMax = 9_500_000
        /// "Less than 1 MB"; read as 10^6.
        package static let eventByteCountMax = 999_999
        /// "Fewer than 255".
        package static let propertyCountMax = 254
        /// One page says bytes, another characters; bytes are safe for both.
        package static let stringByteCountMax = 255
        package static let elementCountMax = 254
        package static let depthMax = 3
        package static let nestedByteCountMax = 8192
        package static let insertIDByteCountMax = 36
        package static let futureMillisecondsMax: Int64 = 3_600_000
        package static let holdMillisecondsMax: Int64 = 24 * 3_600_000
        package static let eventsPerSecondMax = 30_000.0
    }

    /// Repository mixpanel/docs: profile-set.mdx, user-profile-limits.mdx.
    package enum MixpanelProfiles {
        /// 2000 updates, of which an event makes up to two.
        package static let eventsPerRequestMax = 1000
        /// Not documented; what `/import` takes.
        package static let requestByteCountMax = 9_500_000
        /// "1 MB"; read as 10^6 less one, as for events.
        package static let updateByteCountMax = 999_999
        package static let listByteCountMax = 256 * 1000
    }

    /// Repository amplitude/amplitude-dev-center: http-v2-api.md, batch-event-upload-api.md.
    package enum Amplitude {
        package static let batchEventsMax = 2000
        /// 20 MB, less the envelope.
        package static let batchByteCountMax = 18_000_000
        /// "Fewer than 2000", and half of that is asked for.
        package static let requestEventsMax = 1000
        /// Below 1 MB, less the envelope.
        package static let requestByteCountMax = 900_000
        package static let stringCharacterCountMax = 1024
        package static let propertyCountMax = 1024
        /// `event_properties` itself is the first level.
        package static let depthMax = 40
        package static let idCharacterCountMin = 5
    }

    /// Repository segmentio/segment-docs: server/http-api/index.md, rate-limits.md.
    package enum Segment {
        /// 2500 are taken; above, the server answers 200 and drops them.
        package static let callsPerRequestMax = 2000
        /// 500 KB, less the envelope.
        package static let requestByteCountMax = 450_000
        /// "32 KB"; read as 32 000.
        package static let callByteCountMax = 32_000
        package static let messageIDCharacterCountMax = 100
        package static let propertyCountMax = 10_000
        package static let eventsPerSecondMax = 1000.0
    }

    /// Repository PostHog/posthog.com, docs/api/capture.mdx, and PostHog/posthog, rust/capture.
    package enum PostHog {
        package static let eventsPerRequestMax = 1000
        /// A body is below 20 MB.
        package static let requestByteCountMax = 10_000_000
        /// The server cuts longer ids and says nothing.
        package static let distinctIDCharacterCountMax = 200
        /// A session's id counts for so long after its time.
        package static let sessionMillisecondsMax: Int64 = 24 * 3_600_000
        /// Above, PostHog asks to be told before.
        package static let eventsPerMinuteMax = 10_000.0
        /// Events from before then are an import, not traffic.
        package static let historicalMillisecondsMin: Int64 = 48 * 3_600_000
    }

    /// Repository snowplow/documentation: canonical-event, stream-collector/configure.
    package enum Snowplow {
        package static let eventsPerRequestMax = 500
        /// A collector refuses more than 2 MiB; half of that, less the envelope.
        package static let requestByteCountMax = 900_000
        /// A collector's `maxPayloadSize` is 1 MiB with what it adds of its own.
        package static let eventByteCountMax = 1_000_000
        package static let deviceIDCharacterCountMax = 128
        package static let userIDCharacterCountMax = 255
        /// A vendor is part of a table's name, of 127 characters with the event's name and model.
        package static let vendorCharacterCountMax = 64
        package static let nameCharacterCountMax = 40
        /// 40 less `_` and eight hexadecimal digits.
        package static let cutNameCharacterCount = 31
    }

    /// RFC 5424, sections 6 and 6.1.
    package enum Syslog {
        package static let appNameByteCountMax = 48
        package static let messageIDByteCountMax = 32
        /// 32 less `_` and eight hexadecimal digits.
        package static let cutMessageIDByteCount = 23
        package static let hostNameByteCountMax = 255
        package static let parameterNameByteCountMax = 32
        /// "SHOULD" be taken by every receiver.
        package static let messageByteCountMax = 2048
        /// Not documented; keeps a part within what tools open.
        package static let recordsPerPartMax = 1_000_000
        package static let partByteCountMax = 256 << 20
    }

    /// Repository systemd/systemd: docs/JOURNAL_EXPORT_FORMATS.md, journal-importer.c.
    package enum Journald {
        package static let fieldNameByteCountMax = 64
        /// `systemd-journal-remote` gives up an entry at 1024 fields (`IOV_MAX`).
        package static let fieldCountMax = 1000
        /// Not documented; keeps a part within what tools open.
        package static let recordsPerPartMax = 1_000_000
        package static let partByteCountMax = 256 << 20
    }

    /// Microsoft, "Excel specifications and limits".
    package enum CSV {
        package static let cellCharacterCountMax = 32_767
        /// A million lines with the header; Excel takes 1 048 576 rows.
        package static let recordsPerPartMax = 999_999
        package static let partByteCountMax = 256 << 20
    }

    /// Destinations that an operator describes; what a description does not say.
    package enum Custom {
        package static let recordsPerPartMax = 1_000_000
        package static let partByteCountMax = 256 << 20
        /// A record of the longest line, with room for names.
        package static let recordByteCountMax = 2 << 20
        package static let columnCountMax = 1000
    }
}
