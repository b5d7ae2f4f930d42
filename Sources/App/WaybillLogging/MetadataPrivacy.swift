public import Logging

/// The privacy of a value in a log call (swift-log's SLG-0004, "Metadata value attributes").
///
///     logger.info("signed in", metadata: ["user": "\(user, privacy: .private)", "method": "\(method)"])
///
/// swift-log itself defines no attributes; add those of other packages with ``MetadataPrivacyRules``.
public enum MetadataPrivacy: Int64, Logger.MetadataValueAttributes.Attribute {
    /// The value is not stored.
    case `private` = 1
    /// The value is stored, even if values are private by default.
    case `public` = 2
}

extension Logger.MetadataValue.StringInterpolation {
    /// Appends a value with its privacy; a text with both kinds of values is private.
    public mutating func appendInterpolation<T: CustomStringConvertible & Sendable>(
        _ value: T, privacy: MetadataPrivacy
    ) {
        self.appendInterpolation(value) { attributes in
            if attributes[MetadataPrivacy.self] != .private { attributes[MetadataPrivacy.self] = privacy }
        }
    }
}

/// The rules for which metadata values are private; private values become `<private>`.
public struct MetadataPrivacyRules: Sendable {
    private let isPrivateUnlessMarked: Bool
    private var marksPrivate: [@Sendable (Logger.MetadataValueAttributes) -> Bool]
    private var marksPublic: [@Sendable (Logger.MetadataValueAttributes) -> Bool]

    /// Values are private if they are marked as private.
    public static let marked = MetadataPrivacyRules(isPrivateUnlessMarked: false)
    /// Values are private unless they are marked as public.
    public static let unlessPublic = MetadataPrivacyRules(isPrivateUnlessMarked: true)

    private init(isPrivateUnlessMarked: Bool) {
        self.isPrivateUnlessMarked = isPrivateUnlessMarked
        self.marksPrivate = [{ $0[MetadataPrivacy.self] == .private }]
        self.marksPublic = [{ $0[MetadataPrivacy.self] == .public }]
    }

    /// Returns these rules with another package's attribute for private values, such as
    /// `.private(Sensitivity.sensitive)`.
    public func `private`<A: Logger.MetadataValueAttributes.Attribute>(_ mark: A) -> MetadataPrivacyRules {
        var rules = self
        rules.marksPrivate.append { $0[A.self]?.rawValue == mark.rawValue }
        return rules
    }

    /// Returns these rules with another package's attribute for public values.
    public func `public`<A: Logger.MetadataValueAttributes.Attribute>(_ mark: A) -> MetadataPrivacyRules {
        var rules = self
        rules.marksPublic.append { $0[A.self]?.rawValue == mark.rawValue }
        return rules
    }

    func isPrivate(_ attributes: Logger.MetadataValueAttributes) -> Bool {
        if self.marksPrivate.contains(where: { $0(attributes) }) { return true }
        return self.isPrivateUnlessMarked && !self.marksPublic.contains { $0(attributes) }
    }
}
