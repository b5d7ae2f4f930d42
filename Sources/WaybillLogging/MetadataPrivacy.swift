public import Logging

/// What a log call says about one of its values (swift-log's SLG-0004, "Metadata value attributes").
///
///     logger.info("signed in", metadata: ["user": "\(user, privacy: .private)", "method": "\(method)"])
///
/// swift-log itself defines no attribute; those of other packages are made known by ``MetadataPrivacyRules``.
public enum MetadataPrivacy: Int64, Logger.MetadataValueAttributes.Attribute {
    /// The value is not stored in clear.
    case `private` = 1
    /// The value is stored, also where others are private unless they say so.
    case `public` = 2
}

extension Logger.MetadataValue.StringInterpolation {
    /// Appends a value and says how private it is; private wins where one text holds both.
    public mutating func appendInterpolation<T: CustomStringConvertible & Sendable>(
        _ value: T, privacy: MetadataPrivacy
    ) {
        self.appendInterpolation(value) { attributes in
            if attributes[MetadataPrivacy.self] != .private { attributes[MetadataPrivacy.self] = privacy }
        }
    }
}

/// Which values of metadata are private; those that are become `<private>`.
public struct MetadataPrivacyRules: Sendable {
    private let isPrivateUnlessMarked: Bool
    private var marksPrivate: [@Sendable (Logger.MetadataValueAttributes) -> Bool]
    private var marksPublic: [@Sendable (Logger.MetadataValueAttributes) -> Bool]

    /// Private is what is marked so.
    public static let marked = MetadataPrivacyRules(isPrivateUnlessMarked: false)
    /// Private is all that is not marked public.
    public static let unlessPublic = MetadataPrivacyRules(isPrivateUnlessMarked: true)

    private init(isPrivateUnlessMarked: Bool) {
        self.isPrivateUnlessMarked = isPrivateUnlessMarked
        self.marksPrivate = [{ $0[MetadataPrivacy.self] == .private }]
        self.marksPublic = [{ $0[MetadataPrivacy.self] == .public }]
    }

    /// These rules, with another package's attribute that marks private values, as in `.private(Sensitivity.sensitive)`.
    public func `private`<A: Logger.MetadataValueAttributes.Attribute>(_ mark: A) -> MetadataPrivacyRules {
        var rules = self
        rules.marksPrivate.append { $0[A.self]?.rawValue == mark.rawValue }
        return rules
    }

    /// These rules, with another package's attribute that marks public values.
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
