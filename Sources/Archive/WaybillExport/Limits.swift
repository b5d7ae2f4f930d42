/// The limits of the providers, last checked 2026-11-22.
///
/// They are in one place because they change over time. Where a provider's bound is exclusive or imprecise, the value
/// here is the largest safe one.
package enum Limits {
    /// The longest line that the agent accepts from a foreign writer.
    package static let lineByteCountMax = 1 << 20

    /// developers.google.com/analytics/devguides/collection/protocol/ga4 and support.google.com/analytics/answer/9267744.
    package enum GA4 {
        package static let eventsPerRequestMax = 25
        /// The documented maximum is below 130 kB; this leaves room for the uploader's additions.
        package static let requestByteCountMax = 120_000
        package static let parameterCountMax = 25
        package static let nameCharacterCountMax = 40
        /// 40 minus `_` and eight hexadecimal digits.
        package static let cutNameCharacterCount = 31
        package static let valueCharacterCountMax = 100
        package static let pageTitleCharacterCountMax = 300
        package static let pageReferrerCharacterCountMax = 420
        package static let pageLocationCharacterCountMax = 1000
        package static let userPropertyCountMax = 25
        package static let userPropertyNameCharacterCountMax = 24
        /// 24 minus `_` and eight hexadecimal digits.
        package static let cutUserPropertyNameCharacterCount = 15
        package static let userPropertyValueCharacterCountMax = 36
        package static let itemCountMax = 200
        package static let customParametersPerItemMax = 27
        package static let userIDCharacterCountMax = 256
        package static let appInstanceIDCharacterCount = 32
        package static let ageMillisecondsMax: Int64 = 72 * 3_600_000
        /// Later events are no longer joined with those that the SDK sent.
        package static let joinMillisecondsMax: Int64 = 48 * 3_600_000
        /// Events later than this after the session's start are attributed to no session.
        package static let attributionMillisecondsMax: Int64 = 24 * 3_600_000
        /// Not documented; keeps parts small enough for common tools.
        package static let recordsPerPartMax = 1_000_000
        package static let partByteCountMax = 256 << 20
    }

    /// Repository mixpanel/docs: import-events.mdx, data-type.mdx, reserved-properties.mdx.
    package enum Mixpanel {
        package static let eventsPerRequestMax = 2000
        /// 10 MB uncompressed, minus the uploader's additions.
        package static let requestByteCountMax = 9_500_000
        /// "Less than 1 MB"; read as 10^6.
        package static let eventByteCountMax = 999_999
        /// "Fewer than 255".
        package static let propertyCountMax = 254
        /// One page has bytes, another characters; bytes are safe for both.
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
        /// 2000 updates; an event makes up to two.
        package static let eventsPerRequestMax = 1000
        /// Not documented; the limit of `/import`.
        package static let requestByteCountMax = 9_500_000
        /// "1 MB"; read as 10^6 minus one, as for events.
        package static let updateByteCountMax = 999_999
        package static let listByteCountMax = 256 * 1000
    }

    /// Repository amplitude/amplitude-dev-center: http-v2-api.md, batch-event-upload-api.md.
    package enum Amplitude {
        package static let batchEventsMax = 2000
        /// 20 MB, minus the envelope.
        package static let batchByteCountMax = 18_000_000
        /// "Fewer than 2000"; half of that is recommended.
        package static let requestEventsMax = 1000
        /// Below 1 MB, minus the envelope.
        package static let requestByteCountMax = 900_000
        package static let stringCharacterCountMax = 1024
        package static let propertyCountMax = 1024
        /// `event_properties` itself is the first level.
        package static let depthMax = 40
        package static let idCharacterCountMin = 5
        /// A `quantity` is an integer of 32 bits.
        package static let quantityMax = Int(Int32.max)
    }

    /// Repository segmentio/segment-docs: server/http-api/index.md, rate-limits.md.
    package enum Segment {
        /// 2500 are accepted; above that, the server answers 200 and drops them.
        package static let callsPerRequestMax = 2000
        /// 500 KB, minus the envelope.
        package static let requestByteCountMax = 450_000
        /// "32 KB"; read as 32 000.
        package static let callByteCountMax = 32_000
        package static let messageIDCharacterCountMax = 100
        package static let propertyCountMax = 10_000
        package static let eventsPerSecondMax = 1000.0
    }

    /// Repository PostHog/posthog.com, docs/api/capture.mdx, docs/data/ingestion-warnings.mdx, and PostHog/posthog,
    /// rust/capture.
    package enum PostHog {
        package static let eventsPerRequestMax = 1000
        /// A body must be below 20 MB.
        package static let requestByteCountMax = 10_000_000
        /// The server silently cuts longer ids.
        package static let distinctIDCharacterCountMax = 200
        /// A session's id is valid for this long after its time.
        package static let sessionMillisecondsMax: Int64 = 24 * 3_600_000
        /// Above this rate, PostHog asks for advance notice.
        package static let eventsPerMinuteMax = 10_000.0
        /// A larger event is discarded although the answer is 200.
        ///
        /// "1 MB"; read as 10^6 minus one.
        package static let eventByteCountMax = 999_999
        /// Events further ahead are stored and never shown.
        package static let futureMillisecondsMax: Int64 = 23 * 3_600_000
        package static let holdMillisecondsMax: Int64 = 24 * 3_600_000
        /// Older events are an import, not live traffic.
        package static let historicalMillisecondsMin: Int64 = 48 * 3_600_000
    }

    /// Repository snowplow/documentation: canonical-event, stream-collector/configure.
    package enum Snowplow {
        package static let eventsPerRequestMax = 500
        /// A collector rejects more than 2 MiB; this is half of that, minus the envelope.
        package static let requestByteCountMax = 900_000
        /// A collector's `maxPayloadSize` is 1 MiB, including what it adds.
        package static let eventByteCountMax = 1_000_000
        package static let deviceIDCharacterCountMax = 128
        /// Enrich refuses JSON that is nested deeper than its `maxJsonDepth`, for which its own tests take 40; `ue_pr`
        /// and `co` count as a whole.
        package static let depthMax = 40
        package static let userIDCharacterCountMax = 255
        /// The texts of a product and a transaction (repository snowplow/iglu-central).
        package static let entityTextCharacterCountMax = 4096
        /// A product's brand and variant.
        package static let entityLabelCharacterCountMax = 256
        package static let paymentMethodCharacterCountMax = 128
        package static let discountCodeCharacterCountMax = 99
        package static let entityNumberMax = 9_999_999
        /// A vendor is part of a table's name, which has at most 127 characters with the event's name and model.
        package static let vendorCharacterCountMax = 64
        package static let nameCharacterCountMax = 40
        /// 40 minus `_` and eight hexadecimal digits.
        package static let cutNameCharacterCount = 31
        /// Drafts of schemas of a day, their members, and the members' names: senders choose all of them.
        package static let draftCountMax = 1000
        package static let draftMemberCountMax = 500
        package static let draftNameByteCountMax = 255
    }

    /// What events have in common for revenue, items and groups.
    package enum Commerce {
        /// The shortest limit among the providers that have groups: PostHog keeps 400, Amplitude 1024.
        package static let groupCharacterCountMax = 400
    }

    /// RFC 5424, sections 6 and 6.1.
    package enum Syslog {
        package static let appNameByteCountMax = 48
        package static let messageIDByteCountMax = 32
        /// 32 minus `_` and eight hexadecimal digits.
        package static let cutMessageIDByteCount = 23
        package static let hostNameByteCountMax = 255
        package static let parameterNameByteCountMax = 32
        /// The size that every receiver "SHOULD" accept.
        package static let messageByteCountMax = 2048
        /// Not documented; keeps parts small enough for common tools.
        package static let recordsPerPartMax = 1_000_000
        package static let partByteCountMax = 256 << 20
    }

    /// Repository systemd/systemd: docs/JOURNAL_EXPORT_FORMATS.md, journal-importer.c.
    package enum Journald {
        package static let fieldNameByteCountMax = 64
        /// `systemd-journal-remote` drops an entry with 1024 fields (`IOV_MAX`).
        package static let fieldCountMax = 1000
        /// Not documented; keeps parts small enough for common tools.
        package static let recordsPerPartMax = 1_000_000
        package static let partByteCountMax = 256 << 20
    }

    /// Microsoft, "Excel specifications and limits".
    package enum CSV {
        package static let cellCharacterCountMax = 32_767
        /// A million lines with the header; Excel opens 1 048 576 rows.
        package static let recordsPerPartMax = 999_999
        package static let partByteCountMax = 256 << 20
    }

    /// Defaults for destinations that an operator describes.
    package enum Custom {
        package static let recordsPerPartMax = 1_000_000
        package static let partByteCountMax = 256 << 20
        /// Fits a record of the longest line, with room for names.
        package static let recordByteCountMax = 2 << 20
        package static let columnCountMax = 1000
    }
}
