internal import WaybillJSON
internal import WaybillSystem

/// Converts names to those that Google Analytics accepts: `productName` → `product_name`, `로그인` → `x_7cb69c7a`.
///
/// The result has letters, digits and `_`, and begins with a letter. A `_` is inserted where an upper-case letter
/// follows a lower-case one; other characters become `_`, which is trimmed at both ends; letters become lower-case. A
/// name that is empty, does not begin with a letter or is reserved gets the prefix `x_`. A name that is too long or had
/// non-ASCII characters is cut and ends in `_` and the CRC-32 of the original name, so that two Korean names stay
/// different.
struct NameRule {
    /// Names that the provider reserves.
    enum Reserved {
        case events
        case parameters
        case userProperties
        /// The exporter's own schemas of Snowplow.
        case schemas
        case none
    }

    let limit: Int
    /// The length of a cut name before `_` and the eight digits of its checksum.
    let cutLimit: Int
    let reserved: Reserved

    static let event = NameRule(
        limit: Limits.GA4.nameCharacterCountMax, cutLimit: Limits.GA4.cutNameCharacterCount, reserved: .events)
    static let parameter = NameRule(
        limit: Limits.GA4.nameCharacterCountMax, cutLimit: Limits.GA4.cutNameCharacterCount, reserved: .parameters)
    static let userProperty = NameRule(
        limit: Limits.GA4.userPropertyNameCharacterCountMax,
        cutLimit: Limits.GA4.cutUserPropertyNameCharacterCount, reserved: .userProperties)

    /// Whether the rule would leave the name unchanged, which is the usual case.
    @inline(__always)
    func isKept(_ name: UnsafeRawBufferPointer) -> Bool {
        guard 1...self.limit ~= name.count, 0x61...0x7A ~= name[0], name[name.count - 1] != UInt8(ascii: "_") else {
            return false
        }
        for byte in name {
            guard 0x61...0x7A ~= byte || 0x30...0x39 ~= byte || byte == UInt8(ascii: "_") else { return false }
        }
        return !self.isReserved(name)
    }

    /// Appends the mapped name to the empty `output`; returns whether it was cut because of its length.
    func map(_ name: UnsafeRawBufferPointer, into output: inout ByteBuilder) -> Bool {
        var hasNonASCII = false
        var afterLowercase = false
        for byte in name {
            switch byte {
            case 0x41...0x5A:
                if afterLowercase { output.append(UInt8(ascii: "_")) }
                output.append(byte | 0x20)
            case 0x61...0x7A, 0x30...0x39: output.append(byte)
            case 0x80...0xBF: break  // Continues a character whose first byte became `_`.
            default:
                if byte >= 0x80 { hasNonASCII = true }
                // Leading ones are not written, which trims them.
                if !output.isEmpty { output.append(UInt8(ascii: "_")) }
            }
            afterLowercase = 0x61...0x7A ~= byte
        }
        Self.trimEnd(&output)
        if output.isEmpty || !(0x61...0x7A ~= output.bytes[0]) || self.isReserved(output.bytes) {
            Self.prefix(&output)
        }
        let isTooLong = output.count > self.limit
        if isTooLong || hasNonASCII {
            output.truncate(to: min(output.count, self.cutLimit))
            Self.trimEnd(&output)
            output.append(UInt8(ascii: "_"))
            output.append(Hexadecimal.text(CRC32.checksum(of: name), digitCount: 8))
        }
        return isTooLong
    }

    private static func trimEnd(_ output: inout ByteBuilder) {
        var end = output.count
        while end > 0, output.bytes[end - 1] == UInt8(ascii: "_") { end -= 1 }
        output.truncate(to: end)
    }

    private static func prefix(_ output: inout ByteBuilder) {
        let mapped = Array(output.bytes)
        output.truncate(to: 0)
        output.append("x_")
        output.append(mapped)
    }

    /// Whether the provider reserves the name; it has only lower-case letters, digits and `_`, so the reserved prefixes
    /// `_` and `gtag.` cannot occur.
    @inline(__always)
    func isReserved(_ name: UnsafeRawBufferPointer) -> Bool {
        switch self.reserved {
        case .events:
            // First letters of all reserved event names.
            switch name[0] {
            case UInt8(ascii: "a"), UInt8(ascii: "d"), UInt8(ascii: "e"), UInt8(ascii: "f"), UInt8(ascii: "n"),
                UInt8(ascii: "o"), UInt8(ascii: "s"), UInt8(ascii: "u"):
                return Self.contains(name, in: Self.eventNames)
            default: return Self.hasReservedPrefix(name)
            }
        case .parameters:
            // `firebase_conversion` has a reserved prefix.
            return Self.hasReservedPrefix(name)
        case .userProperties:
            if Self.hasReservedPrefix(name) { return true }
            switch name[0] {
            case UInt8(ascii: "f"), UInt8(ascii: "l"), UInt8(ascii: "u"):
                return Self.contains(name, in: Self.userPropertyNames)
            default: return false
            }
        case .none: return false
        case .schemas: return Self.schemaNames.contains { JSONText.equals(name, isEscaped: false, $0) }
        }
    }

    private static func contains(_ name: UnsafeRawBufferPointer, in names: [StaticString]) -> Bool {
        names.contains { JSONText.equals(name, isEscaped: false, $0) } || Self.hasReservedPrefix(name)
    }

    @inline(__always)
    private static func hasReservedPrefix(_ name: UnsafeRawBufferPointer) -> Bool {
        switch name[0] {
        case UInt8(ascii: "f"): Self.starts(name, with: "firebase_")
        case UInt8(ascii: "g"): Self.starts(name, with: "ga_") || Self.starts(name, with: "google_")
        default: false
        }
    }

    private static func starts(_ name: UnsafeRawBufferPointer, with prefix: StaticString) -> Bool {
        name.count >= prefix.utf8CodeUnitCount
            && JSONText.equals(
                UnsafeRawBufferPointer(rebasing: name[..<prefix.utf8CodeUnitCount]), isEscaped: false, prefix)
    }

    /// GA4's reserved event names and those that the Firebase SDK adds (reference, "Limitations"; FIRAnalytics).
    private static let eventNames: [StaticString] = [
        "ad_activeview", "ad_click", "ad_exposure", "ad_query", "ad_reward", "adunit_exposure", "app_clear_data",
        "app_exception", "app_install", "app_remove", "app_store_refund", "app_store_subscription_cancel",
        "app_store_subscription_convert", "app_store_subscription_renew", "app_update", "app_upgrade",
        "dynamic_link_app_open", "dynamic_link_app_update", "dynamic_link_first_open", "error", "firebase_campaign",
        "firebase_in_app_message_action", "firebase_in_app_message_dismiss", "firebase_in_app_message_impression",
        "first_open", "first_visit", "notification_dismiss", "notification_foreground", "notification_open",
        "notification_receive", "notification_send", "os_update", "session_start", "session_start_with_rollout",
        "user_engagement",
    ]

    private static let schemaNames: [StaticString] = [
        "screen_data", "user_traits", "user_traits_add", "user_traits_once",
    ]

    private static let userPropertyNames: [StaticString] = [
        "first_open_after_install", "first_open_time", "first_visit_time", "last_deep_link_referrer", "user_id",
    ]
}
