/// What the providers accept, last checked 2026-11-20.
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
    }

    /// Microsoft, "Excel specifications and limits".
    package enum CSV {
        package static let cellCharacterCountMax = 32_767
        /// A million lines with the header; Excel takes 1 048 576 rows.
        package static let recordsPerPartMax = 999_999
        package static let partByteCountMax = 256 << 20
    }
}
